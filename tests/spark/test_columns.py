"""Records as columns: the same values as from the codec, whatever the layout of their bytes."""

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import CorruptError
from graveler.model import ObjectEntry
from graveler.spark.columns import OBJECT, RecordColumns
from graveler.tree.record import RecordCodec, base32
from tests.spark.histories import entry_of

NAMESPACE = "s3://bucket/lake"
CODEC = RecordCodec(NAMESPACE)


def row(entry: ObjectEntry) -> dict[str, object]:
    return {
        "path": entry.path,
        "size": entry.size,
        "checksum": entry.checksum,
        "mtime": entry.mtime,
        "address": entry.address,
        "content_type": entry.content_type,
        "metadata": list(entry.metadata.items()),
    }


def named(random: Random, path: str) -> ObjectEntry:
    name = f"{base32(random.getrandbits(100), 20)}/{base32(random.getrandbits(100), 20)}"
    return ObjectEntry(
        path, f"{NAMESPACE}/data/{name}", random.randrange(1 << 62), f"{random.getrandbits(128):032x}", 1 << 31
    )


@settings(deadline=None)
@given(st.integers(0, 2**32), st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 7))
def test_columns_have_what_the_codec_reads(seed: int, kinds: list[bool], block: int) -> None:
    random = Random(seed)
    entries = [
        named(random, f"p{at}") if usual else entry_of(random, f"p{at}é", NAMESPACE) for at, usual in enumerate(kinds)
    ]
    keys, packed = [e.path.encode() for e in entries], [CODEC.encode(e) for e in entries]
    blocks = [(keys[at : at + block], packed[at : at + block]) for at in range(0, len(keys), block)]
    batches = list(RecordColumns(NAMESPACE).batches(blocks))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == OBJECT
    assert pa.Table.from_batches(batches).to_pylist() == [row(e) for e in entries]


@pytest.mark.parametrize("usual", [True, False])
def test_columns_can_be_chosen(usual: bool) -> None:
    random = Random(1)
    entries = [named(random, f"p{at}") if usual else entry_of(random, f"p{at}", NAMESPACE) for at in range(20)]
    blocks = [([e.path.encode() for e in entries], [CODEC.encode(e) for e in entries])]
    for columns in (["path"], ["address", "path"], ["size", "metadata"], ["mtime"], ["checksum", "content_type"]):
        found = pa.Table.from_batches(list(RecordColumns(NAMESPACE).batches(blocks, columns))).to_pylist()
        assert found == [{name: row(e)[name] for name in columns} for e in entries]


@pytest.mark.parametrize("damage", [b"", b"\0", b"\0\x19" + b"x" * 58, b"\0\1" + b"\xff" * 40])
def test_damaged_records_are_told(damage: bytes) -> None:
    good = CODEC.encode(named(Random(1), "p"))
    with pytest.raises(CorruptError):
        list(RecordColumns(NAMESPACE).batches([([b"a", b"b"], [good, damage])]))


def test_a_key_that_is_no_text_is_told() -> None:
    with pytest.raises(CorruptError, match="not UTF-8"):
        list(RecordColumns(NAMESPACE).batches([([b"\xff"], [CODEC.encode(named(Random(1), "p"))])]))
