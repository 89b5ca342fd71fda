"""Documents about branches, tags and commits, and the operations that create commits."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from graveler.history.reflog import Event, LogEntry
from graveler.model import CommitID


class BranchCreation(Struct, frozen=True):
    """A branch to be. ``source`` is any ref expression. A hidden branch may have an ``owner``: a transaction, which has to renew
    the branch's lease."""

    name: str
    source: str
    hidden: bool | None = None
    force: bool | None = None
    owner: str | None = None


class LeaseRenewal(Struct, frozen=True):
    """The transaction that works on the branch, as it was named when the branch was created."""

    owner: str


class WrittenVersion(Struct, frozen=True):
    """The commit in which the branch got that version of the application, or a later one; null if it did not."""

    commit_id: str | None


class ResetCreation(Struct, frozen=True):
    """Which uncommitted changes to drop: of one ``object``, of all that begin with ``path`` (``common_prefix``), or all
    (``reset``)."""

    type: Literal["object", "common_prefix", "reset"]
    path: str | None = None
    force: bool | None = None


class CommitOverrides(Struct, frozen=True):
    """What the new commit shall say instead of the default."""

    message: str | None = None
    metadata: dict[str, str] | None = None


class RevertCreation(Struct, frozen=True):
    """The commit to take back; ``parent_number`` (from 1) says against which parent a merge is taken back, 0 is the only one."""

    ref: str
    parent_number: int
    commit_overrides: CommitOverrides | None = None
    force: bool | None = None
    allow_empty: bool | None = None


class CherryPickCreation(Struct, frozen=True):
    """The commit to make again on the branch."""

    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    force: bool | None = None
    allow_empty: bool | None = None


class RenameCreation(Struct, frozen=True):
    """What a branch is to be called."""

    new: str = field(name="name")
    force: bool | None = None


class ReflogEntry(Struct, frozen=True):
    """What moved a branch from ``old`` (null: it was created) to ``new`` (null: it was deleted). Equal ones say that only
    uncommitted changes went. ``time_ns`` is Unix time in nanoseconds."""

    time_ns: int
    operation: str
    operation_id: str
    by: str
    old: str | None
    new: str | None


class Reflog(Struct, frozen=True):
    """Entries of a reference log, the newest first."""

    results: list[ReflogEntry]

    def entries(self) -> list[LogEntry]:
        """Return it as entries of the lake's log."""
        return [
            LogEntry(
                Event(one.time_ns, one.operation, one.operation_id, one.by),
                None if one.old is None else CommitID(one.old),
                None if one.new is None else CommitID(one.new),
            )
            for one in self.results
        ]


class RewriteCreation(Struct, frozen=True):
    """By what the tree is to be cut: a range ends once it has ``max_size`` bytes of keys (32 added to each), or ``min_size`` and
    a key whose hash ``raggedness`` divides."""

    min_size: int
    max_size: int
    raggedness: int
    message: str | None = None
    metadata: dict[str, str] | None = None
    force: bool | None = None


class TagCreation(Struct, frozen=True):
    """A tag to be. ``ref`` is any ref expression."""

    name: str = field(name="id")
    ref: str
    force: bool | None = None


StrategyName = Literal["", "dest-wins", "source-wins"]


class PrefixStrategy(Struct, frozen=True):
    """What to do with conflicts of paths that begin with ``prefix``; the longest such prefix counts."""

    prefix: str
    strategy: StrategyName


class ApplicationVersion(Struct, frozen=True):
    """A numbered write: ``id`` names the application, ``version`` (from 0) grows from write to write."""

    id: str
    version: int


class Merge(Struct, frozen=True):
    """How to merge. ``strategies`` are graveler's own: a strategy by prefix, over ``strategy`` for the rest. So is ``untouched``:
    prefixes below which nobody may have changed the destination since the base; 409 if somebody has. And ``application``: a
    version that the destination has already is not merged again. With ``beside_uncommitted``, uncommitted changes of the
    destination refuse the merge only where it would change the same objects, or below ``untouched``."""

    message: str | None = None
    metadata: dict[str, str] | None = None
    strategy: StrategyName | None = None
    strategies: list[PrefixStrategy] | None = None
    force: bool | None = None
    allow_empty: bool | None = None
    squash: bool | None = field(default=None, name="squash_merge")
    unchanged_prefixes: list[str] | None = field(default=None, name="untouched")
    application: ApplicationVersion | None = None
    beside_uncommitted: bool | None = None


class MergeResult(Struct, frozen=True):
    """The commit of a merge."""

    reference: str


class MergeRefusal(Struct, frozen=True):
    """Why a merge was refused: an error, with an empty ``reference`` before it."""

    reference: str
    message: str
    detail: str
    code: str
    fields: Mapping[str, Any]


class MergeBase(Struct, frozen=True):
    """Two commits and their best common ancestor."""

    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class CommitCreation(Struct, frozen=True):
    """What a commit shall say. ``date`` (Unix seconds, from 1970 to a day from now) overrides the time."""

    message: str
    metadata: dict[str, str] | None = None
    created: int | None = field(default=None, name="date")
    allow_empty: bool | None = None
    force: bool | None = None
