"""Statuses of trees: one item for each tree, under a version; nobody replaces the verdict of another."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from graveler.errors import AnswerLostError, CorruptError, InvalidError
from graveler.lake.gates.statuses import (
    GRAVELER,
    MAX_OF_PRINCIPAL,
    MAX_PRINCIPALS,
    MAX_STATUSES,
    Statuses,
    TreeStatuses,
)
from graveler.model import CommitID, MetarangeName, RepositoryUID, Status, StatusState
from graveler.storage.secrets.credential_ends import end_write
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import MAX_ITEM_BYTES, Absent, ConditionFailedError, Tables
from tests.support.instruments import Boundaries, CountingTables, FaultyTables, fail_nth

NOW = 1_800_000_000
TREE = MetarangeName("ab" * 32)
EMPTY = MetarangeName("")
UID = RepositoryUID("u1")


def status(
    name: str = "dbt",
    state: StatusState = StatusState.SUCCESS,
    principal: str = "ci",
    created: int = NOW,
    **fields: str,
) -> Status:
    return Status(name, state, by=principal, principal=principal, key_id=f"AK{principal}", created=created, **fields)  # type: ignore[arg-type]


def statuses(tables: Tables | None = None, uid: RepositoryUID = UID) -> Statuses:
    return Statuses(tables or MemoryTables(), uid)


def states(tree: TreeStatuses) -> Sequence[tuple[str, str, str]]:
    return [(each.name, each.principal, each.state.value) for each in tree.statuses]


def test_each_post_raises_the_version() -> None:
    store = statuses()
    assert store.read(TREE) == TreeStatuses(TREE)
    before = store.post(TREE, [status()])
    after = store.post(TREE, [status(state=StatusState.FAILURE, created=NOW + 1)])
    assert 0 < before.version < after.version
    assert states(after) == [("dbt", "ci", "failure")]
    assert store.read(TREE) == after


def test_a_status_posted_again_changes_nothing() -> None:
    tables = CountingTables(MemoryTables())
    store = statuses(tables)
    posted = store.post(TREE, [replace(status(), expires=NOW + 600)])
    tables.calls.clear()
    assert store.post(TREE, [replace(status(created=NOW + 5), expires=NOW + 605)]) == posted
    assert tables.calls == {"get": 1}
    renewed = store.post(TREE, [replace(status(created=NOW + 300), expires=NOW + 900)])
    assert renewed.version == posted.version + 1


def test_a_post_costs_a_read_and_a_write() -> None:
    tables = CountingTables(MemoryTables())
    statuses(tables).post(TREE, [status("a"), status("b")])
    assert tables.calls == {"get": 1, "put": 1}


def test_nobody_replaces_the_verdict_of_another() -> None:
    store = statuses()
    store.post(TREE, [status(state=StatusState.FAILURE)])
    tree = store.post(TREE, [status(principal="eve"), replace(status(), commit_id=CommitID("c" * 64))])
    assert states(tree) == [("dbt", "ci", "failure"), ("dbt", "eve", "success"), ("dbt", "ci", "success")]


def test_expired_statuses_go_with_the_next_post() -> None:
    store = statuses()
    store.post(TREE, [replace(status("old"), expires=NOW + 10)])
    assert states(store.post(TREE, [status("new", created=NOW + 10)])) == [("new", "ci", "success")]


def test_trees_and_repositories_are_apart() -> None:
    tables = MemoryTables()
    statuses(tables).post(EMPTY, [status("empty")])
    statuses(tables, RepositoryUID("u2")).post(TREE, [status("other")])
    assert states(statuses(tables).read(EMPTY)) == [("empty", "ci", "success")]
    assert statuses(tables).read(TREE).statuses == ()


def test_a_publication_and_a_post_exclude_each_other() -> None:
    tables = MemoryTables()
    store = statuses(tables)
    nothing = store.read(TREE)
    assert store.unchanged_check(nothing).condition == Absent()
    tables.transact([store.unchanged_check(nothing)])
    tree = store.post(TREE, [status()])
    tables.transact([store.unchanged_check(tree)])
    for stale in (nothing, tree):
        store.post(TREE, [status(state=StatusState.FAILURE)])
        with pytest.raises(ConditionFailedError):
            tables.transact([store.unchanged_check(stale)])


def test_a_tree_whose_statuses_were_removed_never_has_a_version_again() -> None:
    tables = MemoryTables()
    store = statuses(tables)
    before = store.post(TREE, [status()])
    store.remove([TREE])
    store.post(TREE, [status(state=StatusState.FAILURE)])
    with pytest.raises(ConditionFailedError):
        tables.transact([store.unchanged_check(before)])


def test_removal_costs_a_read_without_statuses() -> None:
    tables = CountingTables(MemoryTables())
    statuses(tables).remove([TREE])
    assert tables.calls == {"query": 1}


def test_no_post_of_several_threads_is_lost() -> None:
    store = statuses()
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda number: store.post(TREE, [status(f"n{number}")]), range(40)):
            pass
    assert {name for name, _, _ in states(store.read(TREE))} == {f"n{number}" for number in range(40)}


@pytest.mark.parametrize("fault", ["fail_after", "repeat"])
def test_a_lost_answer_is_recognised(fault: str) -> None:
    tables = MemoryTables()
    faulty = FaultyTables(tables, fail_nth(1, fault), Boundaries())  # type: ignore[arg-type]
    try:
        posted = statuses(faulty).post(TREE, [status()])
    except (AnswerLostError, ConnectionError):
        posted = statuses(tables).post(TREE, [status()])
    assert statuses(tables).read(TREE) == posted
    assert len(posted.statuses) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "n" * 101},
        {"name": "é" * 51},
        {"name": "n" * 10_000},
        {"name": "a\nb"},
        {"name": " a"},
        {"name": "\ud800"},
        {"description": "d" * 1001},
        {"description": "\x1b[31mred"},
        {"url": "javascript:alert(1)"},
        {"url": "https://"},
        {"url": "https://host/" + "x" * 2000},
        {"url": "https://user:secret@host/"},
        {"url": "https://[host/"},
        {"url": "https://host/a b"},
        {"expires": NOW},
        {"expires": NOW + 367 * 86_400},
        {"principal": "p" * 2001},
    ],
)
def test_a_status_that_cannot_be_one_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidError, match="status"):
        statuses().post(TREE, [replace(status(), **changes)])


@pytest.mark.parametrize("name", ["n" * 100, "dbt/orders %+?*", "é" * 50, "检查"])
def test_names_are_any_printable_text(name: str) -> None:
    assert (
        states(statuses().post(TREE, [status(name, description="two\nlines", url="https://ci/1?a=b#c")]))[0][0] == name
    )


def test_a_principal_leaves_room_for_others() -> None:
    store = statuses()
    store.post(TREE, [status()])
    store.post(TREE, [status(f"n{number}", principal="eve") for number in range(MAX_OF_PRINCIPAL)])
    with pytest.raises(InvalidError, match="'eve' may have at most 50"):
        store.post(TREE, [status("more", principal="eve")])
    with pytest.raises(InvalidError, match="20,000 bytes"):
        store.post(TREE, [status(f"n{n}", principal="bob", url="https://h/" + "x" * 1900) for n in range(12)])
    for number in range(MAX_PRINCIPALS - 2):
        store.post(TREE, [status(f"n{n}", principal=f"p{number}") for n in range((MAX_STATUSES - 51) // 10)])
    with pytest.raises(InvalidError, match="at most 12 posters"):
        store.post(TREE, [status(principal="late")])
    store.post(TREE, [status(f"m{n}", principal="p0") for n in range((MAX_STATUSES - 51) % 10)])
    with pytest.raises(InvalidError, match="at most 200 statuses"):
        store.post(TREE, [status("one more")])
    full = store.post(TREE, [status(state=StatusState.FAILURE, description="d" * 1000, url="https://h/" + "x" * 1900)])
    assert len(full.statuses) == MAX_STATUSES
    assert states(full)[-1] == ("dbt", "ci", "failure"), "who posted a success can replace it by a failure"


def test_statuses_of_ended_credentials_go_when_room_is_needed() -> None:
    tables = MemoryTables()
    store = statuses(tables)
    for number in range(MAX_PRINCIPALS):
        store.post(TREE, [status(principal=f"p{number}")])
    with pytest.raises(InvalidError, match="at most 12 posters"):
        store.post(TREE, [status()])
    tables.transact([end_write("AKp3", NOW)])
    assert [each.principal for each in store.post(TREE, [status()]).statuses if each.principal in ("p3", "ci")] == [
        "ci"
    ]


def test_the_newest_verdicts_about_commits_take_the_place_of_the_oldest() -> None:
    store = statuses()
    store.post(TREE, [status("tree"), status(principal="eve")])
    for number in range(3 * MAX_OF_PRINCIPAL):
        tree = store.post(TREE, [replace(status(created=NOW + number), commit_id=CommitID(f"{number:064}"))])
    assert [each.name for each in tree.statuses if not each.commit_id] == ["tree", "dbt"]
    numbers = [int(each.commit_id) for each in tree.statuses if each.commit_id]
    assert numbers == list(range(2 * MAX_OF_PRINCIPAL + 1, 3 * MAX_OF_PRINCIPAL))


def test_a_full_item_has_room_for_checks_of_graveler_and_fits_the_table() -> None:
    tables = MemoryTables()
    store = statuses(tables)
    for number in range(MAX_PRINCIPALS):
        store.post(TREE, [status(f"n{n}", principal=f"p{number}", description="d" * 1000) for n in range(16)])
    checks = [
        Status(f"n{n}", StatusState.FAILURE, "d" * 1000, principal=GRAVELER, created=NOW)
        for n in range(MAX_OF_PRINCIPAL)
    ]
    tree = store.post(TREE, checks)
    assert len(tree.statuses) == 16 * MAX_PRINCIPALS + MAX_OF_PRINCIPAL
    packed = (tables.get(store.key(TREE)) or {})["statuses"]
    assert isinstance(packed, bytes)
    assert len(packed) < MAX_ITEM_BYTES * 3 // 4


@pytest.mark.parametrize(
    "item", [{}, {"version": 1}, {"version": 1, "statuses": b"["}, {"version": "1", "statuses": b"[]"}]
)
def test_a_damaged_item_is_reported(item: dict[str, str]) -> None:
    tables = MemoryTables()
    store = statuses(tables)
    tables.put(store.key(TREE), item)
    with pytest.raises(CorruptError, match="fsck"):
        store.read(TREE)
