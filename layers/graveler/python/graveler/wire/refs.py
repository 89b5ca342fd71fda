"""Documents about branches and commits. Those of requests come from their fields (:mod:`graveler.wire.request_shapes`)."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from graveler import model
from graveler.history.reflog import Event, LogEntry
from graveler.model import CommitID
from graveler.wire.documents import Commit, Pagination, Ref, commit_document, pagination, results


class RefDescription(Struct, frozen=True):
    """A ref as it was given (``id``), and its commit. ``type``: the name of a branch or of a tag, a commit's ID or its first
    digits, or an expression of these. ``uncommitted``: whether anything is staged on the branch; null for all but a branch's
    name. ``protected``: it is the name of a branch that the repository's settings protect; ``read_only``: the repository is."""

    id: str
    type: Literal["branch", "tag", "commit", "expression"]
    commit_id: str
    commit: Commit
    uncommitted: bool | None
    protected: bool
    read_only: bool

    def value(self) -> model.RefDescription:
        """Return it as a description of the lake."""
        return model.RefDescription(
            self.id, self.type, self.commit.value(), self.uncommitted, self.protected, self.read_only
        )


class ListedRef(Ref, frozen=True, kw_only=True):
    """A branch or a tag, with the details that the request names: its last commit; the numbers of commits ``ahead`` and
    ``behind`` the base, up to 1,000 (``more``: either may be larger), and whether the base has all of its commits (``merged``;
    null if the counting did not come that far); whether anything is staged (null for a tag)."""

    commit: Commit | UnsetType = UNSET
    ahead_count: int | UnsetType = field(default=UNSET, name="ahead")
    behind_count: int | UnsetType = field(default=UNSET, name="behind")
    more: bool | UnsetType = UNSET
    merged: bool | UnsetType | None = UNSET
    uncommitted: bool | UnsetType | None = UNSET

    def detailed(self, ref: model.Branch | model.Tag) -> model.DetailedRef:
        """Return it as a ref of the lake, with its details."""
        divergence = None
        if not (self.ahead_count is UNSET or self.behind_count is UNSET or self.more is UNSET or self.merged is UNSET):
            divergence = model.Divergence(self.ahead_count, self.behind_count, self.more, self.merged)
        commit = None if self.commit is UNSET else self.commit.value()
        return model.DetailedRef(ref, commit, divergence, None if self.uncommitted is UNSET else self.uncommitted)


class ListedRefs(Struct, frozen=True):
    """A page of branches or tags, with details."""

    pagination: Pagination
    results: list[ListedRef]


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


IsolationName = Literal["", "serializable", "snapshot"]


class PrefixStrategy(Struct, frozen=True):
    """The strategy for conflicts of paths that begin with ``prefix``. The longest matching prefix decides."""

    prefix: str
    strategy: StrategyName


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
                Event(entry.time_ns, entry.operation, entry.operation_id, entry.by),
                None if entry.old is None else CommitID(entry.old),
                None if entry.new is None else CommitID(entry.new),
            )
            for entry in self.results
        ]


class ApplicationVersion(Struct, frozen=True):
    """A numbered write: ``id`` names the application; ``version``, from 0, increases from write to write."""

    id: str
    version: int


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


def description_document(ref: model.RefDescription) -> RefDescription:
    """Return what a ref is as clients read it."""
    return RefDescription(
        ref.id, ref.type, ref.commit.id, commit_document(ref.commit), ref.uncommitted, ref.protected, ref.read_only
    )


def listed_refs(page: model.Page[model.DetailedRef], selection: model.RefSelection) -> ListedRefs:
    """Return a page of refs as clients read it, each with the details of the selection."""
    staged = "uncommitted" in selection.details
    return ListedRefs(pagination(page), results(page, partial(_listed_ref, staged=staged)))


def _listed_ref(detailed: model.DetailedRef, *, staged: bool) -> ListedRef:
    distance = detailed.divergence
    return ListedRef(
        detailed.ref.name,
        detailed.ref.commit_id,
        commit=UNSET if detailed.commit is None else commit_document(detailed.commit),
        ahead_count=UNSET if distance is None else distance.ahead_count,
        behind_count=UNSET if distance is None else distance.behind_count,
        more=UNSET if distance is None else distance.more,
        merged=UNSET if distance is None else distance.merged,
        uncommitted=detailed.uncommitted if staged else UNSET,
    )
