"""Garbage collection of a repository behind the HTTP API, and the leftovers of deleted repositories. For admins."""

from collections.abc import Iterator
from typing import Final, TypeVar

from graveler.lake.opening.repositories import DeletedRepository
from graveler.model import CommitID, RepositoryUID, RetentionRules
from graveler.remote.background_operations import RemoteOperations
from graveler.remote.connection import Connection
from graveler.remote.repository_settings import rules_document
from graveler.retention.garbage import RulesPreview
from graveler.retention.holds import Hold
from graveler.retention.leftovers import Purged, find_deleted
from graveler.retention.run_document import RunDescription
from graveler.retention.runs import Candidate, Mode, Outcome
from graveler.system.progress import Progress
from graveler.wire import documents
from graveler.wire import garbage as wire
from graveler.wire.mapping import mapped

T = TypeVar("T")

_DELETED: Final = ("deleted_repositories",)


class RemoteGarbage:
    """The server-side counterpart of :class:`graveler.retention.garbage.Garbage`. Each verb is one request unless stated
    otherwise."""

    def __init__(self, connection: Connection, repository: str) -> None:
        self._connection = connection
        self._repository = repository
        self._base = ("repositories", repository, "gc")

    def collect(self, mode: Mode | None) -> RunDescription:
        """Collect (or list, as a dry run) and wait for the end; after Ctrl-C the server continues. Cost: two requests, and one
        for each poll."""
        document = {"mode": None if mode is None else mode.value}
        begun = self._connection.call("POST", (*self._base, "runs"), None, document).read(
            wire.GarbageCollectionRunStarted
        )
        run = RemoteOperations(self._connection, self._repository).wait(begun.id).result
        return self._connection.get((*self._base, "reports", run), RunDescription)

    def described_runs(self) -> list[RunDescription]:
        """Return all runs, oldest first."""
        return self._connection.get((*self._base, "reports"), wire.GarbageCollectionReports).results

    def rows(self, run: str) -> Iterator[tuple[Candidate, Outcome]]:
        """Yield the findings of a run with their outcomes, without ETags. Cost: one request per thousand."""
        path = (*self._base, "reports", run, "files")
        for page in self._connection.pages(path, wire.GarbageCollectionFiles):
            for file in page.results:
                yield mapped(Candidate, file, etag=""), file.outcome

    def restore(self, run: str, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """Restore files from quarantine. Cost: one request per thousand files, or per as many as a request has time for."""
        after: str | None = ""
        while after is not None:
            response = self._connection.call(
                "POST", (*self._base, "reports", run, "restore"), None, {"prefix": prefix, "after": after}
            )
            page = response.read(wire.RestoredFiles)
            yield from ((file.key, file.restored) for file in page.results)
            after = page.pagination.next_after

    def hold(self, ref: str, reason: str, by: str = "") -> Hold:
        """Keep the objects of a ref's commit, whatever becomes of the ref and the rules."""
        document = wire.HoldCreation(ref, reason)
        return self._connection.call("POST", (*self._base, "holds"), None, document).read(Hold)

    def release(self, ref: str) -> CommitID:
        """End the legal hold on a ref's commit. Cost: two requests. :class:`NotFoundError`."""
        path = ("repositories", self._repository, "commits", ref)
        commit = self._connection.get(path, documents.Commit).value().id
        self._connection.call("DELETE", (*self._base, "holds", commit))
        return commit

    def holds(self) -> list[Hold]:
        """Return all legal holds."""
        return [mapped(Hold, hold) for hold in self._connection.get((*self._base, "holds"), wire.HoldList).results]

    def preview(self, rules: RetentionRules | None) -> RulesPreview:
        """Return what rules would keep and drop if they were set now; at most a thousand dropped commits are listed."""
        document = wire.PreviewCreation(None if rules is None else rules_document(rules))
        forecast = self._connection.call("POST", (*self._base, "preview"), None, document).read(wire.RulesPreview)
        lost = tuple(commit.value() for commit in forecast.lost)
        return RulesPreview(forecast.reached, forecast.kept, lost, forecast.lost_count - len(lost))


class RemoteLeftovers:
    """The server-side counterpart of :class:`graveler.retention.leftovers.Leftovers`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[DeletedRepository]:
        """Return the deleted repositories with leftovers, newest first. Cost: one request per thousand."""
        pages = self._connection.pages(_DELETED, wire.DeletedRepositoryList)
        return [mapped(DeletedRepository, repository) for page in pages for repository in page.results]

    def find(self, name: str) -> DeletedRepository:
        """Return the one of this name, uid or namespace. Cost as :meth:`all`. :class:`NotFoundError`; :class:`InvalidError` if
        several had the name."""
        return find_deleted(self.all(), name)

    def purge(
        self, uid: RepositoryUID, *, force: bool = False, at_once: bool = False, progress: Progress | None = None
    ) -> Purged:
        """Remove a deleted repository's leftovers for good. Cost: one request per 20 seconds of work; returns what the last one
        removed."""
        response = self._connection.call("POST", (*_DELETED, uid, "purge"), None, {"force": force, "at_once": at_once})
        return mapped(Purged, response.read(wire.Purge))
