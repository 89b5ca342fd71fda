"""Restoring a dump into a table that does not have the repository.

The order makes an interrupted restore harmless and a repeated one complete: commits, then staged changes under fresh tokens, then
refs, and the repository's item last. Until that exists the repository cannot be opened, and everything before it may be
written again. Every transaction that writes refs has the condition that the repository does not exist, so of two concurrent
restores the slower one cannot touch what users of the faster one's have done since.
"""

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from graveler.errors import (
    UNREADABLE,
    AlreadyExistsError,
    CorruptError,
    InvalidError,
    PreconditionError,
    UnavailableError,
)
from graveler.history.commits import CommitStore
from graveler.history.names import check_repository
from graveler.history.reflog import Event, LogEntry, RefKind, RefLog
from graveler.history.refs import SHARDS, BranchState, Refs
from graveler.lake.committing.applications import Applications
from graveler.lake.dump.chunks import (
    APPLICATIONS,
    BRANCHES,
    COMMENTS,
    PULLS,
    SETTINGS,
    STAGED,
    TAGS,
    Manifest,
    RefLine,
    StagedLine,
    get_manifest,
    read_chunks,
)
from graveler.lake.dump.history import MissingParent, rebuild_commits
from graveler.lake.gates.lake_rules import read_lake_rules, rules_for, unchanged_check, with_lake_rules
from graveler.lake.opening.nesting import Neighbours
from graveler.lake.opening.repositories import (
    DELETED_PARTITION,
    LAKE,
    MARKER,
    DeletedRepository,
    KnownRepository,
    Repositories,
    decode_repository,
    namespace_taken,
    repository_key,
    with_settings,
)
from graveler.lake.pulls.pull_dump import clearing_writes, restored_pull_writes
from graveler.lake.pulls.pull_store import PullStore
from graveler.model import CommitID, LakeRules, Repository, RepositoryUID, Rules, Token
from graveler.staging.changes import StagedChanges, StagedRecord
from graveler.staging.tokens import life_of, new_token, shard_count
from graveler.storage.limits import text_key
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.tables.port import (
    Absent,
    Check,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Write,
)
from graveler.storage.tables.walking import items
from graveler.system.progress import Progress, no_progress

_PAGE: Final = 1000
_TOGETHER: Final = 90
"""Writes of one transaction, besides its condition."""
_TOGETHER_LARGE: Final = 9
"""The same for items that may have 400 KB each."""


class Restored(Struct, frozen=True):
    """The result of a restore. ``missing`` are old commits that the object store has lost; see fsck."""

    repository: Repository
    dump_id: str
    branches: int
    tags: int
    staged: int
    commits: int
    missing: tuple[MissingParent, ...]


