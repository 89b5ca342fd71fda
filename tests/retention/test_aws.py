"""The collector on DynamoDB's own engine and a server that speaks S3's protocol: a whole life of garbage, and crashes.

It dies at two of its requests; with ``GRAVELER_FAULTS=1`` at every fifth.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from secrets import token_hex
from unittest.mock import patch

import pytest

from graveler.errors import GravelerError, RefNotFoundError
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.lake.repository import OpenRepository
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import LEASE, Kind, Mode, Outcome, Summary
from graveler.retention.space import HolderKind
from graveler.storage.objects.s3 import S3Settings
from tests.lake.fleet import AwsPlace
from tests.lake.support import TINY, Died, Schedule
from tests.retention.support import AGE, SkippingClock, contents, write
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.instruments import Boundaries, Fault, FaultyObjects, FaultyTables
from tests.support.servers import REGION, dynamodb_local, s3proxy


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    """A table and a bucket."""
    with patch.dict(os.environ, CREDENTIALS):
        name = f"gc-{token_hex(6)}"
        place = AwsPlace(f"s3://{name}/lake", f"dynamodb://{name}", s3proxy(), dynamodb_local())
        settings = S3Settings(REGION, place.s3_url)
        make_bucket(name, settings)
        yield open_lake(
            place.objects,
            place.tables,
            s3=settings,
            region=REGION,
            dynamodb_endpoint_url=place.dynamodb_url,
            create_table=True,
        )


def later(lake: Lake, name: str, seconds: float, schedule: Schedule | None = None) -> OpenRepository:
    """The repository as another client sees it, some time later."""
    if schedule is None:
        return Lake(lake.tables, lake.store_of, clock=SkippingClock(seconds)).repository(name)
    asked, boundaries = schedule, Boundaries()
    switched: list[bool] = []
    faulty = Lake(
        FaultyTables(lake.tables, lambda method, at: asked(f"tables.{method}", at) if switched else None, boundaries),
        lambda namespace: FaultyObjects(
            lake.store_of(namespace),
            lambda method, at: asked(f"objects.{method}", at) if switched else None,
            boundaries,
        ),
        clock=SkippingClock(seconds),
    )
    opened = faulty.repository(name)
    switched.append(True)
    return opened


def collect(lake: Lake, name: str, seconds: float, mode: Mode = Mode.DELETE) -> Summary:
    return Garbage(later(lake, name, seconds), Options(mode)).run()


def make(lake: Lake, name: str) -> OpenRepository:
    """Objects and history of all fates."""
    repository = lake.create_repository(name, f"{lake.home}{name}", split=TINY)
    write(repository, "main", **{f"k{number}": f"{number}" for number in range(20)})
    repository.create_branch("gone", "main")
    write(repository, "gone", **{f"g{number}": f"gone {number}" for number in range(10)})
    repository.upload("main", "staged", b"staged")
    repository.upload("main", "reset", b"reset")
    repository.reset("main", path="reset")
    repository.begin_upload("main", "unfinished")
    repository.delete_branch("gone")
    return repository


def data(repository: OpenRepository) -> set[str]:
    return {stored.key for stored in repository.namespace.list("data/")}


def test_a_whole_life_of_garbage(lake: Lake) -> None:
    repository = make(lake, "life")
    before = contents(repository, "main")
    gone = next(found.parents[0] for found in repository.log("main", amount=1).results)
    first = collect(lake, "life", AGE, Mode.QUARANTINE)
    assert first.total(Outcome.QUARANTINED).files == 1
    assert first.outcomes[Kind.UPLOAD.value][Outcome.DELETED.value].files == 1
    assert list(repository.namespace.uploads()) == []
    assert first.plan.expired == 1
    (restored,) = Garbage(repository).restore(first.plan.run, "data/")
    assert restored[1]
    second = collect(lake, "life", 2 * AGE)
    assert second.forgotten == 1
    assert second.outcomes["object"][Outcome.DELETED.value].files == 11
    assert second.outcomes["range"][Outcome.DELETED.value].files > 0
    fresh = later(lake, "life", 2 * AGE)
    assert contents(fresh, "main") == before
    assert len(data(fresh)) == 21
    assert fresh.commit_of("main").parents[0] == gone
    report = lake.fsck("life", committed_objects=True)
    assert (report.findings, report.garbage.commit_items, report.garbage.ranges) == ((), 0, 0)
    assert not collect(lake, "life", 3 * AGE).plan.found
    space = Garbage(later(lake, "life", 3 * AGE)).space()
    (main,) = (holding for holding in space.holders if holding.kind is HolderKind.BRANCH)
    assert (main.held.files, main.exclusive.files, space.unheld.files) == (21, 21, 0)


@pytest.mark.ci
@pytest.mark.parametrize("number", range(5, 160, 5) if os.environ.get("GRAVELER_FAULTS") else [70, 110])
def test_a_crash_is_made_good_by_the_next_run(lake: Lake, number: int) -> None:
    name = f"crash-{number}"
    repository = make(lake, name)
    before = contents(repository, "main")
    collect(lake, name, AGE)

    def die(_: str, at: int) -> Fault:
        if at >= number:
            raise Died
        return None

    with suppress(Died, GravelerError):
        Garbage(later(lake, name, 2 * AGE, die), Options(Mode.DELETE, threads=1)).run()
    for seconds in (2 * AGE + LEASE + 1, 3 * AGE, 4 * AGE):
        collect(lake, name, seconds)
    fresh = later(lake, name, 4 * AGE)
    assert contents(fresh, "main") == before
    assert len(data(fresh)) == 21
    with pytest.raises(RefNotFoundError):
        fresh.commit_of("gone")
    report = lake.fsck(name, committed_objects=True)
    assert (report.findings, report.garbage.commit_items, report.garbage.ranges) == ((), 0, 0)
