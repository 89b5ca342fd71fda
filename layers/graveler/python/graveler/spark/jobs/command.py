"""The job that runs one command of ``graveler``: ``python -m graveler.spark.jobs.command --help``."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from graveler.errors import InvalidError
from graveler.location.environment import KEY_ID, LOGIN, SECRET, TOKEN, ServedLake
from graveler.spark.jobs.frame import location_arguments, reported, session_of
from graveler.spark.locations import LOCATION_OPTIONS, served_location_of
from graveler.system.secret_variables import handed_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "command"
_ABOUT: Final = """\
Run one command of `graveler` as a step of a pipeline: commit, merge, tag, or any other. The options of this job come before the
command, the command's own options after it.

examples:
  spark-submit … command.py --endpoint https://lake.example.com --access-key-secret arn:aws:secretsmanager:… \\
      merge lakefs://sales/feed lakefs://sales/main -m "Nightly"
  spark-submit … command.py --objects s3://lake/repos --tables dynamodb://lake tag create lakefs://sales/2026-01-31 main

With --endpoint, the server checks permissions by access key; with --objects and --tables, the job's role needs the permissions
that the command requires in the bucket and the table.
"""
_EPILOG: Final = """\
output:
  that of the command. A refused command, such as a merge with conflicts, prints the reason on stderr, in a line that starts
  with "error:", and its nonzero exit code becomes the job's: the step has failed.

`graveler --help` lists the commands and exit codes.
"""


def main(argv: Sequence[str] | None = None, spark: "SparkSession | None" = None) -> int:
    """Run the command and return its exit code. Without ``spark``, use the existing session, or the one that spark-submit
    configures."""
    arguments = parser().parse_args(argv)
    return reported(_NAME, lambda: _run(arguments, spark))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the job's arguments; ``command`` is a list of words."""
    argument_parser = argparse.ArgumentParser(
        prog=f"python -m graveler.spark.jobs.{_NAME}",
        description=_ABOUT,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    location_arguments(argument_parser, served=True)
    argument_parser.add_argument("command", nargs="...", metavar="COMMAND …", help="the command and its arguments")
    return argument_parser


def _run(arguments: argparse.Namespace, spark: "SparkSession | None") -> int:
    if not arguments.command:
        raise InvalidError("give a command, such as `merge lakefs://REPOSITORY/SOURCE lakefs://REPOSITORY/DESTINATION`")
    location = served_location_of(vars(arguments))  # before waiting for Spark
    if spark is None:
        # YARN treats an application without a SparkContext as failed; create it first, so that nothing fails after a merge.
        session_of(_NAME)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    if isinstance(location, ServedLake):
        options = ["--endpoint", location.url]
        if location.key_id:  # else the environment says how to log in
            environment = {name: value for name, value in environment.items() if name not in (LOGIN, TOKEN)}
            environment |= {KEY_ID: location.key_id, SECRET: location.secret}
    else:
        location_values = ((name, getattr(arguments, name)) for name in LOCATION_OPTIONS)
        options = [word for name, value in location_values if value for word in (f"--{name.replace('_', '-')}", value)]
    # A separate process: the command line owns its standard streams, and no layer below it may import it.
    command = [sys.executable, "-m", "graveler.cli", *options, *arguments.command]
    with handed_on(environment) as (shown, descriptors):
        return subprocess.run(
            command, env=shown, pass_fds=descriptors, stdin=subprocess.DEVNULL, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
