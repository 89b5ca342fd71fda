"""The commit records: both copies of each, and whether they agree."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, LaterVersionError, RefNotFoundError
from graveler.history.commits import READ_BATCH, CommitStore, decode_commit, encode_commit, publication
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.fsck.findings import Counts, FindingKind
from graveler.lake.fsck.history import Damage, History
from graveler.lake.fsck.objects import Store, Trouble
from graveler.model import Commit, CommitID
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.tables.port import Item, Tables
from graveler.system.progress import Progress

_RUN_REPAIR: Final = "It can be rebuilt from the other copy: run again with repair"
_UPGRADE: Final = "Upgrade graveler and run again"
_NO_LATER_ONE: Final = (
    ". If no later version has ever worked here, the number is damaged: remove this copy, and run again with repair"
)


_Fetched = tuple[Item | CorruptError | None, bytes | Trouble]
"""The results from the table and the object store for a commit."""

_MAX_AHEAD: Final = 1000


class _Copy(Struct, frozen=True):
    """One of a commit's two copies: the commit, or why there is none. ``later``: a later version made this copy."""

    commit: Commit | None
    reason: str = ""
    missing: bool = False
    refused: bool = False
    later: LaterVersionError | None = None


class CommitCheck:
    """A check of every commit that the heads of ``history`` reach; it fills ``history`` with them."""

    def __init__(
        self,
        history: History,
        tables: Tables,
        commits: CommitStore,
        store: Store,
        counts: Counts,
        progress: Progress,
        *,
        repair: bool,
    ) -> None:
        self._history = history
        self._tables = tables
        self._commits = commits
        self._store = store
        self._counts = counts
        self._progress = progress
        self._repair = repair
        self.damages: list[Damage] = []
        self._looked_at = 0
        self._ahead: dict[CommitID, _Fetched] = {}
        self._hints: list[CommitID] = []
        self._unsettled: set[int] = set()
        self._disagreeing: list[tuple[int, Commit, Commit]] = []
        self._unlisted: list[tuple[Commit, Damage]] = []

    def walk(self, logged: Mapping[int, str] | None = None) -> None:
        """Walk down from the heads, as far as that was not done. About one table read for each 32 commits in a linear history,
        and one object read for each commit.

        ``logged`` are commits that, of all heads, only the reference log names, and its row: a missing one affects
        nothing else.
        """
        while self._looked_at < len(self._history):
            batch = range(self._looked_at, min(self._looked_at + READ_BATCH, len(self._history)))
            self._look_at([*batch], logged or {})
            self._looked_at = batch.stop
            self._progress("commits", self._looked_at, len(self._history))

    def finish(self) -> None:
        """Make the checks that need all commits: generations, which of two copies is right; rebuild items."""
        true = self._check_generations()
        for number, table, store in self._disagreeing:
            is_known = all(true[parent] for parent in self._history.parents[number])
            self._settle(number, table, store, true[number] if is_known else None)
        for commit, damage in sorted(self._unlisted, key=lambda pair: pair[0].generation):
            if self._repair:  # parents first: an item takes its line from its parent's
                self._put_item(commit)
                damage.mark_repaired("Rebuilt from the object store's copy")

    def _look_at(self, numbers: list[int], logged: Mapping[int, str]) -> None:
        pointed = {head.commit for head in self._history.heads if head.kind != "reflog"}
        ids = [self._history.id(number) for number in numbers]
        for number, cid, (item, data) in zip(numbers, ids, self._fetch(ids), strict=True):
            table, store = _from_table(cid, item), _from_store(cid, data)
            if table.missing and store.missing and number in logged and self._child_of(number) is None:
                reason = f"names commit {cid}, which does not exist"
                remedy = "Nothing else needs it; only an undo to it is impossible"
                self._add(number, FindingKind.REFLOG, logged[number], reason, remedy)
                continue
            if table.later is not None or store.later is not None:
                self._add_later(number, cid, item, table, store)
            else:
                self._judge(number, cid, table, store)
            commit = table.commit or store.commit
            if commit is None:
                continue
            self._counts.commits += 1
            expired = isinstance(item, Mapping) and "expired" in item
            if expired and number in pointed:
                remedy = "Point the ref to another commit before this one's objects are collected"
                self._add(
                    number, FindingKind.EXPIRED, f"commit {cid}", "has expired, although refs point to it", remedy
                )
            settled = number not in self._unsettled
            metarange = commit.metarange if settled and not (expired and number in logged) else None
            self._history.describe(number, commit.parents, commit.generation, metarange, commit)

    def _fetch(self, ids: list[CommitID]) -> list[_Fetched]:
        """Return both copies of commits; prefetch in the same request those that their lines name next."""
        missing = [cid for cid in ids if cid not in self._ahead]
        if missing:
            if len(self._ahead) > _MAX_AHEAD:  # lines that led nowhere
                self._ahead.clear()
                missing = ids
            hints = [cid for cid in self._hints if cid not in self._ahead and not self._was_read(cid)]
            requested = list(dict.fromkeys([*missing, *hints]))[: max(READ_BATCH, len(missing))]
            stored = self._store.get_many([f"{COMMITS_FOLDER}/{cid}" for cid in requested])
            self._ahead.update(zip(requested, zip(self._items(requested), stored, strict=True), strict=True))
        fetched = [self._ahead.pop(cid) for cid in ids]
        lines = [item.get("line") for item, _ in fetched if isinstance(item, Mapping)]
        digits = [line.hex() for line in lines if isinstance(line, bytes)]
        self._hints = [CommitID(text[begin : begin + 64]) for text in digits for begin in range(0, len(text) - 63, 64)]
        return fetched

    def _was_read(self, cid: CommitID) -> bool:
        return self._history.names(cid) and self._history.number(cid) < self._looked_at

    def _child_of(self, number: int) -> CommitID | None:
        """Return a commit that names this one as a parent. Looks at all that were read."""
        for child, parents in enumerate(self._history.parents):
            if number in parents:
                return self._history.id(child)
        return None

    def _who_names(self, number: int) -> str:
        for head in self._history.heads:
            if head.commit == number:
                return f"{head.kind} {head.name!r} points to it"
        return f"commit {self._child_of(number)} names it as a parent"

    def _items(self, ids: list[CommitID]) -> list[Item | CorruptError | None]:
        keys = [self._commits.key(cid) for cid in ids]
        try:
            return [*self._tables.get_many(keys)]
        except CorruptError:  # one of them, or some
            return [self._item(cid) for cid in ids]

    def _item(self, cid: CommitID) -> Item | CorruptError | None:
        try:
            return self._tables.get(self._commits.key(cid))
        except CorruptError as error:
            return error

    def _judge(self, number: int, cid: CommitID, table: _Copy, store: _Copy) -> None:
        if table.commit is not None and store.commit is not None:
            if encode_commit(table.commit) != encode_commit(store.commit):
                self._disagreeing.append((number, table.commit, store.commit))
                self._unsettled.add(number)
        elif table.commit is not None:
            kind = FindingKind.UNREADABLE if store.refused else FindingKind.COMMIT_RECORD
            reason = f"has no valid copy in the object store: the record {store.reason}"
            damage = self._add(number, kind, f"commit {cid}", reason, _RUN_REPAIR)
            if store.refused:
                damage.remedy = "Run again when the object store responds"
            elif self._repair:
                self._put_record(table.commit)
                damage.mark_repaired("Rebuilt from the table's copy")
        elif store.commit is not None:
            reason = f"has no valid copy in the table: the item {table.reason}"
            damage = self._add(number, FindingKind.COMMIT_ITEM, f"commit {cid}", reason, _RUN_REPAIR)
            self._unlisted.append((store.commit, damage))
        else:
            kind = FindingKind.COMMIT_DAMAGED
            reason = f"cannot be read: in the table it {table.reason}; in the object store it {store.reason}"
            if table.missing and store.missing:
                kind, reason = FindingKind.COMMIT_MISSING, f"does not exist, but {self._who_names(number)}"
            remedy = (
                "It cannot be rebuilt: its contents, and history that only it leads to, are lost unless you restore "
                f"{COMMITS_FOLDER}/{cid} from a copy of the storage namespace and run again with repair"
            )
            self._add(number, kind, f"commit {cid}", reason, remedy)

    def _add_later(
        self, number: int, cid: CommitID, item: Item | CorruptError | None, table: _Copy, store: _Copy
    ) -> None:
        """Report that a later version made a copy, or both. What else it keeps of a commit, and how, is for it to judge; but a
        row that does not have its checksum is damaged in any version."""
        for copy, other in ((table, store), (store, table)):
            if copy.later is not None:
                self.damages.append(later_commit(number, cid, copy.later, readable=other.commit is not None))
                break
        if isinstance(item, CorruptError):
            reason = f"has no valid copy in the table: the item {table.reason}"
            self._add(number, FindingKind.COMMIT_ITEM, f"commit {cid}", reason, f"{_UPGRADE} with repair")

    def _check_generations(self) -> list[int]:
        """Check the generations, and return the true ones: each one more than the highest parent's. So one wrong one is one
        finding."""
        true = [0] * len(self._history)
        for number in self._history.parents_first():
            recorded = self._history.generation[number]
            parents = self._history.parents[number]
            true[number] = 1 + max((true[parent] for parent in parents), default=0)
            if recorded and any(true[parent] == 0 for parent in parents):
                true[number] = max(true[number], recorded)  # a parent could not be read: trust the record
            if not recorded:
                true[number] = 0
            elif recorded != true[number] and number not in self._unsettled:
                reason = f"has generation {recorded} instead of {true[number]}, one more than its highest parent"
                remedy = (
                    "Both copies agree; merges and logs may choose wrong bases. Restore the commit's item and its record "
                    f"{COMMITS_FOLDER}/{self._history.id(number)} from copies"
                )
                self._add(number, FindingKind.GENERATION, f"commit {self._history.id(number)}", reason, remedy)
        return true

    def _settle(self, number: int, table: Commit, store: Commit, generation: int | None) -> None:
        """Decide which of two copies with one ID is right, by the generation (None if a parent cannot be read) and by whether the
        metarange file exists."""
        differ = [field for field in ("generation", "metarange") if getattr(table, field) != getattr(store, field)]
        reason = "has two copies that differ: " + "; ".join(
            f"{field} is {getattr(table, field)!r} in the table and {getattr(store, field)!r} in the object store"
            for field in differ
        )
        damage = self._add(number, FindingKind.COMMIT_DISAGREES, f"commit {table.id}", reason, "")
        right = [
            copy
            for copy in (table, store)
            if (copy.generation == generation if generation is not None else table.generation == store.generation)
            and (not copy.metarange or self._store.has(f"{FOLDER}/metaranges/{copy.metarange}"))
        ]
        chosen = right[0] if right else table
        self._history.describe(number, chosen.parents, chosen.generation, chosen.metarange, chosen)
        if len(right) != 1:
            damage.remedy = "It is unknown which one is right; restore one of them from a copy"
            return
        good = "table" if chosen is table else "object store"
        if not self._repair:
            damage.remedy = f"The copy in the {good} is right; run again with repair"
            return
        if chosen is table:
            self._put_record(table)
        else:
            self._put_item(store)
        damage.mark_repaired(f"Rebuilt from the {good}'s copy")

    def _put_item(self, commit: Commit) -> None:
        # The record was written just before the commit was published, whatever time the commit has.
        published = self._store.objects.head(f"{COMMITS_FOLDER}/{commit.id}").modified
        try:
            write = self._commits.put_write(commit, published)
            key, item = write.key, write.item
        except (
            RefNotFoundError,
            CorruptError,
            LaterVersionError,
        ):  # its parent's item cannot be read: omit the line, which is only a hint
            key, item = (
                self._commits.key(commit.id),
                {"record": encode_commit(commit), **publication(commit.created, published)},
            )
        self._tables.put(key, item)

    def _put_record(self, commit: Commit) -> None:
        self._store.objects.put(f"{COMMITS_FOLDER}/{commit.id}", encode_commit(commit))

    def _add(self, number: int, kind: FindingKind, subject: str, reason: str, remedy: str) -> Damage:
        damage = Damage(kind, subject, reason, remedy, commits={number})
        self.damages.append(damage)
        return damage


