"""Steps on an EMR cluster: those of the page fit the API, and spark-submit runs them against a server."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pyspark
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, StringShape, StructureShape
from botocore.validate import ParamValidator
from pyspark.sql import SparkSession

from graveler.spark.jobs import command, export, gc, import_
from graveler.spark.jobs.frame import parser_of
from infra import spark_package
from infra.job_flow import ARCHIVE, JOBS
from tests.spark.test_served import Scene, scene
from tests.storage.adapters import CREDENTIALS
from tests.support.campaigns import WHOLE
from tests.support.secrets import secrets_manager
from tests.support.servers import REGION

__all__ = ["scene"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
CODE = "s3://code"


def shown() -> list[dict[str, Any]]:
    """The steps of the page."""
    found = re.search(r"^cat > steps\.json <<'END'\n(.*?)^END$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    steps = json.loads(found[1])
    assert isinstance(steps, list)
    return steps


def as_request(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `aws emr add-steps` makes of them: a step of type Spark is spark-submit by command-runner.jar."""
    return {
        "JobFlowId": "j-2AXXXXXXGAPLF",
        "Steps": [
            {
                "Name": step["Name"],
                "ActionOnFailure": step["ActionOnFailure"],
                "HadoopJarStep": {"Jar": "command-runner.jar", "Args": ["spark-submit", *step["Args"]]},
            }
            for step in steps
        ],
    }


def test_the_steps_of_the_page_fit_the_api() -> None:
    model = ServiceModel(Loader().load_service_model("emr", "service-2"), "emr")
    shape = model.operation_model("AddJobFlowSteps").input_shape
    assert isinstance(shape, StructureShape)
    request = as_request(shown())
    problems = ParamValidator().validate(request, shape)
    assert not problems.has_errors(), problems.generate_report()
    action = model.shape_for("ActionOnFailure")
    assert isinstance(action, StringShape)
    actions = action.enum  # which the validator does not look at
    for step, made in zip(shown(), request["Steps"], strict=True):
        assert set(step) == {"Type", "Name", "ActionOnFailure", "Args"}
        assert step["Type"] == "Spark"
        assert made["ActionOnFailure"] in actions
        assert sum(map(len, made["HadoopJarStep"]["Args"])) < 10_240, "all that the API takes"


def test_the_steps_of_the_page_have_arguments_that_their_jobs_take() -> None:
    parsers = {
        "command": command.parser(),
        **{job.__name__.rpartition(".")[2]: parser_of(job.JOB) for job in (export, gc, import_)},
    }
    names = []
    for step in shown():
        (entry,) = (word for word in step["Args"] if word.startswith(f"{CODE}/{JOBS}/"))
        names.append(entry.removeprefix(f"{CODE}/{JOBS}/").removesuffix(".py"))
        parsers[names[-1]].parse_args(step["Args"][step["Args"].index(entry) + 1 :])
        assert f"{CODE}/{ARCHIVE}#environment" in step["Args"]
    assert names == ["import_", "command", "command"]


@pytest.fixture(scope="module")
def kept(scene: Scene) -> Iterator[dict[str, str]]:
    """The environment of a step whose role reads secrets: the ARN of one with a writer's key is ``ARN``."""
    key_id, secret = scene.keys["writer"]
    text = json.dumps({"access_key_id": key_id, "secret_access_key": secret, "name": "writer", "role": "writer"})
    with secrets_manager() as url:
        environment = {**CREDENTIALS, "AWS_ENDPOINT_URL_SECRETS_MANAGER": url, "AWS_DEFAULT_REGION": REGION}
        with patch.dict(os.environ, environment):
            secrets = boto3.client("secretsmanager", region_name="eu-central-1")
            arn = secrets.create_secret(Name="lake/key", SecretString=text)["ARN"]
            elsewhere = boto3.client("secretsmanager")  # in the region of the configuration
            elsewhere.create_secret(Name="lake/other", SecretString='{"username": "s3cr3t"}')
        yield {**environment, "ARN": arn}


