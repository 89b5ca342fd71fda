"""The flow of a job as Step Functions would run it: its own definition, with a real run of the job and calls of a real server."""

import json
import re
import runpy
import shlex
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any
from unittest.mock import patch
from urllib.error import HTTPError

import pytest
from pyspark.sql import SparkSession

from graveler.api.call import MAX_KEY
from graveler.errors import BusyError, UnavailableError
from graveler.spark.jobs import export, gc, import_
from graveler.spark.jobs.frame import EXIT_CODES, parser_of
from infra.job_flow import ARCHIVE, ATTEMPTS, FINAL_CODES, JOBS, flow
from infra.spark_package import SOURCES
from tests.spark.listings import BASE, frame_of, latest, rows_of
from tests.spark.test_served import Scene, scene
from tests.support.proxy import FaultyProxy, Lost, Reply, Trouble

__all__ = ["scene"]

ARTIFACTS = "s3://artifacts"


class TaskError(Exception):
    """A state's task failed; ``name`` as the language has it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name, self.why = name, why


Tasks = Mapping[str, Callable[[Any], Any]]


CONTEXT: Mapping[str, Any] = {
    "Execution": {
        "Id": "arn:aws:states:eu-west-1:111122223333:execution:flow:nächtlich",
        "StartTime": "2026-01-31T02:00:00.000Z",
    }
}
"""What Step Functions tells of an execution, whose name may have any letters."""


def execute(machine: Mapping[str, Any], value: Any, tasks: Tasks, context: Mapping[str, Any] = CONTEXT) -> Any:
    """Run a state machine: as much of the language as the flow uses. Pauses are left out."""
    name = machine["StartAt"]
    while True:
        state = machine["States"][name]
        done: Any
        if state["Type"] == "Choice":
            name = next((rule["Next"] for rule in state["Choices"] if is_met(rule, value)), state["Default"])
            continue
        if state["Type"] == "Fail":
            raise TaskError(look(state["ErrorPath"], value), look(state["CausePath"], value))
        if state["Type"] == "Wait":
            assert look(state["SecondsPath"], value) > 0
            name = state["Next"]
            continue
        if state["Type"] == "Pass":
            done = state["Result"] if "Result" in state else filled(state["Parameters"], value, context)
        elif state["Type"] == "Map":
            assert state["MaxConcurrency"] == 1
            done = []
            for index, item in enumerate(look(state["ItemsPath"], value)):
                of_item = {**context, "Map": {"Item": {"Index": index, "Value": item}}}  # for the selector alone
                done.append(
                    execute(state["ItemProcessor"], filled(state["ItemSelector"], value, of_item), tasks, context)
                )
        else:
            assert state["Type"] == "Task"
            try:
                parameters = filled(state["Parameters"], value, context)
                done = attempt(state, tasks[state["Resource"].partition(":::")[2]], parameters)
            except TaskError as error:
                catches = state.get("Catch", [])
                caught = next((each for each in catches if {error.name, "States.ALL"} & set(each["ErrorEquals"])), None)
                if caught is None:
                    raise
                failure = {"Error": error.name, **({"Cause": error.why} if error.why else {})}
                value, name = {**value, caught["ResultPath"].removeprefix("$."): failure}, caught["Next"]
                continue
            done = filled(state["ResultSelector"], done) if "ResultSelector" in state else done
        value = {**value, state["ResultPath"].removeprefix("$."): done} if "ResultPath" in state else done
        if state.get("End"):
            return value
        name = state["Next"]


def attempt(state: Mapping[str, Any], task: Callable[[Any], Any], given: Any) -> Any:
    retries = state.get("Retry", [])
    left = [retry["MaxAttempts"] for retry in retries]
    while True:
        try:
            return task(given)
        except TaskError as error:
            for number, retry in enumerate(retries):
                if {error.name, "States.ALL"} & set(retry["ErrorEquals"]) and left[number]:
                    left[number] -= 1
                    break
            else:
                raise


def is_met(rule: Mapping[str, Any], value: Any) -> bool:
    if "IsPresent" in rule:
        *above, name = rule["Variable"].removeprefix("$.").split(".")
        return (name in look(".".join(above), value)) is rule["IsPresent"]
    given = look(rule["Variable"], value)
    if "NumericLessThanEquals" in rule:
        return bool(given <= rule["NumericLessThanEquals"])
    if "StringEquals" in rule:
        return bool(given == rule["StringEquals"])
    return fnmatchcase(given, rule["StringMatches"])


def filled(template: Any, value: Any, context: Mapping[str, Any] = CONTEXT) -> Any:
    """A template's fields; those whose name ends with ``.$`` are paths, or one of the functions that there are."""
    if not isinstance(template, dict):
        return template
    return {
        name.removesuffix(".$"): look(part, value, context) if name.endswith(".$") else filled(part, value, context)
        for name, part in template.items()
    }


