"""The commit records: both copies of each, and what they say of each other."""

from collections.abc import Mapping

from msgspec import Struct

from graveler.errors import CorruptError, RefNotFoundError
from graveler.history.commits import READ_BATCH, CommitStore, decode_commit, encode_commit
from graveler.lake.fsck.findings import Counts, FindingKind, Progress
from graveler.lake.fsck.history import Damage, History
from graveler.lake.fsck.objects import Store, Trouble
from graveler.lake.publish import COMMITS_FOLDER
from graveler.model import Commit, CommitID
from graveler.storage.files import FOLDER
from graveler.storage.tables import Absent, Item, Tables

_RUN_REPAIR = "It can be rebuilt from the other copy: run again with repair"


class _Copy(Struct, frozen=True):
    """One of a commit's two copies: the commit, or why there is none."""

    commit: Commit | None
    why: str = ""
    missing: bool = False
    refused: bool = False


class CommitCheck:
    """Checks every commit that the heads of ``history`` reach, and fills ``history`` with them."""

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
        self._named_by: dict[int, str] = {}
        self._disagreeing: list[tuple[int, Commit, Commit]] = []
        self._unlisted: list[tuple[Commit, Damage]] = []

    def run(self, only_logged: Mapping[int, str]) -> None:
        """Walk down from the heads. One table read for each hundred commits, one object read for each.

        ``only_logged`` are commits that only the reference log names, and where: missing there, they are no damage of a ref.
        """
        for head in self._history.heads:
            self._named_by.setdefault(head.commit, f"{head.kind} {head.name!r} points at it")
        done = 0
        while done < len(self._history):
            batch = range(done, min(done + READ_BATCH, len(self._history)))
            self._look_at([*batch], only_logged)
            done = batch.stop
            self._progress("commits", done, len(self._history))
        self._check_generations()
        self._put_items()

    def _look_at(self, numbers: list[int], only_logged: Mapping[int, str]) -> None:
        ids = [self._history.id(number) for number in numbers]
        items = self._items(ids)
        stored = self._store.get_many([f"{COMMITS_FOLDER}/{cid}" for cid in ids])
        for number, cid, item, data in zip(numbers, ids, items, stored, strict=True):
            table, store = _from_table(cid, item), _from_store(cid, data)
            if table.missing and store.missing and number in only_logged and not self._has_child(number):
                where = only_logged[number]
                damage = Damage(
                    FindingKind.REFLOG, where, f"names commit {cid}, which does not exist", "Nothing else needs it"
                )
                self.damages.append(damage)
                continue
            self._judge(number, cid, table, store)
            commit = table.commit or store.commit
            if commit is None:
                continue
            self._counts.commits += 1
            expired = number in only_logged and isinstance(item, Mapping) and "expired" in item
            self._history.describe(number, commit.parents, commit.generation, None if expired else commit.metarange)
            for parent in self._history.parents[number]:
                self._named_by.setdefault(parent, f"commit {cid} names it as a parent")

    def _has_child(self, number: int) -> bool:
        return self._named_by.get(number, "").startswith("commit")

    def _items(self, ids: list[CommitID]) -> list[Item | None | CorruptError]:
        keys = [self._commits.key(cid) for cid in ids]
        try:
            return [*self._tables.get_many(keys)]
        except CorruptError:  # one of them, or some
            return [self._item(cid) for cid in ids]

    def _item(self, cid: CommitID) -> Item | None | CorruptError:
        try:
            return self._tables.get(self._commits.key(cid))
        except CorruptError as error:
            return error

    def _judge(self, number: int, cid: CommitID, table: _Copy, store: _Copy) -> None:
        if table.commit is not None and store.commit is not None:
            if encode_commit(table.commit) != encode_commit(store.commit):
                self._disagreeing.append((number, table.commit, store.commit))
        elif table.commit is not None:
            kind = FindingKind.UNREADABLE if store.refused else FindingKind.COMMIT_RECORD
            why = f"has no good copy in the object store: the record {store.why}"
            damage = self._add(number, kind, f"commit {cid}", why, _RUN_REPAIR)
            if store.refused:
                damage.remedy = "Run again when the object store answers"
            elif self._repair:
                self._put_record(table.commit)
                _mended(damage, "the table's copy")
        elif store.commit is not None:
            why = f"has no good copy in the table: the item {table.why}"
            damage = self._add(number, FindingKind.COMMIT_ITEM, f"commit {cid}", why, _RUN_REPAIR)
            self._unlisted.append((store.commit, damage))
        elif table.missing and store.missing:
            why = f"does not exist, and {self._named_by[number]}"
            remedy = (
                "It cannot be rebuilt: what it held, and what only it leads to, is lost unless you restore "
                f"{COMMITS_FOLDER}/{cid} from a copy of the storage namespace, and run again with repair"
            )
            self._add(number, FindingKind.COMMIT_MISSING, f"commit {cid}", why, remedy)
        else:
            why = f"cannot be read: in the table it {table.why}; in the object store it {store.why}"
            remedy = (
                "It cannot be rebuilt: what it held, and what only it leads to, is lost unless you restore "
                f"{COMMITS_FOLDER}/{cid} from a copy of the storage namespace, and run again with repair"
            )
            self._add(number, FindingKind.COMMIT_DAMAGED, f"commit {cid}", why, remedy)

    def _check_generations(self) -> None:
        """Each one more than the highest parent's. What is compared with are the true ones, so that one lie is one finding."""
        true = [0] * len(self._history)
        for number in self._history.parents_first():
            said = self._history.generation[number]
            parents = self._history.parents[number]
            true[number] = 1 + max((true[parent] for parent in parents), default=0)
            if said and any(true[parent] == 0 for parent in parents):
                true[number] = max(true[number], said)  # a parent could not be read: nobody knows better
            if not said:
                true[number] = 0
            elif said != true[number] and number not in {at for at, _, _ in self._disagreeing}:
                why = f"says generation {said}, and has {true[number]}: one more than its highest parent"
                remedy = (
                    "Both copies say so; merges and logs may choose wrong bases. Restore the commit's item and its record "
                    f"{COMMITS_FOLDER}/{self._history.id(number)} from copies"
                )
                self._add(number, FindingKind.GENERATION, f"commit {self._history.id(number)}", why, remedy)
        for number, table, store in self._disagreeing:
            self._settle(number, table, store, true[number])

    def _settle(self, number: int, table: Commit, store: Commit, generation: int) -> None:
        """Two copies with one ID: the generation, and whether the metarange file is there, tell which one is right."""
        differ = [field for field in ("generation", "metarange") if getattr(table, field) != getattr(store, field)]
        why = "has two copies that differ: " + "; ".join(
            f"{field} is {getattr(table, field)!r} in the table and {getattr(store, field)!r} in the object store"
            for field in differ
        )
        damage = self._add(number, FindingKind.COMMIT_DISAGREES, f"commit {table.id}", why, "")
        right = [
            copy
            for copy in (table, store)
            if copy.generation == generation
            and (not copy.metarange or self._store.has(f"{FOLDER}/metaranges/{copy.metarange}"))
        ]
        if len(right) != 1:
            damage.remedy = "Nothing shows which one is right; restore one of them from a copy"
            return
        self._history.describe(number, right[0].parents, right[0].generation, right[0].metarange)
        good = "table" if right[0] is table else "object store"
        if not self._repair:
            damage.remedy = f"The {good}'s is right; run again with repair"
            return
        if right[0] is table:
            self._put_record(table)
        else:
            self._put_item(store)
        _mended(damage, f"the {good}'s copy")

    def _put_items(self) -> None:
        """Rebuild the table's copies, parents first: an item takes its line from its parent's."""
        for commit, damage in sorted(self._unlisted, key=lambda pair: pair[0].generation):
            if self._repair:
                self._put_item(commit)
                _mended(damage, "the object store's copy")
            else:
                damage.remedy = _RUN_REPAIR

    def _put_item(self, commit: Commit) -> None:
        try:
            write = self._commits.put_write(commit)
            key, item = write.key, write.item
        except (
            RefNotFoundError,
            CorruptError,
        ):  # its parent's item cannot be read: then without a line, which is only a hint
            key, item = self._commits.key(commit.id), {"record": encode_commit(commit)}
        self._tables.put(key, item)

    def _put_record(self, commit: Commit) -> None:
        self._store.objects.put(f"{COMMITS_FOLDER}/{commit.id}", encode_commit(commit))

    def _add(self, number: int, kind: FindingKind, what: str, why: str, remedy: str) -> Damage:
        damage = Damage(kind, what, why, remedy, commits={number})
        self.damages.append(damage)
        return damage


def _mended(damage: Damage, source: str) -> None:
    damage.remedy = f"It was rebuilt from {source}"
    damage.repaired = True


def _from_table(cid: CommitID, item: Item | None | CorruptError) -> _Copy:
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
        return _Copy(None, data.why, missing=data.missing, refused=not data.missing)
    return _decoded(cid, data)


def _decoded(cid: CommitID, record: bytes) -> _Copy:
    try:
        return _Copy(decode_commit(cid, record))
    except CorruptError as error:
        return _Copy(None, f"is damaged ({error})")
