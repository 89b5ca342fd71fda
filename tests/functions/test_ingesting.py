"""Ingest in a function: events of a real queue's shape, on S3 and DynamoDB."""

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError
from moto.sqs.models import sqs_backends
from msgspec.structs import replace

from graveler.errors import UnavailableError
from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.ingest_entry import (
    ATTEMPTS,
    LONGEST_WAIT,
    OVERDUE,
    PENDING,
    RESERVE,
    TRIES,
    UNREAD,
    ingest_handler,
    wait,
)
from graveler.functions.sqs import SqsQueue
from graveler.functions.traffic import Traffic
from graveler.ingest.events import ObjectEvent
from graveler.ingest.ingester import Ingester
from graveler.ingest.pending_changes import decode_pending, pending_key
from graveler.ingest.results import Batch
from graveler.ingest.rules import PARTITION, CommitPolicy, RepositoryRules, Rule, RuleStore
from graveler.ingest.waiting_repositories import mark_write
from graveler.ingest.windows import Window
from graveler.lake.lake import Lake
from graveler.storage.tables.port import Key
from tests.functions.test_maintenance import Context
from tests.support.shell import Shell

ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
FORBIDDEN: Any = {"Error": {"Code": "403", "Message": "Forbidden"}, "ResponseMetadata": {"HTTPStatusCode": 403}}


@pytest.fixture
def lake(deployment: None) -> Lake:
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    lake.create_repository("quick", "s3://lake/quick")
    RuleStore(lake.tables).add(
        lake, "quick", Rule("r", "s3://raw/in/", "main", "data/", commit=CommitPolicy(objects=2))
    )
    return lake


def record(id_: str, key: str, sequencer: str, bucket: str = "raw", kind: str = "Object Created") -> dict[str, str]:
    """A message with an event of EventBridge, as Lambda hands it over."""
    put = boto3.client("s3").put_object(Bucket="raw", Key=key, Body=key.encode())
    body: dict[str, Any] = {
        "detail-type": kind,
        "time": "2026-01-31T14:05:06Z",
        "detail": {
            "bucket": {"name": bucket},
            "object": {"key": key, "size": len(key.encode()), "etag": put["ETag"].strip('"'), "sequencer": sequencer},
        },
    }
    return {"messageId": id_, "body": json.dumps(body)}


def test_what_lands_is_committed_and_only_what_may_succeed_comes_again(lake: Lake) -> None:
    handler = ingest_handler()
    records = [record("1", "in/a b+ä.csv", "1"), record("2", "in/c", "1"), record("3", "in/d", "1", bucket="other")]
    answer = handler({"Records": [*records, {"messageId": "4", "body": "nonsense"}]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "3"}, {"itemIdentifier": "4"}]}
    repository = lake.repository("quick")
    assert [entry.path for entry in repository.objects("main@")] == ["data/a b+ä.csv", "data/c"]
    assert repository.read("main", "data/c") == b"in/c"
    assert handler({"Records": records[:2]}, Context()) == {"batchItemFailures": []}
    assert len(repository.log("main").results) == 2
    assert handler({"source": "aws.scheduler"}, Context()) == {"batchItemFailures": []}


@pytest.fixture
def queue(lake: Lake, shell: Shell) -> str:
    """The URL of a queue as the stack makes it, which the function knows."""
    url: str = boto3.client("sqs").create_queue(QueueName="events", Attributes={"VisibilityTimeout": "1805"})[
        "QueueUrl"
    ]
    shell.export("GRAVELER_INGEST_QUEUE", url)
    return url


def received(queue: str, bodies: list[str], times: int) -> list[dict[str, Any]]:
    """Messages with these bodies, sent and received, as Lambda hands over what it has received so many ``times``."""
    sqs = boto3.client("sqs")
    for body in bodies:
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    messages: list[Any] = []
    while len(messages) < len(bodies):
        messages += sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    return [
        {
            "messageId": message["MessageId"],
            "body": message["Body"],
            "receiptHandle": message["ReceiptHandle"],
            "attributes": {"ApproximateReceiveCount": str(times)},
        }
        for message in messages
    ]


