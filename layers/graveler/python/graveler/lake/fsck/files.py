"""The rules for one metarange or range, checked on its bytes alone. No request."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from struct import error as StructError  # noqa: N812
from struct import unpack
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, CorruptError
from graveler.lake.fsck.findings import FindingKind
from graveler.model import ObjectEntry, SplitParameters
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_name import SUFFIX_BYTES, chunk_digests, plain_suffix, suffix
from graveler.tree.recomputed_name import expect_name
from graveler.tree.record import IDENTITY_OVERHEAD, MAX_KEY_BYTES, RecordCodec, identity, record_ids
from graveler.tree.split import cuts_after, first_cut
from graveler.tree.sstable import MalformedTableError, Records, Table
from graveler.tree.store import expect_label

_ID_BYTES = 32
_MAX_TOTAL: Final = (1 << 64) - 1
"""The limit on the sum of the objects' bytes, as in the tree's writer: a description cannot hold more."""


class Problem(msgspec.Struct, frozen=True):
    """A violation of a rule, in the objects from ``first_key`` to ``last_key``."""

    kind: FindingKind
    reason: str
    first_key: bytes | None = None
    last_key: bytes | None = None


def open_file(kind: str, name: str, data: bytes) -> Records:
    """Return the records of a range or metarange file, if they match its name, in order.

    :class:`MalformedTableError` with the reason if not.
    """
    table = Table(data)
    expect_label(table, kind, name)
    keys, packed = expect_name(table, name)
    if not keys:
        raise MalformedTableError("is empty")
    for key, following in pairwise(keys):
        if key >= following:
            raise MalformedTableError(f"its keys are not in order: {key!r} comes before {following!r}")
    return keys, packed


def descriptions(keys: Sequence[bytes], packed: Sequence[bytes]) -> tuple[list[RangeInfo], list[Problem]]:
    """Return a metarange's descriptions of its ranges, as far as they can be read."""
    infos: list[RangeInfo] = []
    problems: list[Problem] = []
    for last, description in zip(keys, packed, strict=True):
        try:
            info = RangeInfo.unpack(last, description)
        except UNREADABLE as error:
            reason = f"the description of its range that ends with {last!r} cannot be read: {error}"
            problems.append(Problem(FindingKind.METARANGE_DAMAGED, reason, None, last))
            continue
        if len(identity(description)) != _ID_BYTES or len(info.suffix) != SUFFIX_BYTES:
            reason = f"the description of its range that ends with {last!r} names no file"
            problems.append(Problem(FindingKind.METARANGE_DAMAGED, reason, info.first, last))
            continue
        infos.append(info)
    return infos, problems


def seams(infos: Sequence[RangeInfo], split: SplitParameters) -> list[Problem]:
    """Return where neighbouring ranges overlap, or one ends against the split rule. The descriptions are assumed to be true."""
    problems: list[Problem] = []
    for info, following in pairwise(infos):
        if following.first <= info.last:
            overlap = f"{info.name} ends with {info.last!r}, but the next one starts with {following.first!r}"
            reason = f"has ranges that overlap: {overlap}"
            problems.append(Problem(FindingKind.METARANGE_DAMAGED, reason, following.first, info.last))
        if not cuts_after(split, info.size, info.last):
            reason = f"ends range {info.name} with {info.last!r}, where the split rule does not end one"
            problems.append(Problem(FindingKind.CUT, reason, info.first, info.last))
    return problems


def describe(keys: Sequence[bytes], packed: Sequence[bytes]) -> RangeInfo:
    """Return the true description of a range. ``struct.error`` for a record without a size."""
    ids = record_ids(keys, packed)
    return RangeInfo(
        last=keys[-1],
        id=sha256(ids).digest(),
        first=keys[0],
        count=len(keys),
        size=sum(map(len, keys)) + IDENTITY_OVERHEAD * len(keys),
        total=min(sum(unpack(f">{len(packed)}Q", b"".join([record[2:10] for record in packed]))), _MAX_TOTAL),
        suffix=suffix(chunk_digests(ids, packed)),
    )


def misdescribed(info: RangeInfo, keys: Sequence[bytes], packed: Sequence[bytes]) -> Problem | None:
    """Return what is false in the description of a range with these records."""
    try:
        true = describe(keys, packed)
    except StructError:
        return None  # the record without a size is reported separately
    wrong = [
        f"{field} is {getattr(true, field)!r}, not {getattr(info, field)!r}"
        for field in ("first", "last", "count", "size", "total", "suffix")
        if getattr(true, field) != getattr(info, field)
        and not (field == "suffix" and info.suffix == plain_suffix(packed))
    ]
    if not wrong:
        return None
    reason = f"describes range {info.name} wrongly: {', '.join(wrong)}"
    return Problem(FindingKind.DESCRIPTION, reason, min(info.first, true.first), max(info.last, true.last))


def decode_all(
    codec: RecordCodec, keys: Sequence[bytes], packed: Sequence[bytes]
) -> tuple[list[ObjectEntry], Problem | None]:
    """Return the entries of a range, and the problem with its invalid records. About 3 µs each."""
    entries: list[ObjectEntry] = []
    bad: list[tuple[bytes, str]] = []
    for key, record in zip(keys, packed, strict=True):
        try:
            entry = codec.decode(key, record)
        except CorruptError as error:
            bad.append((key, str(error)))
            continue
        if 0 < len(key) <= MAX_KEY_BYTES:
            entries.append(entry)
        else:
            bad.append((key, f"the key {key[:40]!r}… has {len(key)} bytes"))
    if not bad:
        return entries, None
    text = f"contains {len(bad)} record{'s' * (len(bad) > 1)} that cannot be read: {'; '.join(text for _, text in bad[:3])}"
    return entries, Problem(FindingKind.RECORD, text, bad[0][0], bad[-1][0])


def missing_cut(split: SplitParameters, keys: Sequence[bytes]) -> Problem | None:
    """Return where a range with these keys goes on although the split rule ends it."""
    cut = first_cut(split, keys)
    if cut == len(keys):
        return None
    return Problem(
        FindingKind.CUT, f"continues after {keys[cut - 1]!r}, where the split rule ends it", keys[0], keys[-1]
    )
