"""Documents about branches and commits. Those of requests come from their fields (:mod:`graveler.wire.request_shapes`)."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from graveler import model
from graveler.history.reflog import Event, LogEntry
from graveler.model import CommitID
from graveler.wire.documents import Commit, commit_document


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
