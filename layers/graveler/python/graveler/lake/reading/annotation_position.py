"""The position in a walk for the last changes of a page's entries, as text: where another request continues it."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, InvalidError
from graveler.model import CommitID


class AnnotationPosition(Struct, frozen=True, array_like=True):
    """``listed`` is the commit of the listing, ``entries`` the number of entries on its page. ``frontier``: commits, each with
    the entries whose last change is there or further down, as a bitmap. IDs are raw bytes."""

    listed: bytes
    entries: int
    frontier: list[tuple[bytes, bytes]]

    @classmethod
    def of(cls, listed: CommitID, entries: int, frontier: Mapping[CommitID, Sequence[int]]) -> "AnnotationPosition":
        """Return the position for a walk that stopped at this frontier."""
        return cls(
            bytes.fromhex(listed),
            entries,
            [
                (bytes.fromhex(cid), sum(1 << number for number in numbers).to_bytes(-(-entries // 8), "little"))
                for cid, numbers in sorted(frontier.items())
            ],
        )

    @property
    def commit(self) -> CommitID:
        """The commit of the listing."""
        return CommitID(self.listed.hex())

    def numbers(self) -> dict[CommitID, list[int]]:
        """Return the frontier: the numbers of entries by commit."""
        return {
            CommitID(cid.hex()): [
                n for n in range(self.entries) if n // 8 < len(bitmap) and bitmap[n // 8] >> n % 8 & 1
            ]
            for cid, bitmap in self.frontier
        }

    def __str__(self) -> str:
        return urlsafe_b64encode(_encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> "AnnotationPosition":
        """Return the position that a text stands for. :class:`InvalidError` for any other text."""
        try:
            position = _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValueError, *UNREADABLE):
            position = None
        if position is None or any(len(cid) != _ID_BYTES for cid in (position.listed, *dict(position.frontier))):
            raise InvalidError(
                f"{text[:80]!r} is not the position that an earlier page returned as `next`; begin without one"
            )
        return position


_ID_BYTES = 32
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnnotationPosition).decode
