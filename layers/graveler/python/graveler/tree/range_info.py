"""What a metarange says of one range."""

from typing import Final

import msgspec

from graveler.tree.record import IDENTITY_OVERHEAD, frame
from graveler.tree.sstable import OtherFileError, Table

_PREFIX: Final = 2 + 32
"""Bytes of a packed range description that hold its ID and, before it, the ID's length."""
ID: Final = slice(2, _PREFIX)
"""Where a packed range description has the range's ID."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, int, int, int, bytes]).decode


class RangeInfo(msgspec.Struct, frozen=True):
    """What a metarange says of one range.

    ``first`` and ``last`` are its outermost keys, ``count`` its records, ``size`` its logical size in bytes (what the split
    rule counts), ``total`` the sum of its objects' sizes in bytes. ``suffix`` pins addresses and times in the file's name.
    """

    last: bytes
    id: bytes
    first: bytes
    count: int
    size: int
    total: int
    suffix: bytes

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.id.hex()}-{self.suffix.hex()}"

    def check(self, table: Table) -> None:
        """:class:`OtherFileError` if the range's file has another first or last key, number of records or logical size. For files
        without a label: one that has some was compared by its name, which says more. 70 µs; nothing with a label."""
        if table.label is not None:
            return
        first, last = table.ends()
        count, key_bytes = table.measures()
        found = {"first": first, "last": last, "count": count, "size": key_bytes + IDENTITY_OVERHEAD * count}
        wrong = [
            f"{what} is {value!r}, where {getattr(self, what)!r} belongs"
            for what, value in found.items()
            if value != getattr(self, what)
        ]
        if wrong:
            raise OtherFileError(f"holds another range: {'; '.join(wrong)}")

    def pack(self) -> bytes:
        """Identity (the range ID) and rest, as a record of the metarange under the key ``last``."""
        return frame(self.id, _pack((self.first, self.count, self.size, self.total, self.suffix)))

    @classmethod
    def unpack(cls, last: bytes, packed: bytes) -> "RangeInfo":
        """The inverse of :meth:`pack`."""
        first, count, size, total, suffix = _unpack(packed[_PREFIX:])
        return cls(last, packed[ID], first, count, size, total, suffix)
