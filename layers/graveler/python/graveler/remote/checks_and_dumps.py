"""Upkeep of repositories behind the HTTP API: checks, dumps, space usage. Long work runs on the server; the client waits for it,
and may leave. For admins."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UnavailableError
from graveler.lake.dump.history import MissingParent
from graveler.lake.dump.restore import Restored
from graveler.lake.fsck.findings import Finding, Report
from graveler.model import CommitID
from graveler.remote.background_operations import RemoteOperations
from graveler.remote.connection import Connection, Listed
from graveler.remote.reading import RemoteReader
from graveler.retention.space import Holding, Space
from graveler.wire.documents import Pagination
from graveler.wire.upkeep_documents import CheckCreation, DumpDocument, DumpList, RestoredDocument, Started

_LONG: Final = 6 * 3600.0
"""Seconds that a server may take for a request that it answers when the work is done."""


class _Check(Struct, frozen=True):
    pagination: Pagination
    report: Report


class _Space(Struct, frozen=True):
    pagination: Pagination
    space: Space


class _DumpStatus(Struct, frozen=True):
    dump: DumpDocument


class _Restore(Struct, frozen=True):
    restored: RestoredDocument | None = None


class RemoteUpkeep:
    """The upkeep verbs of one repository that the API has."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._base = ("repositories", name)
        self._operations = RemoteOperations(connection, name)

    def fsck(
        self, *, repair: bool, reflog: bool, committed_objects: bool, outside_objects: bool, object_bytes: bool = False
    ) -> Report:
        """Check everything that the repository can reach, and repair it if asked. Cost: a request, one per poll, and one per
        thousand findings."""
        document = CheckCreation(repair, reflog, committed_objects, outside_objects, object_bytes)
        pages = list(self._made("checks", document, _Check))
        findings: tuple[Finding, ...] = tuple(finding for page in pages for finding in page.report.findings)
        return msgspec.structs.replace(pages[0].report, findings=findings)

    def space(self) -> Space:
        """Return which holders use the stored space. Cost: a request, one per poll, and one per thousand holders."""
        pages = list(self._made("space", {}, _Space))
        holders: tuple[Holding, ...] = tuple(holding for page in pages for holding in page.space.holders)
        return msgspec.structs.replace(pages[0].space, holders=holders)

    def dump(self) -> DumpDocument:
        """Write refs, settings and uncommitted changes next to the objects, and wait for the end. Cost: two requests, and one per
        poll."""
        path = (*self._base, "dump")
        task = self._connection.call("POST", path).read(Started).id
        self._operations.wait(task)
        return self._connection.get(path, _DumpStatus, {"task_id": task}).dump

    def dumps(self) -> list[tuple[str, str]]:
        """Return the complete dumps of the repository, oldest first: their IDs and locations."""
        dumps = self._connection.get((*self._base, "dumps"), DumpList).results
        return [(dump.id, dump.namespace) for dump in dumps]

    def restore(self, namespace: str, dump_id: str, *, looser_rules: bool = False) -> Restored:
        """Recreate the repository from a dump in a namespace. Cost: one request, which lasts as long as the work, and those of
        :attr:`RemoteReader.repository`. At most a thousand lost commits are listed."""
        ids = dict.fromkeys(("branches_meta_range_id", "commits_meta_range_id", "tags_meta_range_id"), dump_id)
        document = {**ids, "storage_namespace": namespace, **({"force": True} if looser_rules else {})}
        response = self._connection.call("POST", (*self._base, "restore"), None, document, seconds=_LONG)
        restored = response.read(_Restore).restored
        if restored is None:
            raise UnavailableError(
                f"repository {self._name!r} was restored by a request whose response was lost; `graveler fsck` shows what is "
                "missing"
            )
        missing = tuple(
            MissingParent(CommitID(lost.commit) if lost.commit else None, CommitID(lost.parent))
            for lost in restored.missing
        )
        repository = RemoteReader(self._connection, self._name).repository
        return Restored(
            repository, dump_id, restored.branches, restored.tags, restored.staged, restored.commits, missing
        )

    def _made(self, kind_name: str, document: object, kind: type[Listed]) -> Iterator[Listed]:
        """Start a report on the server, wait for it, and yield its pages."""
        path = (*self._base, kind_name)
        operation = self._connection.call("POST", path, None, document).read(Started).id
        self._operations.wait(operation)
        return self._connection.pages((*path, operation), kind)


def dumps_in(connection: Connection, namespace: str) -> list[tuple[str, str]]:
    """Return the complete dumps in a storage namespace, whose repository may be gone. One request."""
    dumps = connection.get(("dumps",), DumpList, {"namespace": namespace}).results
    return [(dump.id, dump.namespace) for dump in dumps]
