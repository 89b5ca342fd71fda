"""A lake: the repositories of one table, and the object stores that they name."""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    ForbiddenError,
    GravelerError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.history.commits import CommitStore, encode_commit, new_commit
from graveler.history.names import check_branch, check_repository
from graveler.history.reflog import Event
from graveler.history.refs import BranchState, Refs
from graveler.lake.clock import GRACE, TABLE_GRACE, Clock, SystemClock
from graveler.lake.deadline import SKEW
from graveler.lake.leases import LeaseWatch
from graveler.lake.opening.lake_parts import Surroundings, TreeSettings
from graveler.lake.opening.repositories import (
    CLAIM_SECONDS,
    KnownRepository,
    Repositories,
    decode_repository,
    namespace_taken,
    new_repository,
    repository_key,
)
from graveler.lake.parts import open_parts
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.repository_settings import check_settings
from graveler.model import (
    Commit,
    LakeRule,
    LakeRules,
    MetarangeName,
    ObjectEntry,
    Page,
    Repository,
    RepositoryUID,
    Rules,
    Settings,
    SplitParameters,
)
from graveler.staging.tokens import new_token
from graveler.storage.objects.namespaces import locate
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.storage.secrets.keyring import Keyring
from graveler.storage.tables.port import ConditionFailedError, DamagedItemError, Tables
from graveler.system.forks import new_lock

if TYPE_CHECKING:
    from graveler.lake.dump.chunks import Manifest
    from graveler.lake.dump.restore import Restored
    from graveler.lake.fsck.findings import Report
    from graveler.lake.opening.nesting import Neighbours

FIRST_MESSAGE = "Repository created"

_PAGE: Final = 1000

_KEPT: Final = 32
"""The number of repositories that stay open with their caches."""

_REPOSITORY_TTL: Final = 60.0
"""Seconds for which a verb stages into an open repository without reading its record again. The items of a deleted repository
stay for much longer than this, so that a late write can still be withdrawn."""

Result = TypeVar("Result")


