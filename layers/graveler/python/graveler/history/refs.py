"""Branches and tags: read them, list them, and make the writes that change them.

Items lie in 16 partitions for each kind, ``<repository uid>/<kind>/<shard>``, by the xxh64 of the name modulo 16, under the name
in UTF-8. A branch's attributes: ``commit``, ``open`` (the open token), and where they apply ``sealed`` (sealed tokens, the oldest
first), ``hidden``, ``renaming`` (the token that a rename fills, and its beat), ``moves`` (the number of its newest row in the
reference log), ``conditional`` (the random mark of the latest conditional write) and ``rules`` (the version of the rules that
guard it). A tag's: ``commit``. A branch with ``rules`` has its ``moves`` as text, so that a version before rules, which would
publish without judging, takes the item for a damaged one.

Nothing here changes a ref by itself. The ``…_writes`` functions return the writes of a transaction, **the ref's own first**, then
the row of the reference log: every change of a ref is one transaction with its row (CONCURRENCY, C1 and C2). The caller adds the
other parts, such as :meth:`graveler.history.commits.CommitStore.alive_check` for a ref that is pointed at a commit which existed
before.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh64_intdigest

from graveler.errors import CorruptError, InvalidError
from graveler.history.names import MAX_REF_BYTES, check_branch, check_tag
from graveler.history.reflog import Event, LogEntry, RefKind, RefLog
from graveler.model import CommitID, Page, RepositoryUID, Tag, Token
from graveler.storage.limits import text_key
from graveler.storage.tables.port import Absent, Check, Delete, Item, Key, Matches, Put, Query, Tables, Value, Write
from graveler.system.random_bytes import random_bytes

SHARDS: Final = 16
_KEPT: Final = 256
_MARK_BYTES: Final = 8
_KEYS: Final = 1024
"""Number of names whose keys are cached: checking and hashing a name takes 1 µs, and a few names are requested very often."""


class Renaming(Struct, frozen=True):
    """A rename at work on a branch: the token under which it stages the uncommitted changes again, and the beat of its lease."""

    into: Token
    beat: str


class BranchState(Struct, frozen=True):
    """A branch as the table has it: the commit it points at, the token for new changes, and the tokens that a commit has sealed
    but not published yet, the oldest first. Listings omit ``hidden`` ones. While a branch is ``renaming``, no change is
    acknowledged on it. ``moves`` is the number of its newest row in the reference log; 0 if an earlier version, which did not
    count, wrote the item. ``conditional`` is the mark of the latest conditional write, if there was one. ``rules`` is the version
    of the repository's rules that guard the branch since they were set; 0 for none (docs/design/0023-gates.md)."""

    name: str
    commit_id: CommitID
    open: Token
    sealed: tuple[Token, ...] = ()
    hidden: bool = False
    renaming: Renaming | None = None
    moves: int = 0
    conditional: bytes = b""
    rules: int = 0

    def moved(self, event: Event) -> "BranchState":
        """Return the branch with the number of the row of ``event``, which changes the branch as it is here. If moves were not
        counted so far, it is the time in nanoseconds: any number counted before an earlier version changed the branch is less
        than that."""
        return replace(self, moves=self.moves + 1 if self.moves else event.time_ns)


NamedRef = TypeVar("NamedRef", BranchState, Tag)