def restore(
    tables: Tables,
    objects: Objects,
    dump_id: str,
    name: str,
    now: float,
    *,
    by: str = "",
    progress: Progress = no_progress,
    neighbours: Neighbours | None = None,
    looser_rules: bool = False,
) -> Restored:
    """Recreate the repository ``name`` from a dump in ``objects``, its namespace. ``now`` in Unix seconds.

    It keeps its uid, so that its namespace and its data names stay its own; the lake that had it before must not use it any more,
    since the two would not know of each other's commits. Branches point where they did, and have their staged changes, under a
    fresh token each; the last writes of applications to them are restored too, and pull requests, which follow their branches.
    Results of requests with an ID are not restored: a request that is repeated across a restore is made twice. May be repeated
    until it succeeds; what an attempt that died has staged stays as garbage in the table. Its own rules come with it, and those
    of this lake take the place of the dumped lake's: if that had others for it, :class:`PreconditionError`, unless
    ``looser_rules``. Cost: as :func:`rebuild_commits`, an object read for each chunk, a table write for each 25 staged changes, a
    transaction for each 45 refs. Memory: the refs. Raises :class:`AlreadyExistsError` if the repository exists, under this name
    or another, :class:`InvalidError` for the name, and a namespace that belongs to another one, lies in one or holds one;
    :class:`LaterVersionError` for the dump, or a commit that it needs; :class:`CorruptError` for a damaged dump, or a lost commit
    that a ref points at; :class:`NotFoundError`.
    """
    check_repository(name)
    manifest = get_manifest(objects, dump_id)
    lake_rules = read_lake_rules(tables)
    registered, item = _settings(objects, manifest, name)
    registered, item = _with_lake_rules(registered, item, lake_rules, looser_rules=looser_rules)
    uid = registered.repository.uid
    _refuse_present(tables, uid, name)
    _refuse_purged(tables, uid)
    neighbour_writes = (neighbours or Neighbours(tables)).creating(registered.repository)
    marker = _marker(tables, registered.repository)
    owner = _owner(objects, uid)
    branches = [line for chunk in read_chunks(objects, manifest, BRANCHES, RefLine) for line in chunk]
    tags = [line for chunk in read_chunks(objects, manifest, TAGS, RefLine) for line in chunk]
    commits, missing = _restore_commits(tables, uid, objects, manifest, progress)
    versions = [line for chunk in read_chunks(objects, manifest, APPLICATIONS, RefLine) for line in chunk]
    refs = Refs(tables, uid)
    tokens = _Tokens(refs, branches)
    staged = _restore_staged(StagedChanges(tables, uid), objects, manifest, tokens, progress)
    event = Event(int(now * 1e9), "restore", token_hex(16), by)
    guard = _Guarded(tables, name)
    _clear_refs(
        tables, uid, guard, keep={(b"branch", line.name) for line in branches} | {(b"tag", line.name) for line in tags}
    )
    _restore_refs(guard, refs, RefLog(tables, uid), tokens, branches, tags, event)
    applications = Applications(tables, uid, refs, CommitStore(tables, uid))
    for line in versions:
        guard.add(applications.restore_write(line.name, line.item))
    _restore_pulls(guard, tables, uid, objects, manifest, tokens)
    guard.finish()
    if owner != marker:  # another name, another lake, or it was lost
        objects.put(MARKER, msgspec.json.encode(marker))
    _publish(tables, refs, registered, item, tokens, [*neighbour_writes, unchanged_check(lake_rules)])
    return Restored(registered.repository, dump_id, len(branches), len(tags), staged, commits, missing)


def _settings(objects: Objects, manifest: Manifest, name: str) -> tuple[KnownRepository, Item]:
    """Return the repository and its item; its namespace is where the dump lies, which may be a copy."""
    settings: list[dict[str, Any]] = [
        item for chunk in read_chunks(objects, manifest, SETTINGS, dict[str, Any]) for item in chunk
    ]
    if len(settings) != 1:
        raise CorruptError(
            f"dump {manifest.id!r} contains the settings of {len(settings)} repositories; use another dump"
        )
    item: Item = {**settings[0], "namespace": objects.namespace}
    return decode_repository(name, item), item


def _with_lake_rules(
    registered: KnownRepository, item: Item, lake_rules: LakeRules, *, looser_rules: bool
) -> tuple[KnownRepository, Item]:
    """Return the repository and its item with this lake's rules in place of those of the dumped one. :class:`PreconditionError`
    if that had some that this lake has not, unless ``looser_rules``."""
    repository = registered.repository
    before = repository.settings.rules
    copies = rules_for(lake_rules.rules, repository.name)
    lost = [rule.name for rule in before.rules if rule.of_lake and rule not in copies]
    if lost and not looser_rules:
        raise PreconditionError(
            f"the lake of the dump had rules for repository {repository.name!r} that this lake has not: {', '.join(lost)}; set "
            "them for this lake first, or restore with looser rules"
        )
    rules = with_lake_rules(before.rules, copies)
    if rules == before.rules:
        return registered, item
    settings = structs.replace(repository.settings, rules=Rules(before.version + 1, rules))
    changed = with_settings(item, settings)
    return decode_repository(repository.name, changed), changed


def _refuse_present(tables: Tables, uid: RepositoryUID, name: str) -> None:
    """Check that the repository does not exist. One table read for each thousand repositories."""
    repositories = Repositories(tables)
    if repositories.exists(name):
        raise AlreadyExistsError("repository", name, "delete it first, or restore under another name")
    after = ""
    while True:
        page = repositories.page("", after, _PAGE)
        for repository in page.results:
            if repository.uid == uid:
                reason = "it is the repository that this dump was made of; delete it first"
                raise AlreadyExistsError("repository", repository.name, reason)
        if page.next_after is None:
            return
        after = page.next_after


