"""Taking a dump of a repository in use.

The invariant: **every write that was acknowledged when the dump began is, after a restore, staged or in a commit** (C1). The
moving parts are the staged changes: a commit takes them from a branch's tokens into its tree. So the order is that of the
collector's mark: *staged changes first, then refs, then commits*.

1. Read the branches, for their tokens. An acknowledged write is staged under one of these, or in the history of a head.
2. Read what is staged under the tokens. Items of an applied token stay for the longest request's time, but a dump may take
   longer: then some are gone, and are in a commit which was published before.
3. Read the refs again: these are the ones that are dumped. A token that a branch still has was read in step 2, and nothing is
   removed under it. A token that is gone was published (its changes are in the history of the head that is read here), reset, or
   deleted with its branch: its records are omitted, since restoring them could hide newer changes. A reset of some
   paths has put what it kept into the open token, maybe after that was read: then the branch's tokens are read again.
4. Check that the record of each head is in the object store. It was put there before the branch was moved. If that did not make
   it durable, nor those of the commits behind it, all are first made so (:mod:`graveler.lake.committing.records`).

And **every object that the dump names stays**, even if only the dump names it before the dump is complete, and
the collector knows of it: a writer that stages another value, deletes or resets does not wait. So a staged record is copied like
any other (:mod:`graveler.lake.objects.traces`): its object is noted for the collector, *then* it is read again, and what has come
since is noted too. If its token was not the branch's any more by then, step 3 detects that. The whole takes at most half the
grace period.

(With refs first, a commit between the two reads would take changes out of staging into a head that the dump does not have.)

A token that step 3 finds for the first time was opened meanwhile; its changes were acknowledged later. It is read, too, and
the refs once more. On a busy lake there is always a new one, so after some rounds the last listing counts and its new tokens are
read after it, which loses nothing within the longest request's time.

A listing of branches is not atomic: a branch that is renamed while its shards are read can be missed, or seen twice. Then tokens
vanish without a known outcome, or two branches have the same ones, and the refs are read again.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from secrets import token_hex
from time import gmtime, strftime
from typing import Final

from msgspec import Struct

from graveler.errors import BusyError, CorruptError, RefNotFoundError, RepositoryNotFoundError
from graveler.history.commits import CommitStore, encode_commit, expect_known_version
from graveler.history.refs import SHARDS, Refs
from graveler.lake.clock import GRACE, Clock
from graveler.lake.committing.applications import Applications
from graveler.lake.committing.records import COMMITS_FOLDER, CommitRecords
from graveler.lake.deadline import SKEW, Deadlines
from graveler.lake.dump.chunks import (
    APPLICATIONS,
    BRANCHES,
    COMMENTS,
    PULLS,
    SETTINGS,
    STAGED,
    TAGS,
    VERSION,
    Chunk,
    ChunkWriter,
    Manifest,
    RefLine,
    StagedLine,
    put_manifest,
)
from graveler.lake.objects.traces import Traces
from graveler.lake.opening.repositories import check_same, repository_key
from graveler.lake.pulls.pull_dump import dumped_comments, dumped_pulls
from graveler.lake.pulls.pull_store import PullStore
from graveler.model import CommitID, Repository, Token
from graveler.staging.changes import PAGE, StagedChanges, StagedRecord
from graveler.staging.tokens import Outcomes, TokenState
from graveler.storage.limits import text_key
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.tables.port import Item, Tables
from graveler.storage.tables.walking import items
from graveler.system.progress import Progress, no_progress
from graveler.tree.record import RecordCodec

_ROUNDS: Final = 8


class _Branch(Struct, frozen=True):
    line: RefLine
    commit: CommitID
    open: Token
    tokens: tuple[Token, ...]
    """The oldest first, the open one last."""


def dump(
    repository: Repository,
    tables: Tables,
    objects: Objects,
    clock: Clock,
    *,
    grace: float = GRACE,
    skew: float = SKEW,
    progress: Progress = no_progress,
) -> Manifest:
    """Copy refs, settings and staged changes into the object store, under ``_graveler/dumps/``. ``grace`` and ``skew`` are the
    lake's, in seconds.

    The dump includes the last writes of applications, and pull requests. It omits the reference log, results of requests with an
    ID, outcomes of tokens, and unfinished uploads. Commits are not copied: their records are in the object store already. Cost:
    twice or more a table read for each of 32 shards and each thousand refs, one for each thousand applications, staged changes,
    pull requests and comments, and of staged changes with old objects another one and a write; an object write for each megabyte,
    an object read for each distinct head. Memory: the refs.
    :class:`CorruptError` if something cannot be read (see fsck), :class:`LaterVersionError` for a head of a later version,
    :class:`BusyError`, also past half the grace period, :class:`RepositoryNotFoundError`.
    """
    now, deadline = clock.now(), Deadlines(clock, grace, skew).begin()
    dump_id = f"{strftime('%Y%m%dT%H%M%SZ', gmtime(now))}-{token_hex(4)}"
    reader = _Reader(repository, tables, Traces(repository, tables, clock, grace))
    staged = ChunkWriter(objects, dump_id, STAGED)
    branches = reader.read(staged, progress)
    tags = list(reader.tags())
    commit_store = CommitStore(tables, repository.uid)
    applications = Applications(tables, repository.uid, Refs(tables, repository.uid), commit_store)
    # After the branches: a version whose commit the dumped branch does not have yet counts as not written (C4).
    versions = [RefLine(name, dict(row)) for name, row in applications.all()]
    item = tables.get(repository_key(repository.name))
    check_same(repository.uid, repository.name, item)
    if item is None:
        raise RepositoryNotFoundError(repository.name)
    commits = sorted({branch.commit for branch in branches} | {commit for _, commit in tags})
    CommitRecords(tables, objects, commit_store).settle()
    _keep_records(commits, commit_store, objects)
    pulls = PullStore(tables, repository.uid)
    heads = {branch.line.name: branch.commit for branch in branches}
    chunks = [
        *staged.finish(),
        *_written(objects, dump_id, PULLS, dumped_pulls(pulls, tables, commit_store, heads, now - skew)),
        *_written(objects, dump_id, COMMENTS, dumped_comments(pulls, tables)),
    ]
    for kind, entries in (
        (BRANCHES, [branch.line for branch in branches]),
        (TAGS, [line for line, _ in tags]),
        (APPLICATIONS, versions),
        (SETTINGS, [item]),
    ):
        writer = ChunkWriter(objects, dump_id, kind)
        for entry in entries:
            writer.add(entry)
        chunks = [*chunks, *writer.finish()]
    manifest = Manifest(
        version=VERSION,
        id=dump_id,
        created=int(now),
        repository=repository.name,
        uid=repository.uid,
        namespace=repository.namespace,
        branches=len(branches),
        tags=len(tags),
        staged=sum(chunk.entries for chunk in chunks if chunk.kind == STAGED),
        commits=tuple(commits),
        chunks=tuple(chunks),
    )
    deadline.check(f"dumping repository {repository.name!r}")
    put_manifest(objects, manifest)
    return manifest


def _written(objects: Objects, dump_id: str, kind: str, rows: Iterable[tuple[str, Item]]) -> list[Chunk]:
    """Write rows of the table as chunks of this kind, and return these."""
    writer = ChunkWriter(objects, dump_id, kind)
    for name, item in rows:
        writer.add(RefLine(name, dict(item)))
    return writer.finish()


class _Reader:
    """A reader of branches and what is staged under their tokens, in the order that the module's docstring explains."""

    def __init__(self, repository: Repository, tables: Tables, traces: Traces) -> None:
        self._tables = tables
        self._traces = traces
        self._codec = RecordCodec(repository.namespace)
        self._uid = repository.uid
        self._name = repository.name
        self._refs = Refs(tables, repository.uid)
        self._staged = StagedChanges(tables, repository.uid)
        self._outcomes = Outcomes(tables, repository.uid)
        self._scanned: set[Token] = set()

    def read(self, writer: ChunkWriter, progress: Progress) -> list[_Branch]:
        """Write what is staged; return the matching branches."""
        before = list(self._branches())
        for _ in range(_ROUNDS):
            self._scan(before, writer, progress)
            after = list(self._branches())
            complete = self._accounted(before, after)
            if complete and self._scanned.issuperset(token for branch in after for token in branch.tokens):
                return after
            before = after
        if not complete:
            raise BusyError(
                f"branches of repository {self._name!r} change too fast for a dump; try again, or run fsck if nothing is "
                "changing them"
            )
        self._scan(before, writer, progress)
        return before

    def tags(self) -> Iterator[tuple[RefLine, CommitID]]:
        """Yield all tags, and the commits that they name."""
        for line in self._lines("tag"):
            tag = self._refs.decode_tag(line.name, line.item)
            assert tag is not None
            yield line, tag.commit_id

    def _branches(self) -> Iterator[_Branch]:
        for line in self._lines("branch"):
            state = self._refs.decode_branch(line.name, line.item)
            assert state is not None
            yield _Branch(line, state.commit_id, state.open, (*state.sealed, state.open))

    def _lines(self, kind: str) -> Iterator[RefLine]:
        for shard in range(SHARDS):
            partition = f"{self._uid}/{kind}/{shard:x}"
            for sort, item in items(self._tables, partition):
                yield RefLine(text_key(partition, sort), dict(item))

    def _scan(self, branches: Sequence[_Branch], writer: ChunkWriter, progress: Progress) -> None:
        """Read the tokens that were not read yet, for each branch the oldest first: a restore replays them in this order."""
        for done, branch in enumerate(branches, 1):
            for token in branch.tokens:
                if token not in self._scanned:
                    records = self._staged.scan([token])
                    while some := list(islice(records, PAGE)):
                        for key, record in self._noted(token, some):
                            writer.add(StagedLine(token, key, record))
                    self._scanned.add(token)
            progress("staged", done, len(branches))

    def _noted(self, token: Token, records: list[StagedRecord]) -> list[StagedRecord]:
        """Return the records, read again after noting their objects for the collector, unless these are young."""
        begin, end = records[0][0], records[-1][0] + b"\0"
        noted: set[str] = set()
        while True:
            entries = [self._codec.decode(key, packed) for key, packed in records if packed is not None]
            unknown = [key for key in self._traces.needed([entry.address for entry in entries]) if key not in noted]
            if not unknown:
                return records
            self._traces.leave(unknown)
            noted.update(unknown)
            records = list(self._staged.scan([token], begin, end))

    def _accounted(self, before: Sequence[_Branch], after: Sequence[_Branch]) -> bool:
        """Return whether the outcome of every vanished token and branch is known, and the owner of each token. Tokens of a branch
        that lost one to a reset are to be read again."""
        have = {token for branch in after for token in branch.tokens}
        if len(have) < sum(len(branch.tokens) for branch in after):
            return False
        names = {branch.line.name for branch in after}
        vanished = [branch for branch in before if not have.issuperset(branch.tokens) or branch.line.name not in names]
        for branch in vanished:
            for token, outcome in zip(branch.tokens, self._outcomes.get_many(branch.tokens), strict=True):
                undecided = outcome is None or outcome.state is TokenState.SEALED
                if token not in have and undecided:
                    return False
                if outcome is not None and outcome.state is TokenState.RESET:
                    self._scanned.difference_update(branch.tokens)
                last = token == branch.open and branch.line.name not in names
                if last and (outcome is None or outcome.state is not TokenState.DELETED):
                    return False
        return True


def _keep_records(ids: Sequence[CommitID], commits: CommitStore, objects: Objects) -> None:
    """Check that the heads' records are in the object store, and of no later version; put back those that are not."""
    for commit_id in ids:
        key = f"{COMMITS_FOLDER}/{commit_id}"
        try:
            expect_known_version(commit_id, objects.get(key))
        except ObjectMissingError:
            try:
                objects.put(key, encode_commit(commits.get(commit_id)))
            except RefNotFoundError:
                raise CorruptError(f"commit {commit_id}, which a ref points to, does not exist; run fsck") from None
