"""The bytes of objects on their way out, checked against what the lake noted of them."""

from collections.abc import Iterator
from hashlib import md5
from typing import TYPE_CHECKING

from graveler.errors import BusyError, CorruptError

if TYPE_CHECKING:
    from graveler.model import ObjectEntry
    from graveler.verbs import RepositoryVerbs

_MD5_DIGITS = 32


def checked_stream(repository: "RepositoryVerbs", ref: str, entry: "ObjectEntry") -> Iterator[bytes]:
    """The pieces of ``entry``, an object of ``ref``. :class:`CorruptError`, after the last piece, if they are not its bytes.

    An object that was imported lies outside of the lake, where somebody may have changed it since. :class:`BusyError` if it is
    the branch's object that was replaced meanwhile.
    """
    digest, size = md5(usedforsecurity=False), 0
    for piece in repository.stream(ref, entry.path):
        digest.update(piece)
        size += len(piece)
        yield piece
    is_md5 = len(entry.checksum) == _MD5_DIGITS
    if size != entry.size or (is_md5 and digest.hexdigest() != entry.checksum):
        if repository.stat(ref, entry.path) != entry:
            raise BusyError(f"{entry.path!r} was replaced in {ref!r} while it was read; try again")
        raise CorruptError(
            f"the bytes of {entry.path!r} are not those that {ref!r} noted: {entry.address} has {size:,} bytes with MD5 "
            f"{digest.hexdigest()}, noted were {entry.size:,} with {entry.checksum}. Somebody changed it there; restore it"
        )
