"""The documents of the HTTP API as a client reads them, and the values of the lake that they mean. Unknown fields are ignored."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from graveler import model
from graveler.history.reflog import Event, LogEntry
from graveler.lake.summary import Summary, SummaryPart, Usage, UsagePart
from graveler.model import DEFAULT_CONTENT_TYPE, CommitID, MetarangeName, ObjectEntry, RepositoryUID, Totals
from graveler.requests.importing import ImportChanges
from graveler.wire.errors import Error, ObjectError

COMMIT_HEADER: Final = "x-graveler-commit"
LEFT_COMMIT_HEADER: Final = "x-graveler-left-commit"


class Pagination(Struct, frozen=True):
    """Where a listing stands."""

    has_more: bool
    next_offset: str

    @property
    def next_after(self) -> str | None:
        """What continues the listing; None on the last page."""
        return self.next_offset if self.has_more else None


class Ref(Struct, frozen=True):
    """A branch or a tag."""

    id: str
    commit_id: str

    def branch(self, *, hidden: bool = False) -> model.Branch:
        """As a branch."""
        return model.Branch(self.id, CommitID(self.commit_id), hidden)

    def tag(self) -> model.Tag:
        """As a tag."""
        return model.Tag(self.id, CommitID(self.commit_id))


class Refs(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[Ref]


class User(Struct, frozen=True):
    """Somebody, by name."""

    id: str


class CurrentUser(Struct, frozen=True):
    """Who asks."""

    user: User


class WrittenVersion(Struct, frozen=True):
    """The commit that holds a numbered write, if there is one."""

    commit_id: str | None


class ReflogEntry(Struct, frozen=True):
    """What moved a branch."""

    time_ns: int
    operation: str
    operation_id: str
    by: str
    old: str | None
    new: str | None


class Reflog(Struct, frozen=True):
    """What moved a branch, the newest first."""

    results: list[ReflogEntry]

    def entries(self) -> list[LogEntry]:
        """As rows of the lake's log."""
        return [
            LogEntry(
                Event(one.time_ns, one.operation, one.operation_id, one.by),
                None if one.old is None else CommitID(one.old),
                None if one.new is None else CommitID(one.new),
            )
            for one in self.results
        ]


class Commit(Struct, frozen=True):
    """A commit."""

    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str] = {}
    generation: int = 0

    def value(self) -> model.Commit:
        """As a commit of the lake; the name of its metarange is known without the part that pins addresses."""
        return model.Commit(
            CommitID(self.id),
            tuple(map(CommitID, self.parents)),
            MetarangeName(self.meta_range_id),
            self.committer,
            self.message,
            self.creation_date,
            self.generation,
            "",
            self.metadata,
        )


