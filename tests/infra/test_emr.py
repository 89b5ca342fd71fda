"""EMR Serverless: releases with an end, jobs within the quota, files that come with the stack, an application that stops."""

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from infra.emr import DEFAULT_QUOTA, DRIVER_CPUS, DRIVER_MEMORY, GB_PER_CPU, RELEASES, TESTED_RELEASE, allocation, disk
from infra.job_flow import ARCHIVE, JOBS
from infra.settings import Settings, SettingsError
from infra.spark_resource import handler as resource
from tests.infra.tools import ROOT, synthesise

APPLICATION = "00f1app"
EVENT = {
    "ResponseURL": "https://cloudformation.example/answer",
    "StackId": "stack",
    "RequestId": "request",
    "LogicalResourceId": "Files",
}


def test_the_release_of_a_deployment_is_the_one_whose_spark_the_tests_run() -> None:
    (pinned,) = re.findall(r"^EMR_SPARK := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert RELEASES[TESTED_RELEASE].spark == pinned
    assert Settings().spark_release == TESTED_RELEASE


def test_the_documents_name_each_release_with_its_end() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    for name, release in RELEASES.items():
        assert f"| `{name}` | {release.spark} | {release.end_of_life} |" in page


def test_another_release_is_refused() -> None:
    assert Settings(spark_release="emr-spark-8.1.0").spark_release == "emr-spark-8.1.0"
    with pytest.raises(
        SettingsError, match=r"spark_release 'emr-7.13.0' must be one of emr-spark-8.0.0, emr-spark-8.1.0"
    ):
        Settings(spark_release="emr-7.13.0")


def test_a_job_of_a_new_deployment_fits_into_the_quota_of_a_new_account() -> None:
    settings = Settings()
    assert settings.spark_cpus == DEFAULT_QUOTA
    limits = allocation(settings.spark_cpus, settings.spark_jobs_at_once, settings.spark_executor_cpus)
    assert limits == {
        "spark.driver.cores": "4",
        "spark.driver.memory": "14g",
        "spark.dynamicAllocation.initialExecutors": "3",
        "spark.dynamicAllocation.maxExecutors": "3",
    }


@given(st.integers(4, 10_000), st.integers(1, 1_000), st.sampled_from([1, 2, 4, 8, 16]))
def test_jobs_never_ask_for_more_than_their_share_or_are_refused(cpus: int, jobs: int, executor_cpus: int) -> None:
    try:
        settings = Settings(
            spark_cpus=cpus, spark_jobs_at_once=jobs, spark_executor_cpus=executor_cpus, spark_executor_memory=7
        )
    except SettingsError as error:
        refused, least = str(error), (DRIVER_CPUS + executor_cpus) * jobs
    else:
        refused = ""
    if refused:
        assert cpus < least
        assert refused.startswith(f"spark_cpus {cpus} must be {least} or more: ")
        return
    limits = allocation(settings.spark_cpus, settings.spark_jobs_at_once, settings.spark_executor_cpus)
    most = int(limits["spark.dynamicAllocation.maxExecutors"])
    assert 1 <= int(limits["spark.dynamicAllocation.initialExecutors"]) <= most
    assert jobs * (DRIVER_CPUS + most * executor_cpus) <= cpus
    for size in (20, 200):
        assert jobs * (20 + most * size) <= disk(cpus, executor_cpus, size), (
            "of drivers, which have 20 GB, and executors"
        )


def test_memory_of_workers_is_within_that_of_their_processors() -> None:
    """EMR rounds heap and overhead up to whole GB; its sizes end where these do."""
    for executor_cpus, heap in ((1, 7), (2, 14), (4, 27), (8, 54), (16, 109), (DRIVER_CPUS, DRIVER_MEMORY)):
        Settings(spark_cpus=64, spark_executor_cpus=executor_cpus, spark_executor_memory=heap)
        assert math.ceil(heap * 1.1) <= executor_cpus * GB_PER_CPU


@contextmanager
def stubbed(service: str, *exchanges: tuple[str, dict[str, Any], dict[str, Any]]) -> Iterator[Any]:
    """A client that expects these calls in this order, with parameters that AWS would take."""
    client: Any = boto3.client(  # type: ignore[call-overload]
        service, region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        for method, parameters, answer in exchanges:
            stubber.add_response(method, answer, parameters)
        yield client
        stubber.assert_no_pending_responses()


def state(name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The application is asked for, and is in this state."""
    application = {
        "applicationId": APPLICATION,
        "arn": f"arn:aws:emr-serverless:eu-central-1:111122223333:/applications/{APPLICATION}",
        "releaseLabel": TESTED_RELEASE,
        "type": "Spark",
        "state": name,
        "createdAt": 0,
        "updatedAt": 0,
    }
    return "get_application", {"applicationId": APPLICATION}, {"application": application}


def runs(**states: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The runs are listed, and are in these states."""
    role = "arn:aws:iam::111122223333:role/jobs-of-graveler"
    listed = [
        {
            "applicationId": APPLICATION,
            "id": name,
            "arn": f"arn:aws:emr-serverless:eu-central-1:111122223333:/applications/{APPLICATION}/jobruns/{name}",
            "createdBy": role,
            "createdAt": 0,
            "updatedAt": 0,
            "executionRole": role,
            "state": now,
            "stateDetails": "JOB",
            "releaseLabel": TESTED_RELEASE,
        }
        for name, now in states.items()
    ]
    parameters = {"applicationId": APPLICATION, "states": [*resource.ACTIVE, resource.CANCELLING]}
    return "list_job_runs", parameters, {"jobRuns": listed}


def cancelled(run: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A run is cancelled."""
    parameters = {"applicationId": APPLICATION, "jobRunId": run}
    return "cancel_job_run", parameters, {"applicationId": APPLICATION, "jobRunId": run}


STOPPED = ("stop_application", {"applicationId": APPLICATION}, dict[str, Any]())


@pytest.mark.parametrize(
    "exchanges",
    [
        [state("CREATED")],
        [state("STOPPED")],
        [state("STARTED"), runs(), STOPPED, state("STOPPING"), state("STOPPED")],
        [state("STARTING"), state("STARTED"), runs(), STOPPED, state("STOPPED")],
        [
            *(state("STARTED"), runs(a="RUNNING", b="QUEUED"), cancelled("a"), cancelled("b")),
            *(state("STARTED"), runs(a="CANCELLING")),
            *(state("STARTED"), runs(), STOPPED, state("STOPPED")),
        ],
    ],
)
def test_an_application_stops_before_it_is_deleted_whatever_it_does(
    exchanges: list[tuple[str, dict[str, Any], dict[str, Any]]],
) -> None:
    pauses: list[float] = []
    with stubbed("emr-serverless", *exchanges) as client:
        resource.stop(client, APPLICATION, pause=pauses.append, in_time=lambda: True)
    assert len(pauses) == sum(exchange[0] == "get_application" for exchange in exchanges) - 1


def test_an_application_that_is_gone_has_stopped_and_one_that_hangs_is_named() -> None:
    emr: Any = boto3.client(
        "emr-serverless", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(emr) as stubber:
        stubber.add_client_error("get_application", "ResourceNotFoundException")
        resource.stop(emr, APPLICATION, pause=print, in_time=lambda: True)
    with (
        stubbed("emr-serverless", state("STOPPING")) as client,
        pytest.raises(resource.StillRunningError, match=f"application {APPLICATION} is STOPPING; stop it"),
    ):
        resource.stop(client, APPLICATION, pause=print, in_time=lambda: False)


class Context:
    """Lambda's, with time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def answers_of(
    monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], client: Callable[[str], Any], answers: list[Any]
) -> list[Any]:
    """What CloudFormation is told, at the end of ``answers``."""

    def put(request: Any, **_: object) -> io.BytesIO:
        assert (request.method, request.full_url) == ("PUT", EVENT["ResponseURL"])
        answers.append(json.loads(request.data))
        return io.BytesIO()

    with monkeypatch.context() as patch:
        patch.setattr(resource, "urlopen", put)
        patch.setattr(boto3, "client", client)
        resource.handler({**EVENT, **event}, Context())
    return answers


FILES = [
    {"Key": ARCHIVE, "FromBucket": "assets", "FromKey": "1.gz"},
    {"Key": "jobs/gc.py", "FromBucket": "assets", "FromKey": "2.py"},
]


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_files_are_copied_to_where_the_flow_expects_them(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    copies = [
        (
            "copy_object",
            {"Bucket": "artifacts", "Key": file["Key"], "CopySource": {"Bucket": "assets", "Key": file["FromKey"]}},
            dict[str, Any](),
        )
        for file in FILES
    ]
    properties = {"Application": APPLICATION, "Bucket": "artifacts", "Files": FILES}
    with stubbed("s3", *copies) as client:
        (told,) = answers_of(monkeypatch, {"RequestType": kind, "ResourceProperties": properties}, lambda _: client, [])
    assert (told["Status"], told["PhysicalResourceId"]) == ("SUCCESS", APPLICATION)
    assert {name: told[name] for name in ("StackId", "RequestId", "LogicalResourceId")}.items() <= EVENT.items()


def test_deletion_stops_and_a_failure_is_told_to_cloudformation(monkeypatch: pytest.MonkeyPatch) -> None:
    event = {
        "RequestType": "Delete", "PhysicalResourceId": APPLICATION, "ResourceProperties": {"Application": APPLICATION},
    }  # fmt: skip
    with stubbed("emr-serverless", state("STOPPED")) as client:
        (answer,) = answers_of(monkeypatch, event, lambda _: client, [])
    assert answer["Status"] == "SUCCESS"

    stopping = stubbed("emr-serverless", state("STOPPING"))
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda _: 0)
    with stopping as client:
        (answer,) = answers_of(monkeypatch, event, lambda _: client, [])
    assert (answer["Status"], answer["Reason"][:35]) == ("FAILED", "StillRunningError: application 00f1")


@pytest.mark.parametrize(("kind", "former"), [("Create", None), ("Update", "an application that is replaced")])
def test_a_failure_is_answered_once_and_names_the_application_that_the_event_is_about(
    monkeypatch: pytest.MonkeyPatch, kind: str, former: str | None
) -> None:
    """Lambda calls a function again that raises, and CloudFormation, which rolls back then, deletes what the answer names."""
    event = {
        "RequestType": kind,
        "ResourceProperties": {"Application": APPLICATION, "Bucket": "artifacts", "Files": FILES},
        **({"PhysicalResourceId": former} if former else {}),
    }
    client: Any = boto3.client("s3", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        stubber.add_client_error("copy_object", "NoSuchKey")
        (told,) = answers_of(monkeypatch, event, lambda _: client, [])
    assert (told["Status"], told["PhysicalResourceId"]) == ("FAILED", APPLICATION)
    assert "NoSuchKey" in told["Reason"]


def test_a_run_that_ends_or_begins_meanwhile_does_not_end_the_stop() -> None:
    client: Any = boto3.client(
        "emr-serverless", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    with Stubber(client) as stubber:
        for method, parameters, answer in (state("STARTED"), runs(a="RUNNING")):
            stubber.add_response(method, answer, parameters)
        stubber.add_client_error("cancel_job_run", "ValidationException")
        for method, parameters, answer in (state("STARTED"), runs()):
            stubber.add_response(method, answer, parameters)
        stubber.add_client_error("stop_application", "ValidationException")
        for method, parameters, answer in (state("STARTED"), runs(), STOPPED, state("STOPPED")):
            stubber.add_response(method, answer, parameters)
        resource.stop(client, APPLICATION, pause=lambda _: None, in_time=lambda: True)
        method, parameters, answer = state("STARTED")
        stubber.add_response(method, answer, parameters)
        stubber.add_client_error("list_job_runs", "AccessDeniedException")
        with pytest.raises(ClientError, match="AccessDenied"):
            resource.stop(client, APPLICATION, pause=lambda _: None, in_time=lambda: True)


@pytest.mark.ci
def test_a_package_that_is_not_there_is_named_with_the_target_that_makes_it(tmp_path: Path) -> None:
    done = synthesise(tmp_path / "assembly", spark=True, spark_package=str(tmp_path))
    assert done.returncode == 1
    assert "`make spark-package ARCHITECTURE=arm64` builds both" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.ci
def test_the_stack_brings_the_files_and_stops_the_application_first(full: dict[str, dict[str, Any]]) -> None:
    resources: dict[str, dict[str, Any]] = full["spark"]["Resources"]
    (files,) = (each for each in resources.values() if each["Type"] == "Custom::GravelerSparkFiles")
    names = [file["Key"] for file in files["Properties"]["Files"]]
    assert names == [ARCHIVE, *(f"{JOBS}/{job}.py" for job in ("export", "gc", "import_"))]
    (application,) = (name for name, each in resources.items() if each["Type"] == "AWS::EMRServerless::Application")
    assert application in json.dumps(files["Properties"]["Application"])
    (machine,) = (each for each in resources.values() if each["Type"] == "AWS::StepFunctions::StateMachine")
    (name,) = (name for name, each in resources.items() if each is files)
    assert name in machine["DependsOn"]
    (policy,) = (each for name, each in resources.items() if name.startswith("FilesPolicy"))
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    read = next(each for each in statements if each["Action"] == "s3:GetObject")
    assert len(read["Resource"]) == len(names)
    assert "*" not in json.dumps(read)
    written = next(each for each in statements if each["Action"] == "s3:PutObject")
    assert len(written["Resource"]) == len(names)
