"""Ingest in a function: events of a real queue's shape, on S3 and DynamoDB."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto.sqs.models import sqs_backends
from msgspec.structs import replace

from graveler.functions.configuration import read_configuration
from graveler.functions.ingesting import (
    LONGEST_WAIT,
    OVERDUE,
    PENDING,
    RESERVE,
    TRIES,
    UNREAD,
    ingest_handler,
    wait,
)
from graveler.functions.opening import open_deployed_lake
from graveler.functions.traffic import Traffic
from graveler.ingest.pending import decode_pending, pending_key
from graveler.ingest.rules import PARTITION, CommitPolicy, Rule, RuleStore
from graveler.ingest.waiting import mark_write
from graveler.ingest.windows import Window
from graveler.lake.lake import Lake
from graveler.storage.tables import Key
from tests.functions.test_maintenance import Context

ROOT = Path(__file__).parents[2]
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


def test_what_failed_comes_again_later_each_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="events", Attributes={"VisibilityTimeout": "1800"})["QueueUrl"]
    monkeypatch.setenv("GRAVELER_INGEST_QUEUE", queue)
    for number in range(11):  # more than one request may be about
        sqs.send_message(QueueUrl=queue, MessageBody=f"nonsense {number}")
    received: list[Any] = []
    while len(received) < 11:
        received += sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    records = [
        {
            "messageId": message["MessageId"],
            "body": message["Body"],
            "receiptHandle": message["ReceiptHandle"],
            "attributes": {"ApproximateReceiveCount": "3"},
        }
        for message in received
    ]
    answer = ingest_handler()({"Records": records}, Context())
    assert len(answer["batchItemFailures"]) == 11
    held = sqs_backends["123456789012"]["us-east-1"].queues["events"]._messages
    assert len(held) == 11
    # Half a minute or so from now, instead of half an hour.
    assert all(time.time() < message.visible_at / 1000 <= time.time() + 40 for message in held)
    monkeypatch.setenv("GRAVELER_INGEST_QUEUE", queue + "-gone")  # then they come when the queue itself says so
    assert len(ingest_handler()({"Records": records}, Context())["batchItemFailures"]) == 11


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


def test_poison_ends_among_the_dead_letters_with_its_reason(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    monkeypatch.setenv("GRAVELER_INGEST_DEAD_LETTERS", queue)
    handler = ingest_handler()
    poison = record("1", "in/a", "1", bucket="other")
    assert handler({"Records": [poison, record("2", "in/b", "1")]}, Context()) == {"batchItemFailures": []}
    (dead,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert dead["Body"] == poison["body"]
    assert "no rule applies to 's3://other'" in dead["MessageAttributes"]["reason"]["StringValue"]
    monkeypatch.setenv("GRAVELER_INGEST_DEAD_LETTERS", queue + "-gone")
    answer = ingest_handler()({"Records": [poison]}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_the_queue_gives_up_after_as_many_tries() -> None:
    said = re.search(r"^TRIES: Final = (\d+)$", (ROOT / "infra" / "ingest.py").read_text(), re.MULTILINE)
    assert said is not None
    assert int(said[1]) == TRIES


def test_a_source_that_may_not_be_read_is_named_and_what_it_sent_can_be_replayed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    RuleStore(lake.tables).add(lake, "quick", Rule("shut", "s3://raw/shut/", "main", "shut/", verify=True))
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="dead")["QueueUrl"]
    monkeypatch.setenv("GRAVELER_INGEST_DEAD_LETTERS", queue)
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
