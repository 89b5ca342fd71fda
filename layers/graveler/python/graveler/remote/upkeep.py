"""Looking after a repository behind the HTTP API: checks, dumps, garbage collection. Long work goes on at the server; whoever
asks waits for it, and may leave."""

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from graveler.errors import UnavailableError
from graveler.remote.connection import Connection, Query

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 5.0
"""Seconds between two looks: the first pause, and the longest."""
_LONG: Final = 6 * 3600.0
"""Seconds that a server may take for a request that is answered when the work is done."""
_ENDED: Final = "the server could not do it"


class Finding(Struct, frozen=True):
    """One thing that is wrong. ``refs`` are the names of those that it affects."""

    kind: str
    what: str
    why: str
    remedy: str
    refs: list[str]


class FsckSummary(Struct, frozen=True):
    """What a check found: ``results`` are the first 100 of ``findings``."""

    clean: bool
    findings: int
    counts: dict[str, int]
    garbage: dict[str, int]
    results: list[Finding]


class Tally(Struct, frozen=True):
    """How many files, and their bytes."""

    files: int
    bytes: int


class Said(Struct, frozen=True):
    """Why something ended."""

    message: str


class Collected(Struct, frozen=True):
    """How far a garbage collection is, and what it did."""

    completed: bool
    run: str = ""
    outcomes: Mapping[str, Tally] = {}
    expired_commits: int = 0
    report: str = ""
    error: Said | None = None


class _Started(Struct, frozen=True):
    id: str


class _Refs(Struct, frozen=True):
    branches_meta_range_id: str


class _DumpStatus(Struct, frozen=True):
    done: bool
    error: str = ""
    refs: _Refs | None = None


Status = TypeVar("Status")


class RemoteUpkeep:
    """What the API has for the upkeep of one repository. Admins' keys only."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name
        self._base = ("repositories", name)
        self.close: Callable[[], None] = connection.close

    def fsck(self, *, objects: bool = False) -> FsckSummary:
        """Check all that the repository can reach. One request, which takes as long as it takes."""
        query: Query = {"objects": objects}
        return self._connection.call("GET", (*self._base, "fsck"), query, seconds=_LONG).read(FsckSummary)

    def dump(self) -> str:
        """Write refs, settings and uncommitted changes beside the objects, and wait for it; the dump's ID. Cost: a request, and
        one for each look at how far it is. :class:`UnavailableError` if it fails."""
        path = (*self._base, "dump")
        task = self._connection.call("POST", path).read(_Started).id
        status = _wait(lambda: self._connection.get(path, _DumpStatus, {"task_id": task}), lambda found: found.done)
        if status.refs is None:
            raise UnavailableError(f"{_ENDED}: {status.error}; no dump was made")
        return status.refs.branches_meta_range_id

    def restore(self, namespace: str, dump_id: str) -> None:
        """Make the repository again of a dump in a namespace. One request, which takes as long as it takes."""
        ids = dict.fromkeys(("branches_meta_range_id", "commits_meta_range_id", "tags_meta_range_id"), dump_id)
        self._connection.call(
            "POST", (*self._base, "restore"), None, {**ids, "storage_namespace": namespace}, seconds=_LONG
        )

    def collect(self, mode: str | None) -> Collected:
        """Collect garbage, and wait for it. Cost: a request, and one for each look. :class:`UnavailableError` if it fails."""
        path = (*self._base, "gc", "runs")
        run = self._connection.call("POST", path, None, {"mode": mode}).read(_Started).id
        found = _wait(lambda: self._connection.get((*path, run), Collected), lambda found: found.completed)
        if found.error is not None:
            raise UnavailableError(f"{_ENDED}: {found.error.message}")
        return found


def _wait(look: Callable[[], Status], is_over: Callable[[Status], bool]) -> Status:
    pause = _FIRST_LOOK
    while not is_over(found := look()):
        time.sleep(pause)
        pause = min(_LONGEST_LOOK, pause * 1.5)
    return found