class Refs:
    """The branches and tags of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID, log: RefLog | None = None) -> None:
        self._tables, self._uid = tables, uid
        self.reflog = log or RefLog(tables, uid)
        self._decoded: dict[str, tuple[Item, BranchState]] = {}
        """The most recently decoded branches, by name, since most are requested repeatedly."""

    def branch_key(self, name: str) -> Key:
        """Return the key of the branch's item. :class:`InvalidError` for an invalid branch name."""
        return _key(self._uid, "branch", name)

    def tag_key(self, name: str) -> Key:
        """Return the key of the tag's item. :class:`InvalidError` for an invalid tag name."""
        return _key(self._uid, "tag", name)

    def branch(self, name: str) -> BranchState | None:
        """Return the branch, or None. One request. :class:`InvalidError` for an invalid branch name."""
        return self.decode_branch(name, self._tables.get(self.branch_key(name)))

    def tag(self, name: str) -> Tag | None:
        """Return the tag, or None. One request. :class:`InvalidError` for an invalid tag name."""
        return self.decode_tag(name, self._tables.get(self.tag_key(name)))

    def read_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return items that a caller wants to read together, such as a branch and a tag. One request for each 100."""
        return self._tables.get_many(keys)

    def with_prefetched(self, items: Mapping[Key, Item | None]) -> "Refs":
        """Return these refs for one reader, which reuses items that were just read together with something else."""
        view = _ReadAhead(self._tables, self._uid, self.reflog, items)
        view._decoded = self._decoded
        return view

    def decode_branch(self, name: str, item: Item | None) -> BranchState | None:
        """Return the branch in the item at :meth:`branch_key`; None without an item. Decoding the same item again returns the
        same object. No request. :class:`CorruptError` if the item is malformed."""
        if item is None:
            return None
        before = self._decoded.get(name)
        if before is not None and before[0] is item:
            return before[1]
        state = _decode_branch(name, item)
        if len(self._decoded) >= _KEPT:
            self._decoded.clear()
        self._decoded[name] = item, state
        return state

    def decode_tag(self, name: str, item: Item | None) -> Tag | None:
        """Return the tag in the item at :meth:`tag_key`; None without an item. No request. :class:`CorruptError` if it is
        malformed."""
        if item is None:
            return None
        commit = item.get("commit")
        if not isinstance(commit, str):
            raise CorruptError(f"the table's item of tag {name!r} cannot be read")
        return Tag(name, CommitID(commit))

    def list_branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[BranchState]:
        """Return up to ``amount`` (at least 1) branches whose name begins with ``prefix`` and comes after ``after``, in order of
        the names' bytes.

        At least one request for each of the 16 shards, and about one more for a shard that holds far more of the page than its
        share. Reads little more than the page, never more than 16 × (``amount`` + 1) items that are shown. :class:`InvalidError`
        for an ``amount`` below 1 or text that is not UTF-8.
        """

        def decode(name: str, item: Item) -> BranchState | None:
            branch = _decode_branch(name, item)
            return None if branch.hidden and not show_hidden else branch

        return self._list("branch", decode, prefix, after, amount)

    def list_tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]:
        """Return up to ``amount`` (at least 1) tags, as :meth:`list_branches` does."""
        return self._list("tag", self.decode_tag, prefix, after, amount)

    def create_branch_writes(self, state: BranchState, event: Event) -> list[Write]:
        """Return the writes that create a branch, on condition that none has its name. Two writes, no request. ``state.moves`` is
        one more than :meth:`RefLog.last_number` of its name; the second write fails if that is no longer so."""
        write = Put(self.branch_key(state.name), _branch_item(state), Absent())
        row = self._row("branch", state.name, event, None, state.commit_id, state.moves)
        return [write, replace(row, condition=Absent())]

    def move_branch_writes(
        self, old: BranchState, new: BranchState, event: Event | None, *, amid_conditional: bool = False
    ) -> list[Write]:
        """Return the writes that replace ``old`` by ``new``, on condition that the branch still is exactly ``old``. Two writes,
        no request. They count the move: afterwards the branch is ``new``, with the ``moves`` of :meth:`BranchState.moved` of
        ``old``.

        Conditional writes since ``old`` was read make them fail, unless they may be made ``amid_conditional`` ones. That is for
        a change that leaves each path as it is, or drops what is staged: a seal, a commit, a reset. It also replaces or removes a
        token, so that nothing else can be made on the condition of ``old`` afterwards.

        ``event`` is None when no ref changes: a seal opens a token and leaves the commit as it was. Then it is one write without
        a row. ``ValueError`` if the names differ, or the commits do and ``event`` is None.
        """
        if old.name != new.name or (event is None and old.commit_id != new.commit_id):
            raise ValueError(f"{old} cannot become {new} like this")
        moves = old.moves if event is None else old.moved(event).moves
        new = replace(new, moves=moves)
        condition = _unchanged(old) if amid_conditional else _untouched(old)
        writes: list[Write] = [Put(self.branch_key(old.name), _branch_item(new), condition)]
        if event is None:
            return writes
        return [*writes, self._row("branch", old.name, event, old.commit_id, new.commit_id, moves)]

    def unchanged_check(self, state: BranchState) -> Check:
        """Return a check that the branch is exactly ``state``, except for conditional writes, for a transaction that depends on
        it. No request."""
        return Check(self.branch_key(state.name), _unchanged(state))

    def conditional_write(self, state: BranchState) -> Put:
        """Return the write that makes :meth:`unchanged_check` and notes a conditional write on the branch. What changes paths
        below those that are staged, such as a merge that has read what is staged, fails then. No request."""
        marked = replace(state, conditional=random_bytes(_MARK_BYTES))
        return Put(self.branch_key(state.name), _branch_item(marked), _unchanged(state))

    def accepting_check(self, name: str, token: Token) -> Check:
        """Return a check that the branch takes changes under ``token``, for a transaction that depends on it. No request."""
        return Check(self.branch_key(name), Matches({"open": token, "renaming": None}))

    def delete_branch_writes(self, old: BranchState, event: Event) -> list[Write]:
        """Return the writes that delete a branch, on condition that it still is exactly ``old``. Two writes, no request."""
        write = Delete(self.branch_key(old.name), _untouched(old))
        return [write, self._row("branch", old.name, event, old.commit_id, None, old.moved(event).moves)]

    def create_tag_writes(self, tag: Tag, event: Event) -> list[Write]:
        """Return the writes that create a tag, on condition that none has its name. Two writes, no request."""
        write = Put(self.tag_key(tag.name), {"commit": tag.commit_id}, Absent())
        return [write, self._row("tag", tag.name, event, None, tag.commit_id)]

    def delete_tag_writes(self, old: Tag, event: Event) -> list[Write]:
        """Return the writes that delete a tag, on condition that it still names the same commit. Two writes, no request."""
        write = Delete(self.tag_key(old.name), Matches({"commit": old.commit_id}))
        return [write, self._row("tag", old.name, event, old.commit_id, None)]

    def _row(
        self, kind: RefKind, name: str, event: Event, old: CommitID | None, new: CommitID | None, number: int = 0
    ) -> Put:
        return self.reflog.put_write(kind, name, LogEntry(event, old, new), number)

    def _list(
        self,
        kind: RefKind,
        decode: Callable[[str, Item], NamedRef | None],
        prefix: str,
        after: str,
        amount: int,
    ) -> Page[NamedRef]:
        if amount < 1:
            raise InvalidError(f"amount is {amount}; ask for at least 1")
        try:
            prefix_bytes, after_bytes = prefix.encode(), after.encode()
        except UnicodeEncodeError as error:
            raise InvalidError(f"{error.object!r} cannot be written as UTF-8") from None
        if len(prefix_bytes) > MAX_REF_BYTES:
            return Page(())
        # No name has more bytes than MAX_REF_BYTES, so the rest of ``after`` does not matter, and would not fit a key.
        start = max(prefix_bytes, after_bytes[: MAX_REF_BYTES + 1] + b"\0") if after_bytes else prefix_bytes
        end = prefix_bytes[:-1] + bytes([prefix_bytes[-1] + 1]) if prefix_bytes else None  # 255 is not a byte of UTF-8
        limit = amount + 1  # one more, to see whether the page is the last
        # Names are spread evenly: a shard holds a 16th of the page and some. Asking all for the whole page would read it 16
        # times.
        share = min(limit, limit // SHARDS * 5 // 4 + 8)
        refs: list[tuple[bytes, NamedRef]] = []
        unread: dict[int, bytes] = dict.fromkeys(range(SHARDS), start)  # shard → where it goes on
        while unread:
            pages = self._tables.query_many(
                [Query(_partition(self._uid, kind, shard), begin, end, share) for shard, begin in unread.items()]
            )
            for shard, page in zip(list(unread), pages, strict=True):
                for sort, item in page.items:
                    ref = decode(text_key(_partition(self._uid, kind, shard), sort), item)
                    if ref is not None:
                        refs.append((sort, ref))
                if page.more and page.items:
                    unread[shard] = page.items[-1][0] + b"\0"
                else:
                    del unread[shard]
            refs.sort(key=lambda pair: pair[0])
            del refs[limit:]
            if len(refs) == limit:
                last = refs[-1][0]
                unread = {shard: begin for shard, begin in unread.items() if begin <= last}
        results = tuple(ref for _, ref in refs[:amount])
        return Page(results, results[-1].name if len(refs) == limit else None)


class _ReadAhead(Refs):
    """Refs of which some items were read already. The first read of only these items gets them; later reads want current
    items."""

    def __init__(self, tables: Tables, uid: RepositoryUID, log: RefLog, items: Mapping[Key, Item | None]) -> None:
        super().__init__(tables, uid, log)
        self._items = items

    def read_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, without a request if all were read already."""
        items, self._items = self._items, {}
        return [items[key] for key in keys] if all(key in items for key in keys) else super().read_many(keys)