def look(path: str, value: Any, context: Mapping[str, Any] = CONTEXT) -> Any:
    if path.startswith("$$."):
        return look(path.removeprefix("$"), context)
    if hashed := re.fullmatch(r"States\.Hash\((.*), 'SHA-256'\)", path):
        return sha256(look(hashed[1], value, context).encode()).hexdigest()
    if formatted := re.fullmatch(r"States\.Format\('(.*)'((?:, \$[\w.$]+)+)\)", path):
        return formatted[1].format(*(look(part, value, context) for part in formatted[2].split(", ")[1:]))
    if added := re.fullmatch(r"States\.MathAdd\((\$\.[\w.]+), (-?\d+)\)", path):
        return look(added[1], value) + int(added[2])
    if shown := re.fullmatch(r"States\.JsonToString\((\$\.\w+)\)", path):
        return json.dumps(look(shown[1], value))
    for name in path.removeprefix("$.").split("."):
        value = value[name]
    return value


def said_by_emr(code: int, err: str) -> str:
    """The cause of a failed run, in the words of EMR Serverless (awslabs/amazon-emr-cli#32 shows some)."""
    details = "Job failed, please check complete logs in configured logging destination."
    return json.dumps({"State": "FAILED", "StateDetails": f"{details} ExitCode: {code}. Last few exceptions: {err}"})


