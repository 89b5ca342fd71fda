"""The collaborators of one open repository, passed to the functions that change it."""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.history.commits import CommitStore
from graveler.history.expressions import Resolved
from graveler.history.reflog import RefLog
from graveler.history.refs import Refs
from graveler.lake.clock import GRACE, TABLE_GRACE, Clock
from graveler.lake.deadline import SKEW, Deadlines
from graveler.lake.leases import LeaseWatch
from graveler.lake.objects.issued_addresses import DataNames
from graveler.lake.objects.stage import Stager
from graveler.lake.objects.traces import Traces
from graveler.lake.opening.repositories import KnownRepository
from graveler.lake.refs.branches import Branches
from graveler.lake.turns import Turns
from graveler.model import CommitID, ObjectEntry, RepositoryUID, SplitParameters, Token
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.staging.tokens import Outcomes
from graveler.storage.machine_queue import MachineQueue
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Item, Key, Tables
from graveler.system.pauses import require_cached
from graveler.tree.range_notes import Notes
from graveler.tree.record import RecordCodec
from graveler.tree.rendered_pages import Renderer
from graveler.tree.store import TreeFiles, TreeStore
from graveler.tree.tree import Trees

if TYPE_CHECKING:
    from graveler.lake.committing.applications import Applications
    from graveler.lake.committing.records import CommitRecords
    from graveler.lake.committing.request_results import RequestResults
    from graveler.lake.objects.late_puts import LatePuts
    from graveler.lake.objects.upload_records import UploadRecords
    from graveler.lake.objects.withdrawal import Withdrawer
    from graveler.lake.opening.folder_permissions import FolderPermissions

Locate = Callable[[str], tuple[Objects, str]]
"""Returns the object store and the key there of an address outside of the namespace. Can be sent to tasks."""


class RefMemo(Struct, frozen=True):
    """The last known meaning of a ref: the items under these keys, what it resolved to, and the tokens of its changes."""

    keys: Sequence[Key]
    items: Sequence[Item | None]
    resolved: Resolved
    tokens: tuple[Token, ...]


class RepositoryParts(Struct, frozen=True, kw_only=True):
    """The parts of one repository: adapters, and the stores of its items and files. Reading needs all of them too. Safe to share
    between threads.

    ``grace`` is the grace period (seconds) of garbage collection, ``table_grace`` that of files of tables, ``skew`` the largest
    difference between clocks (seconds).
    ``leases`` is what this process has seen of the lake's leases; ``cached_tree_files`` are the files of its trees as a cache has
    them."""

    record: KnownRepository
    tables: Tables
    objects: Objects
    locate_external: Locate
    clock: Clock
    leases: LeaseWatch
    grace: float
    skew: float
    table_grace: float
    codec: RecordCodec
    renderer: Renderer
    trees: Trees
    commits: CommitStore
    reflog: RefLog
    refs: Refs
    staged: StagedChanges
    outcomes: Outcomes
    cleanup: CleanupQueue
    traces: Traces
    branches: Branches
    names: DataNames
    stager: Stager
    turns: Turns
    deadlines: Deadlines
    memos: dict[str, RefMemo]
    """The last known meanings, by ref."""
    cached_tree_files: TreeFiles | None
    folder_permissions: "FolderPermissions | None"

    @property
    def name(self) -> str:
        """The repository's name."""
        return self.record.repository.name

    @property
    def uid(self) -> RepositoryUID:
        """The repository's ID, which no other repository ever has, whatever its name."""
        return self.record.repository.uid

    @property
    def namespace(self) -> str:
        """The address under which the repository's objects lie."""
        return self.record.repository.namespace

    @property
    def default_branch(self) -> str:
        """The branch that cannot be deleted."""
        return self.record.repository.default_branch

    @property
    def split(self) -> SplitParameters:
        """The split parameters of the repository's trees, unless a commit says otherwise."""
        return self.record.repository.split

    @property
    def workers(self) -> int:
        """The number of processes that may work for this one."""
        return self.trees.empty().store.workers

    @property
    def applications(self) -> "Applications":
        """The numbered writes of applications."""
        from graveler.lake.committing.applications import Applications  # not on the path of a reader

        return Applications(self.tables, self.uid, self.refs, self.commits)

    @property
    def upload_records(self) -> "UploadRecords":
        """The records of uploads in parts."""
        from graveler.lake.objects.upload_records import UploadRecords  # not on the path of a reader

        return UploadRecords(self.tables, self.uid)

    @property
    def results(self) -> "RequestResults":
        """The results of requests with an ID."""
        from graveler.lake.committing.request_results import RequestResults  # not on the path of a reader

        return RequestResults(self.tables, self.uid, self.outcomes)

    @property
    def records(self) -> "CommitRecords":
        """The commits' records in the object store."""
        from graveler.lake.committing.records import CommitRecords  # not on the path of a reader

        return CommitRecords(self.tables, self.objects, self.commits)

    def pack(self, entry: ObjectEntry) -> bytes:
        """Encode the entry as a record. :class:`InvalidError` if it cannot be one, as one with a number in its metadata, which
        nobody could read again."""
        _check_types(entry)
        try:
            return self.codec.encode(entry)
        except (UnicodeEncodeError, OverflowError, struct.error) as error:
            raise InvalidError(f"object {entry.path!r} cannot be described like this: {error}") from None


