"""Gateways that join a run, as those of other hosts do. These are on this one, so they get another port."""

import base64
import json
import os
import signal
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from msgspec import structs

from graveler.errors import InvalidError, UnavailableError
from graveler.gateway.control import KeyPair, LakePlace, Mount, Opening
from graveler.gateway.run.invitation import invitation_text, parse_invitation
from graveler.gateway.run.joining import serve_joined
from graveler.lake.opening.location import AwsLake
from tests.cli.support import run
from tests.gateway.run.support import JOINING, Place, is_alive, program
from tests.support.patience import PATIENCE

OPENING = Opening(
    lake=LakePlace(aws=AwsLake(objects="s3://lake", tables="dynamodb://lake", cache=Path("/home/ada/lake-1"))),
    mounts=(Mount(bucket="sales", repository="sales", ref="tx-1"),),
    keys=KeyPair("GRUN", "hush"),
    port=4780,
    token="t-1",
)


def test_a_gateway_joins_and_ends_with_the_run(place: Place) -> None:
    end = place.run("sales/main", "--", *program(JOINING))
    assert end.code == 0, end.err
    *lines, last = end.out.splitlines()
    assert lines == ["waiting to take its place", "0", "serving"]
    pids, port, key_id, secret = json.loads(last)
    try:
        there = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="eu-central-1",
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
        )
        for request in (
            lambda: there.put_object(Bucket="sales", Key="late"),
            lambda: there.get_object(Bucket="sales", Key="a"),
        ):
            with pytest.raises((ClientError, EndpointConnectionError)) as caught:  # it may have ended by now
                request()
            refusal = caught.value
            assert not isinstance(refusal, ClientError) or "this gateway has joined is over" in str(refusal)
        began = time.monotonic()
        while any(map(is_alive, pids)):
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.1)
    finally:
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)
    assert (place.read("a"), place.read("b")) == ("here", "here and there")
    assert place.read("large-True") == place.read("large-False") == "1" * (5 << 20) + "2" * (5 << 20)
    assert place.branches() == ["main"]


def test_an_invitation_crosses_whole() -> None:
    with patch.dict(
        os.environ, {"AWS_REGION": "eu-west-3", "AWS_ENDPOINT_URL_S3": "http://s3", "AWS_ENDPOINT_URL": ""}
    ):
        text = invitation_text(OPENING)
    opening = parse_invitation(f"{text}\n")
    assert (opening.keys, opening.mounts, opening.port, opening.token) == (OPENING.keys, OPENING.mounts, 4780, "t-1")
    location = opening.lake.location
    assert isinstance(location, AwsLake)
    assert (location.region, location.s3_endpoint_url) == ("eu-west-3", "http://s3")
    assert location.cache.name == "lake-1"
    assert "ada" not in str(location.cache)  # the cache of another host's user
    assert "hush" not in repr(opening)


def test_another_text_is_no_invitation() -> None:
    for text in ("hush", base64.b64encode(b"{}").decode(), "ü"):
        with pytest.raises(InvalidError, match="no invitation to a run") as caught:
            parse_invitation(text)
        assert "hush" not in str(caught.value)
    document = json.loads(base64.urlsafe_b64decode(invitation_text(OPENING)))
    later = base64.urlsafe_b64encode(json.dumps({**document, "version": "99"}).encode()).decode()
    with pytest.raises(InvalidError, match="install the same version"):
        parse_invitation(later)
    document["opening"]["lake"] = {}
    without = base64.urlsafe_b64encode(json.dumps(document).encode()).decode()
    with pytest.raises(InvalidError, match="no invitation to a run"):
        parse_invitation(without)


def test_wrong_words() -> None:
    assert "write `graveler gateway --join`" in run("gateway").err
    assert "is no source of an invitation" in run("gateway", "--join", "x").err
    assert "there is no invitation to a run" in run("gateway", "--join").err


class _Stranger(BaseHTTPRequestHandler):
    """Answers HEAD with 501."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_port_of_another_program_is_not_served() -> None:
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        opening = structs.replace(OPENING, port=server.server_port)
        with pytest.raises(UnavailableError, match="belongs to another program"):
            serve_joined(opening, fail, fail, with_input=False)
        server.shutdown()
        thread.join()


def fail() -> None:
    """Nothing is served, and nothing is waited for."""
    raise AssertionError