class Cloud:
    """EMR Serverless, which runs the packaged job in this process's session, and the connection that calls the API."""

    def __init__(self, bucket: Path, key: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
        self._bucket = bucket
        self._key = key
        self._capfd = capfd
        self.runs: list[dict[str, Any]] = []
        self.started = 0
        self.keys: list[str] = []
        """Those of the calls, in their order."""

    def run_job(self, given: Any) -> Any:
        self.started += 1
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
            raise TaskError("States.TaskFailed", said_by_emr(int(end.value.code), err))
        self.runs.append(json.loads(out.splitlines()[-1]))
        return {"JobRunId": "1", "State": "SUCCESS"}

    def call(self, given: Any) -> Any:
        request = urllib.request.Request(
            given["ApiEndpoint"], json.dumps(given["RequestBody"]).encode(), method=given["Method"]
        )
        request.add_header("content-type", "application/json")
        request.add_header("authorization", f"Basic {b64encode(':'.join(self._key).encode()).decode()}")
        for name, text in given["Headers"].items():
            assert text.isascii()
            request.add_header(name, text)
        self.keys.append(given["Headers"]["Idempotency-Key"])
        try:
            with urllib.request.urlopen(request) as answer:
                return {"StatusCode": answer.status, "ResponseBody": json.load(answer)}
        except HTTPError as error:
            with error:
                raise TaskError(f"States.Http.StatusCode.{error.code}", error.read().decode()) from None
        except (OSError, HTTPException) as error:
            raise TaskError("States.Http.Socket", str(error)) from None


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """The bucket of artifacts, with the jobs as the package has them."""
    copytree(SOURCES / "spark" / "jobs", tmp_path / "bucket" / JOBS)
    return tmp_path / "bucket"


def test_the_flow_imports_and_merges_once_also_if_the_answer_is_lost(
    spark: SparkSession, scene: Scene, bucket: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(Random(31), 40)
    frame_of(spark, rows).write.parquet(str(tmp_path / "listing.parquet"))
    scene.repository.create_branch("feed", "main")
    cloud = Cloud(bucket, scene.keys["writer"], capfd)
    asked: list[str] = []

    troubles: list[Trouble] = [Reply(429, b'{"message": "it goes on"}'), Reply(502, b"{}"), Lost(), Reply(504, b"{}")]

    def in_trouble_at_first(operation: str, ordinal: int) -> Trouble:
        asked.append(operation)
        return troubles[ordinal] if ordinal < len(troubles) else None

    with FaultyProxy(scene.server.url) as proxy:
        proxy.begin(in_trouble_at_first)
        machine = flow(
            application="app",
            role="role",
            artifacts=ARTIFACTS,
            environment={"GRAVELER_LAKE": str(scene.server.lake)},
            region="eu-west-1",
            conf={"spark.executor.memory": "14g"},
            endpoint=proxy.url,
            connection="connection",
        )
        calls = [{"method": "POST", "path": "/repositories/repo/refs/feed/merge/main", "body": {"message": "Nightly"}}]
        listing = ["--listing", str(tmp_path / "listing.parquet"), "--base", BASE, "--destination", "feed/"]
        arguments = ["--repository", "repo", "--branch", "feed", *listing, "--partitions", "2"]
        tasks: Tasks = {"emr-serverless:startJobRun.sync": cloud.run_job, "http:invoke": cloud.call}
        ended = execute(machine, {"job": "import_", "arguments": arguments, "calls": calls}, tasks)
        assert ended == [{"status": 200}]
        assert len(asked) == 5
        assert len(set(cloud.keys)) == 1
        assert cloud.runs[0]["objects"] == len(latest(rows))
        merged = scene.repository.commit_of("main")
        assert merged.message == "Nightly"
        assert "Nightly" not in {commit.message for commit in scene.repository.log(merged.parents[0]).results}
        assert len(list(scene.repository.objects("main", "feed/"))) == len(latest(rows))
        wrong = [*arguments[:3], "nowhere", *arguments[4:]]
        with pytest.raises(TaskError, match=r"States\.TaskFailed: .*error: import: ref 'nowhere' not found"):
            execute(machine, {"job": "import_", "arguments": wrong, "calls": calls}, tasks)
        assert cloud.started == 2, "what is wrong is not tried again"
        assert scene.repository.commit_of("main") == merged


@pytest.mark.parametrize("code", [*range(1, 11), 137, None])
def test_a_job_that_would_fail_again_is_not_run_again(code: int | None) -> None:
    machine = flow(application="app", role="role", artifacts=ARTIFACTS, environment={}, region="eu-west-1", conf={})
    begun: list[int | None] = []

    def fail(_: Any) -> Any:
        begun.append(code)
        if code is None:
            raise TaskError("States.Timeout", "")
        raise TaskError("States.TaskFailed", said_by_emr(code, "java.io.IOException: error=2"))

    with pytest.raises(TaskError, match=r"States\.Timeout" if code is None else f"ExitCode: {code}\\."):
        execute(machine, {"job": "gc", "arguments": []}, {"emr-serverless:startJobRun.sync": fail})
    final = {exit_code for kind, exit_code in EXIT_CODES.items() if kind not in (BusyError, UnavailableError)}
    assert set(FINAL_CODES) == final
    assert len(begun) == (1 if code in final else ATTEMPTS)


def test_a_job_that_recovers_goes_on_to_its_calls() -> None:
    machine = flow(
        application="app",
        role="role",
        artifacts=ARTIFACTS,
        environment={},
        region="eu-west-1",
        conf={},
        endpoint="https://lake",
        connection="c",
    )
    done: list[str] = []

    def busy_at_first(_: Any) -> Any:
        done.append("job")
        if len(done) == 1:
            raise TaskError("States.TaskFailed", said_by_emr(7, "error: import: busy"))
        return {"State": "SUCCESS"}

    def call(_: Any) -> Any:
        done.append("call")
        return {"StatusCode": 200}

    tasks: Tasks = {"emr-serverless:startJobRun.sync": busy_at_first, "http:invoke": call}
    given = {"job": "gc", "arguments": [], "calls": [{"method": "POST", "path": "/x", "body": {}}]}
    assert execute(machine, given, tasks) == [{"status": 200}]
    assert done == ["job", "job", "call"]


def calling() -> dict[str, Any]:
    """A flow that calls an API."""
    return flow(
        application="app",
        role="role",
        artifacts=ARTIFACTS,
        environment={},
        region="eu-west-1",
        conf={},
        endpoint="https://lake",
        connection="c",
    )


def called(items: int, context: Mapping[str, Any], failure: str = "") -> tuple[list[str], list[str]]:
    """Run a flow whose calls fail twice each, if there is a ``failure``: the keys of all requests, and of those that
    succeeded."""
    machine = calling()
    requests: list[str] = []
    done: list[str] = []

    def call(parameters: Any) -> Any:
        key = parameters["Headers"]["Idempotency-Key"]
        requests.append(key)
        if failure and requests.count(key) < 3:
            raise TaskError(failure, "")
        done.append(key)
        return {"StatusCode": 200}

    tasks: Tasks = {"emr-serverless:startJobRun.sync": lambda _: {}, "http:invoke": call}
    job_input = {"job": "gc", "arguments": [], "calls": [{"method": "POST", "path": "/x", "body": {}}] * items}
    execute(machine, job_input, tasks, context)
    return requests, done


def test_each_call_of_each_execution_has_a_key_of_its_own_that_its_repetitions_share() -> None:
    requests, done = called(3, CONTEXT, "States.Http.Socket")
    assert requests == [key for key in done for _ in range(3)]
    another = {"Execution": {**CONTEXT["Execution"], "StartTime": "2026-02-01T02:00:00.000Z"}}
    keys = done + called(3, another)[1]
    assert len(set(keys)) == 6
    assert called(3, CONTEXT)[1] == done  # also after a redrive
    for key in keys:
        assert len(key) <= MAX_KEY
        assert key.isascii()
        assert key.isprintable()


def test_every_error_of_the_server_is_repeated() -> None:
    for status in (429, *range(500, 600)):
        requests, done = called(1, CONTEXT, f"States.Http.StatusCode.{status}")
        assert (len(requests), len(done)) == (3, 1)


@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_what_is_gone_when_its_deletion_is_repeated_was_deleted(method: str) -> None:
    """A DELETE has no first answer to give again: after a lost one, what it deleted is not found."""
    answers = [TaskError("States.Http.Socket", ""), TaskError("States.Http.StatusCode.404", "ref not found"), None]

    def call(_: Any) -> Any:
        error = answers.pop(0)
        if error is not None:
            raise error
        return {"StatusCode": 200}

    calls = [{"method": each, "path": "/x", "body": {}} for each in (method, "POST")]
    tasks: Tasks = {"emr-serverless:startJobRun.sync": lambda _: {}, "http:invoke": call}
    job_input = {"job": "gc", "arguments": [], "calls": calls}
    if method == "DELETE":
        assert execute(calling(), job_input, tasks) == [{"status": 404}, {"status": 200}]
        return
    with pytest.raises(TaskError, match=r"^States\.Http\.StatusCode\.404: .*ref not found"):
        execute(calling(), job_input, tasks)


def test_what_is_wrong_with_a_call_is_told_at_once() -> None:
    for status in (400, 401, 403, 404, 409, 412):
        with pytest.raises(TaskError, match=str(status)):
            called(1, CONTEXT, f"States.Http.StatusCode.{status}")


def test_what_schedules_name_are_jobs_and_their_arguments() -> None:
    from tests.infra.conftest import SPARK_JOBS

    jobs = {"import_": import_.JOB, "export": export.JOB, "gc": gc.JOB}
    assert {path.stem for path in (SOURCES / "spark" / "jobs").glob("*.py")} == {*jobs, "command", "__init__", "frame"}
    for job in SPARK_JOBS.values():
        assert parser_of(jobs[job["job"]]).parse_args(job["arguments"]).repository == "sales"
