"""The lake on DynamoDB's own engine and a real S3 server: verbs do what they do in memory, for the same requests, and processes
that are killed lose nothing.

``GRAVELER_SOAK_SECONDS=n`` lets the processes work for n seconds, and more of them.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

import msgspec
import pytest

from graveler.errors import BusyError, ForbiddenError, InvalidError, MergeConflictError, ObjectChangedError
from graveler.lake.lake import Lake
from graveler.lake.objects.recorded_uploads import (
    abort_upload,
    complete_upload,
    create_upload,
    find_upload,
    list_uploads,
)
from graveler.lake.opening.aws import STAGING_SHARDS, open_lake
from graveler.lake.parts import RepositoryParts
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.objects.port import Objects
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.tables.port import Tables
from tests.lake.fleet import NAME, SETTERS, AwsPlace, open_place
from tests.lake.test_processes import FLEET, SMALL, Fleet, check
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.instruments import CountingObjects, CountingTables
from tests.support.servers import REGION, dynamodb_local, s3proxy

SOAK = os.environ.get("GRAVELER_SOAK_SECONDS")
SECONDS = float(SOAK or "10")
ENTRY = ObjectEntry("a", "s3://elsewhere/a", 1, "0" * 32, 0)
Verb = Callable[[OpenRepository], object]


@pytest.fixture(scope="module")
def place() -> Iterator[AwsPlace]:
    """An empty table and an empty bucket."""
    with patch.dict(os.environ, CREDENTIALS):
        name = f"lake-{token_hex(6)}"
        made = AwsPlace(f"s3://{name}/lake", f"dynamodb://{name}", s3proxy(), dynamodb_local())
        make_bucket(name, S3Settings(REGION, made.s3_url))
        opened(made, create_table=True)
        yield made


def opened(place: AwsPlace, *, create_table: bool = False) -> Lake:
    return open_lake(
        place.objects,
        place.tables,
        s3=S3Settings(REGION, place.s3_url),
        region=REGION,
        dynamodb_endpoint_url=place.dynamodb_url,
        create_table=create_table,
    )


def test_the_main_verbs(place: AwsPlace) -> None:
    repository = opened(place).create_repository("verbs", f"{place.objects}/verbs")
    repository.upload("main", "a/b", b"1")
    repository.upload("main", "a/c", b"2")
    first = repository.commit("main", "first")
    repository.create_branch("side", "main")
    repository.upload("side", "a/b", b"side")
    repository.delete("side", ["a/c"])
    repository.commit("side", "side")
    merged = repository.merge("side", "main")
    other = opened(place).repository("verbs")  # another client, with empty caches
    assert other.read("main", "a/b") == b"side"
    assert [item.path for item in other.objects("main")] == ["a/b"]
    assert other.read(first.id, "a/c") == b"2"
    assert [commit.id for commit in other.log("main", first_parent=True).results][:2] == [merged.id, first.id]
    assert [branch.name for branch in other.branches().results] == ["main", "side"]
    for branch, value in (("main", b"x"), ("side", b"y")):
        other.upload(branch, "a/b", value)
        other.commit(branch, branch)
    with pytest.raises(MergeConflictError):
        other.merge("side", "main")


def test_of_eight_writers_that_count_in_one_object_none_is_lost(place: AwsPlace) -> None:
    repository = opened(place).create_repository("counted", f"{place.objects}/counted")
    repository.upload("main", "n", b"0")

    def count() -> None:
        mine, done = opened(place).repository("counted"), 0
        while done < 5:
            seen = mine.stat("main", "n")
            with suppress(ObjectChangedError, BusyError):
                mine.upload("main", "n", b"%d" % (int(mine.read("main", "n")) + 1), if_match=seen.checksum)
                done += 1

    with ThreadPoolExecutor(8) as writers:
        for writer in [writers.submit(count) for _ in range(8)]:
            writer.result()
    assert repository.read("main", "n") == b"40"


def test_an_upload_in_parts_goes_on_in_other_processes(place: AwsPlace) -> None:
    opened(place).create_repository("parted", f"{place.objects}/parted")

    def parts() -> RepositoryParts:
        return opened(place).repository("parted").parts

    upload = create_upload(parts(), "main", "a/b", content_type="text/x", metadata={"k": "ü"})
    for number, data in ((1, bytes(5 << 20)), (2, b"the end")):
        parts().objects.put_part(upload.key, upload.store_id, number, data)
    assert list_uploads(parts(), "main") == ([upload], False)
    found = find_upload(parts(), "main", "a/b", upload.upload_id)
    sent = [(part.number, part.etag) for part in parts().objects.parts(found.key, found.store_id)]
    entry = complete_upload(parts(), "main", "a/b", upload.upload_id, sent)
    assert complete_upload(parts(), "main", "a/b", upload.upload_id, sent) == entry
    repository = opened(place).repository("parted")
    assert repository.stat("main", "a/b") == entry
    assert (entry.size, entry.checksum[-2:], entry.metadata) == ((5 << 20) + 7, "-2", {"k": "ü"})
    assert repository.read("main", "a/b")[-7:] == b"the end"
    other = create_upload(parts(), "main", "c")
    abort_upload(parts(), "main", "c", other.upload_id)
    assert list(parts().objects.uploads()) == []


def test_requests_are_those_of_the_formulas(place: AwsPlace) -> None:
    tables: list[CountingTables] = []
    stores: list[CountingObjects] = []

    def counting_tables(inner: Tables) -> Tables:
        tables.append(CountingTables(inner))
        return tables[-1]

    def counting_objects(inner: Objects) -> Objects:
        stores.append(CountingObjects(inner))
        return stores[-1]

    def client() -> OpenRepository:
        lake = open_lake(
            place.objects,
            place.tables,
            s3=S3Settings(REGION, place.s3_url),
            dynamodb_endpoint_url=place.dynamodb_url,
            region=REGION,
            wrap_tables=counting_tables,
            wrap_objects=counting_objects,
        )
        stores.clear()
        repository = lake.repository("costs")
        tables[-1].reset()
        return repository

    opened(place).create_repository("costs", f"{place.objects}/costs")
    cases: list[tuple[Verb, dict[str, int], int]] = [
        (lambda r: r.link("main", ENTRY), {"put": 1, "get": 2}, 0),
        (lambda r: r.stat("main", "a"), {"get": 2}, 0),
        (lambda r: r.commit("main", "m"), {"get": 2, "query": 1 + 2 * STAGING_SHARDS, "transact": 2}, 3),
        (lambda r: r.stat("main@", "a"), {"get": 2}, 2),
        (lambda r: r.create_branch("ref", "main"), {"get": 1, "query": 1, "transact": 1}, 0),
        (lambda r: r.branches(), {"query": 16}, 0),
    ]
    for verb, expected, requests in cases:
        repository = client()
        verb(repository)
        calls = dict(tables[-1].calls)
        calls["get"] = calls.pop("get", 0) + calls.pop("get_many", 0)
        assert {name: number for name, number in calls.items() if number} == expected
        assert sum(store.requests for store in stores) == requests


def test_nothing_but_s3_is_read_and_the_lakes_own_place_not_from_outside(place: AwsPlace) -> None:
    lake = opened(place)
    repository = lake.create_repository("outside", f"{place.objects}/outside")
    for address, error in (("file:///etc/hostname", InvalidError), (f"{place.objects}/verbs/x", ForbiddenError)):
        repository.link("main", ObjectEntry("a", address, 1, "0" * 32, 0))
        with pytest.raises(error):
            repository.read("main", "a")
    for kind, address in ((AddressType.OBJECT, "file:///etc/hostname"), (AddressType.COMMON_PREFIX, "file:///etc/")):
        with pytest.raises(InvalidError, match="not in S3"):  # nor are names and sizes told
            repository.import_addresses("main", [ImportAddress(kind, address, "x")])
    with pytest.raises(InvalidError):
        lake.create_repository("folder", "file:///tmp/x")
    with pytest.raises(InvalidError):
        open_lake("file:///tmp", place.tables)
    with pytest.raises(InvalidError):
        open_lake(place.objects, "sqlite://x")


@pytest.mark.ci
def test_processes_that_are_killed_lose_nothing(place: AwsPlace, tmp_path: Path) -> None:
    written = msgspec.json.encode(place).decode()
    repository = open_place(written).create_repository(NAME, f"{place.objects}/fleet", split=SMALL)
    for branch in ("side", *SETTERS):
        repository.create_branch(branch, "main")
    fleet = Fleet(tmp_path, written, FLEET if SOAK else ["writer0", "writer1", "committer0", "merger0"], SECONDS)
    fleet.run()
    assert not "".join(path.read_text() for path in tmp_path.glob("*.err"))
    assert all(process.returncode == 0 for process in fleet.processes.values())
    counts = check(tmp_path, written)
    assert counts["done"] >= 5
    assert counts["committed"] >= 1
    assert fleet.kills >= 3
