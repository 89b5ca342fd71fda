"""Records of listed objects, encoded a whole Arrow batch at a time: the result of a row reader for plain rows, at a third of its
cost.

Plain rows are objects outside the namespace with an MD5 or the ETag of a multipart upload, a time, and neither content type nor
metadata: what inventories have. Batches with any other row are left to :class:`graveler.lake.importing.listing_rows.RowReader`,
which reports errors. A test compares the two.
"""

from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as arrow
import pyarrow.compute as compute

from graveler.lake.importing.gate import Gate, GateOfMany
from graveler.lake.importing.listing_rows import RowRules
from graveler.lake.importing.listing_tables import ADDRESS, BUCKET, CHECKSUM, KEY, MTIME, SIZE
from graveler.tree.record import MAX_KEY_BYTES

Records = tuple[list[bytes], list[bytes], bytes]
"""Keys, the packed bytes of each, and all record IDs."""

_HEAD: Final = np.dtype([("length", ">u2"), ("size", ">u8"), ("mark", "u1")])
_PLAIN_HEAD: Final = np.dtype([*_HEAD.descr, ("digest", "V16"), ("external", "u1")])
_REST: Final = np.dtype([("array", "u1"), ("number", "u1"), ("mtime", ">u4")])
_MD5_DIGITS: Final = 32
_FIXED: Final = 10
"""Bytes of an identity besides checksum and address: size, length of the checksum, the marker of an address."""
_TEXT: Final = 128
"""Marks the length of a checksum stored as text."""
_IN_PARTS: Final = "^[0-9a-f]{32}-[0-9]{1,5}$"
"""The ETag of a multipart upload."""
_NO_DIGITS: Final = arrow.scalar("0" * _MD5_DIGITS)
_EXTERNAL: Final = arrow.scalar(b"\x02", arrow.binary())
_MAX_IDENTITY: Final = 0xFFFF
_SHORT_TIMES: Final = (1 << 16, (1 << 32) - 1)
"""Times that MessagePack writes in 32 bits."""
_BINARY: Final = arrow.binary()
_NOTHING: Final = arrow.scalar(b"", _BINARY)


