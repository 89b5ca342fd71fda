"""Pages as text: the same as records one by one, whether rendered anew, kept in memory, or read from notes."""

from collections.abc import Mapping
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptError, DamagedFileError
from graveler.model import ObjectEntry, SplitParameters
from graveler.tree.range_notes import MemoryNotes
from graveler.tree.rendered_pages import STRETCH, Renderer, Rendering
from graveler.tree.sstable import Lookups
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.campaigns import examples
from tests.support.trees import ALONE, CODEC, NAMESPACE, MemoryFiles
from tests.tree.support import LAW, UNIVERSE, CountingNotes, some_contents, some_split

JSON: Rendering[ObjectEntry] = Rendering(ObjectEntry, msgspec.json.encode)


def entry(key: bytes, value: int) -> ObjectEntry:
    """Records of all kinds; those of the same value differ by their keys alone."""
    path = key.decode()
    address = f"{NAMESPACE}/{path}" if value == 1 else f"s3://elsewhere/{'long/' * 40}{path}"
    metadata = {'a"\n': "é"} if value == 2 else {}
    return ObjectEntry(
        path, address, value, f"{value:032x}", value << 20, "text/plain" if value == 3 else "a/b", metadata
    )


def tree_of(contents: Mapping[bytes, int], split: SplitParameters, files: MemoryFiles | None = None) -> Tree:
    store = TreeStore(files or MemoryFiles(), ALONE)
    return build(store, split, ((key, CODEC.encode(entry(key, contents[key]))) for key in sorted(contents)))


def many(count: int) -> dict[bytes, int]:
    """So many records, of which a block holds some fifty."""
    return {b"%05d/x" % (3 * number): number % 4 for number in range(count)}


def expect(
    renderer: Renderer, tree: Tree, contents: Mapping[bytes, int], start: bytes, end: bytes | None, amount: int
) -> None:
    """One page, against the records one by one."""
    wanted = [key for key in sorted(contents) if start <= key and (end is None or key < end)]
    page = renderer.page(JSON, tree, start, end, amount)
    assert all(page.pieces)
    found = msgspec.json.decode(b"[" + b",".join(page.pieces) + b"]")
    plain = msgspec.json.encode([entry(key, contents[key]) for key in wanted[:amount]])
    assert found == msgspec.json.decode(plain)
    assert b"[" + b",".join(page.pieces) + b"]" == plain
    assert (page.count, page.more) == (len(wanted[:amount]), len(wanted) > amount)
    if page.count == amount:
        assert page.last == wanted[amount - 1]


@settings(LAW, max_examples=examples(150))
@given(
    some_contents,
    some_split,
    st.lists(
        st.tuples(
            st.sampled_from([b"", *UNIVERSE]) | st.binary(max_size=3),
            st.sampled_from([None, *UNIVERSE]) | st.binary(min_size=1, max_size=3),
            st.integers(1, 20),
        ),
        max_size=6,
    ),
)
def test_pages_are_the_records_one_by_one(
    contents: dict[bytes, int], split: SplitParameters, asked: list[tuple[bytes, bytes | None, int]]
) -> None:
    tree, notes = tree_of(contents, split), MemoryNotes()
    renderer = Renderer(NAMESPACE, notes, least=1)
    for start, end, amount in asked * 2:
        for each in (renderer, Renderer(NAMESPACE, notes, least=1), Renderer(NAMESPACE)):
            expect(each, tree, contents, start, end, amount)


def test_pages_begin_and_end_anywhere_in_ranges_of_many_blocks() -> None:
    contents = many(1200)
    tree = tree_of(contents, SplitParameters(min_size=12_000, max_size=20_000, raggedness=4))
    assert len(tree) > 2
    assert min(len(tree.open(number)) for number in range(len(tree) - 1)) > 3
    random, notes = Random(5), MemoryNotes()
    kept = Renderer(NAMESPACE, notes)
    for _ in range(60):
        number = random.randrange(3700)
        start, end = b"%05d/" % number, random.choice([None, b"%05d/x" % (number + random.randrange(2000))])
        for renderer in (kept, Renderer(NAMESPACE, notes, max_bytes=0), Renderer(NAMESPACE)):
            expect(renderer, tree, contents, start, end, random.choice([1, 2, 16, 50, 300, 1000, 5000]))


def test_where_records_are_and_what_is_there() -> None:
    tree = tree_of(many(400), SplitParameters())
    table = tree.open(0)
    everywhere = [(block, at, key) for block in range(len(table)) for at, key in enumerate(table.read(block)[0])]
    for block, at, key in everywhere:
        assert table.position(key) == (block, at)
        assert table.key_at(block, at) == key
    for (_, _, key), (block, at, _) in pairwise(everywhere):
        assert table.position(key + b"\0") == (block, at)
    assert table.position(everywhere[-1][2] + b"\0") == (len(table), 0)


