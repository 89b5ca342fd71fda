"""Documents about checks, space, dumps and restores."""

from msgspec import UNSET, Struct, UnsetType

from graveler.lake.fsck.findings import Report
from graveler.retention.space import Space
from graveler.wire.documents import Pagination
from graveler.wire.errors import Error


class Started(Struct, frozen=True):
    """The operation's ID, to ask after it."""

    id: str


class CheckCreation(Struct, frozen=True):
    """What to look at. ``reflog``: also what only the reference logs lead to; ``objects``: whether the objects of all commits are
    there, with ``outside`` also those outside of the namespace; ``bytes``: read all of them. ``repair``: mend what can be, and
    nothing that is whole."""

    repair: bool = False
    reflog: bool = True
    objects: bool = False
    outside: bool = False
    bytes: bool = False


class SpaceCreation(Struct, frozen=True):
    """Nothing is asked for."""


class Check(Struct, frozen=True):
    """How far a check is, and what it found: a page of its findings."""

    completed: bool
    pagination: Pagination | UnsetType = UNSET
    report: Report | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class SpaceMeasurement(Struct, frozen=True):
    """How far it is, and who holds what is stored: a page of the holders."""

    completed: bool
    pagination: Pagination | UnsetType = UNSET
    space: Space | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class TaskCreation(Struct, frozen=True):
    """The ID to ask after it with."""

    id: str


class RefsDump(Struct, frozen=True):
    """A dump. All three are its ID."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class DumpDocument(Struct, frozen=True):
    """A dump: when it was made (Unix seconds), and how much is in it."""

    id: str
    repository: str
    namespace: str
    created: int
    branches: int
    tags: int
    staged: int


class TaskStatus(Struct, frozen=True, kw_only=True):
    """How far it is."""

    id: str
    done: bool
    update_time: str
    error: str | UnsetType = UNSET


class DumpPlace(Struct, frozen=True):
    """A complete dump, and where it lies."""

    id: str
    namespace: str


class DumpList(Struct, frozen=True):
    """The dumps of a namespace, the oldest first."""

    results: list[DumpPlace]


class LostCommit(Struct, frozen=True):
    """A commit ``parent`` that is lost; ``commit`` names it as its parent, or (empty) a ref does."""

    commit: str
    parent: str


class RestoredDocument(Struct, frozen=True):
    """What a restore brought back, and the first thousand commits that are lost."""

    branches: int
    tags: int
    staged: int
    commits: int
    missing: list[LostCommit]


class FsckFinding(Struct, frozen=True):
    """One thing that is wrong."""

    kind: str
    what: str
    why: str
    remedy: str
    refs: list[str]


class FsckSummary(Struct, frozen=True):
    """What a check of the repository found: the first 100 findings, and how much was looked at and is garbage."""

    clean: bool
    findings: int
    counts: dict[str, int]
    garbage: dict[str, int]
    results: list[FsckFinding]