def test_a_command_as_a_step(
    spark: SparkSession, scene: Scene, kept: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    repository = scene.repository
    for branch in ("steps", "feed", "other"):
        repository.create_branch(branch, "main")
    repository.upload("feed", "a", b"1")

    def step(*words: str, secret: str = kept["ARN"]) -> tuple[int, str, str]:
        arguments = ["--endpoint", scene.server.url, "--access-key-secret", secret, *words]
        with patch.dict(os.environ, kept):
            code = command.main(arguments, spark)
        return code, *capfd.readouterr()

    assert step("commit", "lakefs://repo/feed", "-m", "By a step")[0] == 0
    assert (repository.commit_of("feed").message, repository.commit_of("feed").committer) == ("By a step", "writer")
    code, out, _ = step("merge", "lakefs://repo/feed", "steps", "--json")
    assert code == 0
    assert repository.branch("steps").commit_id in out, "what the command prints is what the job prints"
    assert json.loads(out)
    assert step("tag", "create", "lakefs://repo/night", "steps")[0] == 0
    assert repository.commit_of("night").id == repository.branch("steps").commit_id

    repository.upload("other", "a", b"2")
    assert step("commit", "lakefs://repo/other", "-m", "Something else")[0] == 0
    head = repository.branch("steps")
    code, out, err = step("merge", "lakefs://repo/other", "steps")
    assert (code, out) == (4, "")
    assert err.startswith("error: merging 'other' into 'steps'")
    assert repository.branch("steps") == head

    for secret, code, said in (
        ("lake/none", 3, "error: command: secret 'lake/none' does not exist"),
        ("lake/other", 2, "error: command: secret 'lake/other' does not contain an access key"),
    ):
        got, _, err = step("log", "lakefs://repo/main", secret=secret)
        assert (got, "s3cr3t" in err) == (code, False)
        assert err.startswith(said)
    code, _, err = step()
    assert code == 2
    assert "give a command" in err
    with patch.dict(os.environ, kept):
        assert command.main(["--lake", str(scene.server.lake), "--access-key-secret", kept["ARN"], "log"], spark) == 2
    assert "is only for a server" in capfd.readouterr().err
    said_by_lake = ["--lake", str(scene.server.lake), "log", "lakefs://repo/night", "--json"]
    assert command.main(said_by_lake, spark) == 0, "a lake that the step's own role has rights to"
    assert "By a step" in capfd.readouterr().out


@pytest.mark.ci
def test_the_steps_of_the_page_run_by_spark_submit(scene: Scene, kept: dict[str, str], tmp_path: Path) -> None:
    """With the interpreter of the packaged environment, which has no other packages; Spark's own come with spark-submit."""
    machine = "arm64" if os.uname().machine == "aarch64" else "x86_64"
    archive = spark_package.build(machine, tmp_path)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "environment", filter="data")
    listing = tmp_path / "listing.csv"
    listing.write_text("key,size,etag\nraw/a,1,00\nraw/b,2,00\n")
    scene.repository.create_branch("nightly", "main")
    scene.repository.create_branch("released", "main")
    python = str(tmp_path / "environment" / "bin" / "python")
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GRAVELER_", "PYTHON", "PYSPARK", "SPARK"))
    }
    home = Path(pyspark.__file__).parent
    environment = {
        **own,
        **kept,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GRAVELER_PYTHON": f"{sys.base_prefix}/bin/python3",
        "PYSPARK_PYTHON": python,
    }
    here = {
        f"{CODE}/{ARCHIVE}": str(archive),
        f"{CODE}/{JOBS}": str(tmp_path / JOBS),
        "https://lake.example.com": scene.server.url,
        "arn:aws:secretsmanager:eu-central-1:111122223333:secret:lake/key-AbCdEf": kept["ARN"],
        "s3://inventories/objects.csv": str(listing),
        "lakefs://sales/feed": "lakefs://repo/nightly",
        "lakefs://sales/main": "lakefs://repo/released",
        "lakefs://sales/": "lakefs://repo/",
    }

    def submit(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        local = ["--master", "local[1]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
        command_line = [str(home / "bin" / "spark-submit"), *local, *words]
        return subprocess.run(
            command_line,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def localised(words: Sequence[str]) -> list[str]:
        found = []
        for word in words:
            for there, place in here.items():
                word = word.replace(there, place)
            found.append({"sales": "repo", "feed": "nightly", "main": "released"}.get(word, word))
        at = found.index("--deploy-mode")
        assert found[at + 1] == "cluster"
        return found[:at] + found[at + 2 :]

    for step in shown():
        done = submit(localised(step["Args"]))
        assert done.returncode == 0, (step["Name"], done.stdout[-3000:], done.stderr[-3000:])
    tags = scene.repository.tags().results
    assert [tag.commit_id for tag in tags if tag.name.startswith("nightly/")] == [
        scene.repository.branch("released").commit_id
    ]
    assert [entry.path for entry in scene.repository.objects("released", "tables/")] == ["tables/a", "tables/b"]
    if not WHOLE:
        return  # the conflict is met above, without spark-submit

    scene.repository.upload("nightly", "tables/a", b"1")
    scene.repository.commit("nightly", "Another a")
    scene.repository.upload("released", "tables/a", b"2")
    scene.repository.commit("released", "A third a")
    (merge,) = (step for step in shown() if "merge" in step["Args"])
    head = scene.repository.branch("released")
    done = submit(localised(merge["Args"]))
    assert done.returncode == 4, (done.stdout[-3000:], done.stderr[-3000:])
    said = done.stdout  # in which spark-submit gives all that a Python driver writes
    assert "error: merging 'nightly' into 'released'" in said
    assert "Traceback" not in said
    assert scene.repository.branch("released") == head
