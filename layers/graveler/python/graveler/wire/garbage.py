"""Documents about garbage collection."""

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from graveler.retention.described import RunDescription
from graveler.retention.runs import Kind, Mode, Outcome
from graveler.wire.documents import Commit, Pagination
from graveler.wire.errors import Error
from graveler.wire.repositories import GCRules


class GarbageCollectionRunCreation(Struct, frozen=True):
    """How to collect. Without a mode: quarantine the first time, then deletion."""

    mode: Mode | None = None


class GarbageCollectionRunStarted(Struct, frozen=True):
    """The operation's ID, to ask after it."""

    id: str


class GarbageCollectionTally(Struct, frozen=True):
    """How many files, and their bytes."""

    files: int
    bytes: int


class GarbageCollectionRun(Struct, frozen=True):
    """How far a run is, and what it did: by what became of them, the files that nobody needs. ``report`` is the address of a
    Parquet table of these."""

    completed: bool
    run: str | UnsetType = UNSET
    outcomes: Mapping[str, GarbageCollectionTally] | UnsetType = UNSET
    expired_commits: int | UnsetType = UNSET
    report: str | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class GarbageCollectionReports(Struct, frozen=True):
    """All runs, the oldest first."""

    results: list[RunDescription]


class GarbageCollectionFile(Struct, frozen=True):
    """A file that a run found nobody to need, and what became of it. ``size`` in bytes, ``modified`` in Unix seconds."""

    kind: Kind
    key: str
    size: int
    modified: float
    why: str
    outcome: Outcome


class GarbageCollectionFiles(Struct, frozen=True):
    """A page of files."""

    pagination: Pagination
    results: list[GarbageCollectionFile]


class RestoreCreation(Struct, frozen=True):
    """Which files to bring back: those whose key begins with ``prefix`` and is greater than ``after``."""

    prefix: str = ""
    after: str = ""


class RestoredFile(Struct, frozen=True):
    """A file in quarantine. Not ``restored``: something is there already."""

    key: str
    restored: bool


class RestoredFiles(Struct, frozen=True):
    """What was brought back. While there is more, send the request again with ``next_offset`` as ``after``."""

    pagination: Pagination
    results: list[RestoredFile]


class HoldCreation(Struct, frozen=True):
    """Which commit to hold, as any ref expression, and what for."""

    ref: str
    why: str = ""


class HoldDocument(Struct, frozen=True):
    """A commit under legal hold. ``at`` in Unix seconds."""

    commit_id: str
    why: str
    by: str
    at: int


class HoldList(Struct, frozen=True):
    """All holds, by commit."""

    results: list[HoldDocument]


class PreviewCreation(Struct, frozen=True):
    """The rules to try; null: none."""

    rules: GCRules | None = None


class RulesPreview(Struct, frozen=True):
    """How many commits refs reach, how many would keep their objects, and how many would lose them that do not by the rules of
    now; the newest thousand of these."""

    reached: int
    kept: int
    lost_count: int
    lost: list[Commit]


class DeletedRepositoryDocument(Struct, frozen=True):
    """A repository that was deleted at ``at`` (Unix seconds) and has left something. ``purging``: somebody began to remove it."""

    uid: str
    name: str
    namespace: str
    at: int
    purging: bool


class DeletedRepositoryList(Struct, frozen=True):
    """A page of them, the newest first."""

    pagination: Pagination
    results: list[DeletedRepositoryDocument]


class PurgeCreation(Struct, frozen=True):
    """``force``: also what has dumps or legal holds."""

    force: bool = False


class Purge(Struct, frozen=True):
    """What the last request removed: files, rows of the table; ``unknown`` are files that stay since they are not graveler's."""

    name: str
    files: GarbageCollectionTally
    rows: int
    unknown: GarbageCollectionTally
