"""Events of a folder, by polling it: ingest on a laptop, where no store sends events.

A file counts when two polls find it the same, so one that is being written is left for later. Its sequencer is the change time of
its inode (which cannot be set, unlike its modification time), in nanoseconds; that of its deletion is the time when it was first
missed. So a restarted watch sends the earlier events again, which change nothing; reconciliation finds what was deleted while no
watch ran.
"""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import UnavailableError
from graveler.ingest.events import FILES, LAST_TIME, EventKind, ObjectEvent
from graveler.values.ignore_rules import LeftOutFiles, Reason

_SLACK: Final = 10_000_000
"""Nanoseconds by which a file's times may lag behind the clock."""


class _Look(msgspec.Struct, frozen=True):
    """The attributes that distinguish two states of a file."""

    size: int
    modified_ns: int
    changed_ns: int
    node: int


class FolderWatch:
    """A poller of the files below a folder. ``now_ns`` is the clock of the file system, in nanoseconds; ``skips`` tells which
    folders to skip. ``ignoring`` is called for each poll, and returns what tells why a path is left out (None: it is not): such a
    file has no events, nor has one that is left out from now on. ``left_out`` are the files that the last poll left out."""

    def __init__(
        self,
        folder: Path,
        now_ns: Callable[[], int],
        skips: Callable[[Path], bool] = lambda _: False,
        ignoring: "Callable[[], Callable[[str], Reason | None]]" = lambda: _take_all,
    ) -> None:
        self._folder = folder.absolute()
        self._now_ns = now_ns
        self._skips = skips
        self._ignoring = ignoring
        self.left_out = LeftOutFiles()
        self._told: dict[str, _Look] = {}
        self._compared: dict[str, _Look] = {}
        self._last: dict[str, _Look] = {}

    @property
    def address(self) -> str:
        """The folder's address."""
        return f"{FILES}{self._folder}/"

    def look(self) -> list[ObjectEvent]:
        """Return the events since the previous poll. Reads no file. :class:`UnavailableError`."""
        began = self._now_ns()
        reason_of, left_out = self._ignoring(), LeftOutFiles()
        looks: dict[str, _Look] = {}
        for path, state in self._files():
            reason = reason_of(path)
            if reason is None:
                looks[path] = state
            else:
                left_out.add(reason, path)
        self.left_out = left_out
        for before in (self._told, self._compared):
            for path in [path for path in before if path not in looks and reason_of(path) is not None]:
                del before[path]
        events: list[ObjectEvent] = []
        for path, state in looks.items():
            if self._told.get(path) != state and self._last.get(path) == state:
                events.append(_event(path, EventKind.CREATED, state.changed_ns, state))
                self._told[path] = state
                self._compared.pop(path, None)
        for path in [path for path in {**self._compared, **self._told} if path not in looks]:
            untold = self._compared.pop(path, None)
            previous = self._told.pop(path, None) or untold
            assert previous is not None
            events.append(_event(path, EventKind.DELETED, max(began - _SLACK, previous.changed_ns + 1), previous))
        self._last = looks
        return events

    def compared(self) -> None:
        """Record that the current files are on the branch: deletions are reported from here on, also of files which the previous
        poll has found and not reported yet."""
        self._compared.update((path, state) for path, state in self._last.items() if path not in self._told)

    def _files(self) -> Iterator[tuple[str, _Look]]:
        """Yield the files. Links are followed, as in the listing for reconciliation, but not in circles."""
        waiting: list[tuple[Path, frozenset[tuple[int, int]]]] = [(self._folder, frozenset())]
        while waiting:
            folder, above = waiting.pop()
            try:
                folder_status = folder.stat()
                ancestors = above | {(folder_status.st_dev, folder_status.st_ino)}
                if ancestors == above:
                    continue
                for path in sorted(folder.iterdir()):
                    if path.is_dir():
                        if not self._skips(path):
                            waiting.append((path, ancestors))
                        continue
                    try:
                        status = path.stat()
                    except FileNotFoundError:
                        continue  # it went during the poll
                    except OSError as error:
                        if error.errno == errno.ELOOP:
                            continue  # a circular link leads to no file
                        raise
                    if path.is_file():
                        look = _Look(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
                        yield str(path), look
            except FileNotFoundError:
                if folder == self._folder:
                    raise UnavailableError(f"folder {str(folder)!r} is gone; nothing was treated as deleted") from None
            except OSError as error:
                raise UnavailableError(f"cannot read {str(folder)!r}: {error.strerror}") from None


def _take_all(_: str) -> Reason | None:
    return None


def _event(path: str, kind: EventKind, sequence: int, state: _Look) -> ObjectEvent:
    # Sequencers of equal width, so that padding on the right changes nothing.
    sequencer = f"{sequence:016x}".rstrip("0")
    # A file may have any time; that of an event is within the calendar.
    moment = min(max(state.modified_ns / 1e9, 0.0), LAST_TIME)
    return ObjectEvent(FILES, path[1:], kind, sequencer, state.size, "", moment)
