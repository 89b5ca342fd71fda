"""Plain typed values that pass between the rooms. They have no behaviour beyond their own contents.

Inside, keys and digests are ``bytes``; at the edges paths and IDs are ``str``. A separate type for each kind of ID keeps
a metarange ID from being passed where a commit ID belongs.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Generic, Literal, NewType, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

RepositoryUID = NewType("RepositoryUID", str)
"""The ID of one creation of a repository; a repository created again under the same name gets another one."""

CommitID = NewType("CommitID", str)
"""64 lower-case hex digits: the SHA-256 of all of a commit's contents."""

MetarangeID = NewType("MetarangeID", str)
"""64 lower-case hex digits: the ID of a whole tree's contents. Empty for the tree without objects."""

MetarangeName = NewType("MetarangeName", str)
"""The file name of a metarange, ``<metarange ID>-<32 hex digits>``. Empty for the tree without objects."""

Token = NewType("Token", str)
"""The ID of one generation of a branch's uncommitted changes."""

DEFAULT_CONTENT_TYPE = "application/octet-stream"


class SplitParameters(Struct, frozen=True):
    """The parameters that decide where a range ends. Stored with the repository; see ``docs/format.md``.

    ``min_size`` and ``max_size`` are bytes of logical size (length of the key + 32 a record), ``raggedness`` is a number
    of records.
    """

    min_size: int = 512 * 1024
    max_size: int = 4 * 1024 * 1024
    raggedness: int = 5_000


class PartialResult(Struct, frozen=True):
    """The part of a tree that a call had built before its time was up: the keys up to ``upto``, inclusive, as the metarange
    ``tree``. ``part`` identifies everything that it depends on."""

    upto: bytes
    part: str
    tree: MetarangeName


# Millions of these exist, never in a cycle: without gc=False the collector takes a quarter of a scan's or diff's time.
class ObjectEntry(Struct, frozen=True, gc=False):
    """The metadata of one object. ``size`` in bytes, ``mtime`` in Unix seconds, ``checksum`` usually 32 hex digits
    (MD5). ``address`` is the full physical address, ``scheme://…``."""

    path: str
    address: str
    size: int
    checksum: str
    mtime: int
    content_type: str = DEFAULT_CONTENT_TYPE
    metadata: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        from graveler.text.markup import object_fields  # for notebooks

        return object_fields(
            self.path, self.address, self.size, self.checksum, self.mtime, self.content_type, self.metadata
        )


class CommonPrefix(Struct, frozen=True):
    """A listing's entry for all objects whose path begins with ``path``, which ends with the delimiter."""

    path: str


class RetentionRules(Struct, frozen=True):
    """The number of days for which a commit's objects are kept after it was replaced on a branch: ``branches`` by name, else
    ``default_days``. Stored for the garbage collector; nothing here acts on them."""

    default_days: int
    branches: Mapping[str, int] = field(default_factory=dict)


class MergeStrategy(str, Enum):
    """The side that wins if both sides changed an object differently."""

    NONE = ""
    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


Isolation = Literal["serializable", "snapshot"]
"""An isolation level of Iceberg tables."""


class MergeStrategies(Struct, frozen=True):
    """A strategy for each path: that of the longest prefix in ``by_prefix`` that the path begins with, else ``default``. A prefix
    that is the entry of a table is for this table alone. ``isolation``, if it is set, overrides the isolation levels of Iceberg
    tables that both sides changed."""

    default: MergeStrategy = MergeStrategy.NONE
    by_prefix: tuple[tuple[str, MergeStrategy], ...] = ()
    isolation: Isolation | UnsetType = UNSET


class MovedHead(str, Enum):
    """The effect on a candidate of a branch that moved while it was checked: ``exact``, only what was checked is published;
    ``apart``, verdicts stay if the move touched neither the change's paths nor those that the checks read."""

    EXACT = "exact"
    APART = "apart"