def _check_types(entry: ObjectEntry) -> None:
    """Check what a caller gave; type checkers do not see all programs."""
    for name, kind in _TYPES:
        value = getattr(entry, name)
        if not isinstance(value, kind):
            raise InvalidError(f"the {name} of {entry.path!r} is {value!r}; it must be {_CALLED[kind]}")
    if not entry.metadata:
        return
    if not isinstance(entry.metadata, Mapping):
        raise InvalidError(f"the metadata of {entry.path!r} is {entry.metadata!r}; it must be a dictionary of strings")
    for text in (*entry.metadata, *entry.metadata.values()):
        if not isinstance(text, str):
            raise InvalidError(f"the metadata of {entry.path!r} has {text!r}; keys and values must be strings")


_TYPES: Final[tuple[tuple[str, type], ...]] = (
    ("size", int),
    ("checksum", str),
    ("mtime", int),
    ("content_type", str),
)
_CALLED: Final[dict[type, str]] = {str: "a string", int: "a whole number"}


def open_parts(
    record: KnownRepository,
    tables: Tables,
    objects: Objects,
    store: TreeStore,
    clock: Clock,
    locate_external: Locate,
    grace: float = GRACE,
    skew: float = SKEW,
    *,
    table_grace: float = TABLE_GRACE,
    leases: LeaseWatch,
    staging_shards: int = 1,
    rendered: Notes | None = None,
    cached_tree_files: TreeFiles | None = None,
    folder_permissions: "FolderPermissions | None" = None,
    machine_queue: MachineQueue | None = None,
) -> RepositoryParts:
    """Assemble the parts of a repository. ``rendered`` keeps rendered pages of listings; the processes of this machine wait in
    ``machine_queue``. No request."""
    repository = record.repository
    uid = repository.uid
    codec = RecordCodec(repository.namespace)
    trees = Trees(store)
    commits, reflog = CommitStore(tables, uid), RefLog(tables, uid)
    refs = Refs(tables, uid, reflog)
    staged = StagedChanges(tables, uid, staging_shards)
    outcomes, cleanup = Outcomes(tables, uid), CleanupQueue(tables, uid)
    traces = Traces(repository, tables, clock, grace)
    branches = Branches(
        repository,
        tables,
        refs,
        reflog,
        commits,
        outcomes,
        cleanup,
        traces,
        clock,
        leases,
        staged.first_token,
    )

    def committed(commit_id: CommitID, key: bytes) -> bytes | None:
        name = branches.commit(commit_id).metarange
        return trees.get(name, key)

    def make_withdrawer() -> "Withdrawer":
        from graveler.lake.objects.collector_state import is_collecting
        from graveler.lake.objects.withdrawal import Withdrawer
        from graveler.storage.objects.port import ObjectMissingError

        def kept(key: bytes, packed: bytes) -> bool:
            needed = traces.needed([codec.decode(key, packed).address])
            traces.leave(needed)
            if needed and is_collecting(tables, uid):
                return False
            try:
                for name in needed:
                    objects.head(name)
            except ObjectMissingError:
                return False
            return True

        return Withdrawer(tables, refs, staged, outcomes, committed, kept, clock)

    def make_late_puts() -> "LatePuts":
        from graveler.lake.objects.late_puts import LatePuts

        return LatePuts(refs, staged, outcomes, committed, branches.commit)

    return RepositoryParts(
        record=record,
        tables=tables,
        objects=objects,
        locate_external=locate_external,
        clock=clock,
        leases=leases,
        grace=grace,
        skew=skew,
        table_grace=table_grace,
        codec=codec,
        renderer=Renderer(repository.namespace, rendered, require_cached=require_cached),
        trees=trees,
        commits=commits,
        reflog=reflog,
        refs=refs,
        staged=staged,
        outcomes=outcomes,
        cleanup=cleanup,
        traces=traces,
        branches=branches,
        names=DataNames(uid, record.secret, grace / 2),
        stager=Stager(branches, staged, clock, make_withdrawer, make_late_puts),
        turns=Turns(uid, tables, branches, clock, leases, machine_queue),
        deadlines=Deadlines(clock, grace, skew),
        memos={},
        cached_tree_files=cached_tree_files,
        folder_permissions=folder_permissions,
    )