class Commits(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[Commit]


class Repository(Struct, frozen=True):
    """A repository."""

    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    read_only: bool = False

    def value(self, settings: model.Settings | None = None) -> model.Repository:
        """As a repository of the lake. Its namespace, which is its own for good, stands for its UID, which is not told."""
        return model.Repository(
            self.id,
            RepositoryUID(self.storage_namespace),
            self.storage_namespace,
            self.default_branch,
            self.creation_date,
            settings=settings or model.Settings(self.read_only),
        )


class Repositories(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[Repository]


class ObjectStats(Struct, frozen=True):
    """An object, or a common prefix."""

    path: str
    path_type: str = "object"
    physical_address: str = ""
    checksum: str = ""
    mtime: int = 0
    size_bytes: int = 0
    physical_address_expiry: int = 0
    metadata: dict[str, str] = {}
    content_type: str = DEFAULT_CONTENT_TYPE

    def entry(self) -> ObjectEntry:
        """As an object of the lake."""
        return ObjectEntry(
            self.path,
            self.physical_address,
            self.size_bytes,
            self.checksum,
            self.mtime,
            self.content_type,
            self.metadata,
        )

    def item(self) -> ObjectEntry | model.CommonPrefix:
        """As what a listing has."""
        return model.CommonPrefix(self.path) if self.path_type == "common_prefix" else self.entry()


class ObjectStatsList(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[ObjectStats]


class StatsOfMany(Struct, frozen=True):
    """What is known of many objects."""

    results: list[ObjectStats]


class Diff(Struct, frozen=True):
    """One difference."""

    type: str
    path: str


class DiffList(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[Diff]


class ObjectErrors(Struct, frozen=True):
    """What went wrong, of many objects."""

    errors: list[ObjectError]


class MergeResult(Struct, frozen=True):
    """The commit of a merge."""

    reference: str


class MergeBase(Struct, frozen=True):
    """The best common ancestor of two refs."""

    base_commit_id: str


class ObjectVersion(Struct, frozen=True):
    """An object as one side has it."""

    checksum: str
    size_bytes: int
    mtime: int


class Conflict(Struct, frozen=True):
    """An object that both sides changed differently."""

    path: str
    base: ObjectVersion | None
    source: ObjectVersion | None
    destination: ObjectVersion | None

    def value(self) -> model.Conflict:
        """As a conflict of the lake. Where the bytes of the versions lie is not told."""
        return model.Conflict(
            self.path,
            _version(self.path, self.base),
            _version(self.path, self.source),
            _version(self.path, self.destination),
        )


class Preview(Struct, frozen=True):
    """What a merge would do, with a page of its conflicts."""

    base_commit_id: str
    totals: Totals
    pagination: Pagination
    results: list[Conflict]


class SummaryPartDocument(Struct, frozen=True):
    """How much differs behind one common prefix."""

    path: str
    totals: Totals


class SummaryDocument(Struct, frozen=True):
    """How much differs."""

    total: Totals
    results: list[SummaryPartDocument]

    def value(self) -> Summary:
        """As a sum of the lake."""
        return Summary(self.total, tuple(SummaryPart(part.path, part.totals) for part in self.results))


class UsagePartDocument(Struct, frozen=True):
    """How much there is behind one common prefix."""

    path: str
    objects: int
    size_bytes: int


class UsageDocument(Struct, frozen=True):
    """How much there is."""

    objects: int
    size_bytes: int
    results: list[UsagePartDocument]

    def value(self) -> Usage:
        """As a sum of the lake."""
        parts = tuple(UsagePart(part.path, part.objects, part.size_bytes) for part in self.results)
        return Usage(self.objects, self.size_bytes, parts)


class Annotation(Struct, frozen=True):
    """A listed object, and the last commit that changed it."""

    path: str
    path_type: str
    commit: Commit


class Annotations(Struct, frozen=True):
    """A page of them."""

    pagination: Pagination
    results: list[Annotation]


class StagingLocation(Struct, frozen=True):
    """Where to write bytes to."""

    physical_address: str
    presigned_url: str | None = None


class MultipartUpload(Struct, frozen=True):
    """An upload in parts that was begun."""

    upload_id: str
    physical_address: str


class PartURL(Struct, frozen=True):
    """Where to write a part to."""

    presigned_url: str


class Rule(Struct, frozen=True):
    """A pattern of protected branches."""

    pattern: str


class RetentionRule(Struct, frozen=True):
    """For how long what a branch does not show any more is kept."""

    branch_id: str
    retention_days: int


class RetentionRules(Struct, frozen=True):
    """For how long objects are kept."""

    default_retention_days: int
    branches: list[RetentionRule]

    def value(self) -> model.RetentionRules:
        """As rules of the lake."""
        return model.RetentionRules(
            self.default_retention_days, {rule.branch_id: rule.retention_days for rule in self.branches}
        )


class ImportSources(Struct, frozen=True):
    """From where objects may be imported."""

    prefixes: list[str] | None


class ImportStarted(Struct, frozen=True):
    """An import that was begun."""

    id: str


class ImportStatus(Struct, frozen=True):
    """How far an import is."""

    completed: bool
    ingested_objects: int
    commit: Commit | None = None
    error: Error | None = None
    changes: ImportChanges | None = None


class StorageConfig(Struct, frozen=True):
    """What a server says of its store."""

    default_namespace_prefix: str = ""
    pre_sign_support: bool = True


class Config(Struct, frozen=True):
    """What a server says of itself."""

    storage_config: StorageConfig


def _version(path: str, version: ObjectVersion | None) -> ObjectEntry | None:
    return None if version is None else ObjectEntry(path, "", version.size_bytes, version.checksum, version.mtime)


def commits_read(headers: Mapping[str, str]) -> tuple[CommitID, ...]:
    """Which commits a page was read of: the left one first, of a difference."""
    found = (headers.get(LEFT_COMMIT_HEADER), headers.get(COMMIT_HEADER))
    return tuple(CommitID(commit) for commit in found if commit)
