"""The function behind the custom resource of the stack for Spark: it puts archive and jobs where the flow expects them, and stops
the application before the stack deletes it.

CloudFormation calls it. The function has what Lambda's Python brings, and nothing of graveler.
"""

import json
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.request import Request, urlopen

import boto3
from botocore.exceptions import ClientError

DELETABLE: Final = ("CREATED", "STOPPED", "TERMINATED")
"""States of an application that can be deleted; CloudFormation does not stop one itself, but fails:
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_DeleteApplication.html"""
ACTIVE: Final = ("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING")
"""States of runs that have to be cancelled before their application can be stopped:
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StopApplication.html"""
CANCELLING: Final = "CANCELLING"

_MEANWHILE: Final = ("ValidationException", "ResourceNotFoundException")
"""What EMR says of a run that has ended, and of an application that has runs:
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_CancelJobRun.html and
https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_StopApplication.html"""
_LOOK_SECONDS: Final = 5.0
_RESERVE_SECONDS: Final = 20.0
"""What the answer to CloudFormation may take: without one, it waits for an hour."""


class StillRunningError(Exception):
    """The application did not stop in time."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Answer an event of a custom resource. Creation and update copy the files, deletion stops the application. It raises only if
    CloudFormation cannot be answered: Lambda calls it again then, and must not copy files into a stack that is rolled back.

    The resource is named after the application, so if another one takes its place, CloudFormation has the former one stopped
    before it deletes that."""
    reason = ""
    try:
        properties = event["ResourceProperties"]
        if event["RequestType"] == "Delete":
            deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
            stop(
                boto3.client("emr-serverless"),
                properties["Application"],
                pause=time.sleep,
                in_time=lambda: time.monotonic() < deadline,
            )
        else:
            copy(boto3.client("s3"), properties["Bucket"], properties["Files"])
    except Exception as error:  # noqa: BLE001 - whatever it is, CloudFormation waits for an answer
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
    _answer(event, reason)


def copy(s3: Any, bucket: str, files: Iterable[dict[str, str]]) -> None:
    """Copy each of ``files`` (``FromBucket``, ``FromKey``, ``Key``) within S3. One request for each; at most 5 GB."""
    for file in files:
        s3.copy_object(
            Bucket=bucket, Key=file["Key"], CopySource={"Bucket": file["FromBucket"], "Key": file["FromKey"]}
        )


def stop(emr: Any, application: str, *, pause: Callable[[float], object], in_time: Callable[[], bool]) -> None:
    """Cancel the runs of an application, stop it, and wait until it has stopped: seconds, or a minute with a run.
    :class:`StillRunningError` if ``in_time`` ends first."""
    while (state := _state(emr, application)) not in DELETABLE:
        if not in_time():
            raise StillRunningError(f"application {application} is {state}; stop it, and delete the stack again")
        if state == "STARTED":
            try:
                _end(emr, application)
            except ClientError as error:
                # A run ended, or another one began, since they were listed.
                if error.response["Error"]["Code"] not in _MEANWHILE:
                    raise
        pause(_LOOK_SECONDS)


def _end(emr: Any, application: str) -> None:
    """Cancel the runs of an application, or stop it if it has none."""
    runs = list(_runs(emr, application))
    for run in runs:
        if run["state"] != CANCELLING:
            emr.cancel_job_run(applicationId=application, jobRunId=run["id"])
    if not runs:
        emr.stop_application(applicationId=application)


def _state(emr: Any, application: str) -> str:
    try:
        state: str = emr.get_application(applicationId=application)["application"]["state"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return "TERMINATED"
        raise
    return state


def _runs(emr: Any, application: str) -> Iterable[dict[str, Any]]:
    for page in emr.get_paginator("list_job_runs").paginate(applicationId=application, states=[*ACTIVE, CANCELLING]):
        yield from page["jobRuns"]


def _answer(event: dict[str, Any], reason: str) -> None:
    """Tell CloudFormation the result: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-responses.html"""
    document = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason[:1000] or "done",
        "PhysicalResourceId": event["ResourceProperties"]["Application"],
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    body = json.dumps(document).encode()
    request = Request(event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - CloudFormation's
    with urlopen(request, timeout=_RESERVE_SECONDS / 2):  # noqa: S310
        pass