class Lake:
    """The repositories of one table. ``open_objects`` returns the object store of a storage namespace (a URL).

    ``tables`` also holds items of the rooms above. ``outside`` returns the object store and the key there of an address outside
    of a repository's namespace. ``grace`` is the grace period (seconds) during which garbage collection leaves young files alone;
    ``table_grace`` is the same for files in the folders of tables; ``skew`` is the largest difference (seconds) between clocks.
    All of these must be the same for every process of the lake. From its next token on, a branch spreads its uncommitted changes
    over ``staging_shards`` partitions of the table (1 to 64), for tables with limits per partition.
    """

    def __init__(
        self,
        tables: Tables,
        open_objects: Callable[[str], Objects],
        *,
        clock: Clock | None = None,
        trees: TreeSettings | None = None,
        surroundings: Surroundings | None = None,
        outside: Callable[[str], tuple[Objects, str]] = locate,
        grace: float = GRACE,
        table_grace: float = TABLE_GRACE,
        skew: float = SKEW,
        staging_shards: int = 1,
    ) -> None:
        self.tables = tables
        self.store_of = open_objects
        """Returns the object store of a storage namespace. No request. :class:`InvalidError` for an invalid namespace."""
        self.clock = clock or SystemClock()
        self.leases = LeaseWatch(self.clock)
        self._trees = trees or TreeSettings()
        self.grace = grace
        self.table_grace = max(grace, table_grace)
        self.skew = skew
        self._outside = outside
        self._staging_shards = staging_shards
        surroundings = surroundings or Surroundings()
        self.home = surroundings.home
        self.close = surroundings.close
        self.folder_permissions = surroundings.folder_permissions
        self.keyring = surroundings.keyring or Keyring(tables)
        self.notice = surroundings.notice
        self.writable = surroundings.writable
        self._machine_queue = surroundings.machine_queue
        self._repositories = Repositories(tables)
        self._opened: OrderedDict[RepositoryUID, OpenRepository] = OrderedDict()
        self._names: dict[str, tuple[RepositoryUID, float]] = {}
        """The UIDs of open repositories by name, with the monotonic time (seconds) at which each was last read."""
        self._lock = new_lock()

    def __repr__(self) -> str:
        return f"Lake({self.tables!r})"

    def __enter__(self) -> "Lake":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def neighbours(self) -> "Neighbours":
        """The storage namespaces of the other repositories."""
        from graveler.lake.opening.nesting import Neighbours  # not on the path of a cold start

        folder = None if self.folder_permissions is None else self.folder_permissions.folder
        return Neighbours(self.tables, folder, self.clock.monotonic)

    def create_repository(
        self,
        name: str,
        namespace: str,
        *,
        default_branch: str = "main",
        split: SplitParameters | None = None,
        by: str = "",
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> OpenRepository:
        """Create a repository with one branch, which points at a first, empty commit without a committer. ``by`` is noted in the
        reference log; ``read_only`` and ``metadata`` are its initial settings.

        Rules of the lake whose patterns match its name hold from the beginning.

        Cost: three table reads, and one for each thousand repositories, deleted ones, and repositories with rules of ingest; two
        object writes, one transaction.
        :class:`AlreadyExistsError` for the name; :class:`InvalidError` for invalid names or parameters, and for a namespace that
        equals, contains or lies within another repository's. Waits for half a minute
        if another repository was being created in the namespace and its creator has died.
        """
        from graveler.lake.committing.records import COMMITS_FOLDER  # these are not on the path of a cold start
        from graveler.lake.gates.judgement import gate_of
        from graveler.lake.gates.lake_rules import LAKE_RULES, decode_lake_rules, rules_for, unchanged_check

        check_repository(name)
        check_branch(default_branch)
        now = self.clock.now()
        settings = Settings(read_only, dict(metadata or {}))
        check_settings(settings)
        existing, rules_item = self.tables.get_many([repository_key(name), LAKE_RULES])
        if existing is not None:
            raise AlreadyExistsError("repository", name)
        lake_rules = decode_lake_rules(rules_item)
        rules = rules_for(lake_rules.rules, name)
        if rules:
            settings = msgspec.structs.replace(settings, rules=Rules(1, rules))
        record = new_repository(
            name, namespace.rstrip("/"), default_branch, int(now), split or SplitParameters(), settings
        )
        repository = record.repository
        objects = self.store_of(repository.namespace)
        neighbour_writes = self.neighbours.creating(repository)
        self._repositories.claim(repository, objects, self.clock, self.leases)
        claimed = self.clock.monotonic()
        operation = token_hex(16)
        commit = new_commit([], MetarangeName(""), "", FIRST_MESSAGE, int(now), {}, operation)
        refs, commits = Refs(self.tables, repository.uid), CommitStore(self.tables, repository.uid)
        stamp = settings.rules.version if gate_of(settings.rules, "branch", default_branch) else 0
        branch = BranchState(default_branch, commit.id, new_token(self._staging_shards), moves=1, rules=stamp)
        event = Event(int(now * 1e9), "create repository", operation, by)
        writes = [
            *self._repositories.create_writes(record),
            *neighbour_writes,
            commits.put_write(commit, now),
            *refs.create_branch_writes(branch, event),
            unchanged_check(lake_rules),
        ]
        try:
            objects.put(f"{COMMITS_FOLDER}/{commit.id}", encode_commit(commit))
        except GravelerError:
            with suppress(GravelerError):  # else it can be claimed again after a while
                self._repositories.release(repository, objects)
            raise
        if self.clock.monotonic() - claimed > CLAIM_SECONDS:  # another process may claim the namespace soon
            self._repositories.release(repository, objects)
            raise BusyError(
                f"creating repository {name!r} in {repository.namespace} took longer than {CLAIM_SECONDS:.0f} s, so others may "
                "have claimed the namespace; nothing was changed, try again"
            )
        try:
            self.tables.transact(writes)
        except ConditionFailedError as error:
            if self._repositories.is_there(repository):
                return self._open(record)  # an earlier attempt of the same request succeeded, but its response was lost
            self._repositories.release(repository, objects)
            if 0 in error.failures:
                raise AlreadyExistsError("repository", name) from None
            if 1 in error.failures:
                raise namespace_taken(repository.namespace, "another repository") from None
            self.neighbours.creating(repository)  # raises the exact error, unless the other repositories are gone again
            raise BusyError(
                f"others are creating repositories around {repository.namespace}, or change the rules of the lake; nothing was "
                "changed, try again"
            ) from None
        except UnavailableError:
            # The response may be lost, so the claim is withdrawn only if nothing happened for certain.
            if not self._repositories.is_there(repository):
                raise
        self.neighbours.forget()
        return self._open(record)

    def repository(self, name: str, ref: str = "") -> OpenRepository:
        """Open the repository of this name. Cost: one table read. :class:`RepositoryNotFoundError`.

        The most recently used repositories stay open, so repeated calls return the same object, with its caches of trees and
        commits, and with ``repository`` as just read. A caller that will only read and resolve ``ref`` next passes it here: if
        the repository is open, its ref is read in the same request, and resolving it costs none.
        """
        if ref:
            with self._lock:
                before = self._known(name)
            if before is not None and (keys := before.keys_of(ref)):
                item, *items = self.tables.get_many([repository_key(name), *keys])
                if item is None:
                    raise RepositoryNotFoundError(name)
                opened = self._open(self._repositories.decode(name, item))
                return opened.with_prefetched(dict(zip(keys, items, strict=True))) if opened is before else opened
        return self._open(self._repositories.get(name))

    def stat(self, name: str, ref: str, path: str) -> tuple[OpenRepository, ObjectEntry]:
        """Return the repository of this name, and the metadata of one of its objects. Cost: as :meth:`OpenRepository.stat`; the
        repository is read together with the ref. :class:`RepositoryNotFoundError`, and errors as there."""
        with self._lock:
            opened = self._known(name)
        if opened is None:
            repository = self.repository(name)
            return repository, repository.stat(ref, path)
        read = opened.prefetch_stat(ref, path, [repository_key(name)])
        [item] = read.other_items
        if item is None:
            raise RepositoryNotFoundError(name)
        repository = self._open(self._repositories.decode(name, item))
        return repository, repository.finish_stat(read) if repository is opened else repository.stat(ref, path)

    def with_recent_repository(self, name: str, work: Callable[[OpenRepository], Result]) -> Result:
        """Call ``work`` with the repository of this name and return its result. ``work`` reads a branch, or stages something and
        ends by reading the branch.

        That last read detects whether the name still belongs to the same repository. So a repository that was read within the
        last minute is not read again first, unless ``work`` fails: if the name belongs to another repository by then, nothing was
        staged (:class:`~graveler.lake.objects.stage.Stager`), and ``work`` is called again with that one. ``work`` may see
        settings that are a minute old; if it refuses a change and the settings differ by now, it is called again. Cost: that of
        ``work``, and one table read a minute, or after an error. :class:`RepositoryNotFoundError`.
        """
        with self._lock:
            opened = self._known(name, read_after=self.clock.monotonic() - _REPOSITORY_TTL)
        if opened is None:
            return work(self.repository(name))
        recent = opened.repository
        try:
            return work(opened)
        except GravelerError as error:
            now = self.repository(name)
            allowed_by_now = isinstance(error, ForbiddenError) and now.repository != recent
            if now is opened and not allowed_by_now:
                raise
            return work(now)

    def _known(self, name: str, read_after: float = -math.inf) -> OpenRepository | None:
        """Return the open repository of this name if it was read after ``read_after``. The caller holds the lock."""
        uid, read = self._names.get(name, (None, -math.inf))
        return None if uid is None or read < read_after else self._opened.get(uid)

    def look_up(self, names: Sequence[str]) -> list[OpenRepository | GravelerError]:
        """Return the repositories of these names, or why one is missing: :class:`RepositoryNotFoundError`, :class:`CorruptError`.
        Cost: one table read for each hundred."""
        try:
            items = self.tables.get_many([repository_key(name) for name in names])
        except DamagedItemError as error:
            # The others may be fine: read each by itself.
            return [error] if len(names) == 1 else [self.look_up([name])[0] for name in names]
        repositories: list[OpenRepository | GravelerError] = []
        for name, item in zip(names, items, strict=True):
            try:
                if item is None:
                    raise RepositoryNotFoundError(name)
                repositories.append(self._open(decode_repository(name, item)))
            except GravelerError as error:
                repositories.append(error)
        return repositories

    def repositories(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Repository]:
        """Return a page of the repositories, by name. Cost: one table read."""
        return self._repositories.page(prefix, after, amount)

    def head_commits(self, repositories: Sequence[Repository]) -> list[Commit | None]:
        """Return the last commit of each repository's default branch; None if the branch does not exist, as in a repository that
        is being deleted. Cost: two table reads for each hundred. :class:`CorruptError` for a commit that cannot be read."""
        refs = [Refs(self.tables, repository.uid) for repository in repositories]
        names = [repository.default_branch for repository in repositories]
        items = self.tables.get_many([of.branch_key(name) for of, name in zip(refs, names, strict=True)])
        branches = [of.decode_branch(name, item) for of, name, item in zip(refs, names, items, strict=True)]
        stores = [CommitStore(self.tables, repository.uid) for repository in repositories]
        heads = [
            (store, branch.commit_id) for store, branch in zip(stores, branches, strict=True) if branch is not None
        ]
        records = iter(self.tables.get_many([store.key(commit_id) for store, commit_id in heads]))
        commits: list[Commit | None] = []
        for store, branch in zip(stores, branches, strict=True):
            item = None if branch is None else next(records)
            commits.append(None if branch is None or item is None else store.decode(branch.commit_id, item).commit)
        return commits

    def rules(self) -> LakeRules:
        """Return the rules of the lake. Cost: one table read."""
        from graveler.lake.gates.lake_rules import read_lake_rules  # not on the path of a cold start

        return read_lake_rules(self.tables)

    def set_rules(self, rules: Sequence[LakeRule], if_match: int | None = None, *, by: str = "") -> LakeRules:
        """Replace the rules of the lake, and their copies in the repositories whose names match; they are in force in each when
        the call returns. With ``if_match``, only if they still have this version.

        Cost: two table reads, one write, and one read for each thousand repositories; as :class:`SetRules` for each that has
        copies. A repetition of a call that failed on the way does the rest. :class:`InvalidError` for rules that nobody could
        fulfil, and for those that contradict rules of a repository: then nothing was changed. :class:`PreconditionError`."""
        from graveler.lake.gates.copied_rules import set_lake_rules  # not on the path of a cold start

        return set_lake_rules(
            self.tables,
            lambda after: self.repositories("", after, _PAGE),
            lambda name: self.repository(name).parts,
            rules,
            if_match,
            by,
        )

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Delete a repository but leave its objects where they are. Cost: one table read, one transaction.
        :class:`ReadOnlyRepositoryError` unless ``force``."""
        self._repositories.delete(name, self.clock.now(), force=force)
        with self._lock:
            self._names.pop(name, None)

    def fsck(
        self,
        name: str,
        *,
        repair: bool = False,
        reflog: bool = True,
        committed_objects: bool = False,
        outside_objects: bool = False,
        object_bytes: bool = False,
        progress: "Callable[[str, int, int], None] | None" = None,
    ) -> "Report":
        """Check everything that a repository can reach; report what is wrong and which paths of which refs it affects.

        See :meth:`OpenRepository.fsck`.
        """
        return self.repository(name).fsck(
            repair=repair,
            reflog=reflog,
            committed_objects=committed_objects,
            outside_objects=outside_objects,
            object_bytes=object_bytes,
            progress=progress,
        )

    def dump(self, name: str) -> "Manifest":
        """Write refs, settings and uncommitted changes of a repository into its object store. See :meth:`OpenRepository.dump`."""
        return self.repository(name).dump()

    def dumps(self, namespace: str) -> list[str]:
        """Return the IDs of the complete dumps in a storage namespace, oldest first."""
        from graveler.lake.dump.chunks import dumps  # not on the path of a cold start

        return dumps(self.store_of(namespace))

    def restore(
        self,
        namespace: str,
        dump_id: str,
        name: str,
        *,
        by: str = "",
        progress: "Callable[[str, int, int], None] | None" = None,
        looser_rules: bool = False,
    ) -> "Restored":
        """Recreate a repository, under a free name, from a dump in its storage namespace. See
        :func:`graveler.lake.dump.restore.restore`."""
        from graveler.lake.dump.restore import restore  # not on the path of a cold start
        from graveler.system.progress import no_progress

        objects = self.store_of(namespace)
        progress = progress or no_progress
        now = self.clock.now()
        return restore(
            self.tables,
            objects,
            dump_id,
            name,
            now,
            by=by,
            progress=progress,
            neighbours=self.neighbours,
            looser_rules=looser_rules,
        )

    def _open(self, record: KnownRepository) -> OpenRepository:
        uid = record.repository.uid
        with self._lock:
            before = self._opened.get(uid)
            if before is not None and (before.repository is record.repository or before.is_of(record)):
                before.repository = record.repository
                self._names[record.repository.name] = uid, self.clock.monotonic()
                self._opened.move_to_end(uid)
                return before
        objects = self.store_of(record.repository.namespace)
        files = ImmutableFiles(objects, self._trees.cache, self.grace, self.clock.now)
        store, rendered = self._trees.store(files)
        opened = OpenRepository(
            open_parts(
                record,
                self.tables,
                objects,
                store,
                self.clock,
                self._outside,
                self.grace,
                self.skew,
                table_grace=self.table_grace,
                leases=self.leases,
                staging_shards=self._staging_shards,
                rendered=rendered,
                cached_tree_files=None if self._trees.cache is None else files,
                folder_permissions=self.folder_permissions,
                machine_queue=self._machine_queue,
            )
        )
        with self._lock:
            self._opened[uid] = opened
            self._names[record.repository.name] = uid, self.clock.monotonic()
            self._opened.move_to_end(uid)
            while len(self._opened) > _KEPT:
                oldest, closed = self._opened.popitem(last=False)
                if self._names.get(closed.repository.name, (None, 0.0))[0] == oldest:
                    del self._names[closed.repository.name]
        return opened