def _decode_branch(name: str, item: Item) -> BranchState:
    commit, opened = item.get("commit"), item.get("open")
    sealed, hidden, renaming = item.get("sealed", []), item.get("hidden", False), item.get("renaming", [])
    moves, conditional, rules = item.get("moves", 0), item.get("conditional", b""), item.get("rules", 0)
    if rules and isinstance(moves, str) and moves.isdecimal():
        moves = int(moves)
    if not (
        isinstance(commit, str)
        and isinstance(opened, str)
        and isinstance(sealed, list)
        and isinstance(hidden, bool)
        and isinstance(renaming, list)
        and len(renaming) in (0, 2)
        and isinstance(moves, int)
        and isinstance(conditional, bytes)
        and isinstance(rules, int)
    ):
        raise CorruptError(f"the table's item of branch {name!r} cannot be read")
    mark = Renaming(Token(renaming[0]), renaming[1]) if renaming else None
    return BranchState(
        name, CommitID(commit), Token(opened), tuple(map(Token, sealed)), hidden, mark, moves, conditional, rules
    )


@lru_cache(maxsize=_KEYS)
def _key(uid: RepositoryUID, kind: RefKind, name: str) -> Key:
    """Return the key of a ref's item. :class:`InvalidError` for an invalid name."""
    sort = (check_branch if kind == "branch" else check_tag)(name).encode()
    return Key(_partition(uid, kind, xxh64_intdigest(sort) % SHARDS), sort)


