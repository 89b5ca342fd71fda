"""Garbage collection on Spark finds, removes and reports the same as one process."""

import json
import os
import re
from pathlib import Path
from random import Random
from shutil import copytree

import pytest
from pyspark.sql import SparkSession

from graveler.errors import CorruptError, GravelerError, NoChangesError
from graveler.lake.lake import Lake
from graveler.lake.objects.issued_addresses import TableFolders
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.model import RetentionRules
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.live_listing import Comparison, Horizon, ListingInterval, Unknown, candidates, intervals
from graveler.retention.marks import write_names
from graveler.retention.runs import Mode, Summary
from graveler.spark.garbage_tasks import SparkEngine
from graveler.spark.jobs.frame import run_job
from graveler.spark.jobs.gc import JOB
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.sqlite import SqliteTables
from graveler.tree.record import data_path
from tests.retention.support import AGE, OffClock, contents, objects_of, write
from tests.spark.listings import TINY

NAME = "repo"
SOAK = "GRAVELER_SOAK_SECONDS" in os.environ
QUARANTINED = re.compile("^_graveler/quarantine/[^/]*/")


def open_later(folder: Path, seconds: float) -> Lake:
    return Lake(
        SqliteTables(folder / "tables.sqlite", create=False),
        lambda namespace: FolderObjects(folder / "objects" / "repo", namespace),
        clock=OffClock(seconds),
    )


def make_history(folder: Path, seed: int) -> None:
    """Objects of all fates: reachable, deleted, staged, reset, of a branch that is gone, never linked, in a data folder."""
    random = Random(seed)
    with create_folder_lake(folder) as lake:
        lake.create_repository(NAME, "local://repo", split=TINY)
    with open_later(folder, 0) as lake:
        repository = lake.repository(NAME)
        for number in range(40):
            branch = random.choice(["main", "one", "two"])
            path = f"{random.choice('abc')}/{random.randrange(30)}"
            try:
                match random.randrange(11):
                    case 0 | 1 | 2 | 3 | 4:
                        repository.upload(branch, path, b"%d" % number)
                    case 5 | 6:
                        repository.commit(branch, f"{number}")
                    case 7:
                        repository.create_branch(branch, "main")
                    case 8:
                        repository.delete_branch(branch)
                    case 9:
                        repository.reset(branch)
                    case 10:
                        repository.copy(branch, path, f"copy {number}", source_ref="main")
            except (GravelerError, NoChangesError):
                continue
        inside = repository.new_address("main", "events/").removeprefix(f"{repository.repository.namespace}/")
        for number in range(30):
            repository.namespace.put(f"{inside}/part-{number}", b"never linked")
        for strange in ("AAA", "data/x", "zzz/file"):
            repository.namespace.put(strange, b"?")
        repository.set_retention(RetentionRules(1, {"one": 3}))


def told(garbage: Garbage, summary: Summary) -> object:
    """What a run says, apart from its name, its times, and ETags, which copies of a folder do not share."""
    made = summary.plan
    rows = sorted((c.kind, QUARANTINED.sub("", c.key), c.size, c.why, outcome) for c, outcome in garbage.rows(made.run))
    return (
        [row for row in rows if not row[1].startswith("_graveler/gc/")],
        (made.commits, made.kept, made.expired, made.revived, made.ranges, made.ranges_read, made.metaranges_read),
        (made.unknown, sorted(made.unknown_examples), made.unlisted),
        {kind: outcomes for kind, outcomes in summary.outcomes.items() if kind != "old run"},
        (summary.forgotten, summary.rows),
    )


def collect(folder: Path, seconds: float, mode: Mode | None, engine: SparkEngine | None = None) -> object:
    with open_later(folder, seconds) as lake:
        garbage = Garbage(lake.repository(NAME), Options(mode), engine)
        summary = garbage.plan() if mode is Mode.DRY_RUN else garbage.run()
        return told(garbage, summary)


def left(folder: Path) -> set[str]:
    return {
        stored.key
        for stored in FolderObjects(folder / "objects" / "repo", "local://repo").list()
        if not stored.key.startswith(("_graveler/gc/", "_graveler/quarantine/"))
    }