def test_what_is_kept_was_asked_for_before() -> None:
    contents, notes = many(700), CountingNotes()
    tree = tree_of(contents, SplitParameters())
    table = tree.open(0)
    assert STRETCH < len(table) <= 2 * STRETCH
    renderer = Renderer(NAMESPACE, notes)
    expect(renderer, tree, contents, b"", None, 700)
    assert notes.puts == 0, "a scan of everything keeps nothing"
    for _ in range(3):
        expect(renderer, tree, contents, b"", None, 10)
        assert notes.puts == 1
    for _ in range(3):
        expect(renderer, tree, contents, table.read(STRETCH)[0][0], None, 150)
        assert notes.puts == 2
    expect(Renderer(NAMESPACE, notes), tree, contents, b"", None, 700)
    assert notes.puts == 2
    small = tree_of(many(40), SplitParameters())
    for _ in range(3):
        expect(renderer, small, many(40), b"", None, 40)
    assert notes.puts == 2


def test_what_was_kept_of_another_repository_or_rendering_is_not_taken() -> None:
    contents, notes = many(300), CountingNotes()
    tree = tree_of(contents, SplitParameters())
    renderer = Renderer(NAMESPACE, notes)
    names: Rendering[str] = Rendering(lambda path, *_: path, msgspec.json.encode)
    for _ in range(3):
        expect(renderer, tree, contents, b"", None, 10)
        page = renderer.page(names, tree, b"", None, 3)
        assert page.pieces == [b'"00000/x","00003/x","00006/x"']
        elsewhere = Renderer("mem://other", notes).page(JSON, tree, b"00003", None, 1)
        assert msgspec.json.decode(elsewhere.pieces[0])["address"] == "mem://other/00003/x"


@pytest.mark.parametrize("damage", ["empty", "cut", "a byte", "another range's"])
def test_damaged_notes_are_made_anew(damage: str) -> None:
    contents, notes = many(300), CountingNotes()
    tree = tree_of(contents, SplitParameters())
    renderer = Renderer(NAMESPACE, notes)
    for _ in range(2):
        expect(renderer, tree, contents, b"", None, 300)
    ((name, good),) = notes.written.items()
    if damage == "another range's":
        other = CountingNotes()
        other_tree, other_renderer = tree_of(many(250), SplitParameters()), Renderer(NAMESPACE, other)
        for _ in range(2):
            other_renderer.page(JSON, other_tree, b"", None, 250)
        (bad,) = other.written.values()
    else:
        bad = {"empty": b"", "cut": good[:-1], "a byte": good[:100] + bytes([good[100] ^ 1]) + good[101:]}[damage]
    notes.put(name, bad)
    again = Renderer(NAMESPACE, notes)
    for _ in range(2):
        expect(again, tree, contents, b"", None, 300)
    assert notes.get(name) == good


def test_what_is_kept_in_memory_is_bounded() -> None:
    contents, notes = many(1200), CountingNotes()
    tree = tree_of(contents, SplitParameters(min_size=1200, max_size=2000, raggedness=4))
    assert len(tree) > 20
    whole = Renderer(NAMESPACE, notes, least=1)
    for _ in range(2):
        expect(whole, tree, contents, b"", None, 1200)
    assert 0 < whole.kept_bytes == sum(map(len, notes.written.values()))
    bounded = Renderer(NAMESPACE, notes, least=1, max_bytes=whole.kept_bytes // 5)
    for start in [b"", b"02000", b""]:
        expect(bounded, tree, contents, start, None, 900)
        assert whole.kept_bytes // 10 < bounded.kept_bytes <= whole.kept_bytes // 5


def test_a_damaged_range_is_named_and_one_out_of_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    contents = many(300)
    name = tree_of(contents, SplitParameters(), files).info(0).name
    tree = tree_of(contents, SplitParameters(), files)
    files.files[RANGES, name] = files.files[RANGES, name][:-60]
    with pytest.raises(DamagedFileError, match=name):
        Renderer(NAMESPACE).page(JSON, tree, b"", None, 1)
    whole = tree_of(contents, SplitParameters())
    for keys in ([b"00003/x", b"00000/x"], [b"00003/x", b"99999"]):
        monkeypatch.setattr(Lookups, "read", lambda *_, keys=keys: (keys, [b"", b""]))
        with pytest.raises(CorruptError, match="out of order"):
            Renderer(NAMESPACE).page(JSON, whole, b"", None, 1)
