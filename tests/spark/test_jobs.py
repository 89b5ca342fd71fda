"""Jobs as spark-submit runs them: arguments, output, exit codes; and the job that imports."""

import json
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from graveler.cli import exits
from graveler.errors import (
    BusyError,
    DamagedFileError,
    GravelerError,
    LaterVersionError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.lake.opening.folder import open_folder_lake
from graveler.spark.jobs.frame import EXIT_CODES, Figures, Given, Job, exit_code, run_job
from graveler.spark.jobs.import_ import JOB
from tests.spark.listings import BASE, frame_of, make_repository, rows_of, tree_of


def no_arguments(parser: ArgumentParser) -> None:
    """None."""


def failing(error: BaseException) -> Job:
    def run(given: Given) -> tuple[str, Figures]:
        raise error

    return Job("failing", "A job that fails.", no_arguments, run)


def test_exit_codes_are_those_of_the_command_line() -> None:
    for kind, code in EXIT_CODES.items():
        error = LaterVersionError("why", 2, 1) if kind is LaterVersionError else kind("why")
        assert code == exits.exit_code(error)
    assert exit_code(RefNotFoundError("x")) == 3
    assert exit_code(DamagedFileError("range", "n", "is missing")) == 8
    assert exit_code(GravelerError("?")) == 1


def test_help_teaches_and_needs_no_spark() -> None:
    program = "import sys; from graveler.spark.jobs.import_ import *; code = None\ntry: run_job(JOB, ['--help'])\n"
    program += "except SystemExit as end: code = end.code\nassert not {'pyspark', 'pyarrow'} & set(sys.modules); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in (
        "--inventory",
        "--destination",
        "spark-submit",
        "exit codes:",
        "python -m graveler.spark.jobs.import_ ",
    ):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RefNotFoundError("nowhere"), 3, "error: failing: ref 'nowhere' not found"),
        (NoChangesError("nothing to do"), 5, "error: failing: nothing to do"),
        (BusyError("others are in the way"), 7, "error: failing: others are in the way"),
        (
            ZeroDivisionError("1/0"),
            1,
            "error: failing: this is a bug in graveler: ZeroDivisionError: 1/0 (set GRAVELER_DEBUG=1",
        ),
        (KeyboardInterrupt(), 130, "failing: interrupted"),
    ],
)
def test_failures_are_one_line_without_a_traceback(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, said: str
) -> None:
    make_repository(tmp_path / "lake")
    assert run_job(failing(error), ["--lake", str(tmp_path / "lake"), "--repository", "repo"], spark) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_what_is_missing_is_said_before_spark_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_repository(tmp_path / "lake")
    job = failing(AssertionError("never"))
    assert run_job(job, ["--lake", str(tmp_path / "none"), "--repository", "repo"]) == 3
    assert "there is no lake in" in capsys.readouterr().err
    assert run_job(job, ["--lake", str(tmp_path / "lake"), "--repository", "other"]) == 3
    assert "repository 'other' does not exist" in capsys.readouterr().err
    assert run_job(job, ["--lake", str(tmp_path / "lake"), "--region", "x", "--repository", "repo"]) == 2
    assert "region is only for a lake on AWS" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run_job(job, ["--lake", str(tmp_path / "lake")])


def test_the_import_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository = make_repository(tmp_path / "lake")
    rows = rows_of(Random(11), 60, duplicates=0.1)
    listing = str(tmp_path / "listing.csv")
    frame_of(spark, rows).write.option("header", True).option("escape", '"').csv(listing)
    common = ["--lake", str(tmp_path / "lake"), "--repository", "repo", "--branch", "main", "--base", BASE]
    arguments = [*common, "--listing", listing, "--partitions", "2", "--message", "By a job", "--committer", "ann"]
    assert run_job(JOB, [*arguments, "--request-id", "r1"], spark) == 0
    out, err = capsys.readouterr()
    figures = json.loads(out.splitlines()[-1])
    repository = open_folder_lake(tmp_path / "lake").repository("repo")
    commit = repository.commit_of("main")
    assert (commit.message, commit.committer) == ("By a job", "ann")
    assert commit.metarange == tree_of(repository, rows).name()
    assert figures["job"] == "import"
    assert figures["commit"] == commit.id
    assert figures["objects"] + figures["duplicates"] == 60
    assert f"import: {figures['objects']:,} objects" in err
    assert run_job(JOB, [*arguments, "--request-id", "r1"], spark) == 0
    assert "was created by an earlier run of this request" in capsys.readouterr().err
    assert figures["changes"]["added"] == figures["objects"]
    mistyped = [*arguments, "--source", "mistyped/"]
    assert run_job(JOB, mistyped, spark) == 2
    assert "lists no objects for ''" in capsys.readouterr().err
    assert run_job(JOB, [*mistyped, "--allow-empty", "--dry-run"], spark) == 0
    out, err = capsys.readouterr()
    assert f"no commit, a dry run: 0 added, 0 replaced, {figures['objects']:,} removed, 0 unchanged" in err
    planned = json.loads(out.splitlines()[-1])
    assert (planned["commit"], planned["changes"]["removed"]) == (None, figures["objects"])
    assert repository.commit_of("main").id == commit.id
    with (tmp_path / "bad.csv").open("w") as file:
        file.write("key,size,etag\na,1,00\nb,many,00\nc\n")
    assert run_job(JOB, [*common, "--listing", str(tmp_path / "bad.csv"), "--partitions", "1"], spark) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "bad row: b: column 'size': 'many' is not a number of bytes, such as 1024" in err
    assert "bad.csv: 2 rows cannot be imported, but only 0 are allowed; nothing was committed" in err
    assert run_job(JOB, [*common, "--listing", str(tmp_path / "none.parquet")], spark) == 3
    assert "none.parquet" in capsys.readouterr().err
    assert run_job(JOB, [*common, "--listing", str(tmp_path)], spark) == 2
    assert "is unknown; name it: parquet, orc, csv" in capsys.readouterr().err
    assert run_job(JOB, [*common, "--prefix", "s3://b/x/"], spark) == 2
    assert "leave out --source and --base" in capsys.readouterr().err
