"""A gateway for a block of a program."""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable

import boto3
import pytest
from botocore.exceptions import ClientError

import graveler
from graveler.errors import UnavailableError
from tests.gateway.run.support import Place, is_alive, program


def gateways() -> list[int]:
    """The gateways that this process has."""
    children = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "graveler.gateway"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(child) for child in children.stdout.split()]


def test_writes_of_a_transaction_are_published_together(place: Place) -> None:
    with graveler.open(place.folder, user="ada") as lake:
        main = lake.repository("sales").branch("main")
        with main.transaction("Nightly") as transaction, transaction.gateway() as gateway:
            s3 = boto3.client("s3", **gateway.client_options)
            s3.put_object(Bucket=gateway.bucket, Key="a", Body=b"one")
            subprocess.run(program('put("b", get("a"))'), env=gateway.environment, check=True)
            assert not main.object("a").exists()
            assert gateway.secret_access_key not in repr(gateway)
    assert (place.read("a"), place.read("b")) == ("one", "one")
    assert place.sales.branch("main").get_commit().message == "Merge transaction: Nightly"
    assert gateways() == []


def write_and(main: graveler.Branch, end: Callable[[], None]) -> None:
    """Put an object in a transaction, and end its block."""
    with main.transaction("Nightly") as transaction, transaction.gateway() as gateway:
        boto3.client("s3", **gateway.client_options).put_object(Bucket="sales", Key="a", Body=b"one")
        end()


def test_an_error_in_the_block_publishes_nothing(place: Place) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with graveler.open(place.folder) as lake, pytest.raises(ZeroDivisionError):
        write_and(lake.repository("sales").branch("main"), fail)
    assert not place.sales.branch("main").object("a").exists()
    assert place.branches() == ["main"]
    assert gateways() == []


def test_a_killed_gateway_fails_the_block(place: Place) -> None:
    with (
        graveler.open(place.folder) as lake,
        pytest.raises(UnavailableError, match="ended unexpectedly, by signal 9"),
    ):
        write_and(lake.repository("sales").branch("main"), lambda: os.kill(gateways()[0], signal.SIGKILL))
    assert not place.sales.branch("main").object("a").exists()
    assert place.branches() == ["main"]


def test_a_ref_is_read(place: Place) -> None:
    with graveler.open(place.folder) as lake, lake.repository("sales").ref("main~0").gateway() as gateway:
        s3 = boto3.client("s3", **gateway.client_options)
        assert s3.get_object(Bucket="sales", Key="seed")["Body"].read() == b"1"
        with pytest.raises(ClientError):
            s3.put_object(Bucket="sales", Key="seed", Body=b"2")


def test_a_forked_child_does_not_hold_the_gateway(place: Place) -> None:
    with graveler.open(place.folder) as lake:
        main = lake.repository("sales").branch("main")
        context = multiprocessing.get_context("fork")
        wait = context.Event()
        with main.gateway():
            child = context.Process(target=wait.wait)
            child.start()
            gateway = gateways()[0]
        assert child.is_alive()
        assert not is_alive(gateway)
        wait.set()
        child.join()