@pytest.mark.parametrize(("seed", "parts", "ranges"), [(2, 5, 2), (1, 4, 3), (3, 7, 1)][: 3 if SOAK else 1])
def test_both_engines_say_and_leave_the_same(
    spark: SparkSession, tmp_path: Path, seed: int, parts: int, ranges: int
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    make_history(here, seed)
    copytree(here, there)
    engine = SparkEngine(spark, ranges=ranges, parts=parts)
    seconds = 0.0
    for mode in (Mode.DRY_RUN, None, Mode.DELETE, Mode.DELETE):
        seconds += 2 * AGE
        one, other = collect(here, seconds, mode), collect(there, seconds, mode, engine)
        assert one == other
        assert left(here) == left(there)
    engine.most_files = 1
    with open_later(here, 0) as lake, open_later(there, 0) as copy:
        for repository in (lake.repository(NAME), copy.repository(NAME)):
            repository.upload("main", "new", b"new", metadata={})
            repository.commit("main", "new", created=1)
    made = collect(there, seconds + 2 * AGE, Mode.DELETE, engine)
    assert made
    with open_later(there, seconds + 3 * AGE) as lake:
        assert lake.fsck(NAME, committed_objects=False).garbage.ranges == 0


def told_later(place: AwsLake, name: str, mode: Mode, seconds: float, engine: SparkEngine | None) -> object:
    with open_at(place) as lake:
        repository = Lake(lake.tables, lake.store_of, clock=OffClock(seconds)).repository(name)
        garbage = Garbage(repository, Options(mode), engine)
        summary = garbage.plan() if mode is Mode.DRY_RUN else garbage.run()
        return told(garbage, summary)


def test_on_s3_and_dynamodb_both_engines_say_the_same_and_leave_what_is_needed(
    spark: SparkSession, aws: AwsLake
) -> None:
    """By a dry run each, of the same lake; then Spark removes what they have found, and a process finds nothing more."""
    with open_at(aws) as lake:
        repository = lake.create_repository("garbage", f"{lake.home}garbage", split=TINY)
        write(repository, "main", **{f"k{number}": f"{number}" for number in range(12)})
        repository.create_branch("gone", "main")
        write(repository, "gone", **{f"g{number}": f"gone {number}" for number in range(8)})
        repository.upload("main", "dropped", b"dropped")
        repository.reset("main")
        repository.upload("main", "staged", b"staged")
        repository.begin_upload("main", "unfinished")
        repository.namespace.put("zzz", b"theirs")
        repository.delete_branch("gone")
    engine = SparkEngine(spark, ranges=3, parts=3)
    told_later(aws, "garbage", Mode.DELETE, AGE, None)
    one, other = (told_later(aws, "garbage", Mode.DRY_RUN, 2 * AGE, which) for which in (None, engine))
    assert one == other
    assert "object" in str(one)
    assert "range" in str(one)
    told_later(aws, "garbage", Mode.DELETE, 2 * AGE, engine)
    with open_at(aws) as lake:
        fresh = lake.repository("garbage")
        assert len(contents(fresh, "main")) == 13
        assert {stored.key for stored in fresh.namespace.list("data/")} == objects_of(fresh)
        report = lake.fsck("garbage", committed_objects=True)
        assert (report.findings, report.garbage.ranges, report.garbage.commit_items) == ((), 0, 0)
    with open_at(aws) as lake:
        later = Lake(lake.tables, lake.store_of, clock=OffClock(3 * AGE)).repository("garbage")
        assert not Garbage(later, Options(Mode.DELETE)).run().plan.found


def test_a_tree_that_cannot_be_read_stops_it(spark: SparkSession, tmp_path: Path) -> None:
    make_history(tmp_path / "lake", 3)
    for path in (tmp_path / "lake" / "objects" / "repo" / "_graveler" / "ranges").iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    before = left(tmp_path / "lake")
    with pytest.raises(CorruptError, match="nothing was collected"):
        collect(tmp_path / "lake", 2 * AGE, Mode.DELETE, SparkEngine(spark, parts=2))
    assert left(tmp_path / "lake") == before


def test_the_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lake"
    with create_folder_lake(folder) as lake:
        lake.create_repository(NAME, "local://repo").upload("main", "young", b"young")
    assert run_job(JOB, ["--lake", str(folder), "--dry-run", "--partitions", "2", "--repository", NAME], spark) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["job"], said["mode"], said["found"]) == ("gc", "dry-run", {})
    assert run_job(JOB, ["--lake", str(folder), "--rate", "0", "--repository", NAME], spark) == 2
    assert "positive" in capsys.readouterr().err


def names(random: Random, count: int) -> list[bytes]:
    return [random.randbytes(25) for _ in range(count)]


@pytest.mark.parametrize("amount", [1, 2, 5, 100])
def test_intervals_together_find_what_one_listing_does(amount: int) -> None:
    random = Random(amount)
    objects = MemoryObjects("mem://intervals")
    there, needed = names(random, 300), names(random, 50)
    needed += there[::3]
    for name in there:
        objects.put(f"data/{data_path(name)}", b"1")
    folder = data_path(there[0])
    for number in range(40):
        objects.put(f"data/{folder}/part-{number}", b"1")
    objects.put("zzz", b"not ours")
    files = []
    for number in range(3):
        files.append(f"rows-{number}")
        write_names(objects, iter(sorted(needed[number::3])), number, files[-1])
    now = objects.head("zzz").modified + 1
    work = Comparison(objects, tuple(files), b"\1\0\1", Horizon(now, now, TableFolders(b"key")))

    def found(interval: ListingInterval, unknown: Unknown) -> list[str]:
        return [c.key for c in candidates(work, interval, iter(()), unknown, lambda _: None)]

    whole, cut = Unknown(), Unknown()
    everything = found(ListingInterval(), whole)
    shared: list[str] = []
    for interval in intervals(random.sample(there, 200), amount):
        mine = Unknown()
        shared += found(interval, mine)
        cut.merge(mine)
    assert shared == everything
    assert len(everything) > 200
    assert (cut.tally, cut.examples) == (whole.tally, whole.examples)