def _restore_commits(
    tables: Tables, uid: RepositoryUID, objects: Objects, manifest: Manifest, progress: Progress
) -> tuple[int, tuple[MissingParent, ...]]:
    heads = [*map(CommitID, manifest.commits)]
    rebuilt = rebuild_commits(tables, uid, objects, reachable_from=heads, progress=progress)
    lost = sorted({gap.parent for gap in rebuilt.missing}.intersection(heads))
    if lost:
        raise CorruptError(
            f"commit {lost[0]}, which a ref of dump {manifest.id!r} points to, has no valid record in {objects.namespace} "
            f"({len(lost)} such commits in all); nothing was restored. Restore _graveler/commits from a copy, or use another dump"
        )
    return rebuilt.commits, rebuilt.missing


class _Tokens:
    """A fresh token for each branch, which replaces all that it had."""

    def __init__(self, refs: Refs, branches: Sequence[RefLine]) -> None:
        self.fresh: dict[str, Token] = {}
        self.instead: dict[str, Token] = {}
        self.lives: dict[str, tuple[str, Token]] = {}
        """For each branch the life that it had in the dump, and its fresh token."""
        for line in branches:
            state = refs.decode_branch(line.name, line.item)
            assert state is not None
            old = (*state.sealed, state.open)
            self.fresh[line.name] = new_token(max(map(shard_count, old)))
            self.instead.update(dict.fromkeys(old, self.fresh[line.name]))
            self.lives[line.name] = life_of(state.open), self.fresh[line.name]


def _restore_staged(
    changes: StagedChanges, objects: Objects, manifest: Manifest, tokens: _Tokens, progress: Progress
) -> int:
    """Stage the dumped changes, in the dump's order: for each branch the oldest first, so that the newest value stays. Tokens
    that no dumped branch has were published or dropped while the dump was taken."""
    staged = 0
    for chunk in read_chunks(objects, manifest, STAGED, StagedLine):
        by_token: dict[Token, dict[bytes, bytes | None]] = {}
        for line in chunk:
            token = tokens.instead.get(line.token)
            if token is not None:
                by_token.setdefault(token, {})[line.key] = line.record
        for token, records in by_token.items():
            batch: list[StagedRecord] = [*records.items()]
            changes.put_many(token, batch)
            staged += len(batch)
        progress("staged", staged, manifest.staged)
    return staged


class _Guarded:
    """Transactions that happen only while the repository does not exist."""

    def __init__(self, tables: Tables, name: str) -> None:
        self._tables = tables
        self._name = name
        self._writes: list[Write] = []

    def add(self, *writes: Write) -> None:
        """Add writes that belong together, to be made now or later."""
        self._writes += writes
        if len(self._writes) >= _TOGETHER:
            self.finish()

    def add_large(self, *writes: Write) -> None:
        """Add writes whose items may be large, each by itself."""
        for write in writes:
            self.add(write)
            if len(self._writes) >= _TOGETHER_LARGE:
                self.finish()

    def finish(self) -> None:
        """Make the writes that are still left."""
        if not self._writes:
            return
        try:
            self._tables.transact([Check(repository_key(self._name), Absent()), *self._writes])
        except ConditionFailedError:
            raise AlreadyExistsError("repository", self._name, "someone else has just created it") from None
        self._writes = []


def _clear_refs(tables: Tables, uid: RepositoryUID, guard: _Guarded, keep: set[tuple[bytes, str]]) -> None:
    """Remove refs that the table still has of the repository before it was deleted, or from a restore that died."""
    for kind in (b"branch", b"tag"):
        for shard in range(SHARDS):
            partition = f"{uid}/{kind.decode()}/{shard:x}"
            for sort, _ in items(tables, partition):
                if (kind, text_key(partition, sort)) not in keep:
                    guard.add(Delete(Key(partition, sort)))


def _restore_refs(
    guard: _Guarded,
    refs: Refs,
    log: RefLog,
    tokens: _Tokens,
    branches: Sequence[RefLine],
    tags: Sequence[RefLine],
    event: Event,
) -> None:
    for line in branches:
        # The version of the rules may be newer than the rules in the dump, and the next change of those writes it again.
        item = {name: value for name, value in line.item.items() if name not in ("sealed", "rules")}
        item["open"] = tokens.fresh[line.name]
        state = refs.decode_branch(line.name, line.item)
        assert state is not None
        # Rows that were written after the dump may still exist: this one must be the newest.
        item["moves"] = moves = max(event.time_ns, state.moves + 1)
        entry = LogEntry(event, None, state.commit_id)
        _add_ref(guard, log, "branch", refs.branch_key(line.name), item, entry, moves)
    for line in tags:
        tag = refs.decode_tag(line.name, line.item)
        assert tag is not None
        _add_ref(guard, log, "tag", refs.tag_key(line.name), line.item, LogEntry(event, None, tag.commit_id))