def hidden() -> list[float]:
    """For how many seconds from now each message of the queue stays hidden."""
    now = time.time()
    return [
        message.visible_at / 1000 - now for message in sqs_backends[ACCOUNT]["us-east-1"].queues["events"]._messages
    ]


def test_what_failed_comes_again_later_each_time(queue: str, shell: Shell) -> None:
    records = received(queue, [f"nonsense {number}" for number in range(11)], 3)  # more than one request may be about
    answer = ingest_handler()({"Records": records}, Context())
    assert len(answer["batchItemFailures"]) == 11
    # Half a minute or so from now, instead of half an hour.
    assert [0 < seconds <= 40 for seconds in hidden()] == [True] * 11
    shell.export("GRAVELER_INGEST_QUEUE", queue + "-gone")  # then they come when the queue itself says so
    assert len(ingest_handler()({"Records": records}, Context())["batchItemFailures"]) == 11


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> list[float]:
    """Have the rules' read fail; return the seconds for which messages are hidden while a batch is processed."""
    during: list[float] = []

    def failing(store: RuleStore) -> Iterator[RepositoryRules]:
        during.extend(hidden())
        raise error

    monkeypatch.setattr(RuleStore, "all", failing)
    return during


def test_a_batch_whose_rules_cannot_be_read_is_a_retry_of_each_record(
    queue: str, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """And one that is killed meanwhile comes again after the time that it had."""
    sqs = boto3.client("sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", dead)
    first, again, last = (received(queue, [f"body {times}"], times)[0] for times in (1, 4, TRIES))
    handler = ingest_handler()
    with monkeypatch.context() as patched:
        during = fail(patched, UnavailableError("the table cannot be reached"))
        answer = handler({"Records": [first, again, last]}, Context(300))
    assert answer == {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in (first, again)]}
    assert [300 < seconds <= 300 + LONGEST_WAIT for seconds in during] == [True] * 3
    assert during[0] <= 311
    assert [seconds <= longest for seconds, longest in zip(hidden(), (10, 80), strict=False)] == [True] * 2
    (letter,) = sqs.receive_message(QueueUrl=dead, MessageAttributeNames=["All"])["Messages"]
    assert letter["Body"] == "body 20"
    assert letter["MessageAttributes"]["reason"]["StringValue"] == "the table cannot be reached"


