"""What an operator relies on when something goes wrong."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from graveler.lake.opening.aws import open_lake
from graveler.retention.undelete import Undelete
from graveler.storage.objects.s3 import S3Settings
from infra.acceptance.deployment import Deployment, expect

_RESTORABLE_SECONDS: Final = 1_200
"""A table can be restored to some five minutes ago."""
_RESTORE_SECONDS: Final = 3_600
_HEARD_SECONDS: Final = 300
_ALARM: Final = "DeadLetters"


def restore(deployment: Deployment) -> str:
    """A branch is deleted, and an object's bytes are, as the collector does it. The table of before, restored beside the present
    one, has the branch, and ``gc undelete`` brings the bytes back."""
    repo = deployment.repository("restored")
    main = repo.branch("main")
    main.object("kept").upload(data=b"kept", pre_sign=True)
    main.commit(message="before")
    work = repo.branch("work").create(source_reference="main")
    work.object("lost").upload(data=b"lost and found", pre_sign=True)
    work.commit(message="own")
    address = work.object("lost").stat().physical_address
    moment = time.time() + 1
    _await_moment(deployment, moment)

    def accident() -> None:
        repo.branch("work").delete()
        bucket, _, key = address.removeprefix("s3://").partition("/")
        deployment.aws("s3").delete_object(Bucket=bucket, Key=key)

    then = f"{deployment.table}-then-{repo.id[-6:]}"
    # An emulator keeps no past: there the table is copied before the accident.
    if not deployment.emulated:
        accident()
    try:
        _restore(deployment, then, moment)
        if deployment.emulated:
            accident()
        lake = open_lake(
            f"s3://{deployment.bucket}",
            f"dynamodb://{then}",
            cache=deployment.folder / "cache",
            s3=S3Settings(region=deployment.region),
            region=deployment.region,
        )
        restored = lake.repository(repo.id)
        paths = [entry.path for entry in restored.objects("work")]
        expect(paths == ["kept", "lost"], f"the restored branch has {paths}")
        undeleted = Undelete(restored).of_commit("work")
        expect(undeleted.files >= 1 and not undeleted.wrong, f"undelete says {undeleted}")
        read = restored.read("work", "lost")
        expect(read == b"lost and found", f"the object is {read!r}")
    finally:
        _drop(deployment, then)
    return f"a branch came back with the table, and {undeleted.files} file from the bucket's versions"


def _await_moment(deployment: Deployment, moment: float) -> None:
    """Until the table can be restored to then. An emulator's cannot, and is copied as it is."""
    if deployment.emulated:
        return

    def is_restorable() -> bool:
        told = deployment.aws("dynamodb").describe_continuous_backups(TableName=deployment.table)
        recovery = told["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
        expect(
            recovery["PointInTimeRecoveryStatus"] == "ENABLED", f"the table cannot be restored to a moment: {recovery}"
        )
        return bool(recovery["LatestRestorableDateTime"].timestamp() >= moment)

    deployment.until(is_restorable, "a table that can be restored to the moment before", _RESTORABLE_SECONDS)


def _restore(deployment: Deployment, then: str, moment: float) -> None:
    dynamodb = deployment.aws("dynamodb")
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=deployment.table,
        TargetTableName=then,
        RestoreDateTime=datetime.fromtimestamp(moment, tz=UTC),
    )

    def is_there() -> bool:
        return bool(dynamodb.describe_table(TableName=then)["Table"]["TableStatus"] == "ACTIVE")

    deployment.until(is_there, f"table {then}", _RESTORE_SECONDS)


def _drop(deployment: Deployment, table: str) -> None:
    """Delete a table, if it came so far."""
    dynamodb = deployment.aws("dynamodb")
    try:
        dynamodb.delete_table(TableName=table)
    except dynamodb.exceptions.ResourceNotFoundException:
        return


def alarm(deployment: Deployment) -> str:
    """The alarm is set by hand, and a queue that listens to its topic is told. So its policy lets CloudWatch publish."""
    watch, sns, sqs = (deployment.aws(service) for service in ("cloudwatch", "sns", "sqs"))
    found = [each for each in _alarms(deployment) if f"-{_ALARM}" in each["AlarmName"]]
    expect(len(found) == 1, f"{len(found)} alarms are called {_ALARM}")
    name, (topic,) = found[0]["AlarmName"], found[0]["AlarmActions"]
    queue = sqs.create_queue(QueueName=deployment.name_of(f"{deployment.name}-listener"))["QueueUrl"]
    try:
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "sns.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": arn,
                    "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
                }
            ],
        }
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
        subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True)
        try:
            watch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="graveler's acceptance run")
            told: list[str] = []

            def heard() -> bool:
                got = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", [])
                told.extend(message["Body"] for message in got)
                return any(name in body for body in told)

            waited = deployment.until(heard, f"word of the alarm {name}", _HEARD_SECONDS)
        finally:
            watch.set_alarm_state(AlarmName=name, StateValue="OK", StateReason="graveler's acceptance run")
            sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
    finally:
        sqs.delete_queue(QueueUrl=queue)
    return f"heard of {name} after {waited:.1f} s"


def quiet(deployment: Deployment) -> str:
    """Alarms are for trouble: a day's work is none."""
    alarms = list(_alarms(deployment))
    loud = [each["AlarmName"] for each in alarms if each["StateValue"] == "ALARM"]
    expect(alarms and not loud, f"of {len(alarms)} alarms these are on: {', '.join(loud)}")
    return f"{len(alarms)} alarms, none on"


def _alarms(deployment: Deployment) -> Iterator[dict[str, Any]]:
    pages = deployment.aws("cloudwatch").get_paginator("describe_alarms").paginate()
    return (
        each
        for page in pages
        for each in page["MetricAlarms"]
        if each["AlarmName"].startswith(f"{deployment.name}-observability-")
    )
