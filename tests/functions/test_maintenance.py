"""Work that no client waits for."""

import json
import os
import time
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from graveler.errors import UnavailableError
from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.maintenance import AGAIN_SECONDS, maintain_handler, sweep, work_on
from graveler.functions.queue import OperationMessage, QueueStarter
from graveler.functions.sqs import SqsQueue
from graveler.functions.traffic import Traffic
from graveler.lake.lake import Lake
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.store import OperationState
from graveler.staging.cleanup import LONGEST_REQUEST
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.support.shell import Shell
from tests.support.waiting import skip_waits

DUMP = "/api/v1/repositories/kept/dump"


class Context:
    """Lambda's, as far as it is used."""

    aws_request_id = "run"

    def __init__(self, seconds: float = 900) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


@pytest.fixture
def lake(deployment: None) -> Lake:
    return open_deployed_lake(read_configuration(os.environ), Traffic())


@pytest.fixture
def queue(deployment: None, shell: Shell) -> str:
    url: str = boto3.client("sqs").create_queue(QueueName="operations")["QueueUrl"]
    shell.export("GRAVELER_OPERATIONS_QUEUE", url)
    return url


def records(queue: str) -> list[dict[str, str]]:
    """What Lambda would hand over of a queue."""
    told = boto3.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    return [
        {"body": message["Body"], "receiptHandle": message["ReceiptHandle"]} for message in told.get("Messages", [])
    ]


def test_a_long_operation_is_worked_on_by_another_function(queue: str, write: Handler, authorization: str) -> None:
    """The function that is asked stands still as soon as it has answered."""
    created = {"name": "kept", "storage_namespace": "s3://lake/kept"}
    write(event("POST", "/api/v1/repositories", body=created, authorization=authorization), None)
    answer = write(event("POST", DUMP, body={}, authorization=authorization), None)
    assert answer["statusCode"] == 202, answer["body"]
    status = event("GET", DUMP, query=f"task_id={json.loads(answer['body'])['id']}", authorization=authorization)
    assert json.loads(write(status, None)["body"])["done"] is False  # nobody works on it yet

    sent = records(queue)
    assert len(sent) == 1
    maintain_handler()({"Records": sent}, Context())
    done = json.loads(write(status, None)["body"])
    assert done["done"] is True, done
    assert done["refs"]
    maintain_handler()({"Records": sent}, Context())  # a message may come twice


def test_an_operation_that_does_not_end_in_time_is_left_for_the_next_run(queue: str, lake: Lake) -> None:
    repository = lake.create_repository("slow", "s3://lake/slow")
    runner = Dispatcher(
        lake.tables, {"no such kind": QueueStarter(SqsQueue(queue))}
    )  # a newer version, this one cannot do that
    operation = runner.start(repository, "no such kind", b"{}")
    with pytest.raises(UnavailableError, match="another one continues"):
        work_on(lake, OperationMessage("slow", operation.id), deadline=time.time())
    assert runner.look(repository, operation.id).state is OperationState.RUNNING
    assert runner.start(repository, "no such kind", b"{}", operation.id).id == operation.id
    assert len(records(queue)) == 2
    runner.close()


class Waits:
    """SQS's client, as far as it is used: it notes what messages wait for, or refuses to."""

    def __init__(self, refused: Exception | None = None) -> None:
        self.told: list[tuple[str, str, int]] = []
        self._refused = refused

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        if self._refused is not None:
            raise self._refused
        self.told += [(QueueUrl, entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in Entries]
        return {}


@pytest.mark.parametrize("refused", [None, EndpointConnectionError(endpoint_url="https://sqs")])
def test_a_message_whose_operation_has_not_ended_comes_again_soon(
    queue: str, lake: Lake, monkeypatch: pytest.MonkeyPatch, refused: Exception | None
) -> None:
    """And what keeps it from that does not hide why it has not ended."""
    repository = lake.create_repository("again", "s3://lake/again")
    runner = Dispatcher(lake.tables, {"no such kind": QueueStarter(SqsQueue(queue))})
    runner.start(repository, "no such kind", b"{}")
    (sent,) = records(queue)
    waits = Waits(refused)
    monkeypatch.setattr("graveler.functions.sqs.client", lambda _: waits)
    with pytest.raises(UnavailableError, match="another one continues"):
        maintain_handler()({"Records": [sent]}, Context(seconds=0))
    assert waits.told == ([] if refused else [(queue, sent["receiptHandle"], AGAIN_SECONDS)])
    runner.close()


def test_an_operation_that_the_queue_is_not_told_of_begins_later(
    queue: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = lake.create_repository("later", "s3://lake/later")
    untold = Dispatcher(lake.tables, {"dump": QueueStarter(SqsQueue(queue + "-gone"))})
    with pytest.raises(UnavailableError, match="start later by itself"):
        untold.start(repository, "dump", b"{}")
    assert records(queue) == []
    skip_waits(monkeypatch)
    assert maintain_handler()({"source": "aws.events"}, Context())["operations"] == 1
    assert len(records(queue)) == 1


def test_an_operation_of_a_deleted_repository_is_done(lake: Lake) -> None:
    work_on(lake, OperationMessage("gone", "0123"), deadline=time.time() + 60)


def test_the_clock_cleans_up_what_commits_left(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        repository = lake.create_repository(name, f"s3://lake/{name}")
        repository.upload("main", "a.txt", b"a")
        repository.commit("main", "first", committer="tester")
    assert sweep(lake, time.time() + 60) == 0
    later = time.time() + LONGEST_REQUEST + 1
    monkeypatch.setattr("graveler.functions.maintenance.time.time", lambda: later)
    assert sweep(lake, later + 60) == 2
    assert sweep(lake, later + 60) == 0
