"""Identifying a range or metarange by its records, all of which are read: the check that needs no label."""

from collections.abc import Sequence
from hashlib import sha256

from graveler.tree.range_name import chunk_digests, plain_suffix, suffix
from graveler.tree.record import record_ids
from graveler.tree.sstable import MalformedTableError, OtherFileError, Records, Table


def expect_name(table: Table, name: str) -> Records:
    """Return all records of a file, after checking that they have this name. 3 µs a record. :class:`OtherFileError` if they have
    another one, :class:`MalformedTableError` for a record without an identity."""
    keys: list[bytes] = []
    packed: list[bytes] = []
    for some_keys, some_packed in table.blocks():
        keys += some_keys
        packed += some_packed
    try:
        actual = names_of(keys, packed)
    except IndexError:
        raise MalformedTableError("contains a record without an identity") from None
    if name not in actual:
        raise OtherFileError(
            f"contains another file: as a range its name would be {actual[0]}, as a metarange {actual[1]}"
        )
    return keys, packed


def names_of(keys: Sequence[bytes], packed: Sequence[bytes]) -> tuple[str, str]:
    """Return the recomputed names of the file with these records: as a range; and as a metarange, or a range from before names
    had chunks."""
    ids = record_ids(keys, packed)
    range_id = sha256(ids).hexdigest()
    return f"{range_id}-{suffix(chunk_digests(ids, packed)).hex()}", f"{range_id}-{plain_suffix(packed).hex()}"
