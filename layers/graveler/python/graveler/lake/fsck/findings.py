"""The contents of fsck's report: findings, counts and garbage. Plain values."""

from enum import Enum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from graveler.model import CommitID

SHOWN_COMMITS: Final = 20
"""The maximum number of commits that a finding names; all are counted."""


class FindingKind(str, Enum):
    """The kind of damage; the last one is none."""

    MARKER = "marker"
    """The namespace does not have the mark of this repository."""
    NESTED = "nested"
    """The namespace lies in another repository's, or holds one."""
    PERMISSIONS = "permissions"
    """The permissions of the lake's folder let in other users."""
    TABLE = "table"
    """A part of the table cannot be read at all."""
    REF = "ref"
    """The item of a branch or tag cannot be read, or lies where lookups do not find it; or the default branch is gone."""
    REFLOG = "reflog"
    """A row of the reference log cannot be read, or names a commit that does not exist."""
    EXPIRED = "expired"
    """A ref points at a commit that has expired: objects that only it holds may be collected."""
    COMMIT_MISSING = "commit-missing"
    """A commit that something names is neither in the table nor in the object store."""
    COMMIT_ITEM = "commit-item"
    """The table's copy of a commit is missing or damaged; the object store's is good."""
    COMMIT_RECORD = "commit-record"
    """The object store's copy of a commit is missing or damaged; the table's is good."""
    COMMIT_DAMAGED = "commit-damaged"
    """No copy of a commit can be read."""
    COMMIT_DISAGREES = "commit-disagrees"
    """Both copies of a commit have its ID, and differ in what the ID does not cover."""
    GENERATION = "generation"
    """A commit's generation is not one more than its highest parent's."""
    METARANGE_MISSING = "metarange-missing"
    METARANGE_DAMAGED = "metarange-damaged"
    """A metarange file does not open, or does not match its name, or is not in order."""
    RANGE_MISSING = "range-missing"
    RANGE_DAMAGED = "range-damaged"
    """A range file does not open, or does not match its name, or is not in order."""
    DESCRIPTION = "description"
    """A metarange's description of a range is false."""
    CUT = "cut"
    """A range ends against the split rule, or goes on where the rule ends it: the tree is not canonical."""
    RECORD = "record"
    """A record of a range cannot be read."""
    STAGED = "staged"
    """A staged change cannot be read, or lies where lookups do not find it."""
    TOKEN = "token"
    """A branch and the state of its tokens contradict each other."""
    CLEANUP = "clean-up"
    """An entry of the clean-up queue cannot be read."""
    LEASE = "lease"
    """The lease of a hidden branch cannot be read, or there is no such branch."""
    APPLICATION = "application"
    """The record of an application's last write to a branch cannot be read, or names a commit that the branch never had."""
    UPLOAD = "upload"
    """The record of an upload in parts cannot be read, or lies where lookups do not find it."""
    CANDIDATE = "candidate"
    """The row of a candidate cannot be read."""
    PULL_REQUEST = "pull-request"
    """A pull request or a comment cannot be read, is listed wrongly, or has lost its branches or its commit."""
    STATUSES = "statuses"
    """The statuses of a tree cannot be read."""
    OBJECT_MISSING = "object-missing"
    OBJECT_SIZE = "object-size"
    """An object has another size than its record says."""
    OBJECT_BYTES = "object-bytes"
    """An object has the size in its record, and other bytes."""
    UNREADABLE = "unreadable"
    """The object store refused to return a file or a response: it may be undamaged. Run again."""
    LATER_VERSION = "later-version"
    """No damage: a later version of graveler made a commit, so neither it nor what only it leads to was checked."""


RefKind: TypeAlias = Literal["branch", "tag", "reflog"]


class AffectedRef(Struct, frozen=True, order=True):
    """A ref that a finding affects. ``kind`` is ``reflog`` if only the reference log of the ref ``name`` still leads there.
    ``in_history``: the ref's current contents are undamaged; only older commits that it reaches are affected."""

    kind: RefKind
    name: str
    in_history: bool = False


