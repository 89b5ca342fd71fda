"""What the SDK lists, as Arrow tables and data frames."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from graveler.model import Change, ObjectEntry
from graveler.sdk.listing import Listing
from graveler.sdk.repository import Repository
from graveler.sql.arrow import schemas
from tests.sdk.conftest import CountedLake


@pytest.fixture
def some(repo: Repository) -> Repository:
    main = repo.branch("main")
    for name in ("a", "b/c", "b/d"):
        main.object(name).upload(name.encode(), metadata={"name": name})
    main.commit("some")
    main.object("e").upload(b"e")
    repo.tag("v1").create("main")
    return repo


LISTINGS: dict[str, tuple[Callable[[Repository], Listing[Any]], Any, list[str]]] = {
    "objects": (lambda repo: repo.branch("main").objects(), schemas.OBJECTS, ["a", "b/c", "b/d", "e"]),
    "prefixes": (lambda repo: repo.ref("v1").objects(delimiter="/"), schemas.OBJECTS, ["a", "b/"]),
    "some": (lambda repo: repo.ref("v1").objects(2), schemas.OBJECTS, ["a", "b/c"]),
    "diff": (lambda repo: repo.ref("v1~1").diff("v1"), schemas.DIFF, ["a", "b/c", "b/d"]),
    "staged": (lambda repo: repo.branch("main").uncommitted(), schemas.STAGED, ["e"]),
    "branches": (lambda repo: repo.branches(), schemas.BRANCHES, ["main"]),
    "tags": (lambda repo: repo.tags(), schemas.TAGS, ["v1"]),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_is_a_table_of_its_rows(some: Repository, name: str) -> None:
    make, schema, found = LISTINGS[name]
    column = "path" if "path" in schema.names else "id"
    table = make(some).to_arrow().read_all()
    assert (table.schema, table[column].to_pylist()) == (schema, found)
    assert list(make(some).to_pandas()[column]) == found
    assert make(some).to_polars()[column].to_list() == found


def test_a_log_is_a_table(some: Repository) -> None:
    table = some.ref("v1").log().to_arrow().read_all()
    assert table.schema == schemas.COMMITS
    assert table["id"].to_pylist() == [commit.id for commit in some.ref("v1").log()]


def test_repositories_are_a_table(lake: CountedLake, some: Repository) -> None:
    table = lake.repositories().to_arrow().read_all()
    assert (table.schema, table["id"].to_pylist()) == (schemas.REPOSITORIES, ["demo"])


def test_a_table_has_what_is_still_to_come(some: Repository) -> None:
    listing = some.branch("main").objects()
    assert next(listing).path == "a"
    assert listing.to_arrow().read_all()["path"].to_pylist() == ["b/c", "b/d", "e"]
    assert [*listing] == []


def test_pages_are_requested_as_batches_are_read(lake: CountedLake, some: Repository) -> None:
    before = lake.requests
    some.ref("v1").objects(max_amount=2).to_arrow()
    assert lake.requests == before


def test_objects_are_read_as_a_whole_and_taken(repo: Repository) -> None:
    main = repo.branch("main")
    for path in ("a", "b/1", "b/2", "c"):
        main.object(path).upload(path)
    for listing, expected in (
        (main.objects(), ["a", "b/1", "b/2", "c"]),
        (main.objects(prefix="b/"), ["b/1", "b/2"]),
        (main.objects(after="b/1"), ["b/2", "c"]),
        (main.objects(prefix="b/", after="b/1"), ["b/2"]),
        (main.objects(prefix="b/", after="c"), []),
        (main.objects(max_amount=2), ["a", "b/1"]),
    ):
        assert listing.to_arrow().read_all()["path"].to_pylist() == expected
        assert list(listing) == []
    begun = main.objects()
    next(begun)
    assert begun.to_arrow().read_all()["path"].to_pylist() == ["b/1", "b/2", "c"]


def test_differences_and_uncommitted_changes_are_read_as_a_whole_and_taken(repo: Repository) -> None:
    main = repo.branch("main")
    for path in ("a", "b/1", "b/2", "c"):
        main.object(path).upload(path)
    main.commit("some")
    main.object("b/1").upload("other")
    main.object("b/2").delete()
    main.object("d").upload("new")
    expect_changes(main.uncommitted)
    main.commit("more")
    expect_changes(partial(repo.ref("main~1").diff, "main", type="two_dot"))
    expect_changes(partial(repo.ref("main~1").diff, "main"))


def expect_changes(made: Callable[..., Listing[Change]]) -> None:
    changes = [("changed", "b/1"), ("removed", "b/2"), ("added", "d")]
    for prefix, after, expected in (
        ("", "", changes),
        ("b/", "", changes[:2]),
        ("", "b/1", changes[1:]),
        ("b/", "b/2", []),
    ):
        listing = made(prefix=prefix, after=after)
        table = listing.to_arrow().read_all()
        assert [*zip(table["type"].to_pylist(), table["path"].to_pylist(), strict=True)] == expected
        assert list(listing) == []


def test_a_listing_as_a_whole_is_of_one_state(repo: Repository) -> None:
    entries = [ObjectEntry(f"o{n:06}", f"mem://o/{n}", n, "00" * 16, n) for n in range(40_000)]
    repo.own.link_many("main", entries)
    main = repo.branch("main")
    main.commit("many")
    stream = main.objects().to_arrow()
    first = stream.read_next_batch().num_rows
    main.object("o9").upload(b"later")
    main.commit("later")
    assert first + stream.read_all().num_rows == 40_000
