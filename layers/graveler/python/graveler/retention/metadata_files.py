"""Graveler's own files, below ``_graveler/``, and the ones among them that are not needed.

Files without exactly the name that graveler gives them are not its own: they are kept, and reported as unknown.
"""

import re
from collections.abc import Callable, Collection, Iterator
from re import Pattern
from typing import Final

from msgspec import Struct

from graveler.lake.dump.chunks import dumps
from graveler.lake.opening.repositories import MARKER
from graveler.model import CommitID
from graveler.retention.live_listing import Unknown
from graveler.retention.runs import Candidate, Kind
from graveler.storage.objects.port import Objects, StoredObject
from graveler.tree.store import METARANGES, RANGES

INSIDE: Final = "_graveler/"

_COMMITS: Final = "commits"
_DUMPS: Final = "dumps"
_QUARANTINE: Final = "quarantine"
_TREE: Final = re.compile("[0-9a-f]{64}-[0-9a-f]{32}")
_NAMES: Final[dict[str, Pattern[str]]] = {
    _COMMITS: re.compile("[0-9a-f]{64}"),
    RANGES: _TREE,
    METARANGES: _TREE,
    _DUMPS: re.compile("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}/.+"),
    "exports": re.compile(".+"),
    "gc": re.compile("(runs|marks)/.+"),
    "imports": re.compile("[^/]+/.+"),
    "operations": re.compile("[^/]+/.+"),
    _QUARANTINE: re.compile("[^/]+/.+"),
}
"""Patterns of file names, by folder."""


class Needed(Struct, frozen=True):
    """The needed parts of a history: IDs of commits, names of metaranges, and a test for range names."""

    commits: Collection[CommitID]
    metaranges: Collection[str]
    range: Callable[[str], bool]


class OwnFiles:
    """Graveler's own files of one namespace, as listed, in memory: some hundred bytes each. Those in quarantine since
    ``quarantined`` (Unix seconds) are left out: they stay, and may be many."""

    def __init__(self, objects: Objects, quarantined: float, alive: Callable[[], None]) -> None:
        """List the files. One listing; ``alive`` is called per thousand."""
        self._objects = objects
        self._found: dict[str, list[tuple[str, StoredObject]]] = {}
        self._unknown: list[StoredObject] = []
        for number, stored in enumerate(objects.list(INSIDE)):
            if number % 1000 == 0:
                alive()
            folder, _, name = stored.key.removeprefix(INSIDE).partition("/")
            pattern = _NAMES.get(folder)
            if pattern is not None and pattern.fullmatch(name):
                if folder == _QUARANTINE and stored.modified >= quarantined:
                    continue
                self._found.setdefault(folder, []).append((name, stored))
            elif stored.key != MARKER:
                self._unknown.append(stored)

    def old_records(self, horizon: float) -> frozenset[CommitID]:
        """Return the commits whose record is not younger than ``horizon`` (Unix seconds)."""
        records = self._found.get(_COMMITS, ())
        return frozenset(CommitID(name) for name, stored in records if stored.modified <= horizon)

    def names(self, folder: str) -> Iterator[str]:
        """Return the names of the files of a folder."""
        return (name for name, _ in self._found.get(folder, ()))

    def young(self, folder: str, horizon: float) -> set[str]:
        """Return the names of the files of a folder that are younger."""
        return {name for name, stored in self._found.get(folder, ()) if stored.modified > horizon}

    def unneeded(self, needed: Needed, horizon: float, reported: float, unknown: Unknown) -> Iterator[Candidate]:
        """Yield unneeded files older than ``horizon``; runs only from before ``reported`` (Unix seconds). One listing if dumps
        exist."""
        complete = set(dumps(self._objects)) if _DUMPS in self._found else set()

        def unneeded_kind(folder: str, name: str, modified: float) -> tuple[Kind, str] | None:
            match folder:
                case "commits" if name not in needed.commits:
                    return Kind.COMMIT, "no ref reaches it"
                case "metaranges" if name not in needed.metaranges:
                    return Kind.METARANGE, "no commit has it"
                case "ranges" if not needed.range(name):
                    return Kind.RANGE, "no kept tree has it"
                case "dumps" if name.partition("/")[0] not in complete:
                    return Kind.DUMP, "its dump was never finished"
                case "quarantine":
                    return Kind.QUARANTINE, "its time in quarantine is over"
                case "operations" | "imports":
                    return Kind.OPERATION, "its operation has ended, or can no longer be published"
                case "gc" if name.startswith("runs/") and modified < reported:
                    return Kind.RUN, "the run ended long ago"
            return None

        for folder, files in self._found.items():
            for name, stored in files:
                verdict = unneeded_kind(folder, name, stored.modified) if stored.modified <= horizon else None
                if verdict is not None:
                    yield Candidate(verdict[0], stored.key, stored.size, stored.etag, stored.modified, verdict[1])
        for stored in self._unknown:
            unknown.add(stored)
