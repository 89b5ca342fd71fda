"""A block with spliced values equals the block encoded from them."""

from struct import error as StructError  # noqa: N812

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.tree.block import MalformedTableError, encode, entries
from graveler.tree.splice import Splice, values_of
from tests.support.campaigns import examples
from tests.tree.support import LAW

NASTY = [b"\0", b"k", b"k\0", b"k\0\0", b"k\x01", b"k\x01\0", b"k\x01\x01", b"x" * 130, b"x" * 131, b"y" * 1024]
"""What entries share of them reaches into what RocksDB appends to keys; lengths of one byte and of two."""
KEYS = sorted([*NASTY, *(b"warehouse/day=%02d/part-%03d" % (n // 7, n) for n in range(70))])
some_value = st.sampled_from([b"", b"v", b"w" * 127, b"w" * 128, b"w" * 300, b"w" * 17_000])


@settings(LAW, max_examples=examples(300))
@given(
    st.dictionaries(st.sampled_from(KEYS), some_value, min_size=1),
    st.dictionaries(st.sampled_from(KEYS), st.none() | some_value),
)
def test_a_block_with_other_values_is_the_one_encoded_of_them(
    records: dict[bytes, bytes], looked_for: dict[bytes, bytes | None]
) -> None:
    """``looked_for``: keys that are there and others; with None, those whose value stays."""
    ordered = sorted(records)
    block = encode(ordered, [records[key] for key in ordered])
    splice = Splice(block)
    after = dict(records)
    for key in sorted(looked_for):
        found = splice.find(key)
        assert found == ((ordered.index(key), records[key]) if key in records else None)
        if found is not None and (value := looked_for[key]) is not None:
            splice.replace(value)
            after[key] = value
    made = splice.finish()
    assert made == encode(ordered, [after[key] for key in ordered])
    assert values_of(made) == [after[key] for key in ordered]


def test_bytes_that_are_no_block_are_refused() -> None:
    block = encode([b"a", b"b"], [b"1", b"2"])
    for data in (b"", block[:3], block[:-4] + b"\xff\xff\xff\x7f"):
        with pytest.raises((MalformedTableError, StructError)):
            Splice(data)
    assert entries(Splice(block).finish(), 8) == ([b"a", b"b"], [b"1", b"2"])
