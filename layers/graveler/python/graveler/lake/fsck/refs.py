"""The refs of a repository, item by item, and the commits that the reference log names."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from graveler.errors import CorruptError, InvalidError
from graveler.history.commits import is_commit_id
from graveler.history.reflog import time_of_row
from graveler.history.refs import SHARDS, BranchState, Refs
from graveler.lake.fsck.findings import AffectedRef, Counts, FindingKind, RefKind
from graveler.lake.fsck.history import Damage, Head, History, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.objects.collector_state import collected_before
from graveler.model import CommitID, RepositoryUID
from graveler.storage.tables.port import Item, Key, Tables


class _CheckedRef(Struct, frozen=True):
    kind: RefKind
    name: str
    commit_id: CommitID
    branch: BranchState | None = None


class RefCheck:
    """A check of every branch and tag. ``branches`` are the readable branches, including hidden ones."""

    def __init__(self, history: History, tables: Tables, uid: RepositoryUID, refs: Refs, counts: Counts) -> None:
        self._history = history
        self._tables = tables
        self._uid = uid
        self._refs = refs
        self._counts = counts
        self._names: list[tuple[RefKind, str]] = []
        self.branches: list[BranchState] = []
        self.damages: list[Damage] = []

    def run(self, default_branch: str) -> None:
        """Check all refs; the commits that they point at become heads of the history. One table read for each of 32 shards, and
        for each thousand refs."""
        for ref in (*self._all("branch"), *self._all("tag")):
            if ref.branch is not None:
                self.branches.append(ref.branch)
                self._counts.branches += 1
            else:
                self._counts.tags += 1
            self._history.heads.append(Head(ref.kind, ref.name, self._history.number(ref.commit_id)))
        if not any(kind == "branch" and name == default_branch for kind, name in self._names):
            reason = "is the default branch, but does not exist"
            self._add("branch", default_branch, reason, "Create it from a tag, or from a commit of its reference log")

    def logged(self) -> Mapping[int, str]:
        """Add the commits that only rows of the refs' reference logs name as heads of the history; return them with their rows.
        One table read for each ref, and for each thousand rows. (The log of a deleted ref cannot be found by itself.) Rows from
        before the last collection of garbage no longer protect anything, and are skipped."""
        rows: dict[int, str] = {}
        collected = collected_before(self._tables, self._uid)
        for kind, name in self._names:
            numbers: set[int] = set()
            for sort, item in scan(self._tables, f"{self._uid}/reflog/{kind}/{name}"):
                row = f"row {sort.hex()} in the reference log of {kind} {name!r}"
                commits, when = (
                    (None, 0) if isinstance(item, DamagedItem) else (_commits_of(item), time_of_row(sort, item))
                )
                if commits is not None and when is not None and when < collected * 1e9:
                    continue
                if commits is None or when is None:
                    reason = "has no time" if when is None else "names no commits"
                    reason = item.reason if isinstance(item, DamagedItem) else reason
                    self.damages.append(
                        Damage(
                            FindingKind.REFLOG,
                            row,
                            f"cannot be read ({reason})",
                            "Listing this log fails; nothing else needs the row",
                            refs=(AffectedRef("reflog", name),),
                        )
                    )
                    continue
                for commit_id in commits:
                    is_named = self._history.names(commit_id)
                    number = self._history.number(commit_id)
                    if number not in numbers and (not is_named or number in rows):
                        numbers.add(number)
                        rows.setdefault(number, row)
                        self._history.heads.append(Head("reflog", name, number))
        return rows

    def _all(self, kind: RefKind) -> Iterator[_CheckedRef]:
        for shard in range(SHARDS):
            partition = f"{self._uid}/{kind}/{shard:x}"
            for sort, item in scan(self._tables, partition):
                name = sort.decode("utf-8", "backslashreplace")
                if isinstance(item, DamagedItem) and item.rest:
                    self.damages.append(unreadable_rest(partition, repr(name), item))
                    continue
                self._names.append((kind, name))
                if isinstance(item, DamagedItem):
                    self._add(kind, name, f"cannot be read: {item.reason}", _restore(kind, name))
                    continue
                try:
                    ref = self._decode(kind, name, item)
                    key = self._refs.branch_key(name) if kind == "branch" else self._refs.tag_key(name)
                except (CorruptError, InvalidError) as error:
                    self._add(kind, name, f"cannot be read: {error}", _restore(kind, name))
                    continue
                if key != Key(partition, sort):
                    reason = f"is in partition {partition}, where nothing looks for it"
                    self._add(kind, name, reason, "Move its item to the partition of its name")
                elif not is_commit_id(ref.commit_id):
                    self._add(kind, name, f"points to {ref.commit_id!r}, which is not a commit", _restore(kind, name))
                else:
                    yield ref

    def _decode(self, kind: RefKind, name: str, item: Item) -> _CheckedRef:
        if kind == "branch":
            branch = self._refs.decode_branch(name, item)
            assert branch is not None
            return _CheckedRef(kind, name, branch.commit_id, branch)
        tag = self._refs.decode_tag(name, item)
        assert tag is not None
        return _CheckedRef(kind, name, tag.commit_id)

    def _add(self, kind: RefKind, name: str, reason: str, remedy: str) -> None:
        refs = (AffectedRef(kind, name),)
        self.damages.append(Damage(FindingKind.REF, f"{kind} {name!r}", reason, remedy, refs=refs))


def _restore(kind: RefKind, name: str) -> str:
    lost = "; its uncommitted changes are lost with its tokens" if kind == "branch" else ""
    return f"Restore the table or a dump; the reference log of {kind} {name!r} shows where it pointed{lost}"


def _commits_of(item: Item) -> list[CommitID] | None:
    """Return the commits that a row of the reference log names; None if it is not a row."""
    named = [item[side] for side in ("old", "new") if side in item]
    texts = [text for text in named if isinstance(text, str) and is_commit_id(text)]
    return [*map(CommitID, texts)] if len(texts) == len(named) and named else None
