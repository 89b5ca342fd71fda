"""The shared code of all jobs: common arguments, the session, a summary line, metrics as a line of JSON, and error reports.

A job is a :class:`Job`; its module ends with ``if __name__ == "__main__": sys.exit(run_job(JOB))``. A user's mistake is reported
in one line on stderr, without a traceback, with the exit code that the command line tool has for this kind of error; the
scheduler (EMR, Step Functions) sees a failed job.
"""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from keyword import iskeyword
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import (
    BusyError,
    ConflictError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from graveler.lake.opening.location import LakeLocation, open_at
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.spark.locations import location_of, s3_settings, served_location_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from graveler.spark.served import ServedRepository

EXIT_CODES: Final[Mapping[type[GravelerError], int]] = {
    LaterVersionError: 10,
    InvalidError: 2,
    NotFoundError: 3,
    ConflictError: 4,
    PreconditionError: 5,
    ForbiddenError: 6,
    BusyError: 7,
    CorruptError: 8,
    UnavailableError: 9,
}
"""Exit codes by the kind of error: those of the command ``graveler``."""

_UNEXPECTED: Final = 1
_COMMON: Final = """\
where the lake is:
  --lake FOLDER, which driver and executors all see; or --objects s3://BUCKET/PREFIX and --tables dynamodb://TABLE.
  The driver and each executor find credentials in the same way as AWS's own tools.

output:
  a summary on stderr, and as the last line of stdout a JSON object with the job's figures.

exit codes:
  0 done; 2 invalid usage or input; 3 not found; 4 conflict; 5 not ready; 6 not allowed; 7 busy, try again;
  8 stored bytes are damaged; 9 disk, network, permission or executors failed; 1 a bug.
"""

Figures = Mapping[str, object]
"""The final figures of a job: JSON values by name."""


class Given(Struct, frozen=True):
    """The inputs of a job: the session, the lake's location, the repository (opened on the driver), and the job's own
    arguments."""

    spark: "SparkSession"
    location: LakeLocation | ServedLake
    reached: "OpenRepository | ServedRepository"
    arguments: argparse.Namespace

    @property
    def repository(self) -> OpenRepository:
        """The repository, for jobs that open the lake themselves."""
        assert isinstance(self.reached, OpenRepository)
        return self.reached


class Job(Struct, frozen=True):
    """One job. ``about`` is its help: its purpose, and examples. ``arguments`` adds its own to a parser; ``run`` does the work
    and returns a sentence for people and the figures. ``served``: the lake may be behind a server."""

    name: str
    about: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Given], tuple[str, Figures]]
    served: bool = False


def run_job(job: Job, argv: Sequence[str] | None = None, spark: "SparkSession | None" = None) -> int:
    """Run a job to its end and return the exit code. Without ``spark``, use the existing session, or the one that spark-submit
    configures."""
    arguments = parser_of(job).parse_args(argv)
    return reported(job.name, lambda: _run(job, arguments, spark))


def reported(name: str, work: Callable[[], int]) -> int:
    """Return the exit code of ``work``; an error becomes one line on stderr, with the job's ``name``, and the code of its
    kind."""
    try:
        return work()
    except GravelerError as error:
        _tell(f"error: {name}: {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        _tell(f"{name}: interrupted")
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver's log is where it is looked for
        if os.environ.get("GRAVELER_DEBUG") == "1":
            traceback.print_exc()
        _tell(
            f"error: {name}: this is a bug in graveler: {type(error).__name__}: {str(error)[:1000]} "
            "(set GRAVELER_DEBUG=1 to see where)"
        )
        return _UNEXPECTED


def _run(job: Job, arguments: argparse.Namespace, spark: "SparkSession | None") -> int:
    from graveler.spark.connect import expect_jvm  # pyspark: not for --help

    began = time.monotonic()
    location = served_location_of(vars(arguments)) if job.served else location_of(vars(arguments))
    with _reached(location, arguments) as repository:  # before waiting for Spark
        session = spark or session_of(job.name)
        expect_jvm(session, "a job", "run it with spark-submit, and unset SPARK_REMOTE")
        session.sparkContext.setJobDescription(f"graveler {job.name}: {arguments.repository}")
        summary, figures = job.run(Given(session, location, repository, arguments))
    seconds = round(time.monotonic() - began, 1)
    _tell(f"{job.name}: {summary} ({seconds:,} s)")
    sys.stdout.write(json.dumps({"job": job.name, "seconds": seconds, **figures}) + "\n")
    sys.stdout.flush()
    return 0


@contextmanager
def _reached(
    location: LakeLocation | ServedLake, arguments: argparse.Namespace
) -> "Iterator[OpenRepository | ServedRepository]":
    if isinstance(location, ServedLake):
        from graveler.spark.served import served_at  # urllib3: not for lakes that are opened themselves

        with closing(served_at(location, arguments.repository, s3_settings(vars(arguments)))) as served:
            yield served
    else:
        with open_at(location) as lake:
            yield lake.repository(arguments.repository)


def parser_of(job: Job) -> argparse.ArgumentParser:
    """Return the parser of a job's arguments, including those that all jobs have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m graveler.spark.jobs.{job.name}{'_' if iskeyword(job.name) else ''}",
        description=job.about,
        epilog=_COMMON,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    location_arguments(parser, served=job.served)
    parser.add_argument("--repository", required=True, metavar="NAME", help="the repository")
    job.arguments(parser)
    return parser


def location_arguments(parser: argparse.ArgumentParser, *, served: bool) -> None:
    """Add the arguments that locate the lake. ``served``: the lake may be behind a server."""
    where = parser.add_argument_group("where the lake is")
    where.add_argument("--lake", metavar="FOLDER", help="a lake in a folder [default: $GRAVELER_LAKE]")
    where.add_argument("--tables", metavar="URL", help="the table of a lake on AWS, dynamodb://TABLE")
    where.add_argument("--objects", metavar="URL", help="where it stores repositories, s3://BUCKET/PREFIX")
    if served:
        where.add_argument(
            "--endpoint", metavar="URL", help="a server, used with GRAVELER_ACCESS_KEY_ID and its secret"
        )
        where.add_argument(
            "--access-key-secret",
            metavar="ARN",
            help="read the access key from this secret in AWS Secrets Manager instead of the environment",
        )
    where.add_argument("--region", help="the region [default: from AWS's configuration]")
    where.add_argument("--s3-endpoint-url", metavar="URL", help="another S3-compatible server")
    where.add_argument("--dynamodb-endpoint-url", metavar="URL", help="another DynamoDB-compatible server")


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def exit_code(error: GravelerError) -> int:
    """Return the code of an error's group."""
    return next((code for group, code in EXIT_CODES.items() if isinstance(error, group)), _UNEXPECTED)


def session_of(name: str) -> "SparkSession":
    """Return the existing session, or the one that spark-submit configures; else one on this machine. ``name`` is the job's."""
    from pyspark.sql import SparkSession  # not for --help

    if os.environ.get("SPARK_ENV_LOADED") or "PYSPARK_GATEWAY_PORT" in os.environ or SparkSession.getActiveSession():
        return SparkSession.builder.appName(f"graveler {name}").getOrCreate()
    from graveler.spark.session import local_session

    return local_session(f"graveler {name}", cores=os.cpu_count() or 2)
