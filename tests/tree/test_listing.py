"""Listing with prefix, delimiter and paging compared with the plainest definition, with unusual keys."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import SplitParameters
from graveler.tree.listing import list_page, prefix_end
from graveler.tree.tree import Tree
from tests.support.campaigns import examples
from tests.support.trees import TINY, build_tree, new_store, packed
from tests.tree.support import EVERY, LAW, tables_written_once

NASTY = sorted(
    {
        b"/",
        b"//",
        b"///",
        b"//a",
        b"/a",
        b"/a/",
        b"a",
        b"a/",
        b"a//",
        b"a//b",
        b"a//b/",
        b"a/b",
        b"a/b/",
        b"a/b/c",
        b"a/c",
        b"a0",
        b"ab",
        b"ab/",
        b"ab/c/d/e",
        b"a\x00",
        b"a\x00/",
        b"a\x00/b",
        b"\x00",
        b"\x00/",
        b"\x00\x00",
        b"b/\x00",
        b"b/\xff",
        b"b\xff/",
        b"b\xff/a",
        b"b\xff\xff/",
        b"\xff",
        b"\xff/",
        b"\xff/a",
        b"\xff\xff",
        b"\xff\xff/",
        b"\xff\xff/\xff",
        "é/ü".encode(),
        "é/日本/語".encode(),
        "日本/語".encode(),
        "日本".encode(),
        "😀/😀".encode(),
        b"c--d--e",
        b"c--d-",
        b"c---d",
        b"c-----",
        b"c-d",
        b"L" * 1024,
        b"L" * 1023 + b"/",
        b"L" * 1022 + b"/x",
        b"M/" + b"/" * 1022,
        b"dir/file1",
        b"dir/file10",
        b"dir-old/file1",
        b"dir.old/file1",
        b"dir",
    }
)

PREFIXES = [
    b"",
    b"/",
    b"//",
    b"a",
    b"a/",
    b"a//",
    b"a/b",
    b"ab/",
    b"a\x00",
    b"b",
    b"b\xff",
    b"\xff",
    b"\xff\xff",
    b"c",
    b"c-",
    b"c--",
]
PREFIXES += [
    b"c-",
    b"c--",
    "é".encode(),
    "é/".encode(),
    "日".encode()[:1],
    b"L" * 1022,
    b"dir",
    b"dir/",
    b"dir/file1",
    b"nothing",
    b"zz",
]
DELIMITERS = [b"", b"/", b"//", b"--", b"\xff", b"a", b"\x00", "é".encode(), b"no such"]


def listing(keys: list[bytes], prefix: bytes, delimiter: bytes) -> list[bytes]:
    """Keys and common prefixes under ``prefix``, as the definition has them."""
    found = set()
    for key in keys:
        if key.startswith(prefix):
            head, at, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, b"", b"")
            found.add(prefix + head + at if at else key)
    return sorted(found)


def is_common(keys: list[bytes], entry: bytes, prefix: bytes, delimiter: bytes) -> bool:
    return (
        bool(delimiter) and entry.endswith(delimiter) and entry.startswith(prefix) and delimiter in entry[len(prefix) :]
    )


def check(
    tree: Tree, keys: list[bytes], prefix: bytes, delimiter: bytes, amount: int, after: bytes = b""
) -> list[tuple[bytes, bytes | None]]:
    """One page against the definition."""
    wanted = [entry for entry in listing(keys, prefix, delimiter) if entry > after]
    page = list_page(tree.run, prefix=prefix, delimiter=delimiter, after=after, amount=amount)
    assert page.keys == wanted[:amount], (prefix, delimiter, amount, after)
    assert page.more == (len(wanted) > amount), (prefix, delimiter, amount, after)
    listed = list(zip(page.keys, page.packed, strict=True))
    for key, found in listed:
        common = is_common(keys, key, prefix, delimiter)
        assert found == (None if common else packed(keys.index(key))), (prefix, delimiter, amount, after)
    return listed


def tree_of(keys: list[bytes], split: SplitParameters = TINY) -> Tree:
    return build_tree(new_store(), {key: n for n, key in enumerate(keys)}, split)


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("split", [TINY, EVERY, SplitParameters()], ids=["tiny", "every", "one"])
def test_pages_of_every_size_put_together_are_the_whole_listing(split: SplitParameters, delimiter: bytes) -> None:
    tree = tree_of(NASTY, split)
    for prefix in PREFIXES:
        whole = listing(NASTY, prefix, delimiter)
        for amount in range(1, len(whole) + 2):
            if amount > 12 and amount < len(whole) - 1:
                continue
            got: list[bytes] = []
            while True:
                page = check(tree, NASTY, prefix, delimiter, amount, got[-1] if got else b"")
                got += [key for key, _ in page]
                if len(page) < amount or got == whole:
                    break
            assert got == whole


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_a_page_begins_behind_after_whatever_after_is(delimiter: bytes) -> None:
    """A key, a common prefix, something in between, something that does not exist."""
    tree = tree_of(NASTY)
    afters = {*NASTY, *PREFIXES}
    afters |= {key + tail for key in NASTY if len(key) < 100 for tail in (b"\x00", b"/", b"/zz", b"!", b"\xff")}
    afters |= {key[:-1] for key in NASTY}
    for prefix in PREFIXES:
        for after in afters:
            for amount in (1, 3, 1000):
                check(tree, NASTY, prefix, delimiter, amount, after)


@settings(LAW, max_examples=examples(300))
@given(
    st.sets(
        st.lists(st.sampled_from([b"a", b"b", b"/", b"\x00", b"\xff", b"-"]), min_size=1, max_size=6).map(b"".join)
    ),
    st.sampled_from([TINY, EVERY]),
    st.data(),
)
def test_any_keys_are_listed_by_the_definition(keys: set[bytes], split: SplitParameters, data: st.DataObject) -> None:
    piece = st.lists(st.sampled_from([b"a", b"b", b"/", b"\x00", b"\xff", b"-"]), max_size=4).map(b"".join)
    ordered = sorted(keys)
    tree = tree_of(ordered, split)
    for _ in range(5):
        prefix, after = data.draw(piece), data.draw(piece | st.sampled_from(ordered) if ordered else piece)
        check(tree, ordered, prefix, data.draw(piece), data.draw(st.integers(1, 5)), after)


def test_random_keys_are_listed_by_the_definition(seed: int) -> None:
    random = Random(seed)
    with tables_written_once():
        for _ in range(300):
            keys = sorted(random.sample(NASTY, random.randint(0, len(NASTY))))
            tree = tree_of(keys)
            for _ in range(10):
                after = random.choice((b"", random.choice(NASTY), random.choice(PREFIXES)))
                check(tree, keys, random.choice(PREFIXES), random.choice(DELIMITERS), random.randint(1, 9), after)


def test_an_empty_tree_and_a_prefix_without_keys_list_nothing() -> None:
    for tree in (Tree(new_store()), tree_of(NASTY)):
        page = list_page(tree.run, prefix=b"no such prefix", delimiter=b"/")
        assert (page.keys, page.more) == ([], False)


@settings(LAW, max_examples=examples(300))
@given(st.binary(max_size=4), st.binary(max_size=6))
def test_prefix_end_is_above_all_keys_with_the_prefix_and_below_all_others(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)
    assert key.startswith(prefix) == (key >= prefix and (end is None or key < end))
