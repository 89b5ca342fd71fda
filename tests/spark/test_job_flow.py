"""The flow of a job as Step Functions would run it: its own definition, with the job run for real and calls of a real server."""

import json
import re
import runpy
import shlex
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError

import pytest
from pyspark.sql import SparkSession

from graveler.spark.jobs import export, gc, import_
from graveler.spark.jobs.frame import parser_of
from infra.job_flow import ARCHIVE, JOBS, flow
from infra.spark_package import SOURCES
from tests.spark.listings import BASE, frame_of, latest, rows_of
from tests.spark.test_served import Scene, scene
from tests.support.proxy import FaultyProxy, Reply, Trouble

__all__ = ["scene"]

ARTIFACTS = "s3://artifacts"


class TaskError(Exception):
    """A state's task failed; ``name`` as the language has it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


Tasks = Mapping[str, Callable[[Any], Any]]


def execute(machine: Mapping[str, Any], value: Any, tasks: Tasks) -> Any:
    """Run a state machine: as much of the language as the flow uses. Pauses are left out."""
    name = machine["StartAt"]
    while True:
        state = machine["States"][name]
        if state["Type"] == "Map":
            assert state["MaxConcurrency"] == 1
            done: Any = [execute(state["ItemProcessor"], item, tasks) for item in look(state["ItemsPath"], value)]
        else:
            assert state["Type"] == "Task"
            done = attempt(state, tasks[state["Resource"].partition(":::")[2]], filled(state["Parameters"], value))
            done = filled(state["ResultSelector"], done) if "ResultSelector" in state else done
        value = {**value, state["ResultPath"].removeprefix("$."): done} if "ResultPath" in state else done
        if state.get("End"):
            return value
        name = state["Next"]


def attempt(state: Mapping[str, Any], task: Callable[[Any], Any], given: Any) -> Any:
    left = [retry["MaxAttempts"] for retry in state["Retry"]]
    while True:
        try:
            return task(given)
        except TaskError as error:
            for number, retry in enumerate(state["Retry"]):
                if {error.name, "States.ALL"} & set(retry["ErrorEquals"]) and left[number]:
                    left[number] -= 1
                    break
            else:
                raise


def filled(template: Any, value: Any) -> Any:
    """A template's fields; those whose name ends with ``.$`` are paths, or the one function that there is."""
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): look(part, value) if name.endswith(".$") else filled(part, value)
        for name, part in template.items()
    }


def look(path: str, value: Any) -> Any:
    if formatted := re.fullmatch(r"States\.Format\('(.*)', (\$\.\w+)\)", path):
        return formatted[1].replace("{}", look(formatted[2], value))
    for name in path.removeprefix("$.").split("."):
        value = value[name]
    return value