def _partition(uid: RepositoryUID, kind: RefKind, shard: int) -> str:
    return f"{uid}/{kind}/{shard:x}"


def _branch_item(state: BranchState) -> dict[str, Value]:
    item: dict[str, Value] = {"commit": state.commit_id, "open": state.open}
    if state.sealed:
        item["sealed"] = list(state.sealed)
    if state.hidden:
        item["hidden"] = True
    if state.renaming is not None:
        item["renaming"] = [state.renaming.into, state.renaming.beat]
    if state.moves:
        item["moves"] = moves_attribute(state.moves, state.rules)
    if state.conditional:
        item["conditional"] = state.conditional
    if state.rules:
        item["rules"] = state.rules
    return item


def moves_attribute(moves: int, rules: int) -> str | int:
    """Return the attribute of the number of a branch's moves, if ``rules`` of this version guard it; 0 for none."""
    return str(moves) if rules else moves


def _unchanged(old: BranchState) -> Matches:
    """Return the condition that all attributes but ``conditional`` are as they were read, and the others absent."""
    expected: dict[str, Value | None] = dict.fromkeys(("sealed", "hidden", "renaming", "moves", "rules"))
    expected.update(_branch_item(old))
    expected.pop("conditional", None)
    return Matches(expected)


def _untouched(old: BranchState) -> Matches:
    """Return the condition that all attributes are as they were read, and the others absent."""
    return Matches({**_unchanged(old).attributes, "conditional": old.conditional or None})
