"""Listings as Arrow tables on each kind of lake: they have the rows of the listings of the process that wrote them, on random
histories."""

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.model import CommonPrefix
from graveler.sdk.lake import Lake
from graveler.sdk.listing import Listing
from graveler.sdk.repository import Repository
from tests.sql.arrow.histories import histories
from tests.sql.arrow.kinds import Kind
from tests.sql.arrow.test_tables import change_row, check, commit_row, object_row, rows

on_each_kind = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


def entry_row(entry: Any) -> tuple[object, ...]:
    return (entry.path, *(None,) * 6) if isinstance(entry, CommonPrefix) else object_row(entry)


def ref_row(ref: Any) -> tuple[object, ...]:
    return (ref.id, ref.get_commit().id)


def branch_row(branch: Any) -> tuple[object, ...]:
    return (*ref_row(branch), False)


LISTINGS: dict[str, tuple[Callable[[Repository], Listing[Any]], Callable[[Any], tuple[object, ...]]]] = {
    "objects": (lambda repository: repository.branch("main").objects(), entry_row),
    "some objects": (lambda repository: repository.branch("main").objects(max_amount=3, after="a"), entry_row),
    "objects of a prefix": (
        lambda repository: repository.ref("main@").objects(prefix="t/", after="t/dt=01"),
        entry_row,
    ),
    "prefixes": (lambda repository: repository.ref("main").objects(delimiter="/"), entry_row),
    "two-dot diff": (lambda repository: repository.ref(first(repository)).diff("main", type="two_dot"), change_row),
    "three-dot diff": (lambda repository: repository.ref(first(repository)).diff("main"), change_row),
    "uncommitted": (lambda repository: repository.branch("main").uncommitted(), change_row),
    "uncommitted of a prefix": (lambda repository: repository.branch("main").uncommitted(prefix="b/"), change_row),
    "log": (lambda repository: repository.ref("main").log(), commit_row),
    "log of the first parents": (lambda repository: repository.ref("main").log(first_parent=True), commit_row),
    "branches": (lambda repository: repository.branches(), branch_row),
    "tags": (lambda repository: repository.tags(), ref_row),
}


def first(repository: Repository) -> str:
    return [*repository.ref("main").log()][-1].id


def all_of(rows: Iterable[Any], row: Callable[[Any], tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [row(each) for each in rows]


def seen_by(lake: Lake, repository: Repository) -> Repository:
    return lake.repository(repository.id)


@on_each_kind
@given(history=histories, taken=st.integers(0, 2))
def test_listings_become_the_rows_that_others_list(kind: Kind, history: list[tuple[str, object]], taken: int) -> None:
    written = kind.build(history)
    read = seen_by(kind.lake, written)
    for name, (make, row) in LISTINGS.items():
        expected = all_of(make(written), row)
        assert rows(make(read).to_arrow()) == expected, name
        begun = make(read)
        begun_rows = all_of((each for _, each in zip(range(taken), begun, strict=False)), row)
        assert begun_rows + rows(begun.to_arrow()) == expected, name
    listed = {found.id for found in kind.writer.repositories()}
    assert {row[0] for row in rows(kind.lake.repositories().to_arrow())} == listed


@on_each_kind
@given(history=histories, bounds=st.tuples(*[st.sampled_from(["", "a", "b/", "t/dt=01", "t/dt=01/part-3", "b/é"])] * 3))
def test_tables_have_the_rows_of_the_verbs(
    kind: Kind, history: list[tuple[str, object]], bounds: tuple[str, str, str]
) -> None:
    check(seen_by(kind.lake, kind.build(history)).verbs, *bounds)
