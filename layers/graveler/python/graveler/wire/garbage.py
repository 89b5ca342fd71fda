"""Documents about garbage collection."""

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from graveler.retention.run_document import RunDescription
from graveler.retention.runs import Kind, Mode, Outcome
from graveler.wire.documents import Commit, Pagination
from graveler.wire.error_documents import Error
from graveler.wire.repository_documents import GCRules


class GarbageCollectionRunCreation(Struct, frozen=True):
    """The run to start. A null ``mode`` means quarantine in the first run, and deletion in later ones."""

    mode: Mode | None = None


class GarbageCollectionRunStarted(Struct, frozen=True):
    """The ID of the operation, for status requests."""

    id: str


class GarbageCollectionTally(Struct, frozen=True):
    """The number of files, and their bytes."""

    files: int
    bytes: int


class GarbageCollectionRun(Struct, frozen=True):
    """The progress of a run and, once it is completed, its results: the number of unneeded files by outcome, and the number of
    commits that it marked as expired. ``report`` is the address of a Parquet table of these files."""

    completed: bool
    run: str | UnsetType = UNSET
    outcomes: Mapping[str, GarbageCollectionTally] | UnsetType = UNSET
    expired_commits: int | UnsetType = UNSET
    report: str | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class GarbageCollectionReports(Struct, frozen=True):
    """All runs, oldest first."""

    results: list[RunDescription]


class GarbageCollectionFile(Struct, frozen=True):
    """A file that a run found unneeded, and its outcome. ``size`` is in bytes, ``modified`` in Unix seconds."""

    kind: Kind
    key: str
    size: int
    modified: float
    why: str
    outcome: Outcome


class GarbageCollectionFiles(Struct, frozen=True):
    """A page of a run's files."""

    pagination: Pagination
    results: list[GarbageCollectionFile]


class RestoreCreation(Struct, frozen=True):
    """The files to restore from quarantine: those whose key begins with ``prefix`` and is greater than ``after``."""

    prefix: str = ""
    after: str = ""


class RestoredFile(Struct, frozen=True):
    """A file in quarantine. ``restored`` is false if a file with its key exists; it then stays in quarantine."""

    key: str
    restored: bool


class RestoredFiles(Struct, frozen=True):
    """The restored files. If there are more, repeat the request with ``next_offset`` as ``after``."""

    pagination: Pagination
    results: list[RestoredFile]


class HoldCreation(Struct, frozen=True):
    """The commit to hold, as any ref expression, and the reason."""

    ref: str
    why: str = ""


class HoldDocument(Struct, frozen=True):
    """A commit under legal hold. ``at`` is the time when the hold began, in Unix seconds."""

    commit_id: str
    why: str
    by: str
    at: int


class HoldList(Struct, frozen=True):
    """All legal holds, by commit."""

    results: list[HoldDocument]


class PreviewCreation(Struct, frozen=True):
    """The retention rules to try; null means no rules."""

    rules: GCRules | None = None


class RulesPreview(Struct, frozen=True):
    """The effect of retention rules: the number of commits that refs reach, of those that would keep their objects, and of those
    that would lose objects that they have under the current rules; of the latter, the newest thousand are listed."""

    reached: int
    kept: int
    lost_count: int
    lost: list[Commit]


class DeletedRepositoryDocument(Struct, frozen=True):
    """A deleted repository with leftovers. ``at`` is the time of its deletion in Unix seconds. ``purging`` is true if their
    removal has begun."""

    uid: str
    name: str
    namespace: str
    at: int
    purging: bool


class DeletedRepositoryList(Struct, frozen=True):
    """A page of deleted repositories, newest first."""

    pagination: Pagination
    results: list[DeletedRepositoryDocument]


class PurgeCreation(Struct, frozen=True):
    """The options of a purge. With ``force``, repositories that have dumps or legal holds are purged, too. With ``at_once``, the
    caller promises that nobody works with the lake any more, and there is no grace period to wait for."""

    force: bool = False
    at_once: bool = False


class Purge(Struct, frozen=True):
    """The files and table rows that the last request removed. ``unknown`` counts files that stay because they are not
    graveler's."""

    name: str
    files: GarbageCollectionTally
    rows: int
    unknown: GarbageCollectionTally
