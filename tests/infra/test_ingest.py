"""Ingest as it is deployed: an object lands in S3, its event goes by EventBridge into the queue, the function commits it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import lakefs
import msgspec
import pytest
from lakefs.client import Client

from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from tests.functions.runtime import started, unpacked_layer
from tests.infra.conftest import Deployed
from tests.infra.sharing import made_once, shared_folder
from tests.infra.tools import environment, host_architecture
from tests.support.campaigns import WHOLE, seed
from tests.support.patience import PATIENCE
from tests.support.shell import Shell

pytestmark = pytest.mark.ci

KILLER = """
import os, signal
from graveler.storage.aws_requests import observers
seen = 0
def kill(what, repeated):
    global seen
    seen += 1
    if seen == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
observers.append(kill)
"""


@pytest.fixture
def aws(deployed: Deployed, shell: Shell) -> Iterator[Callable[[str], Any]]:
    """Clients of the emulator's services, by name. What else asks AWS in this process asks the emulator, too."""
    shell.export_all(deployed.emulator.environment)
    made: dict[str, Any] = {}

    def client(name: str) -> Any:
        if name not in made:
            made[name] = boto3.client(name)  # type: ignore[call-overload]
        return made[name]

    yield client
    for each in made.values():
        each.close()


@pytest.fixture
def lake(deployed: Deployed, aws: Callable[[str], Any], tmp_path: Path) -> Lake:
    """The deployment's lake, as its operator opens it."""
    table = f"dynamodb://{deployed.outputs['LakeTable']}"
    return open_lake(f"s3://{deployed.bucket}", table, cache=tmp_path / "cache")