class Cloud:
    """EMR Serverless, which runs the packaged job in this process's session, and the connection that calls the API."""

    def __init__(self, bucket: Path, key: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
        self._bucket = bucket
        self._key = key
        self._capfd = capfd
        self.runs: list[dict[str, Any]] = []

    def run_job(self, given: Any) -> Any:
        submitted = given["JobDriver"]["SparkSubmit"]
        words = shlex.split(submitted["SparkSubmitParameters"])
        assert words[::2] == ["--conf"] * (len(words) // 2)
        said = dict(word.split("=", 1) for word in words[1::2])
        assert said["spark.archives"] == f"{ARTIFACTS}/{ARCHIVE}#environment"
        begin = "spark.emr-serverless.driverEnv."
        environment = {name.removeprefix(begin): value for name, value in said.items() if name.startswith(begin)}
        assert (
            environment.pop("PYSPARK_DRIVER_PYTHON") == environment.pop("PYSPARK_PYTHON") == "./environment/bin/python"
        )
        entry = self._bucket / submitted["EntryPoint"].removeprefix(f"{ARTIFACTS}/")
        with (
            patch.dict("os.environ", environment),
            patch.object(sys, "argv", [str(entry), *submitted["EntryPointArguments"]]),
            pytest.raises(SystemExit) as end,
        ):
            runpy.run_path(str(entry), run_name="__main__")
        out, err = self._capfd.readouterr()
        if end.value.code:
            raise TaskError("States.TaskFailed", err)
        self.runs.append(json.loads(out.splitlines()[-1]))
        return {"JobRunId": "1", "State": "SUCCESS"}

    def call(self, given: Any) -> Any:
        request = urllib.request.Request(
            given["ApiEndpoint"], json.dumps(given["RequestBody"]).encode(), method=given["Method"]
        )
        request.add_header("content-type", "application/json")
        request.add_header("authorization", f"Basic {b64encode(':'.join(self._key).encode()).decode()}")
        try:
            with urllib.request.urlopen(request) as answer:
                return {"StatusCode": answer.status, "ResponseBody": json.load(answer)}
        except HTTPError as error:
            with error:
                raise TaskError(f"States.Http.StatusCode.{error.code}", error.read().decode()) from None


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """The bucket of artifacts, with the jobs as the package has them."""
    copytree(SOURCES / "spark" / "jobs", tmp_path / "bucket" / JOBS)
    return tmp_path / "bucket"


def test_the_flow_imports_and_merges(
    spark: SparkSession, scene: Scene, bucket: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(Random(31), 40)
    frame_of(spark, rows).write.parquet(str(tmp_path / "listing.parquet"))
    scene.repository.create_branch("feed", "main")
    cloud = Cloud(bucket, scene.keys["writer"], capfd)
    asked: list[str] = []

    def busy_at_first(operation: str, ordinal: int) -> Trouble:
        asked.append(operation)
        return Reply(429, b'{"message": "it goes on"}') if ordinal < 2 else None

    with FaultyProxy(scene.server.url) as proxy:
        proxy.begin(busy_at_first)
        machine = flow(
            application="app",
            role="role",
            artifacts=ARTIFACTS,
            environment={"GRAVELER_LAKE": str(scene.server.lake)},
            endpoint=proxy.url,
            connection="connection",
        )
        calls = [{"method": "POST", "path": "/repositories/repo/refs/feed/merge/main", "body": {"message": "Nightly"}}]
        listing = ["--listing", str(tmp_path / "listing.parquet"), "--base", BASE, "--destination", "feed/"]
        arguments = ["--repository", "repo", "--branch", "feed", *listing, "--partitions", "2"]
        tasks: Tasks = {"emr-serverless:startJobRun.sync": cloud.run_job, "http:invoke": cloud.call}
        ended = execute(machine, {"job": "import_", "arguments": arguments, "calls": calls}, tasks)
        assert ended == [{"status": 200}]
        assert len(asked) == 3
        assert cloud.runs[0]["objects"] == len(latest(rows))
        merged = scene.repository.commit_of("main")
        assert merged.message == "Nightly"
        assert len(list(scene.repository.objects("main", "feed/"))) == len(latest(rows))
        wrong = [*arguments[:3], "nowhere", *arguments[4:]]
        with pytest.raises(TaskError, match=r"States\.TaskFailed: error: import: ref 'nowhere' not found"):
            execute(machine, {"job": "import_", "arguments": wrong, "calls": calls}, tasks)
        assert scene.repository.commit_of("main") == merged


def test_what_schedules_name_are_jobs_and_their_arguments() -> None:
    from tests.infra.conftest import SPARK_JOBS

    jobs = {"import_": import_.JOB, "export": export.JOB, "gc": gc.JOB}
    assert {path.stem for path in (SOURCES / "spark" / "jobs").glob("*.py")} == {*jobs, "__init__", "frame"}
    for job in SPARK_JOBS.values():
        assert parser_of(jobs[job["job"]]).parse_args(job["arguments"]).repository == "sales"
