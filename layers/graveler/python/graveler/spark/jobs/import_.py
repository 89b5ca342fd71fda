"""The job that imports a listing: ``python -m graveler.spark.jobs.import_ --help``."""

import argparse
import sys

from msgspec import to_builtins
from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.requests.importing import ListingOptions
from graveler.spark.jobs.frame import Figures, Given, Job, run_job

_ABOUT = """\
Import the objects in a listing, in place, as one commit on a branch. They replace everything under the destination: objects
that are not listed are removed there, so an empty listing is refused without --allow-empty. Nothing is copied, and the objects
themselves are not examined. --dry-run shows what would be added, replaced and removed.

The listing is one of
  --inventory s3a://BUCKET/…/manifest.json   an S3 Inventory, of CSV, Parquet or ORC; or its symlink.txt
  --listing PATH …                           tables in files or folders: key, size, checksum (ETag), mtime, and more
  --prefix s3://BUCKET/FOLDER/               all objects whose address starts with this, listed in parallel

examples:
  spark-submit … import_.py --lake /data/lake --repository sales --branch main --listing objects.parquet --base s3://bucket/
  spark-submit … import_.py --objects s3://lake/repos --tables dynamodb://lake --repository sales --branch main \\
      --inventory s3a://inventories/data/daily/2026-01-01T01-00Z/manifest.json --source tables/ --destination tables/
  spark-submit … import_.py --endpoint https://lake.example.com --repository sales --branch main --listing s3a://b/objects.parquet

With --endpoint, the server checks permissions and creates the commit; files of the tree go directly to the repository's bucket.
An interrupted import continues where it stopped if the job is run again with the same listing within six hours.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--branch", required=True, help="the branch to commit to")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--inventory", metavar="MANIFEST", help="manifest.json, or symlink.txt, of an S3 Inventory")
    source.add_argument("--listing", metavar="PATH", nargs="+", help="tables in files or folders")
    source.add_argument("--prefix", metavar="URL", help="a prefix of addresses")
    parser.add_argument(
        "--format", choices=("parquet", "orc", "csv"), default="", help="format of --listing [default: by suffix]"
    )
    parser.add_argument("--columns", metavar="A,B,C", default="", help="the columns of CSV files without a header")
    parser.add_argument(
        "--url-encoded", action="store_true", help="keys are URL-encoded; those of a CSV inventory always are"
    )
    parser.add_argument(
        "--source", metavar="PREFIX", default="", help="only keys or URLs that start with this, which is removed"
    )
    parser.add_argument("--destination", metavar="FOLDER/", default="", help="prepended to keys [default: the root]")
    parser.add_argument("--base", metavar="URL", default="", help="URL that the keys are appended to")
    parser.add_argument("--folders", action="store_true", help="include empty objects whose key ends with a slash")
    parser.add_argument("--partitions", type=int, metavar="N", help="number of tasks [default: one per million rows]")
    parser.add_argument(
        "--max-bad-rows", type=int, default=0, metavar="N", help="how many rows may be left out [default: 0]"
    )
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="accept an empty listing, which removes everything at the destination",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, without changing it")
    parser.add_argument("--message", default="", help="the commit message")
    parser.add_argument("--committer", default="", help="the committer")
    parser.add_argument(
        "--request-id", default="", metavar="ID", help="a repeated request returns the commit of the first"
    )


def _run(job: Given) -> tuple[str, Figures]:
    # pyspark and pyarrow: not for --help
    from graveler.spark.importing import BadRowsError, import_listing
    from graveler.spark.listing_sources import list_prefix, read_inventory, read_tables

    arguments = job.arguments
    options = ListingOptions(
        arguments.source, arguments.destination, arguments.base, (), arguments.url_encoded, arguments.folders
    )
    if arguments.prefix is not None:
        if arguments.source or arguments.base:
            raise InvalidError(
                "--prefix gives both the place of the objects and the prefix to remove; leave out --source and --base"
            )
        rows, label, checkpoint = list_prefix(job.spark, job.reached, arguments.prefix), arguments.prefix, ""
    else:
        columns = [name.strip() for name in arguments.columns.split(",") if name.strip()]
        source = (
            read_tables(job.spark, arguments.listing, arguments.format, columns)
            if arguments.inventory is None
            else read_inventory(job.spark, arguments.inventory, columns)
        )
        options = replace(options, url_encoded=arguments.url_encoded or source.url_encoded)
        rows, label, checkpoint = source.rows, source.label, source.version
    try:
        report = import_listing(
            job.spark,
            job.reached,
            arguments.branch,
            rows,
            options,
            message=arguments.message or f"Import {label}",
            committer=arguments.committer,
            partitions=arguments.partitions,
            max_bad_rows=arguments.max_bad_rows,
            checkpoint=checkpoint,
            label=label,
            request_id=arguments.request_id,
            allow_empty=arguments.allow_empty,
            dry_run=arguments.dry_run,
        )
    except BadRowsError as error:
        for row in error.samples:
            sys.stderr.write(f"bad row: {row.name}: {row.why}\n")
        raise
    changes = report.changes
    figures = {
        "commit": report.commit.id or None,
        "metarange": report.commit.metarange_id,
        "changes": to_builtins(changes),
    }
    changed = ", ".join(
        f"{number:,} {change}"
        for number, change in (
            (changes.added, "added"),
            (changes.replaced, "replaced"),
            (changes.removed, "removed"),
            (changes.unchanged, "unchanged"),
        )
    )
    if report.built is None:
        return f"commit {report.commit.id[:16]} was created by an earlier run of this request: {changed}", figures
    built = report.built
    outcome = "no commit, a dry run" if arguments.dry_run else f"commit {report.commit.id[:16]}"
    line = (
        f"{built.objects:,} objects ({built.size:,} bytes) in {built.ranges:,} ranges to {arguments.branch!r}, {outcome}: "
        f"{changed}; "
        f"{built.duplicates:,} duplicates, {built.bad:,} bad rows, {built.resumed:,} objects from an earlier run"
    )
    return line, {**figures, **to_builtins(built)}


JOB = Job("import", _ABOUT, _arguments, _run, served=True)

if __name__ == "__main__":
    sys.exit(run_job(JOB))
