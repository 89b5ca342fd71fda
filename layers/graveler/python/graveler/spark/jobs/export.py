"""The job that exports a ref: ``python -m graveler.spark.jobs.export --help``."""

import argparse
import sys

from msgspec import to_builtins

from graveler.errors import InvalidError
from graveler.spark.jobs.frame import Figures, Given, Job, run_job

_ABOUT = """\
Export the objects of a ref's commit to a bucket's prefix, or to a folder: the executors write or remove those that differ from
an earlier export there. Or write a manifest of the files of a dataset, for engines that read paths.

examples:
  spark-submit … export.py --lake /data/lake --repository sales --ref main --destination s3://bucket/published --prefix tables/
  spark-submit … export.py --objects s3://lake/repos --tables dynamodb://lake --repository sales --ref v1 \\
      --destination s3://bucket/manifests/events --manifest symlink --prefix tables/events
  spark-submit … export.py --endpoint https://lake.example.com --repository sales --ref main --destination s3://bucket/published

With --endpoint, the server resolves the ref; objects and files of trees are read directly from where they are stored.

An interrupted export is finished by the next one to the same place, of any commit.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ref", required=True, help="branch, tag or commit")
    parser.add_argument("--destination", required=True, metavar="URL", help="s3://BUCKET/PREFIX or file:///FOLDER")
    parser.add_argument(
        "--prefix", default="", metavar="FOLDER/", help="only objects below this, which is removed from their paths"
    )
    parser.add_argument("--verify", action="store_true", help="check every object that was exported earlier")
    parser.add_argument(
        "--manifest", choices=("symlink", "parquet"), help="copy nothing: list the files of the dataset at --prefix"
    )
    parser.add_argument(
        "--objects-per-task", type=int, metavar="N", help="how many objects a task copies [default: 1000]"
    )


def _run(job: Given) -> tuple[str, Figures]:
    # pyspark and pyarrow: not for --help
    from graveler.spark.exports import OBJECTS_PER_TASK, export
    from graveler.spark.manifests import manifest

    arguments = job.arguments
    if arguments.manifest is not None:
        if arguments.verify:
            raise InvalidError("a manifest is always rewritten; leave out --verify")
        written_manifest = manifest(
            job.spark,
            job.reached,
            arguments.ref,
            arguments.prefix,
            arguments.destination,
            format=arguments.manifest,
        )
        summary = (
            f"{written_manifest.files:,} files ({written_manifest.size:,} bytes) of {arguments.ref!r} "
            f"named in {len(written_manifest.keys):,} files"
        )
        figures = {
            "commit": written_manifest.commit_id,
            "files": written_manifest.files,
            "size": written_manifest.size,
            "manifests": len(written_manifest.keys),
        }
        return f"{summary} at {arguments.destination}", figures
    report = export(
        job.spark,
        job.reached,
        arguments.ref,
        arguments.destination,
        prefix=arguments.prefix,
        verify=arguments.verify,
        objects_per_task=arguments.objects_per_task or OBJECTS_PER_TASK,
    )
    summary = f"wrote {report.written:,} objects ({report.size:,} bytes) and removed {report.removed:,}"
    return f"{summary} at {arguments.destination}, now at commit {report.commit_id[:16]}", to_builtins(report)


JOB = Job("export", _ABOUT, _arguments, _run, served=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
