"""Landing changes of catalog entries: tables, views and namespaces change by commits of their branch, beside what is staged
there."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from graveler.history.split_parameters import split_of
from graveler.lake.committing.landing import Build, Draft, Landing, land
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.iceberg.catalog_errors import NamespaceNotFoundError
from graveler.lake.iceberg.catalog_paths import namespace_key
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, CommitID
from graveler.requests.base import CommitInfo, Gated
from graveler.tree.apply import apply
from graveler.tree.tree import Tree

EntryChanges: TypeAlias = Mapping[bytes, bytes | None]
"""New records by key; None removes one."""
ChangeEntries: TypeAlias = Callable[[Commit, Tree], EntryChanges]
"""Returns the changes to a head and its tree."""


def land_entries(
    repository: RepositoryParts,
    branch: str,
    request: Gated[Commit],
    info: CommitInfo,
    context: Context,
    change: ChangeEntries,
    *,
    early: bool = False,
) -> Commit:
    """Commit changes of entries to a branch, and return the commit. ``change`` is called again if the head moved; its errors
    leave the branch as it is. With ``early`` it is first called before it is the operation's turn to change the branch, so that
    others need not wait for its requests. Once the context's ``stop`` returns true, it stops waiting: for the branch with
    :class:`BusyError`, for the checks of its rules with :class:`TooMuchWorkError`, and the candidate stays open. Cost and other
    errors as of :func:`graveler.lake.committing.landing.land`, and with ``early`` a table read."""
    gate = GateTerms(request=request, actor=context.actor, direct=True)
    landing = Landing(
        branch, "commit", "changing its tables", info, Intent(direct=True), beside_uncommitted=True, gate=gate
    )

    by_head: dict[CommitID, EntryChanges] = {}

    def build(head: Commit, before: Tree) -> Draft:
        changes = by_head.pop(head.id) if head.id in by_head else change(head, before)
        tree = apply(before, sorted(changes.items()), split_of(head, repository.split), settle=False)
        if tree.id() == before.id():
            raise _UnchangedError(head)
        return Draft(tree)

    def prepare() -> Build:
        if early:
            head = repository.branches.commit(repository.branches.state(branch).commit_id)
            by_head[head.id] = change(head, repository.trees.load(head.metarange))
        return build

    try:
        limited = replace(landing, only_while=context.only_while, stop=context.stop).by(context)
        return land(repository, limited, prepare)
    except _UnchangedError as unchanged:
        return unchanged.head


class _UnchangedError(Exception):
    """The changes leave the tree of ``head`` as it is."""

    def __init__(self, head: Commit) -> None:
        self.head = head


def with_default_message(info: CommitInfo, message: str, **fields: str) -> CommitInfo:
    """Return commit information with this message, unless it already has a message, and with these fields as metadata."""
    metadata = {f"iceberg.{name}": text for name, text in fields.items()} | dict(info.metadata)
    return replace(info, message=info.message or message, metadata=metadata)


def expect_namespace(tree: Tree, namespace: tuple[str, ...], branch: str) -> None:
    """Raise :class:`NamespaceNotFoundError` unless the tree has the namespace. One lookup in the tree."""
    if tree.get(namespace_key(namespace)) is None:
        raise NamespaceNotFoundError(".".join(namespace), branch)