def _restore_pulls(
    guard: _Guarded, tables: Tables, uid: RepositoryUID, objects: Objects, manifest: Manifest, tokens: _Tokens
) -> None:
    """Restore pull requests and the comments on them. They follow their branches, which have other tokens now."""
    store = PullStore(tables, uid)
    guard.add_large(*clearing_writes(store, tables))
    guard.finish()  # what follows may write the same items again
    last = 0
    for chunk in read_chunks(objects, manifest, PULLS, RefLine):
        for line in chunk:
            guard.add_large(*restored_pull_writes(store, line.name, line.item, tokens.lives))
            last = max(last, int(line.name.rpartition("/")[2]))
    for chunk in read_chunks(objects, manifest, COMMENTS, RefLine):
        for line in chunk:
            guard.add_large(Put(Key(store.comment_partition, line.name.encode()), line.item))
    if last:
        guard.add(Put(store.last_key, {"number": last}))


def _add_ref(
    guard: _Guarded, log: RefLog, kind: RefKind, key: Key, item: Item, entry: LogEntry, number: int = 0
) -> None:
    guard.add(Put(key, item), log.put_write(kind, key.sort.decode(), entry, number))


def _owner(objects: Objects, uid: RepositoryUID) -> dict[str, str | int]:
    """Return the namespace's mark; empty if it has none. :class:`InvalidError` if it is another repository's."""
    try:
        marker = msgspec.json.decode(objects.get(MARKER), type=dict[str, str | int])
    except (ObjectMissingError, *UNREADABLE):
        return {}
    if marker.get("uid") != uid:
        raise InvalidError(
            f"storage namespace {objects.namespace} belongs to repository {marker.get('repository')!r} now; the dump "
            "cannot be restored there"
        )
    return marker


def _marker(tables: Tables, repository: Repository) -> dict[str, str | int]:
    """Return the namespace's new mark: it belongs to this repository of this lake. One table read, two more for a new lake."""
    item = tables.get(LAKE)
    if item is None:
        with suppress(ConditionFailedError):  # another one was faster
            tables.put(LAKE, {"id": token_hex(16)}, Absent())
        item = tables.get(LAKE) or {}
    return {
        "repository": repository.name,
        "uid": repository.uid,
        "lake": str(item.get("id")),
        "format_version": repository.format_version,
    }


def _undelete(deleted: DeletedRepository | None, uid: RepositoryUID) -> Write:
    """Return the write that ends the deleted state; it fails if the removal of the leftovers has begun."""
    key = Key(DELETED_PARTITION, uid.encode())
    return Check(key, Absent()) if deleted is None else Delete(key, Matches({"purging": None}))


def _refuse_purged(tables: Tables, uid: RepositoryUID) -> None:
    deleted = Repositories(tables).find_deleted(uid)
    if deleted is not None and deleted.purging:
        raise PreconditionError(
            f"the remains of repository {deleted.name!r} are being removed, so it can no longer be restored"
        )


def _publish(
    tables: Tables,
    refs: Refs,
    registered: KnownRepository,
    item: Item,
    tokens: _Tokens,
    neighbour_writes: Sequence[Write],
) -> None:
    """Make the repository appear. After a lost response, its branches' tokens show whether it was this restore."""
    repository, repositories = registered.repository, Repositories(tables)
    _, *namespace = repositories.create_writes(registered)
    writes: list[Write] = [
        Put(
            repository_key(repository.name), item, Absent()
        ),  # all its attributes, including those that this version does not know
        *namespace,
        *neighbour_writes,
        _undelete(repositories.find_deleted(repository.uid), repository.uid),
    ]
    try:
        tables.transact(writes)
    except (ConditionFailedError, UnavailableError) as error:
        branch: BranchState | None = refs.branch(repository.default_branch)
        ours = branch is not None and branch.open == tokens.fresh.get(branch.name)
        if ours and repositories.is_there(repository):
            return
        if isinstance(error, UnavailableError):
            raise
        _refuse_purged(tables, repository.uid)
        if 0 not in error.failures:
            raise namespace_taken(repository.namespace, "another repository") from None
        raise AlreadyExistsError("repository", repository.name, "someone else has just created it") from None
