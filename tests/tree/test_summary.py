"""Summaries and "does it differ" compared with plain dicts, and the ranges that they open."""

from hypothesis import given
from hypothesis import strategies as st

from graveler.model import MergeStrategy, Totals
from graveler.tree.has_difference import differ, differ_anywhere, where_equal
from graveler.tree.key_range import KeyRange
from graveler.tree.merge import TreeConflict, merge, preview
from graveler.tree.store import TreeStore
from graveler.tree.summary import TotalsCounter, by_delimiter, measure, summarize
from tests.support.trees import ALONE, TINY, MemoryFiles, as_dict, build_tree, new_store, packed
from tests.tree.support import with_store

NAMES = [f"{folder}/{number:02}".encode() for folder in ("a", "b", "bb", "c") for number in range(20)] + [b"a", b"top"]
CONTENTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0, 1, 1000]), max_size=60)
PREFIXES = st.sampled_from([b"", b"a/", b"b", b"bb/1", b"zz"])


def expected(left: dict[bytes, int], right: dict[bytes, int], prefix: bytes, delimiter: bytes) -> dict[bytes, Totals]:
    counters: dict[bytes, TotalsCounter] = {}
    group = by_delimiter(prefix, delimiter)
    for key in sorted(left.keys() | right.keys()):
        before, after = left.get(key), right.get(key)
        if key.startswith(prefix) and before != after:
            counter = counters.setdefault(group(key) if delimiter else b"", TotalsCounter())
            counter.add(None if before is None else packed(before), None if after is None else packed(after))
    return {group: counter.totals() for group, counter in counters.items()}


@given(CONTENTS, CONTENTS, PREFIXES, st.sampled_from([b"", b"/"]))
def test_a_summary_counts_what_a_diff_lists(
    left: dict[bytes, int], right: dict[bytes, int], prefix: bytes, delimiter: bytes
) -> None:
    store = new_store()
    trees = build_tree(store, left), build_tree(store, right)
    found = summarize(*trees, prefix, by_delimiter(prefix, delimiter)) if delimiter else summarize(*trees, prefix)
    assert dict(found) == expected(left, right, prefix, delimiter)


def test_whole_ranges_on_one_side_are_counted_without_opening_them() -> None:
    files = MemoryFiles()
    contents = {b"a/%05d" % number: number for number in range(2000)}
    more = contents | {b"b/%05d" % number: number for number in range(2000)}
    left, right = build_tree(TreeStore(files, ALONE), contents), build_tree(TreeStore(files, ALONE), more)
    files.requests.clear()
    ((_, totals),) = summarize(left, right)
    assert totals.added == 2000
    assert totals.added_bytes == sum(len(str(number)) for number in range(2000))
    assert files.requests["get ranges"] <= 4  # the seam
    files.requests.clear()
    assert [totals.added for _, totals in measure(right, b"", by_delimiter(b"", b"/"))] == [2000, 2000]
    assert files.requests["get ranges"] <= 1


@given(CONTENTS, CONTENTS, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_trees_differ_where_their_records_do(
    left: dict[bytes, int], right: dict[bytes, int], one: bytes, other: bytes
) -> None:
    start, end = sorted([one, other])
    store = new_store()
    answer = differ(build_tree(store, left), build_tree(store, right), start, end)
    inside = {key for key in left.keys() | right.keys() if start <= key < end}
    assert answer == any(left.get(key) != right.get(key) for key in inside)


@given(CONTENTS, CONTENTS, st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([*NAMES, None])), max_size=14))
def test_several_intervals_differ_where_their_records_do(
    left: dict[bytes, int], right: dict[bytes, int], intervals: list[tuple[bytes, bytes | None]]
) -> None:
    store = new_store()
    trees = build_tree(store, left), build_tree(store, right)
    keys = left.keys() | right.keys()
    equal = [
        all(left.get(key) == right.get(key) for key in keys if start <= key and (end is None or key < end))
        for start, end in intervals
    ]
    key_ranges = [KeyRange(*interval) for interval in intervals]
    assert where_equal(*trees, key_ranges) == equal
    assert differ_anywhere(*trees, key_ranges) == (not all(equal))


def test_nothing_is_opened_where_two_trees_share_their_ranges() -> None:
    files = MemoryFiles()
    contents = {b"%05d" % number: number for number in range(2000)}
    left = build_tree(TreeStore(files, ALONE), contents)
    right = build_tree(TreeStore(files, ALONE), contents | {b"01999": -1})
    files.requests.clear()
    assert not differ(left, right, b"00100", b"00101")
    assert not files.requests
    assert differ(left, right, b"01999", b"02000")


def test_one_comparison_serves_many_key_ranges_and_opens_what_differs_once_where_they_are() -> None:
    files = MemoryFiles()
    contents = {b"%05d" % number: number for number in range(5000)}
    changed = {b"%05d" % number: -number for number in (17, 18, 1000, 1001, 2500, 4000)}
    left = build_tree(TreeStore(files, ALONE), contents)
    right = build_tree(TreeStore(files, ALONE), contents | changed)
    names = {tree.info(number).name for tree in (left, right) for number in range(len(tree))}
    shared = {left.info(number).name for number in range(len(left))} & {right.info(n).name for n in range(len(right))}
    old, new = (with_store(tree, TreeStore(files, ALONE, max_block_bytes=0)) for tree in (left, right))
    files.requests.clear()
    key_ranges = [KeyRange(key, key + b"\0") for key in contents if key < b"02000"]
    equal = where_equal(old, new, key_ranges)
    assert [key.start for key, same in zip(key_ranges, equal, strict=True) if not same] == sorted(changed)[:4]
    assert files.requests["get ranges"] <= len(names - shared) * 2 // 3 + 2, "not those where 2500 and 4000 are"


@given(CONTENTS, CONTENTS, CONTENTS, st.sampled_from(MergeStrategy))
def test_a_preview_says_what_the_merge_does(
    base: dict[bytes, int], source: dict[bytes, int], destination: dict[bytes, int], strategy: MergeStrategy
) -> None:
    store = new_store()
    trees = build_tree(store, base), build_tree(store, source), build_tree(store, destination)
    result = merge(*trees, TINY, strategy)
    found = list(preview(*trees, strategy))
    assert tuple(item for item in found if isinstance(item, TreeConflict)) == result.conflicts
    if result.tree is not None:
        after = as_dict(trees[2])
        for item in found:
            assert not isinstance(item, TreeConflict)
            key, before, now = item
            assert after.get(key) == before
            if now is None:
                del after[key]
            else:
                after[key] = now
        assert after == as_dict(result.tree)


@given(CONTENTS, CONTENTS, CONTENTS)
def test_strategies_by_key_decide_each_conflict(
    base: dict[bytes, int], source: dict[bytes, int], destination: dict[bytes, int]
) -> None:
    def strategy(key: bytes) -> MergeStrategy:
        return MergeStrategy.SOURCE_WINS if key.startswith(b"b") else MergeStrategy.DEST_WINS

    store = new_store()
    trees = build_tree(store, base), build_tree(store, source), build_tree(store, destination)
    result = merge(*trees, TINY, strategy)
    assert result.tree is not None
    ours, theirs = (merge(*trees, TINY, side).tree for side in (MergeStrategy.DEST_WINS, MergeStrategy.SOURCE_WINS))
    assert ours is not None
    assert theirs is not None
    chosen = {key: value for key, value in as_dict(theirs).items() if key.startswith(b"b")}
    chosen |= {key: value for key, value in as_dict(ours).items() if not key.startswith(b"b")}
    assert as_dict(result.tree) == chosen