def later_commit(number: int, cid: CommitID, error: LaterVersionError, *, readable: bool = False) -> Damage:
    """Return the finding of a commit, by its number in the history, of which ``error`` says that a later version made it; or, if
    it is ``readable``, one of its copies."""
    formats = f"(format {error.version}; this version reads formats up to {error.latest})"
    reason = (
        f"has a copy that was made by a later version of graveler {formats}: only the other copy was checked"
        if readable
        else f"was made by a later version of graveler {formats}: neither it nor what only it leads to was checked"
    )
    remedy = f"{_UPGRADE}{_NO_LATER_ONE if readable else ''}"
    return Damage(FindingKind.LATER_VERSION, f"commit {cid}", reason, remedy, commits={number})


def _from_table(cid: CommitID, item: Item | CorruptError | None) -> _Copy:
    if item is None:
        return _Copy(None, "is missing", missing=True)
    if isinstance(item, CorruptError):
        return _Copy(None, f"is damaged ({item})")
    record = item.get("record")
    if not isinstance(record, bytes):
        return _Copy(None, "is damaged (it has no record)")
    return _decoded(cid, record)


def _from_store(cid: CommitID, data: bytes | Trouble) -> _Copy:
    if isinstance(data, Trouble):
        return _Copy(None, data.reason, missing=data.missing, refused=not data.missing)
    return _decoded(cid, data)


def _decoded(cid: CommitID, record: bytes) -> _Copy:
    try:
        return _Copy(decode_commit(cid, record))
    except LaterVersionError as error:
        return _Copy(None, str(error), later=error)
    except CorruptError as error:
        return _Copy(None, f"is damaged ({error})")
