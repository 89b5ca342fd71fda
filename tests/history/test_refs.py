"""Branches, tags, and their reference log."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import CorruptError, InvalidError
from graveler.history.reflog import LogEntry, RefLog
from graveler.history.refs import SHARDS, BranchState, Refs
from graveler.model import CommitID, Page, Tag, Token
from graveler.storage.tables.port import MAX_SORT_KEY_BYTES, ConditionFailedError, Item, Key, Put, QueryPage, Write
from tests.history.support import UID, World, event
from tests.support.campaigns import examples
from tests.support.instruments import CountingTables

C1, C2 = CommitID("1" * 64), CommitID("2" * 64)
MAIN = BranchState("main", C1, Token("t1"))


def test_a_branch_is_read_as_it_was_created() -> None:
    world = World()
    state = BranchState("main", C1, Token("t3"), (Token("t1"), Token("t2")), hidden=True, moves=7)
    assert world.refs.branch("main") is None
    world.tables.transact(world.refs.create_branch_writes(state, event()))
    world.tables.reset()
    assert world.refs.branch("main") == state
    assert world.tables.calls == {"get": 1}
    item = world.tables.get(world.refs.branch_key("main"))
    assert world.refs.decode_branch("main", item) == state


def test_a_branch_is_decoded_again_only_if_its_item_is_another_one() -> None:
    world = World()
    items = [{"commit": commit, "open": "t1"} for commit in (C1, C2)]
    first = world.refs.decode_branch("main", items[0])
    assert first == MAIN
    assert world.refs.decode_branch("main", items[0]) is first
    assert world.refs.decode_branch("main", items[1]) == replace(MAIN, commit_id=C2)
    assert world.refs.decode_branch("other", items[1]) == replace(MAIN, name="other", commit_id=C2)
    assert world.refs.decode_branch("main", None) is None


def test_what_does_not_apply_is_not_stored() -> None:
    world = World()
    world.tables.transact(world.refs.create_branch_writes(MAIN, event()))
    assert world.tables.get(world.refs.branch_key("main")) == {"commit": C1, "open": "t1"}


def test_a_tag_is_read_as_it_was_created() -> None:
    world = World()
    tag = Tag("v1/é", C1)
    assert world.refs.tag("v1/é") is None
    world.tables.transact(world.refs.create_tag_writes(tag, event()))
    assert world.refs.tag("v1/é") == tag
    assert world.refs.branch("v1") is None


def test_bad_names_are_refused() -> None:
    world = World()
    for write in (
        lambda: world.refs.branch("a.b"),
        lambda: world.refs.tag("a..b"),
        lambda: world.refs.create_branch_writes(replace(MAIN, name=""), event()),
        lambda: world.refs.create_tag_writes(Tag("@", C1), event()),
    ):
        with pytest.raises(InvalidError):
            write()


def test_of_two_creators_one_wins() -> None:
    world = World()
    other = replace(MAIN, commit_id=C2, open=Token("t2"))
    world.tables.transact(world.refs.create_branch_writes(MAIN, event("first")))
    with pytest.raises(ConditionFailedError) as refused:
        world.tables.transact(world.refs.create_branch_writes(other, event("second")))
    assert list(refused.value.failures) == [0], "the ref's own write is the first"
    assert world.refs.decode_branch("main", refused.value.failures[0]) == MAIN
    assert [entry.event.operation for entry in RefLog(world.tables, UID).entries("branch", "main")] == ["first"]
    world.tables.transact(world.refs.create_tag_writes(Tag("main", C1), event()))
    with pytest.raises(ConditionFailedError):
        world.tables.transact(world.refs.create_tag_writes(Tag("main", C2), event()))


CHANGED = [
    replace(MAIN, commit_id=C2),
    replace(MAIN, open=Token("t2")),
    replace(MAIN, sealed=(Token("t0"),)),
    replace(MAIN, hidden=True),
]


@pytest.mark.parametrize("meanwhile", CHANGED)
def test_a_move_or_deletion_fails_after_any_other_change(meanwhile: BranchState) -> None:
    world = World()
    refs = world.refs
    world.tables.transact(refs.create_branch_writes(MAIN, event()))
    world.tables.transact(refs.move_branch_writes(MAIN, meanwhile, event()))
    counted = replace(meanwhile, moves=event().time_ns)
    late: Sequence[Sequence[Write]] = (
        refs.move_branch_writes(MAIN, replace(MAIN, commit_id=C2), event()),
        refs.delete_branch_writes(MAIN, event()),
    )
    for writes in late:
        with pytest.raises(ConditionFailedError):
            world.tables.transact(writes)
        assert refs.branch("main") == counted
    # and back, so that a condition on what is not there holds too
    world.tables.transact(refs.move_branch_writes(counted, MAIN, event()))
    back = replace(MAIN, moves=counted.moves + 1)
    stale = replace(back, moves=counted.moves - 1)
    with pytest.raises(ConditionFailedError):
        world.tables.transact(refs.delete_branch_writes(stale, event()))
    world.tables.transact(refs.delete_branch_writes(back, event()))
    assert refs.branch("main") is None


def test_sealed_tokens_are_compared_in_order() -> None:
    world = World()
    both = replace(MAIN, sealed=(Token("a"), Token("b")))
    world.tables.transact(world.refs.create_branch_writes(both, event()))
    swapped = replace(both, sealed=(Token("b"), Token("a")))
    with pytest.raises(ConditionFailedError):
        world.tables.transact(world.refs.move_branch_writes(swapped, MAIN, event()))


def test_nothing_changes_a_ref_that_is_gone() -> None:
    world = World()
    for writes in (
        world.refs.move_branch_writes(MAIN, MAIN, event()),
        world.refs.delete_branch_writes(MAIN, event()),
        world.refs.delete_tag_writes(Tag("v1", C1), event()),
    ):
        with pytest.raises(ConditionFailedError):
            world.tables.transact(writes)


def test_a_tag_that_was_created_again_is_not_deleted_by_mistake() -> None:
    world = World()
    world.tables.transact(world.refs.create_tag_writes(Tag("v1", C2), event()))
    with pytest.raises(ConditionFailedError):
        world.tables.transact(world.refs.delete_tag_writes(Tag("v1", C1), event()))
    world.tables.transact(world.refs.delete_tag_writes(Tag("v1", C2), event()))
    assert world.refs.tag("v1") is None


def test_a_ref_is_pointed_at_an_existing_commit_only_if_that_is_alive() -> None:
    world = World()
    commit = world.add()
    writes = [*world.refs.create_tag_writes(Tag("v1", commit.id), event()), world.commits.alive_check(commit.id)]
    item = world.tables.get(world.commits.key(commit.id))
    assert item is not None
    world.tables.put(world.commits.key(commit.id), {**item, "expired": 1})
    with pytest.raises(ConditionFailedError) as refused:
        world.tables.transact(writes)
    assert list(refused.value.failures) == [2]
    assert world.refs.tag("v1") is None


def test_only_a_move_that_leaves_the_commit_may_go_without_a_row() -> None:
    refs = World().refs
    sealed = replace(MAIN, open=Token("t2"), sealed=(MAIN.open,))
    assert len(refs.move_branch_writes(MAIN, sealed, None)) == 1
    assert len(refs.move_branch_writes(MAIN, sealed, event())) == 2
    with pytest.raises(ValueError, match="cannot become"):
        refs.move_branch_writes(MAIN, replace(MAIN, commit_id=C2), None)
    with pytest.raises(ValueError, match="cannot become"):
        refs.move_branch_writes(MAIN, replace(MAIN, name="other"), event())


def test_every_change_of_a_ref_has_its_row() -> None:
    world = World()
    refs, log = world.refs, RefLog(world.tables, UID, keep_seconds=60)
    main = replace(MAIN, moves=1)
    moved = replace(main, commit_id=C2)
    create, move, delete = (
        event(verb, time_ns) for verb, time_ns in (("create", 5), ("merge", 1 << 62), ("delete", 1 << 40))
    )
    world.tables.transact(refs.create_branch_writes(main, create))
    world.tables.transact(refs.move_branch_writes(main, moved, move))
    world.tables.transact(refs.delete_branch_writes(replace(moved, moves=2), delete))
    assert log.last_number("branch", "main") == 3
    assert log.last_number("branch", "other") == 0
    expected = [LogEntry(delete, C2, None), LogEntry(move, C1, C2), LogEntry(create, None, C1)]
    world.tables.reset()
    assert log.entries("branch", "main") == expected
    assert world.tables.calls == {"query": 1}
    assert log.entries("branch", "main", limit=2) == expected[:2]
    assert log.entries("tag", "main") == log.entries("branch", "mai") == []
    world.tables.transact(refs.create_tag_writes(Tag("v/1", C1), create))
    world.tables.transact(refs.delete_tag_writes(Tag("v/1", C1), delete))
    assert log.entries("tag", "v/1") == [LogEntry(delete, C1, None), LogEntry(create, None, C1)]


def test_rows_of_one_nanosecond_stay_apart_and_a_repeated_one_is_one() -> None:
    world = World()
    log = RefLog(world.tables, UID)
    entries = [LogEntry(event("a"), C1, C2), LogEntry(event("b"), C1, C2), LogEntry(event("b"), C2, C1)]
    for entry in [*entries, *entries]:
        write = log.put_write("branch", "main", entry)
        world.tables.put(write.key, write.item)
    found = log.entries("branch", "main")
    assert len(found) == 3
    assert all(entry in found for entry in entries)


def test_a_row_expires() -> None:
    log = RefLog(World().tables, UID, keep_seconds=100)
    write = log.put_write("tag", "v1", LogEntry(event(time_ns=7_999_999_999), None, C1))
    assert write.item["expires"] == 107
    assert write.key.sort[:8] == (7_999_999_999).to_bytes(8, "big")
    assert len(write.key.sort) == 16
    for time_ns in (-1, 1 << 63):
        with pytest.raises(InvalidError):
            log.put_write("tag", "v1", LogEntry(event(time_ns=time_ns), None, C1))


def test_a_long_log_is_read_in_pages() -> None:
    world = World()
    log = RefLog(world.tables, UID)
    writes = [log.put_write("branch", "main", LogEntry(event(time_ns=at), C1, C2)) for at in range(2500)]
    world.tables.write_many(writes)
    world.tables.reset()
    assert [entry.event.time_ns for entry in log.entries("branch", "main", limit=2200)] == list(range(2499, 299, -1))
    assert world.tables.calls == {"query": 3}
    assert len(log.entries("branch", "main", limit=10_000)) == 2500


def test_damaged_items_are_named() -> None:
    world = World()
    items: list[Item] = [{}, {"commit": 1, "open": "t"}, {"commit": C1}, {"commit": C1, "open": "t", "sealed": "t"}]
    for item in items:
        world.tables.put(world.refs.branch_key("main"), item)
        with pytest.raises(CorruptError, match="main"):
            world.refs.branch("main")
    world.tables.put(world.refs.tag_key("v1"), {"commit": True})
    with pytest.raises(CorruptError, match="v1"):
        world.refs.tag("v1")
    world.tables.put(Key(f"{UID}/reflog/tag/v1", b"0123456789abcdef"), {"operation": "x"})
    with pytest.raises(CorruptError, match="v1"):
        RefLog(world.tables, UID).entries("tag", "v1")


def test_keys_are_spread_over_sixteen_shards() -> None:
    refs = World().refs
    assert len({refs.branch_key(f"b{number}").partition for number in range(400)}) == SHARDS
    assert refs.branch_key("main") == Key(f"{UID}/branch/6", b"main")
    assert refs.tag_key("main") == Key(f"{UID}/tag/6", b"main")


def fill(world: World, names: Sequence[str], hidden: frozenset[str] = frozenset()) -> None:
    for name in names:
        tag: list[Write] = world.refs.create_tag_writes(Tag(name, C1), event())
        writes = [tag[0]]
        if name.isascii() and "." not in name:
            state = BranchState(name, C1, Token("t"), (), name in hidden)
            writes += world.refs.create_branch_writes(state, event())[:1]
        world.tables.write_many([Put(write.key, write.item) for write in writes if isinstance(write, Put)])


NAMES = st.text("aAb_", min_size=1, max_size=4)
TAGS = st.text("aé\U0001f600b.", min_size=1, max_size=4).filter(
    lambda name: "." not in (name[0], name[-1]) and ".." not in name
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sets(NAMES | TAGS, max_size=40), st.sets(NAMES), st.text("aAbé", max_size=2), st.integers(1, 12), st.booleans()
)
def test_pages_put_together_are_the_sorted_names(
    names: set[str], hidden: set[str], prefix: str, amount: int, show_hidden: bool
) -> None:
    world = World()
    fill(world, sorted(names), frozenset(hidden))
    shown = sorted((name for name in names if name.startswith(prefix)), key=str.encode)
    assert [tag.name for tag in all_tags(world.refs, prefix, amount)] == shown
    branches = [name for name in shown if name.isascii() and "." not in name and (show_hidden or name not in hidden)]
    assert [b.name for b in all_branches(world.refs, prefix, amount, show_hidden)] == branches


@settings(max_examples=examples(100), deadline=None)
@given(st.sets(NAMES, max_size=30), st.text("aAb_é\0", max_size=5), st.integers(1, 40))
def test_a_page_begins_after_any_text(names: set[str], after: str, amount: int) -> None:
    world = World()
    fill(world, sorted(names))
    expected = sorted(name for name in names if name.encode() > after.encode())
    page = world.refs.list_branches(after=after, amount=amount)
    assert [branch.name for branch in page.results] == expected[:amount]
    assert page.next_after == (expected[amount - 1] if len(expected) > amount else None)


def all_tags(refs: Refs, prefix: str, amount: int) -> list[Tag]:
    found: list[Tag] = []
    page: Page[Tag] = refs.list_tags(prefix, "", amount)
    found += page.results
    while page.next_after is not None:
        assert len(page.results) == amount
        page = refs.list_tags(prefix, page.next_after, amount)
        found += page.results
    return found


def all_branches(refs: Refs, prefix: str, amount: int, show_hidden: bool) -> list[BranchState]:
    found: list[BranchState] = []
    page = refs.list_branches(prefix, "", amount, show_hidden=show_hidden)
    found += page.results
    while page.next_after is not None:
        assert len(page.results) == amount
        page = refs.list_branches(prefix, page.next_after, amount, show_hidden=show_hidden)
        found += page.results
    return found


def test_a_page_reads_little_more_than_it_shows() -> None:
    world = World()
    names = [f"n{number:05}" for number in range(5000)]
    fill(world, names)
    for amount, requests, items in ((1, 16, 16 * 2), (100, 40, 350), (1000, 48, 2000)):
        world.tables.reset()
        page = world.refs.list_branches(amount=amount, after=names[99])
        assert [branch.name for branch in page.results] == names[100 : 100 + amount]
        assert SHARDS <= world.tables.calls["query"] <= requests
        assert world.tables.items["query"] <= items


def test_hidden_branches_do_not_cut_a_page_short() -> None:
    world = World()
    names = [f"b{number:04}" for number in range(1000)]
    fill(world, names, frozenset(names[:990]))
    page = world.refs.list_branches(amount=5)
    assert [branch.name for branch in page.results] == names[990:995]
    assert page.next_after == names[994]


class KeysThatFit(CountingTables):
    """Refuses bounds that are longer than a sort key can be, as DynamoDB does."""

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        assert max(len(start), len(end or b"")) <= MAX_SORT_KEY_BYTES
        return super().query(partition, start=start, end=end, limit=limit, descending=descending)


def test_a_page_may_begin_after_text_that_no_key_can_hold() -> None:
    world = World()
    names = ["a" * 255, "b" * 255, "c"]
    fill(world, names)
    refs = Refs(KeysThatFit(world.tables), UID)
    for after, expected in (("a" * 5000, names[1:]), ("b" * 5000, names[2:]), ("b" * 254 + "a" * 5000, names[1:])):
        assert [branch.name for branch in refs.list_branches(after=after).results] == expected
    assert [branch.name for branch in refs.list_branches("b" * 255, "a" * 5000).results] == names[1:2]


def test_odd_listings() -> None:
    refs = World().refs
    assert refs.list_branches("a" * 256) == Page(())
    assert refs.list_tags("é" * 128) == Page(())
    assert refs.list_tags("a", "b" * 5000) == Page(())
    for prefix, after, amount in (("", "", 0), ("", "", -1), ("\ud800", "", 1), ("", "\ud800", 1)):
        with pytest.raises(InvalidError):
            refs.list_tags(prefix, after, amount)