def test_a_fault_of_the_program_is_lambdas_to_count_and_each_record_comes_again_soon(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = received(queue, ["body"], 1)
    during = fail(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        ingest_handler()({"Records": records}, Context(300))
    assert [300 < seconds <= 311 for seconds in during] == [True]
    assert [0 < seconds <= 10 for seconds in hidden()] == [True]


def test_a_fault_that_a_message_brings_about_is_not_that_of_the_others(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the program has overlooked: or all would end among the dead letters with it."""
    sqs = boto3.client("sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", dead)
    process, batches = Ingester.process, []

    def overlooked(ingester: Ingester, events: Sequence[ObjectEvent], *rest: Any, **more: Any) -> Batch:
        batches.append(len(events))
        if any(event.key.endswith("odd") for event in events):
            raise ZeroDivisionError("ä\0")
        return process(ingester, events, *rest, **more)

    monkeypatch.setattr(Ingester, "process", overlooked)
    names = ["a", "b", "odd", "c", "d", "e", "odd", "f"]
    records = [record(str(number), f"in/{name}", "1") for number, name in enumerate(names)]
    handler = ingest_handler()
    assert handler({"Records": records}, Context()) == {
        "batchItemFailures": [{"itemIdentifier": number} for number in ("2", "6")]
    }
    assert [entry.path for entry in lake.repository("quick").objects("main")] == [f"data/{name}" for name in "abcdef"]
    assert [line["message_id"] for line in logged(caplog, UNREAD)] == ["2", "6"]  # for the alarm
    last = {**records[2], "attributes": {"ApproximateReceiveCount": str(TRIES)}}
    assert handler({"Records": [last, records[0]]}, Context()) == {"batchItemFailures": []}
    (letter,) = sqs.receive_message(QueueUrl=dead, MessageAttributeNames=["All"])["Messages"]
    # SQS takes no control characters.
    assert r"ZeroDivisionError: \xe4\x00" in letter["MessageAttributes"]["reason"]["StringValue"]
    # If it is the program's own in any case, Lambda counts it, and not every message is tried.
    batches.clear()
    with pytest.raises(ZeroDivisionError):
        handler({"Records": [{**records[2], "messageId": str(number)} for number in range(200)]}, Context())
    assert len(batches) == ATTEMPTS


def test_a_queue_that_cannot_be_reached_is_asked_once(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def unreachable(client: Any, operation: str, request: Any) -> Any:
        requests.append(operation)
        raise EndpointConnectionError(endpoint_url=queue)

    monkeypatch.setattr(BaseClient, "_make_api_call", unreachable)
    (reason,) = SqsQueue(queue).put_off({str(number): 5 for number in range(480)})
    assert "Could not connect" in reason
    assert requests == ["ChangeMessageVisibilityBatch"]


def test_what_lands_in_a_lake_without_any_rule_is_no_poison(
    lake: Lake, shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    """A new deployment's landing bucket sends events before anybody has made a rule: no alarm rings."""
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", "https://sqs.us-east-1.amazonaws.com/123456789012/nowhere")
    landed = record("1", "in/a", "1", bucket="landing")
    handler = ingest_handler()
    assert handler({"Records": [landed]}, Context()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    (line,) = logged(caplog, "not ingested")
    assert line["outcome"] == "poison"  # another bucket has a rule
    caplog.clear()
    RuleStore(lake.tables).remove(lake.repository("quick").repository, "r")
    assert handler({"Records": [landed]}, Context()) == {"batchItemFailures": []}
    assert [line for line in caplog.records if line.levelno >= logging.WARNING] == []


def logged(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [vars(line) for line in caplog.records if line.message == message]


def test_a_function_that_has_little_time_stages_all_and_leaves_the_commits_to_the_clock(lake: Lake) -> None:
    records = [record(f"{number}", f"in/{number}", "1") for number in range(4)]
    assert ingest_handler()({"Records": records}, Context(RESERVE)) == {"batchItemFailures": []}
    repository = lake.repository("quick")
    assert len(list(repository.objects("main"))) == 4
    assert list(repository.objects("main@")) == []
    ingest_handler()({}, Context(RESERVE))
    assert list(repository.objects("main@")) == []
    ingest_handler()({}, Context())
    assert len(list(repository.objects("main@"))) == 4


def test_what_waits_and_what_cannot_be_read_is_in_the_log_for_the_alarms(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    store, repository = RuleStore(lake.tables), lake.repository("quick")
    window = Window(3600, "YYYY/")
    store.add(lake, "quick", Rule("hourly", "s3://raw/h/", "main", "h/", commit=CommitPolicy(window=window)))
    store.add(lake, "quick", Rule("slow", "s3://raw/slow/", "main", "slow/", commit=CommitPolicy(seconds=1)))
    other = lake.create_repository("other", "s3://lake/other")
    handler = ingest_handler()
    handler({"Records": [record("1", "h/9000/a", "1"), record("2", "slow/a", "1")]}, Context())
    (named,) = logged(caplog, "ingested")
    assert named["message_id"] == "1"
    assert "'s3://raw/h/9000/a' is dated 9000-01-01T00:00:00Z" in named["reason"]
    repository.protect(["main"])
    state = pending_key(repository.repository.uid, store.get(repository.repository, "slow").id)
    found = decode_pending(state, lake.tables.get(state))
    before = replace(found, amount=replace(found.amount, since=found.amount.since - 3600))
    write = before.put_write(state, found)
    lake.tables.put(write.key, write.item)
    lake.tables.put(Key(PARTITION, other.repository.uid.encode()), {"repository": "other", "rules": b"?", "version": 1})
    mark = mark_write(other.repository.uid)
    lake.tables.put(mark.key, mark.item)
    handler({}, Context())
    assert [(line["repository"], line["rule"]) for line in logged(caplog, OVERDUE)] == [("quick", "slow")]
    (late,) = logged(caplog, PENDING)
    assert (late["repository"], late["rule"], late["seconds"] >= 3590) == ("quick", "slow", True)
    (unread,) = logged(caplog, UNREAD)
    assert (unread["repository"], other.repository.uid in unread["reason"]) == ("other", True)


@pytest.mark.parametrize(
    ("received", "shortest", "longest"), [(0, 5, 10), (1, 5, 10), (2, 10, 20), (5, 80, 160), (1000, 450, LONGEST_WAIT)]
)
def test_waits_grow_and_differ(received: int, shortest: int, longest: int) -> None:
    assert wait(received, 0.0) == longest
    assert wait(received, 1.0) == shortest


def test_poison_ends_among_the_dead_letters_with_its_reason(lake: Lake, shell: Shell) -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", queue)
    handler = ingest_handler()
    poison = record("1", "in/a", "1", bucket="other")
    assert handler({"Records": [poison, record("2", "in/b", "1")]}, Context()) == {"batchItemFailures": []}
    (dead,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert dead["Body"] == poison["body"]
    assert "no rule applies to 's3://other'" in dead["MessageAttributes"]["reason"]["StringValue"]
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", queue + "-gone")
    answer = ingest_handler()({"Records": [poison]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_the_queue_gives_up_after_as_many_tries() -> None:
    said = re.search(r"^TRIES: Final = (\d+)$", (ROOT / "infra" / "ingest.py").read_text(), re.MULTILINE)
    assert said is not None
    assert int(said[1]) == TRIES


def test_a_source_that_may_not_be_read_is_named_and_what_it_sent_can_be_replayed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    RuleStore(lake.tables).add(lake, "quick", Rule("shut", "s3://raw/shut/", "main", "shut/", verify=True))
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    shell.export("GRAVELER_INGEST_DEAD_LETTERS", queue)
    handler = ingest_handler()
    shut, open_ = record("1", "shut/a", "1"), record("2", "in/b", "1")
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def refused(client: Any, operation: str, request: Any) -> Any:
        if operation == "HeadObject" and request["Key"].startswith("shut/"):
            raise ClientError(FORBIDDEN, operation)
        return call(client, operation, request)

    with monkeypatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", refused)
        # Somebody may mend that: it comes again, until the queue would give it up without a word.
        assert handler({"Records": [shut, open_]}, Context()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
        last = {**shut, "attributes": {"ApproximateReceiveCount": str(TRIES)}}
        assert handler({"Records": [last]}, Context()) == {"batchItemFailures": []}
    repository = lake.repository("quick")
    assert [entry.path for entry in repository.objects("main")] == ["data/b"]
    (dead,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    reason = dead["MessageAttributes"]["reason"]["StringValue"]
    assert "s3://raw" in reason
    assert "not allow" in reason or "permission" in reason or "forbid" in reason.lower(), reason
    lines = [vars(line) for line in caplog.records if line.message == "not ingested"]
    assert [(line["outcome"], line["message_id"], line["reason"]) for line in lines] == [("retry", "1", reason)] * 2
    assert handler({"Records": [{**shut, "body": dead["Body"]}]}, Context()) == {"batchItemFailures": []}
    assert [entry.path for entry in repository.objects("main")] == ["data/b", "shut/a"]
