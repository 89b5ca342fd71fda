"""A metarange's description of one range."""

from typing import Final

import msgspec

from graveler.tree.record import IDENTITY_OVERHEAD, frame
from graveler.tree.sstable import OtherFileError, Table

_PREFIX: Final = 2 + 32
"""Size in bytes of a packed range description's ID and of the ID's length before it."""
ID: Final = slice(2, _PREFIX)
"""The range's ID in a packed range description."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, int, int, int, bytes]).decode


class RangeInfo(msgspec.Struct, frozen=True):
    """A metarange's description of one range.

    ``first`` and ``last`` are its outermost keys, ``count`` its records, ``size`` its logical size in bytes (what the split rule
    counts), ``total`` the sum of its objects' sizes in bytes. ``suffix`` pins addresses and times in the file's name.
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
        """Check the first and last key, number of records and logical size of the range's file; :class:`OtherFileError` if one
        differs. Only for files without a label: a label was already compared by name, which says more. 70 µs; nothing with a
        label."""
        if table.label is not None:
            return
        first_key, last_key = table.ends()
        count, key_bytes = table.measures()
        actual = {"first": first_key, "last": last_key, "count": count, "size": key_bytes + IDENTITY_OVERHEAD * count}
        wrong = [
            f"{field} is {value!r}, where {getattr(self, field)!r} belongs"
            for field, value in actual.items()
            if value != getattr(self, field)
        ]
        if wrong:
            raise OtherFileError(f"contains another range: {'; '.join(wrong)}")

    def pack(self) -> bytes:
        """Return identity (the range ID) and rest, as a record of the metarange under the key ``last``."""
        return frame(self.id, _pack((self.first, self.count, self.size, self.total, self.suffix)))

    @classmethod
    def unpack(cls, last: bytes, packed: bytes) -> "RangeInfo":
        """Return the description from its packed bytes: the inverse of :meth:`pack`."""
        first_key, count, size, total, suffix = _unpack(packed[_PREFIX:])
        return cls(last, packed[ID], first_key, count, size, total, suffix)
