"""The job that collects garbage: ``spark-submit -m graveler.spark.jobs.gc``."""

import argparse
import sys
from typing import Final

from msgspec import to_builtins

from graveler.errors import InvalidError
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.rate_limit import RATE
from graveler.retention.report import is_possible
from graveler.retention.runs import Mode
from graveler.spark.jobs.frame import Figures, Given, Job, run_job

_ABOUT: Final = """\
Remove objects that no ref, uncommitted change or rule needs, and history that no ref reaches. Works like `graveler gc run`, with
the same runs, rules and reports, but distributes the work to the executors.

examples:
  spark-submit … gc.py --lake /data/lake --repository sales --dry-run
  spark-submit … gc.py --objects s3://lake/repos --tables dynamodb://lake --repository sales --delete --rate 3000

An interrupted run is finished by the next one, on Spark or not.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    how.add_argument(
        "--quarantine",
        action="store_true",
        help="keep removed files in quarantine for a week; the default for the first run",
    )
    how.add_argument("--delete", action="store_true", help="delete files at once; the default for later runs")
    parser.add_argument(
        "--rate", type=float, default=RATE, metavar="N", help="how many files to remove per second, at most"
    )
    parser.add_argument("--partitions", type=int, metavar="N", help="intervals of the listing; default: three per core")


def _run(job: Given) -> tuple[str, Figures]:
    from graveler.spark.garbage_tasks import SparkEngine  # pyspark: not for --help

    arguments = job.arguments
    if arguments.rate <= 0 or (arguments.partitions is not None and arguments.partitions < 1):
        raise InvalidError("--rate and --partitions must be positive")
    mode = Mode.QUARANTINE if arguments.quarantine else Mode.DELETE if arguments.delete else None
    repository = job.repository
    options = Options(
        mode,
        repository.grace,
        repository.skew,
        repository.table_grace,
        rate=arguments.rate,
        parquet=is_possible(),
    )
    garbage = Garbage(job.repository, options, SparkEngine(job.spark, parts=arguments.partitions))
    summary = garbage.plan() if arguments.dry_run else garbage.run()
    files = sum(tally.files for tally in summary.plan.found.values())
    size = sum(tally.bytes for tally in summary.plan.found.values())
    line = (
        f"run {summary.plan.run}, {summary.plan.mode.value}: {files:,} files ({size:,} bytes) to collect; "
        f"{summary.plan.commits:,} commits, {summary.plan.ranges_read:,} of {summary.plan.ranges:,} ranges read"
    )
    figures = {
        "run": summary.plan.run,
        "mode": summary.plan.mode.value,
        "found": to_builtins(summary.plan.found),
        "outcomes": to_builtins(summary.outcomes),
        "ranges": summary.plan.ranges,
        "ranges_read": summary.plan.ranges_read,
    }
    return line, figures


JOB = Job("gc", _ABOUT, _arguments, _run)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