class Finding(Struct, frozen=True):
    """One damage, or a commit that cannot be checked. ``what`` names it, ``why`` says what is wrong, ``remedy`` what to do, or
    what was done.

    ``first`` and ``last`` are the outermost paths that it concerns; null if it concerns no paths, or all of them. ``refs`` and
    ``commits`` (at most the newest 20 of ``commit_count``) are those that contain it.
    """

    kind: FindingKind
    what: str
    why: str
    remedy: str
    first: str | None = None
    last: str | None = None
    refs: tuple[AffectedRef, ...] = ()
    commits: tuple[CommitID, ...] = ()
    commit_count: int = 0
    repaired: bool = False

    def __str__(self) -> str:
        where = "" if self.first is None else f", paths {self.first!r} to {self.last!r}"
        if self.refs:
            names = [f"{ref.kind} {ref.name}{' (in its history)' if ref.in_history else ''}" for ref in self.refs[:5]]
            where += f", of {', '.join(names)}{', …' if len(self.refs) > 5 else ''}"
        return f"{self.what} {self.why}{where}. {self.remedy}"


class Counts(Struct):
    """The numbers of checked things. ``records`` are those of distinct ranges; ``objects`` are those whose existence was
    checked."""

    branches: int = 0
    tags: int = 0
    commits: int = 0
    metaranges: int = 0
    ranges: int = 0
    records: int = 0
    staged: int = 0
    objects: int = 0
    objects_not_checked: int = 0
    """Objects outside the namespace that were to be checked, and were not: they lie in other stores, which are looked at only if
    asked, or out of reach."""
    objects_out_of_reach: int = 0
    """Those of them that this process cannot or may not read."""
    bytes: int = 0
    """Bytes of the objects that were read."""
    objects_by_size: int = 0
    """Objects that were read whose checksum is not an MD5 of their bytes, so that only their size was compared; for files
    imported by size and time, both of these."""


class Garbage(Struct, frozen=True):
    """Unreachable things, left over by interrupted operations or by moved refs. They are not errors: the collector removes them.

    If a commit or a metarange is lost, what only it leads to is counted here, too.
    """

    commit_items: int = 0
    commit_records: int = 0
    metaranges: int = 0
    ranges: int = 0
    bytes: int = 0
    """Bytes of the files."""


class TableState(str, Enum):
    """The result of the check that the table's store makes of its own file."""

    SOUND = "sound"
    DAMAGED = "damaged"
    NOT_APPLICABLE = "not applicable"
    """The store is a service, or has no such check."""
    NOT_CHECKED = "not checked"


class Scope(Struct, frozen=True):
    """The part of a repository that a check covered: always the refs, the commits and trees that they reach, what is
    uncommitted, and the files on this machine that objects of commits are; the rest by choice.

    ``reflog``: what only reference logs reach. ``committed_objects``: all objects of commits, and not only such files.
    ``outside_objects``: objects outside the namespace in other stores than the file system. ``object_bytes``: the bytes of all
    these objects, and not only their sizes. ``garbage``: what nothing reaches was counted; it is not if a commit of a later
    version may reach it.
    """

    reflog: bool = True
    committed_objects: bool = False
    outside_objects: bool = False
    object_bytes: bool = False
    table: TableState = TableState.NOT_CHECKED
    garbage: bool = True


class Report(Struct, frozen=True):
    """All findings of a check of one repository, with its counts, and what it covered."""

    repository: str
    findings: tuple[Finding, ...]
    counts: Counts
    garbage: Garbage
    scope: Scope = Scope()
    obstacle: str = ""
    """The reason why the first object that is out of reach cannot be read."""

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The damages that are not repaired."""
        return tuple(
            finding
            for finding in self.findings
            if not finding.repaired and finding.kind is not FindingKind.LATER_VERSION
        )

    @property
    def later(self) -> tuple[Finding, ...]:
        """The commits that this version cannot check, because a later one made them."""
        return tuple(finding for finding in self.findings if finding.kind is FindingKind.LATER_VERSION)

    @property
    def complete(self) -> bool:
        """True if the check looked at all commits and objects of its scope: no commit is of a later version, no object was out of
        reach, and if the objects of commits were to be checked, none was left out because it lies in another store."""
        counts = self.counts
        if self.later:
            return False
        return not (counts.objects_not_checked if self.scope.committed_objects else counts.objects_out_of_reach)

    @property
    def clean(self) -> bool:
        """True if nothing is wrong and the check is complete. Says nothing about what is outside of its scope."""
        return self.complete and not self.remaining
