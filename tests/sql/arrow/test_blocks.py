"""Blocks that are parsed together hold what they hold parsed one by one; and damaged ones are found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.sql.arrow.blocks import parsed
from graveler.tree.block import SEQUENCE_SIZE, MalformedTableError, encode, entries

Table = list[tuple[bytes, bytes]]

_SEQUENCE_LIKE = st.sampled_from([b"\x01", b"\x01\x00", b"\x01" + bytes(7), b"\x01" + bytes(8), b"a"])
KEYS = st.one_of(
    st.binary(min_size=1, max_size=30),
    st.builds(
        lambda a, b, c: b"tables/events/" + a + b + c,
        st.sampled_from([b"", b"x" * 130]),
        _SEQUENCE_LIKE,
        st.binary(max_size=3),
    ),
    st.builds(lambda number: b"part-%06d" % number, st.integers(0, 999_999)),
)
VALUES = st.one_of(
    st.binary(max_size=40), st.builds(bytes, st.integers(120, 300)), st.builds(bytes, st.sampled_from([16_383, 16_384]))
)
TABLES = st.dictionaries(KEYS, VALUES, min_size=1, max_size=60).map(lambda found: sorted(found.items()))


def blocks_of(table: Table, sizes: list[int]) -> list[bytes]:
    """Cut a table into blocks of these numbers of records, again and again."""
    made, at, number = [], 0, 0
    while at < len(table):
        some = table[at : at + sizes[number % len(sizes)]]
        made.append(encode([key for key, _ in some], [value for _, value in some]))
        at, number = at + len(some), number + 1
    return made


@given(TABLES, st.lists(st.integers(1, 40), min_size=1, max_size=3))
def test_many_blocks_are_parsed_as_each_is(table: Table, sizes: list[int]) -> None:
    found = parsed(blocks_of(table, sizes))
    assert found.keys.to_pylist() == [key for key, _ in table]
    assert [found.packed(number) for number in range(len(found))] == [value for _, value in table]


@given(TABLES, st.data())
def test_some_of_the_records_are_themselves(table: Table, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(table) - 1))
    stop = data.draw(st.integers(first + 1, len(table)))
    found = parsed(blocks_of(table, [7])).within(first, stop)
    assert len(found) == stop - first
    assert [(found.key(n), found.packed(n)) for n in range(len(found))] == table[first:stop]


@given(TABLES, st.lists(st.integers(1, 40), min_size=1, max_size=3), st.data())
def test_damaged_blocks_are_found_or_parsed_as_each_is(table: Table, sizes: list[int], data: st.DataObject) -> None:
    """A block has a checksum, so that this is what somebody made on purpose: nothing outside the block may be read."""
    blocks = [bytearray(block) for block in blocks_of(table, sizes)]
    for _ in range(data.draw(st.integers(1, 3))):
        block = data.draw(st.sampled_from(blocks))
        if data.draw(st.booleans()):
            block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
        else:
            del block[data.draw(st.integers(1, len(block))) :]
    damaged = [bytes(block) for block in blocks]
    try:
        found = parsed(damaged)
        keys = found.keys.to_pylist()
    except (MalformedTableError, IndexError):
        return
    one_by_one = [entries(block, SEQUENCE_SIZE) for block in damaged]
    assert keys == [key for some, _ in one_by_one for key in some]
    assert [found.packed(number) for number in range(len(found))] == [value for _, some in one_by_one for value in some]


@pytest.mark.parametrize("block", [b"", b"\0", bytes(4), bytes(8), b"\xff" * 8, b"\xff" * 64])
def test_what_is_no_block_is_found(block: bytes) -> None:
    with pytest.raises(MalformedTableError):
        parsed([encode([b"a"], [b"b"]), block])
