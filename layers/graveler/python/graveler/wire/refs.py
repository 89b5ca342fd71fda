"""Documents about branches, tags and commits, and the operations that create commits."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from graveler.history.reflog import Event, LogEntry
from graveler.model import CommitID


class BranchCreation(Struct, frozen=True):
    """The branch to create. ``source`` is any ref expression. A hidden branch may have an ``owner``: a transaction, which must
    renew the branch's lease."""

    name: str
    source: str
    hidden: bool | None = None
    force: bool | None = None
    owner: str | None = None


class LeaseRenewal(Struct, frozen=True):
    """The transaction that works on the branch: the ``owner`` given when the branch was created."""

    owner: str


class WrittenVersion(Struct, frozen=True):
    """The commit that brought this version of the application, or a later one, to the branch; null if the branch has neither."""

    commit_id: str | None


class ResetCreation(Struct, frozen=True):
    """The uncommitted changes to drop: those of one ``object``, those of all paths that begin with ``path`` (``common_prefix``),
    or all (``reset``)."""

    type: Literal["object", "common_prefix", "reset"]
    path: str | None = None
    force: bool | None = None


class CommitOverrides(Struct, frozen=True):
    """The message and metadata of the new commit, in place of the defaults."""

    message: str | None = None
    metadata: dict[str, str] | None = None


StrategyName = Literal["", "dest-wins", "source-wins"]


class PrefixStrategy(Struct, frozen=True):
    """The strategy for conflicts of paths that begin with ``prefix``. The longest matching prefix decides."""

    prefix: str
    strategy: StrategyName


class RevertCreation(Struct, frozen=True):
    """The commit to revert. ``parent_number`` (from 1) selects the parent against which a merge is reverted; 0 is the only parent
    of an ordinary commit. Graveler's own are ``strategy`` and ``strategies``, as in a merge whose source is the state before the
    commit."""

    ref: str
    parent_number: int
    commit_overrides: CommitOverrides | None = None
    strategy: StrategyName | None = None
    strategies: list[PrefixStrategy] | None = None
    force: bool | None = None
    allow_empty: bool | None = None


class CherryPickCreation(Struct, frozen=True):
    """The commit to apply to the branch. ``parent_number`` is as for a revert; null means 0. Graveler's own are ``strategy`` and
    ``strategies``, as in a merge whose source is the commit."""

    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    strategy: StrategyName | None = None
    strategies: list[PrefixStrategy] | None = None
    force: bool | None = None
    allow_empty: bool | None = None


class RenameCreation(Struct, frozen=True):
    """The new name of a branch."""

    new: str = field(name="name")
    force: bool | None = None


class ReflogEntry(Struct, frozen=True):
    """A move of a branch from ``old`` (null: it was created) to ``new`` (null: it was deleted). If both are equal, only
    uncommitted changes were dropped. ``time_ns`` is Unix time in nanoseconds."""

    time_ns: int
    operation: str
    operation_id: str
    by: str
    old: str | None
    new: str | None


class Reflog(Struct, frozen=True):
    """Entries of a reference log, newest first."""

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
    """The split parameters of the new tree: a range ends once it has ``max_size`` bytes of keys (plus 32 per key), or
    ``min_size`` bytes and a key whose hash is divisible by ``raggedness``."""

    min_size: int
    max_size: int
    raggedness: int
    message: str | None = None
    metadata: dict[str, str] | None = None
    force: bool | None = None


class TagCreation(Struct, frozen=True):
    """The tag to create. ``ref`` is any ref expression."""

    name: str = field(name="id")
    ref: str
    force: bool | None = None


class ApplicationVersion(Struct, frozen=True):
    """A numbered write: ``id`` names the application; ``version``, from 0, increases from write to write."""

    id: str
    version: int


class Merge(Struct, frozen=True):
    """The options of a merge. Graveler's own are: ``strategies``, by prefix, with ``strategy`` for all other paths;
    ``untouched``, prefixes below which the destination must be unchanged since the base, else 409; and ``application``: a version
    that the destination already has is not merged again. With ``beside_uncommitted``, uncommitted changes of the destination
    block the merge only if it would change the same objects, or if they are below ``untouched``. ``expected_head`` and
    ``expected_destination`` are commit IDs: if the source, or the destination, is at another commit, 412."""

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
    expected_head: CommitID | None = None
    expected_destination: CommitID | None = None


class MergeResult(Struct, frozen=True):
    """The commit of a merge."""

    reference: str


class MergeRefusal(Struct, frozen=True):
    """The reason why a merge was refused: an error, preceded by an empty ``reference``."""

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
    """The commit to create. ``date`` (Unix seconds, from 1970 to a day from now) overrides the current time."""

    message: str
    metadata: dict[str, str] | None = None
    created: int | None = field(default=None, name="date")
    allow_empty: bool | None = None
    force: bool | None = None
