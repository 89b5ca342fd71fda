"""Reading an object as a file: seekable, in ranges, with read-ahead.

A reader that reads the object from the first byte to the last compares its MD5 with the recorded one before the last read
returns. A seek to anywhere but the beginning turns this check off. Each read compares the number of bytes.

After a failed read, Python's own buffer has lost some bytes, so reading on would leave an unnoticed gap. Further reads are
refused until the caller seeks to the position to continue from.
"""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from graveler.errors import DamagedObjectError, InvalidError, PreconditionError
from graveler.lake.objects.verification import Comparison, OpenedObject, damaged
from graveler.system.tracebacks import short_traceback

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_AHEAD: Final = 1 << 20
"""Bytes that a small read fetches."""


class ObjectReader(io.RawIOBase):
    """The bytes of one object as of its opening: later changes staged at its path do not show.

    Every read is one object read; :func:`open_reader` adds read-ahead.
    """

    def __init__(self, opened: OpenedObject) -> None:
        super().__init__()
        self.entry = opened.entry
        self._opened = opened
        self._position = 0
        self._compared: Comparison | None = Comparison(self.entry)
        """The comparison of all bytes read so far; None once some were skipped."""
        self._failed: BaseException | None = None

    @property
    def name(self) -> str:
        """The object's path."""
        return self.entry.path

    def readable(self) -> bool:
        self._check_open()
        return True

    def seekable(self) -> bool:
        self._check_open()
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a byte offset, which may lie beyond the end, where reads find nothing. No request."""
        self._check_open()
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.entry.size}
        if whence not in starts:
            raise ValueError(f"whence is {whence}; give 0 (start), 1 (here) or 2 (end)")
        position = starts[whence] + offset
        if position < 0:
            raise ValueError(f"position {position} is before the beginning of {self.name!r}")
        if position != self._position:
            self._go_to(position)
        self._failed = None
        return position

    def forgive(self) -> None:
        """Allow reads again after a failed one, from the position that :meth:`tell` returns."""
        self._failed = None

    @short_traceback
    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._rest())
        done = 0
        with self._reading():
            for piece in self._pieces(length):
                view[done : done + len(piece)] = piece
                done += len(piece)
        return done

    @short_traceback
    def readall(self) -> bytes:
        """Return everything from the current position to the end, in one object read."""
        with self._reading():
            return b"".join(self._pieces(self._rest()))

    def _rest(self) -> int:
        return max(0, self.entry.size - self._position)

    def _pieces(self, length: int) -> Iterator[bytes]:
        """Yield exactly ``length`` bytes. :class:`DamagedObjectError` if the object's size is not the recorded one, or if these
        are the last of all its bytes and the MD5 differs."""
        if length:
            pieces = self._opened.read(self._position, length)
            for piece in pieces if self._compared is None else self._compared.added(pieces, length):
                self._position += len(piece)
                yield piece
        if self._compared is not None and self._compared.size == self.entry.size:
            difference = self._compared.found(self._opened.vouch)
            if difference is not None:
                raise damaged(self.entry, self._opened.ref, difference)
            self._compared = None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Guard a read. A failed read blocks further ones, and :meth:`tell` returns the position where it began."""
        self._check_open()
        if isinstance(self._failed, DamagedObjectError):
            raise self._failed
        if self._failed is not None:
            raise PreconditionError(
                f"an earlier read of {self.name!r} failed, and part of its data is lost; seek to where the next read should "
                "start, or open the object again"
            )
        began = self._position
        try:
            yield
        except BaseException as error:
            self._go_to(began)
            self._failed = error
            raise

    def _go_to(self, position: int) -> None:
        self._position = position
        self._compared = None if position else Comparison(self.entry)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"the reader of {self.name!r} is closed")


class _BufferedObject(io.BufferedReader):
    """A buffered reader whose every seek reaches the object: Python's own stays within the buffer where that is enough."""

    def __init__(self, reader: ObjectReader, buffer_size: int) -> None:
        super().__init__(reader, buffer_size)
        self._reader = reader

    def seek(self, target: int, whence: int = io.SEEK_SET, /) -> int:
        self._reader.forgive()
        return super().seek(target, whence)


def open_reader(
    opened: OpenedObject,
    mode: str,
    *,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
    buffer_size: int,
) -> io.BufferedReader | io.TextIOWrapper:
    """Return a file over an object, binary or text. :class:`InvalidError` for modes other than reading."""
    binary = check_mode(mode, "r", encoding=encoding, errors=errors, newline=newline)
    file = buffered(opened, buffer_size)
    return file if binary else io.TextIOWrapper(file, encoding or "utf-8", errors, newline)


def buffered(opened: OpenedObject, buffer_size: int = READ_AHEAD) -> io.BufferedReader:
    """Return a binary file over an object that fetches ``buffer_size`` bytes for small reads."""
    return _BufferedObject(ObjectReader(opened), max(1, min(buffer_size, opened.entry.size)))


def check_mode(mode: str, kinds: str, *, encoding: str | None, errors: str | None, newline: str | None) -> bool:
    """Return whether ``mode`` is a binary one. :class:`InvalidError` for a mode that does not begin with one of ``kinds``, for
    text options with a binary mode, and for unknown encodings."""
    kind, rest = mode[:1], mode[1:]
    if not kind or kind not in kinds or rest not in ("", "b", "t"):
        modes = ", ".join(repr(kind + end) for kind in kinds for end in ("", "b"))
        reason = "; objects are written as a whole, so appending is not possible" if kind == "a" else ""
        raise InvalidError(f"mode {mode!r} is not one of {modes}{reason}")
    binary = rest == "b"
    if binary and (encoding, errors, newline) != (None, None, None):
        raise InvalidError(
            f"mode {mode!r} reads and writes bytes, which have no encoding, errors or newline; leave them out"
        )
    try:
        codecs.lookup(encoding or "utf-8")
        codecs.lookup_error(errors or "strict")
    except LookupError as error:
        raise InvalidError(f"{error}; give one that Python knows") from None
    if newline not in (None, "", "\n", "\r", "\r\n"):
        raise InvalidError(f"newline is {newline!r}; give None, '', '\\n', '\\r' or '\\r\\n'")
    return binary
