"""Spark: on EMR Serverless by the deployment's own flow, or beside an emulator, which has no EMR, on this machine. The same jobs
with the same arguments."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from infra import spark_package
from infra.acceptance.deployment import CheckError, Deployment, expect
from infra.job_flow import JOBS

ROOT: Final = Path(__file__).resolve().parents[3]
LISTING: Final = ROOT / "infra" / "acceptance" / "listing_job.py"
_API: Final = "/api/v1"
_JOB_SECONDS: Final = 3 * 3600
_SAMPLES: Final = 5


class Jobs(Protocol):
    """Runs jobs, and has a place for what they give one another."""

    @property
    def place(self) -> str:
        """URL of a folder that all jobs write to and read from."""

    def run(self, job: str, arguments: Sequence[str]) -> None:
        """To its end. :class:`CheckError` if it failed."""


def import_listing(deployment: Deployment) -> str:
    """A listing of as many rows as the run was asked for, made by one job and imported by the next; again, under the same name of
    the request, which makes no second commit; and a smaller one over it, which removes the rest."""
    jobs: Jobs = LocalJobs(deployment) if deployment.emulated else EmrJobs(deployment)
    repo = deployment.repository("spark")
    rows, fewer = deployment.rows, deployment.rows // 2
    base = f"s3://{deployment.bucket}/{repo.id}/data/"

    def imported(count: int, request: str) -> str:
        listing = f"{jobs.place}/{repo.id}/{count}"
        if request.endswith("1"):
            jobs.run("acceptance_listing", ["--rows", str(count), "--into", listing])
        jobs.run(
            "import_",
            [
                *("--repository", repo.id, "--branch", "main", "--listing", listing, "--format", "parquet"),
                *("--base", base, "--message", f"{count:,} rows", "--request-id", request[:-1]),
            ],
        )
        return str(repo.branch("main").head.id)

    first = imported(rows, f"{repo.id}-all1")
    again = imported(rows, f"{repo.id}-all2")
    expect(first == again, "the same request made a second commit")
    _compare(deployment, repo.id, first, rows)
    second = imported(fewer, f"{repo.id}-half1")
    _compare(deployment, repo.id, second, fewer)
    where = "Spark on this machine, not on EMR Serverless" if deployment.emulated else "EMR Serverless"
    return f"{rows:,} rows and then {fewer:,}, by {where}; the same request again made no commit"


def _compare(deployment: Deployment, repository: str, commit: str, rows: int) -> None:
    """The commit has the rows, and no others."""
    told = deployment.expect(200, "GET", f"{_API}/repositories/{repository}/refs/{commit}/usage").json()
    expect(told["objects"] == rows, f"commit {commit[:16]} has {told['objects']:,} objects, not {rows:,}")
    for sample in range(_SAMPLES):
        number = (rows - 1) * sample // (_SAMPLES - 1)
        query = {"path": f"part={number % 1000:04}/{number:012}.parquet"}
        stat = deployment.expect(
            200, "GET", f"{_API}/repositories/{repository}/refs/{commit}/objects/stat", query=query
        ).json()
        expect(stat["size_bytes"] == number % 100_000, f"{query['path']} is {stat}")


class EmrJobs:
    """The deployment's flow. Jobs and their environment came to the bucket of artifacts with it; only the job that makes listings
    is another."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        artifacts = deployment.outputs["SparkArtifacts"]
        deployment.aws("s3").upload_file(str(LISTING), artifacts, f"{JOBS}/acceptance_listing.py")

    @property
    def place(self) -> str:
        """In the lake's bucket, to which jobs may write."""
        return f"s3://{self._deployment.bucket}/acceptance-listings"

    def run(self, job: str, arguments: Sequence[str]) -> None:
        """By an execution of the flow."""
        states = self._deployment.aws("stepfunctions")
        began = states.start_execution(
            stateMachineArn=self._deployment.outputs["SparkFlow"],
            input=json.dumps({"job": job, "arguments": list(arguments), "calls": []}),
        )["executionArn"]

        def described() -> dict[str, str]:
            told: dict[str, str] = states.describe_execution(executionArn=began)
            return told

        self._deployment.until(lambda: described()["status"] != "RUNNING", f"the end of job {job}", _JOB_SECONDS)
        ended = described()
        if ended["status"] != "SUCCEEDED":
            raise CheckError(f"job {job} ended as {ended['status']}: {ended.get('cause', 'no cause told')[:500]}")


class LocalJobs:
    """Beside an emulator: Spark in one process, from ``.venv-spark``, on the same table and bucket."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    @property
    def place(self) -> str:
        """A folder of this machine."""
        return f"{self._deployment.folder.absolute()}/listings"

    def run(self, job: str, arguments: Sequence[str]) -> None:
        """By the interpreter that has Spark."""
        file = LISTING if job == "acceptance_listing" else spark_package.SOURCES / "spark" / "jobs" / f"{job}.py"
        places = {
            "GRAVELER_LAKE": f"dynamodb://{self._deployment.table}",
            "GRAVELER_OBJECTS": f"s3://{self._deployment.bucket}",
            "AWS_REGION": self._deployment.region,
            "AWS_DEFAULT_REGION": self._deployment.region,
        }
        done = subprocess.run(
            [ROOT / ".venv-spark" / "bin" / "python", file, *arguments],
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CheckError(f"job {job} ended with exit code {done.returncode}: {done.stderr[-500:]}")
