"""Documents about checks, space, dumps and restores."""

from msgspec import UNSET, Struct, UnsetType

from graveler.lake.fsck.findings import Report, Scope
from graveler.retention.space import Space
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error


class Started(Struct, frozen=True):
    """The ID of the operation, for status requests."""

    id: str


class CheckCreation(Struct, frozen=True):
    """The checks to make. ``reflog``: also check what only reference logs reach. ``objects``: check that the objects of all
    commits exist, with ``outside`` also those outside the namespace. ``bytes``: read them all. ``repair``: repair what can be
    repaired; nothing that is undamaged changes."""

    repair: bool = False
    reflog: bool = True
    objects: bool = False
    outside: bool = False
    bytes: bool = False


class SpaceCreation(Struct, frozen=True):
    """An empty body: a measurement has no options."""


class Check(Struct, frozen=True):
    """The progress of a check and, once it is completed, a page of its findings."""

    completed: bool
    pagination: Pagination | UnsetType = UNSET
    report: Report | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class SpaceMeasurement(Struct, frozen=True):
    """The progress of a measurement and, once it is completed, a page of the holders of the stored space."""

    completed: bool
    pagination: Pagination | UnsetType = UNSET
    space: Space | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class TaskCreation(Struct, frozen=True):
    """The ID of the task, for status requests."""

    id: str


class RefsDump(Struct, frozen=True):
    """A dump. All three fields are its ID."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class DumpDocument(Struct, frozen=True):
    """A dump: the time of its creation in Unix seconds, and its numbers of branches, tags and staged changes."""

    id: str
    repository: str
    namespace: str
    created: int
    branches: int
    tags: int
    staged: int


class TaskStatus(Struct, frozen=True, kw_only=True):
    """The progress of a task."""

    id: str
    done: bool
    update_time: str
    error: str | UnsetType = UNSET


class DumpPlace(Struct, frozen=True):
    """A complete dump, and the namespace that contains it."""

    id: str
    namespace: str


class DumpList(Struct, frozen=True):
    """The dumps of a namespace, oldest first."""

    results: list[DumpPlace]


class LostCommit(Struct, frozen=True):
    """A lost commit, ``parent``. ``commit`` is the child that names it; empty if a ref names it."""

    commit: str
    parent: str


class RestoredDocument(Struct, frozen=True):
    """The numbers of restored branches, tags, staged changes and commits, and the first thousand lost commits."""

    branches: int
    tags: int
    staged: int
    commits: int
    missing: list[LostCommit]


class FsckFinding(Struct, frozen=True):
    """One damage, and its remedy."""

    kind: str
    what: str
    why: str
    remedy: str
    refs: list[str]


class FsckSummary(Struct, frozen=True):
    """The results of a check of the repository: the first 100 findings, and the numbers of checked things and of garbage.
    ``clean``: nothing is wrong in what was checked (``checked``), and all that was to be checked could be."""

    clean: bool
    findings: int
    counts: dict[str, int]
    garbage: dict[str, int]
    results: list[FsckFinding]
    checked: Scope