class RequiredStatus(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A status that a tree needs. ``posters`` are patterns of principals who may post it; ``check`` is the definition of a check
    that graveler runs, and then nobody else posts it. With ``paths``, prefixes, it counts only if something below one of them
    changed."""

    name: str
    posters: tuple[str, ...] = ()
    check: Mapping[str, Any] | None = None
    paths: tuple[str, ...] = ()


class RequiredApprovals(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The ``number`` of approvals that a pull request needs, if something below one of the prefixes ``paths`` changed; without
    paths, always. ``by`` are patterns of principals whose approvals count; without any, all do."""

    number: int = 1
    paths: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


class Rule(Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for the branches and tags whose names match one of these patterns (``*``, ``?`` and ``[…]``).

    ``strategies`` are the merge strategies that are allowed, None for all; ``frozen`` is the reason why nothing may change, if
    there is one. ``bypass`` are patterns of principals who may pass by with a reason, ``rollback`` of those who may return to a
    tree that the branch had. ``observe``: the rule refuses nothing, and reports what it would have refused. ``hold`` is the
    number of seconds for which a candidate may keep the branch's turn. ``of_lake``: the lake has it, and not the repository."""

    name: str
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[RequiredStatus, ...] = ()
    approvals: tuple[RequiredApprovals, ...] = ()
    pull_requests_only: bool = False
    strategies: tuple[MergeStrategy, ...] | None = None
    frozen: str = ""
    bypass: tuple[str, ...] = ()
    rollback: tuple[str, ...] = ()
    observe: bool = False
    moved_head: MovedHead = MovedHead.EXACT
    hold: int = 120
    of_lake: bool = False


class Rules(Struct, frozen=True):
    """The rules of a repository. ``version`` counts their changes; 0 if it never had any."""

    version: int = 0
    rules: tuple[Rule, ...] = ()


class LakeRule(Rule, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of the lake: for those repositories whose names match one of the patterns ``repositories``."""

    repositories: tuple[str, ...]


class LakeRules(Struct, frozen=True):
    """The rules of a lake. ``version`` counts their changes; 0 if it never had any. ``in_force``: all repositories have them;
    else somebody is setting them at this moment, or has stopped midway, and setting them again does the rest."""

    version: int = 0
    rules: tuple[LakeRule, ...] = ()
    in_force: bool = True


class Lack(Struct, frozen=True, omit_defaults=True):
    """A requirement of a rule that a commit does not fulfil. ``requirement`` is one of ``status``, ``approvals``,
    ``pull-request``, ``strategy``, ``frozen`` and ``permission``, ``name`` the status's. ``passing``: it may still be
    fulfilled."""

    rule: str
    requirement: str
    name: str = ""
    state: str = ""
    words: str = ""
    url: str = ""
    passing: bool = True


class RuleReport(Struct, frozen=True):
    """A change that a rule with ``observe`` would have refused: the branch or tag ``ref`` was pointed at this commit.
    ``time`` is in Unix seconds."""

    time: int
    rule: str
    kind: Literal["branch", "tag"]
    ref: str
    commit_id: CommitID
    lacks: tuple[Lack, ...]


class RuleTrial(Struct, frozen=True):
    """The outcome of pointing a branch or tag at a commit, without doing it. ``rules`` are the names of the rules that match,
    ``lacks`` what those that refuse changes would miss, and ``observed`` what those with ``observe`` would report."""

    rules: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    observed: tuple[Lack, ...] = ()


class StatusState(str, Enum):
    """The verdict of a status. Only ``success`` lets a tree pass; ``error`` is a check that could not be made."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


class Status(Struct, frozen=True, omit_defaults=True):
    """A verdict about a tree, under a ``name``. With ``commit_id``, it is about that commit, and not about others with its tree.
    ``principal`` is who posted it, with the credential ``key_id``, empty for checks that graveler ran. Of these, ``check`` is the
    digest of the check, and for a verdict about a commit of the tree that it was compared with. ``created`` and ``expires`` in
    Unix seconds; 0 never expires."""

    name: str
    state: StatusState
    description: str = ""
    url: str = ""
    by: str = ""
    principal: str = ""
    key_id: str = ""
    created: int = 0
    expires: int = 0
    commit_id: CommitID = CommitID("")
    check: str = ""


class CheckOutcome(Struct, frozen=True, omit_defaults=True):
    """The verdict of a check that was tried, and not posted: the ``name`` of its status, and what that would say."""

    name: str
    state: StatusState
    description: str = ""
    url: str = ""


class CheckTrial(Struct, frozen=True):
    """The outcome of checks that were tried on a commit, as if it were to follow ``base_id``, None for nothing."""

    commit_id: CommitID
    base_id: CommitID | None = None
    outcomes: tuple[CheckOutcome, ...] = ()


class CandidateState(str, Enum):
    """The state of a candidate. All but the first two are ends, which never change."""

    BUILDING = "building"
    OPEN = "open"
    PUBLISHED = "published"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    GONE = "gone"


class Candidate(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A commit that no ref names yet. ``id`` is that of the operation that made it, ``verb`` what is to move the branch
    ``destination`` from ``head`` to ``commit_id``. ``source``, ``base`` and ``strategies`` are a merge's. ``reason`` belongs to
    the end. ``principal`` is who asked for it, with the credential ``key_id``. ``created`` and ``expires`` in Unix seconds.
    ``tokens`` are the sealed tokens of the branch that it holds; ``pull_request`` is the number of the request that it belongs
    to, 0 for none. ``lives`` identify the branches that it depends on, each with its name."""

    id: str
    state: CandidateState
    verb: str
    destination: str
    head: CommitID
    commit_id: CommitID = CommitID("")
    metarange: MetarangeName = MetarangeName("")
    source: CommitID = CommitID("")
    base: CommitID = CommitID("")
    strategies: MergeStrategies = MergeStrategies()
    message: str = ""
    author: str = ""
    principal: str = ""
    key_id: str = ""
    created: int = 0
    expires: int = 0
    reason: str = ""
    tokens: tuple[Token, ...] = ()
    pull_request: int = 0
    lives: tuple[tuple[str, str], ...] = ()


class CandidateDetails(Struct, frozen=True):
    """A candidate, and what it lacks now."""

    candidate: Candidate
    lacks: tuple[Lack, ...] = ()


class Actor(Struct, frozen=True):
    """The person or program that asks for a change. ``principal`` tells people apart: the name of a key's holder, or the AWS
    role and the rule that admits it. ``key_id`` is the credential, empty without access control. ``role`` is that of the
    credential."""

    name: str = ""
    principal: str = ""
    key_id: str = ""
    role: str = "admin"


class Settings(Struct, frozen=True):
    """The settings that a repository's owners choose. ``protected`` are patterns of branch names, with the wildcards ``*`` and
    ``?``: a branch that matches one accepts merges, but no direct staging or commits. ``import_sources`` are prefixes of
    addresses outside of the repository: of the addresses that the deployment allows, callers of the API may link, stage and
    import only these; None means all that the deployment allows. ``rules`` guard branches and tags."""

    read_only: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    protected: tuple[str, ...] = ()
    retention: RetentionRules | None = None
    import_sources: tuple[str, ...] | None = None
    rules: Rules = Rules()


class Repository(Struct, frozen=True):
    """A repository as stored in the table. ``created`` in Unix seconds; ``settings`` as they were when it was read."""

    name: str
    uid: RepositoryUID
    namespace: str
    default_branch: str
    created: int
    split: SplitParameters = SplitParameters()
    format_version: int = 1
    settings: Settings = Settings()


class Branch(Struct, frozen=True):
    """A branch as a user sees it: a name and the commit that it points at. Listings omit ``hidden`` branches unless requested."""

    name: str
    commit_id: CommitID
    hidden: bool = False


class Tag(Struct, frozen=True):
    """A permanent name for one commit."""

    name: str
    commit_id: CommitID


class Commit(Struct, frozen=True):
    """One state of the whole lake, and its origin. ``created`` in Unix seconds; ``generation`` is 1 for the first
    commit and one more than the highest parent's otherwise. ``metarange`` is empty for a tree without objects."""

    id: CommitID
    parents: tuple[CommitID, ...]
    metarange: MetarangeName
    committer: str
    message: str
    created: int
    generation: int
    operation: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def metarange_id(self) -> MetarangeID:
        """The ID of the contents, without the part of the file's name that pins addresses."""
        return MetarangeID(self.metarange.partition("-")[0])

    def _repr_html_(self) -> str:
        from graveler.text.markup import commit_fields, fields  # for notebooks

        return fields(
            "commit",
            commit_fields(self.id, self.parents, self.message, self.committer, self.created, self.metadata),
        )


class RefDescription(Struct, frozen=True):
    """A ref as it was given (``id``), and its commit. ``type``: the name of a branch or of a tag, a commit's ID or its first
    digits, or an expression of these. ``uncommitted``: whether anything is staged on the branch; None for all but a branch's
    name. ``protected``: it is the name of a branch that the repository's settings protect; ``read_only``: the repository is."""

    id: str
    type: Literal["branch", "tag", "commit", "expression"]
    commit: Commit
    uncommitted: bool | None
    protected: bool
    read_only: bool


class Divergence(Struct, frozen=True):
    """The distance of a commit from a base: ``ahead_count`` is the number of commits that it has and the base has not,
    ``behind_count`` the number that the base has and it has not. ``more``: the counting ended before, so either may be larger.
    ``merged``: the base has all of its commits; None if the counting did not come that far."""

    ahead_count: int
    behind_count: int
    more: bool
    merged: bool | None


RefDetail = Literal["commit", "counts", "uncommitted"]


class RefSelection(Struct, frozen=True, kw_only=True):
    """The branches or tags to list, and the details of each: ``amount`` of those whose name begins with ``prefix``, after a
    position. ``base``: the ref from which distances are counted, the default branch if empty. ``by_update``: the one with the
    newest commit first, else by name."""

    details: tuple[RefDetail, ...] = ()
    base: str = ""
    by_update: bool = False
    prefix: str = ""
    after: str = ""
    amount: int = 100


class DetailedRef(Struct, frozen=True):
    """A branch or a tag, and of the details that were asked for its last commit, its distance from a base, and whether anything
    is staged on the branch (None for a tag)."""

    ref: Branch | Tag
    commit: Commit | None = None
    divergence: Divergence | None = None
    uncommitted: bool | None = None


class ChangeType(str, Enum):
    """The kind of difference between an object's two states."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    PREFIX_CHANGED = "prefix_changed"


class Change(Struct, frozen=True, gc=False):
    """One difference between two states, ``before`` → ``after``. Both are None for a prefix that stands for many."""

    type: ChangeType
    path: str
    before: ObjectEntry | None = None
    after: ObjectEntry | None = None


class ChangeOutline(Struct, frozen=True, gc=False):
    """A :class:`Change` with only the objects' sizes in bytes, for long listings. None is "absent"."""

    type: ChangeType
    path: str
    size_before: int | None = None
    size_after: int | None = None


class Conflict(Struct, frozen=True):
    """An object that source and destination changed since their base, in different ways. None is "absent"."""

    path: str
    base: ObjectEntry | None
    source: ObjectEntry | None
    destination: ObjectEntry | None


class Application(Struct, frozen=True):
    """One of the numbered writes of an application, such as a batch of a stream: ``id`` names the application, and ``version``
    grows from write to write."""

    id: str
    version: int


class Totals(Struct, frozen=True):
    """The numbers of added, removed and changed objects, and their bytes (of changed ones before and after the change)."""

    added: int = 0
    added_bytes: int = 0
    removed: int = 0
    removed_bytes: int = 0
    changed: int = 0
    changed_bytes_before: int = 0
    changed_bytes_after: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.added + other.added,
            self.added_bytes + other.added_bytes,
            self.removed + other.removed,
            self.removed_bytes + other.removed_bytes,
            self.changed + other.changed,
            self.changed_bytes_before + other.changed_bytes_before,
            self.changed_bytes_after + other.changed_bytes_after,
        )


class TableReason(Struct, frozen=True):
    """A reason for which a table is not merged: ``kind`` names it for programs, the ``sentence`` is for people. ``partition`` is
    text as ``day=2026-01-01``, empty for all or none; ``files`` are some of the locations; rows are those of the files that each
    side changed there."""

    kind: str
    sentence: str
    partition: str = ""
    files: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    source_rows: int = 0
    destination_rows: int = 0


class TableMerge(Struct, frozen=True):
    """The merge of an Iceberg table that both sides changed. ``path`` is its entry's. ``outcome`` is ``merged`` (rows of both in
    a new snapshot), ``source`` or ``destination`` (that side's table as it is), or ``conflict``. ``reasons`` are those of a
    conflict, also of one that a strategy decided; ``notes`` say what was left out."""

    path: str
    name: str
    outcome: Literal["merged", "source", "destination", "conflict"]
    reasons: tuple[TableReason, ...] = ()
    notes: tuple[str, ...] = ()


class MergePreview(Struct, frozen=True):
    """The effect of a merge: the commit it is based on, what it would change in the destination, and every conflict. ``source``
    and ``destination`` are the commits that were looked at; empty if a server of an earlier version does not tell. ``tables`` are
    the Iceberg tables that both sides changed."""

    base: CommitID
    totals: Totals
    conflicts: tuple[Conflict, ...]
    source: CommitID = CommitID("")
    destination: CommitID = CommitID("")
    tables: tuple[TableMerge, ...] = ()


T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """A page of results, in order. ``next_after`` continues the listing (pass it as ``after``); None on the last page.
    ``commits`` are those that were read: for a listing of objects the ref's, for differences the left ref's and the right
    one's."""

    results: tuple[T, ...]
    next_after: str | None = None
    commits: tuple[CommitID, ...] = ()


class Annotations(Struct, frozen=True):
    """A page of entries, each with the last commit that changed it, or None where that is not known yet. ``position`` continues
    the search for those; empty if there are none."""

    page: "Page[tuple[ObjectEntry | CommonPrefix, Commit | None]]"
    position: str = ""