class PlainRows:
    """The encoder for batches of plain rows. ``inside`` is the prefix of addresses in the namespace. Rows whose addresses the
    ``gate`` refuses are not plain."""

    def __init__(self, rules: RowRules, inside: str, gate: Gate) -> None:
        self._source = rules.source.encode()
        self._destination = rules.destination.encode()
        self._base = rules.base.encode()
        self._inside = inside.encode()
        self._gate = GateOfMany(gate)

    def encode(self, batch: arrow.RecordBatch) -> Records | None:
        """Return the records of a batch, if all its rows are plain and valid; else None. 1.5 µs a row, most of it for record
        IDs."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if not columns.keys() <= {KEY, ADDRESS, BUCKET, SIZE, CHECKSUM, MTIME} or not (
            columns.keys() >= {SIZE, CHECKSUM, MTIME}
        ):
            return None
        if not batch.num_rows or any(column.null_count for column in columns.values()):
            return None
        try:
            names = columns[KEY if KEY in columns else ADDRESS]
            names.cast(arrow.string())  # checks that it is UTF-8
            address = self._address(columns, names)
            sizes, mtimes = columns[SIZE].to_numpy(), columns[MTIME].to_numpy()
            checksums = columns[CHECKSUM]
            in_parts = _in_parts(checksums)
            digests = _digests(checksums if in_parts is None else compute.if_else(in_parts, _NO_DIGITS, checksums))
        except (ValueError, TypeError, UnicodeError, arrow.ArrowException):
            return None
        if address is None or digests is None or not self._are_good(names, address, sizes, mtimes):
            return None
        if self._gate.refusals(_list(address)):
            return None
        lengths = _FIXED + compute.binary_length(address).to_numpy(zero_copy_only=False)
        head = np.empty(batch.num_rows, _PLAIN_HEAD if in_parts is None else _HEAD)
        head["size"] = sizes
        if in_parts is None:
            head["length"] = lengths + _MD5_DIGITS // 2
            head["mark"], head["digest"], head["external"] = _MD5_DIGITS // 2, digests, 2
            begin: list[Any] = [_column(head)]
        else:
            marks = compute.binary_length(checksums).to_numpy(zero_copy_only=False) | _TEXT
            head["mark"] = np.where(in_parts.to_numpy(zero_copy_only=False), marks, _MD5_DIGITS // 2)
            head["length"] = lengths + (head["mark"] & (_TEXT - 1))
            raw = compute.if_else(in_parts, checksums.cast(_BINARY), _column(digests))
            begin = [_column(head), raw, _EXTERNAL]
        rest = np.empty(batch.num_rows, _REST)
        rest["array"], rest["number"], rest["mtime"] = 0x91, 0xCE, mtimes
        packed = _list(compute.binary_join_element_wise(*begin, address, _column(rest), _NOTHING))
        keys = self._keys(names)
        digest, end = sha256, -_REST.itemsize
        ids = [
            digest(digest(key).digest() + digest(record[2:end]).digest()).digest()
            for key, record in zip(keys, packed, strict=True)
        ]
        return keys, packed, b"".join(ids)

    def _address(self, columns: dict[str, Any], names: Any) -> Any:
        base = self._base
        if not base:
            if ADDRESS in columns:
                address = columns[ADDRESS].cast(_BINARY)
                return address if compute.all(compute.match_substring(address, b"://")).as_py() else None
            buckets = columns[BUCKET].unique()
            if len(buckets) > 1:
                return None
            base = b"s3://" + buckets[0].as_py().encode() + b"/"
        return compute.binary_join_element_wise(arrow.scalar(base, _BINARY), names, _NOTHING)

    def _keys(self, names: Any) -> list[bytes]:
        keys = _list(names)
        if self._source or self._destination:
            cut, destination = len(self._source), self._destination
            return [destination + key[cut:] for key in keys]
        return keys

    def _are_good(self, names: Any, address: Any, sizes: Any, mtimes: Any) -> bool:
        lengths = compute.min_max(compute.binary_length(names)).as_py()
        least, most = _SHORT_TIMES
        return bool(
            sizes.dtype.kind == mtimes.dtype.kind == "i"
            and sizes.min() >= 0
            and least <= mtimes.min()
            and mtimes.max() <= most
            and lengths["min"] > len(self._source)
            and lengths["max"] - len(self._source) + len(self._destination) <= MAX_KEY_BYTES
            and compute.max(compute.binary_length(address)).as_py() + _FIXED + _TEXT <= _MAX_IDENTITY
            and (not self._source or compute.all(compute.starts_with(names, self._source)).as_py())
            and not compute.any(compute.ends_with(names, b"/")).as_py()
            and not compute.any(compute.starts_with(address, self._inside)).as_py()
        )


def _in_parts(checksums: Any) -> Any:
    """Return which of the checksums are ETags of multipart uploads; None if all have the length of an MD5."""
    if compute.min_max(compute.binary_length(checksums)).as_py() == {"min": _MD5_DIGITS, "max": _MD5_DIGITS}:
        return None
    return compute.match_substring_regex(checksums, _IN_PARTS)


def _digests(checksums: Any) -> Any:
    """Return 16 bytes for each of the MD5s, which are 32 digits in lower case; None if they are anything else."""
    if compute.min_max(compute.binary_length(checksums)).as_py() != {"min": _MD5_DIGITS, "max": _MD5_DIGITS}:
        return None
    start = int(np.frombuffer(checksums.buffers()[1], np.int32)[checksums.offset])
    text = checksums.buffers()[2][start : start + len(checksums) * _MD5_DIGITS].to_pybytes()
    raw = bytes.fromhex(text.decode("ascii"))
    return np.frombuffer(raw, "V16") if raw.hex().encode() == text else None


def _column(rows: Any) -> Any:
    """Return rows of equal length as binary values."""
    width = rows.dtype.itemsize if rows.ndim == 1 else rows.shape[1]
    return arrow.FixedSizeBinaryArray.from_buffers(arrow.binary(width), len(rows), [None, arrow.py_buffer(rows)]).cast(
        _BINARY
    )


def _list(values: Any) -> list[bytes]:
    values_list: list[bytes] = values.to_numpy(zero_copy_only=False).tolist()
    return values_list