def until(true: Callable[[], object]) -> None:
    """Wait for what comes about by itself."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.1)


def graveler(deployed: Deployed, *words: str) -> str:
    """What the command says, on the deployment's table and bucket."""
    places = {
        "GRAVELER_LAKE": f"dynamodb://{deployed.outputs['LakeTable']}",
        "GRAVELER_OBJECTS": f"s3://{deployed.bucket}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "graveler.cli", *words],
        env=environment(**deployed.emulator.environment, **places),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_lands_becomes_a_commit(deployed: Deployed, client: Client, aws: Callable[[str], Any]) -> None:
    landing = deployed.outputs["LandingBucket"]
    repo = lakefs.Repository("landed", client=client).create(storage_namespace=f"s3://{deployed.bucket}/landed")
    graveler(
        deployed,
        *("ingest", "rules", "add", "all", f"s3://{landing}/landed/", "lakefs://landed/main/raw/"),
        *("--marker", "_SUCCESS"),
    )
    s3 = aws("s3")
    names = ["plain.csv", "with space + plus%2B.csv", "ä/ö,ü.csv", "gone.csv"]
    for name in names:
        s3.put_object(Bucket=landing, Key=f"landed/{name}", Body=f"this is {name}".encode())
    s3.delete_object(Bucket=landing, Key="landed/gone.csv")
    main = repo.branch("main")
    expected = sorted(f"raw/{name}" for name in names[:3])
    until(lambda: sorted(entry.path for entry in main.objects()) == expected)
    assert len(list(main.log())) == 1  # staged, and nobody said yet that it is complete
    s3.put_object(Bucket=landing, Key="landed/_SUCCESS", Body=b"")
    until(lambda: len(list(main.log())) == 2)
    (newest, _) = main.log()
    assert newest.committer == "ingest"
    # One that came and went counts too, if its events did not come together.
    assert newest.message in {f"Ingest {count} objects by rule all" for count in (4, 5)}
    assert sorted(entry.path for entry in repo.ref(newest.id).objects()) == sorted([*expected, "raw/_SUCCESS"])
    # Nothing was copied: the entry is the object that landed, and clients read it from there.
    named = f"raw/{names[1]}"
    assert main.object(named).stat().physical_address == f"s3://{landing}/landed/{names[1]}"
    for pre_sign in (True, False):
        assert main.object(named).reader(pre_sign=pre_sign).read() == f"this is {names[1]}".encode()


def test_poison_ends_among_the_dead_letters_and_can_be_replayed(
    deployed: Deployed, client: Client, lake: Lake, aws: Callable[[str], Any], tmp_path: Path
) -> None:
    landing, outputs = deployed.outputs["LandingBucket"], deployed.outputs
    repo = lakefs.Repository("poisoned", client=client).create(storage_namespace=f"s3://{deployed.bucket}/poisoned")
    branch = repo.branch("feed").create(source_reference="main")
    rule = Rule("feed", f"s3://{landing}/poisoned/", "feed", commit=CommitPolicy(objects=1))
    RuleStore(lake.tables).add(lake, "poisoned", rule)
    branch.delete()  # now what lands has nowhere to go
    for name in "ab":
        aws("s3").put_object(Bucket=landing, Key=f"poisoned/{name}.csv", Body=b"1")
    sqs = aws("sqs")
    sqs.send_message(QueueUrl=outputs["IngestQueue"], MessageBody="poisoned: no event at all")
    dead: dict[str, dict[str, Any]] = {}

    def all_are_dead() -> bool:
        told = sqs.receive_message(
            QueueUrl=outputs["IngestDeadLetters"], MessageAttributeNames=["All"], MaxNumberOfMessages=10
        )
        for message in told.get("Messages", []):
            dead[next(name for name in ("a.csv", "b.csv", "no event") if name in message["Body"])] = message
        return len(dead) == 3

    until(all_are_dead)
    reasons = {name: message["MessageAttributes"]["reason"]["StringValue"] for name, message in dead.items()}
    assert "the message is not a JSON object" in reasons["no event"]
    assert "'feed'" in reasons["a.csv"]
    assert "'feed'" in reasons["b.csv"]

    # A person mends the cause, and sends one again, as `aws sqs start-message-move-task` does, and replays the other.
    repo.branch("feed").create(source_reference="main")
    sqs.send_message(QueueUrl=outputs["IngestQueue"], MessageBody=dead["a.csv"]["Body"])
    until(lambda: [entry.path for entry in repo.ref("feed@").objects()] == ["a.csv"])
    recorded = tmp_path / "dead.jsonl"
    recorded.write_text(dead["a.csv"]["Body"] + "\n" + dead["b.csv"]["Body"] + "\n")
    assert "1 staged, 1 stale" in graveler(deployed, "ingest", "replay", str(recorded))
    assert [entry.path for entry in repo.ref("feed@").objects()] == ["a.csv", "b.csv"]
    for message in dead.values():
        sqs.delete_message(QueueUrl=outputs["IngestDeadLetters"], ReceiptHandle=message["ReceiptHandle"])


def test_whatever_request_the_function_dies_before_the_next_one_finishes(
    deployed: Deployed,
    lake: Lake,
    aws: Callable[[str], Any],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The real function, in Lambda's own runtime client, killed before its first request, its second, …"""
    machine = host_architecture()
    layer = made_once(shared_folder(tmp_path_factory), "layer", lambda into: unpacked_layer(into, machine)) / "python"
    (tmp_path / "sitecustomize.py").write_text(KILLER)
    environment = {
        **deployed.emulator.environment,
        "GRAVELER_OBJECTS": f"s3://{deployed.bucket}",
        "GRAVELER_TABLES": f"dynamodb://{deployed.outputs['LakeTable']}",
        "GRAVELER_CACHE": str(tmp_path / "function's cache"),
    }
    # Not the bucket of which the deployed function hears: it would help.
    aws("s3").create_bucket(Bucket="silent")

    def prepare(number: int) -> dict[str, Any]:
        """A repository of its own for each death, and what the function gets."""
        name = f"killed-{number}"
        lake.create_repository(name, f"s3://{deployed.bucket}/{name}")
        rule = Rule("r", f"s3://silent/{name}/", "main", commit=CommitPolicy(objects=3))
        RuleStore(lake.tables).add(lake, name, rule)
        return {"Records": [record(f"{name}/{key}", f"{order}") for order, key in enumerate("abc", 1)]}

    def record(key: str, sequencer: str) -> dict[str, str]:
        line = {"address": f"s3://silent/{key}", "kind": "created", "sequencer": sequencer, "etag": "e", "size": 1}
        younger = {**line, "time": time.time() + 3600}  # than the rule: the bucket, where nothing is, is not asked
        return {"messageId": key, "body": msgspec.json.encode(younger).decode()}

    killed: dict[int, dict[str, Any]] = {}
    every = 1 if WHOLE else 2
    for number in count(1 + seed() % every, every):
        event = prepare(number)
        own = {
            **environment,
            "KILL_AT": str(number),
            "PYTHONPATH": f"{tmp_path}:{layer}:{os.fspath(Path('functions/ingest').resolve())}",
        }
        with started("ingest", layer, own, tmp_path / "killed.log") as function:
            if function.survives(event):
                break
        killed[number] = event
    assert len(killed) * every >= 12, killed
    with started("ingest", layer, environment, tmp_path / "next.log") as function:
        for number, event in killed.items():
            assert function.invoke(event) == {"batchItemFailures": []}, number
            repository = lake.repository(f"killed-{number}")
            for ref in ("main@", "main"):
                assert [entry.path for entry in repository.objects(ref)] == ["a", "b", "c"], number
            assert len(repository.log("main").results) == 2, number
