"""Exhaustive search over the interleavings of the staging, commit and rename protocol of ``docs/concurrency.md``.

One key is enough to find lost, stale and revived values. Every step below is one atomic request to the table or the object
store. The search runs every order of the steps of all processes, with crashes of committers and renamers, with leases that run
out at any time, and with a rule (a protected branch, a read-only repository) that begins to forbid staging at any time.

There are two names, ``a`` and ``b``. The branch under test begins as ``a`` and may be renamed to ``b``; a second branch may then
be created under the name ``a``. A history is bad if

- a read returns a value that was overwritten, by an acknowledged write, before the read began (a regular register);
- a read that begins after a write was refused returns that write's value;
- a value that was put under the old name after the rename, or acknowledged for the second branch ``a``, is found on ``b``;
- two creators of one object win, or two that replace one value on condition that it is there;
- a creator's value is read although another write of the object was acknowledged, and nobody deletes;
- a read returns a value that was replaced on this condition, or one that replaced a value, although a write was acknowledged that
  began after the replaced one was: it must come after both. A value may be replaced before its write is acknowledged.

The final state is read at every moment. A delete is the write of a tombstone (``d<i>``).

``python -m tests.model.protocol`` prints the number of states for each case, and the first bad history if there is one. Then it
switches each rule of :data:`RULES` off in turn, to show that each is needed. ``test_protocol.py`` runs the fast cases.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.support.tuples import changed

RULES: dict[str, bool] = {
    "verify_after_put": True,  # a writer reads the branch again after its put
    "leave_late_item": True,  # a put that came too late is left where it is, not taken back
    "condition_in_transaction": True,  # a conditional write checks the branch item in the transaction of its put
    "condition_marks_branch": True,  # … and marks it, so that a merge that has read what is staged does not publish below it
    "replaced_is_marked": True,  # … and marks an item of a sealed token that it has replaced, whose writer may put it again
    "marked_is_done": True,  # a late put that was replaced is not put again
    "marks_read_last": True,  # … which its writer looks up after the item that it is going to put over
    "repeat_on_condition": True,  # a late put is put again only over the item that its writer has read
    "taken_is_unclear": True,  # nor is one that a commit has taken, unless it is still what the branch has: nobody knows
    "oldest_first": True,  # tokens are published in the order in which they were sealed
    "tokens_in_condition": True,  # publish fails when the applied tokens are no longer the oldest of the sealed list
    "reapply_on_new_head": True,  # the loser applies its staged changes to the new head (and does not merge its tree)
    "late_cleanup": True,  # applied tokens are cleaned up only after the longest request's time
    "rename_closes_first": True,  # while a branch is being renamed, nothing is acknowledged on it
    "rename_stages_again": True,  # a rename stages what is uncommitted under a token that the old name never had
    "rename_from_one_state": True,  # the branch must be as it was when the rename began to stage again
    "restore_before_refusing": True,  # a write is refused only after the value that it replaced is back
    "restore_only_own": True,  # … on condition that the item is still the refused write's
    "restore_while_open": True,  # … and that the token is still open, and the branch is not being renamed
    "settle_every_put": True,  # a refused write accounts for all that it put, also under tokens sealed meanwhile
    "settle_other_branch": True,  # a put that went to a branch with another name is accounted for before another is made
    "batch_refused_before": True,  # a batch is refused only before its put; afterwards nobody knows
    "merge_apart": True,  # a merge changes no key that is staged
}

NONE = "-"
Place = tuple[Any, ...]
"""What a process knows at its next step."""
Process = tuple[str, str, str, Place]
"""A process: its kind, its name, its next step, and what it knows."""


class Branch(NamedTuple):
    """A branch's item: head (a commit's number), open token, sealed tokens, the token that a rename is filling, and the latest
    conditional writer."""

    head: int
    open: str
    sealed: tuple[str, ...] = ()
    mark: str | None = None
    written: str = ""


class State(NamedTuple):
    """``trees`` holds the key's value in each commit; ``gone`` the outcome of each token that left its branch; ``replaced`` the
    value that each conditional writer requires; ``marked`` the items that such writers have replaced: token, value."""

    trees: tuple[str, ...]
    branches: tuple[tuple[str, Branch], ...]
    items: tuple[tuple[str, str], ...]
    gone: tuple[tuple[str, tuple[str, Any]], ...]
    procs: tuple[Process, ...]
    starts: tuple[tuple[str, frozenset[str]], ...]
    acked: frozenset[str]
    acked_elsewhere: frozenset[str]
    refused: frozenset[str]
    strays: frozenset[str]
    replaced: tuple[tuple[str, str], ...]
    marked: frozenset[tuple[str, str]]
    readers: tuple[tuple[str | None, frozenset[str], frozenset[str]], ...]
    closed: bool
    next_token: int

    def branch(self, name: str) -> Branch | None:
        return dict(self.branches).get(name)

    def with_branch(self, name: str, branch: Branch | None) -> "State":
        branches = {**dict(self.branches), name: branch}
        return self._replace(branches=tuple(sorted((n, b) for n, b in branches.items() if b is not None)))

    def item(self, token: str) -> str | None:
        return dict(self.items).get(token)

    def with_item(self, token: str, value: str | None) -> "State":
        items = {**dict(self.items), token: value}
        return self._replace(items=tuple(sorted((t, v) for t, v in items.items() if v is not None)))

    def with_first_put(self, token: str, value: str) -> "State":
        """The first put of a process that knows the branch as ``a``: it strays if that has another name by now."""
        after = self.with_item(token, value)
        return after if self.here == "a" else changed(after, strays=self.strays | {value})

    def leaving(self, tokens: tuple[str, ...], outcome: tuple[str, Any]) -> "State":
        return self._replace(gone=tuple(sorted({**dict(self.gone), **dict.fromkeys(tokens, outcome)}.items())))

    @property
    def here(self) -> str:
        """The name that the branch under test has now: ``b`` once it was renamed."""
        return "b" if self.branch("b") is not None else "a"


def absent(value: str | None) -> bool:
    return value is None or value == NONE or value[0] == "d"


def same(value: str, other: str) -> bool:
    return value == other or (absent(value) and absent(other))


def begin(s: State, me: str) -> State:
    return s if me in dict(s.starts) else changed(s, starts=(*s.starts, (me, s.acked)))


Step = tuple[State, str, Place]
"""A state, and where the process that made the step is then."""


class Search:
    """Every interleaving of so many processes of each kind."""

    def __init__(
        self,
        *,
        writers: int = 0,
        deleters: int = 0,
        batches: int = 0,
        committers: int = 0,
        readers: int = 0,
        mergers: int = 0,
        besides: int = 0,
        creators: int = 0,
        replacers: int = 0,
        renamers: int = 0,
        recreators: int = 0,
        rules: int = 0,
        sequential: bool = False,
    ) -> None:
        self.sequential = sequential
        self.deleters = deleters
        # Writers and deleters are one sequence: v0, v1, ... then d0, ...
        self.order = [f"v{i}" for i in range(writers)] + [f"d{i}" for i in range(deleters)]
        procs = [("w", me, "start", ()) for me in self.order]
        procs += [("u", f"u{i}", "start", ()) for i in range(batches)]
        procs += [("c", f"c{i}", "seal", ()) for i in range(committers)]
        procs += [("r", f"r{i}", "start", ()) for i in range(readers)]
        procs += [("m", f"m{i}", "read", ()) for i in range(mergers)]
        procs += [("b", f"b{i}", "read", ()) for i in range(besides)]
        procs += [("x", f"x{i}", "start", ()) for i in range(creators)]
        procs += [("y", f"y{i}", "start", ()) for i in range(replacers)]
        procs += [("n", f"n{i}", "mark", ()) for i in range(renamers)]
        procs += [("k", f"k{i}", "clear", ()) for i in range(renamers)]
        procs += [("e", f"e{i}", "create", ()) for i in range(recreators)]
        procs += [("l", f"l{i}", "close", ()) for i in range(rules)]
        self.first = State(
            (NONE,),
            (("a", Branch(0, "t0")),),
            (),
            (),
            tuple(procs),
            (),
            frozenset(),
            frozenset(),
            frozenset(),
            frozenset(),
            (),
            frozenset(),
            (),
            False,
            1,
        )

    def steps(self, s: State) -> Iterator[tuple[Process, State]]:
        for n, proc in enumerate(s.procs):
            for state, pc, loc in getattr(self, proc[0])(s, *proc[1:]):
                yield proc, changed(state, procs=(*s.procs[:n], (*proc[:2], pc, loc), *s.procs[n + 1 :]))

    # A writer, or a deleter, which writes a tombstone whatever it finds. It may hold a token from long ago.
    # loc: the token to put under; then what it has put so far: ((token, the value it replaced), ...).
    def w(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        if pc == "start":
            n = self.order.index(me)
            if self.sequential and n and self.order[n - 1] not in s.acked | s.refused:
                return
            there = s.branch("a")
            known = set() if there is None or there.mark is not None else {there.open}
            for token in {"t0"} | known:
                yield begin(s, me), "put", (token, ())
        elif pc == "put":
            token, placed = loc
            after = s.with_item(token, me) if placed else s.with_first_put(token, me)
            yield after, "verify", ((*placed, (token, s.item(token))),)
        elif pc == "verify":
            (placed,) = loc
            token = placed[-1][0]
            there = s.branch("a")
            if not RULES["verify_after_put"]:
                yield changed(s, acked=s.acked | {me}), "done", ()
            elif there is None or s.closed:
                yield from self._refuse(s, me, placed)
            elif there.mark is not None and RULES["rename_closes_first"]:
                return  # wait until the rename is over
            elif there.open == token:
                yield self._acknowledge(s, me, token), "done", ()
            elif not RULES["leave_late_item"]:
                yield s, "back", (placed, there.open)
            elif self._lineage(there.open) != self._lineage(token) and RULES["settle_other_branch"]:
                yield s, "settle", (placed, placed, there.open)
            elif RULES["marks_read_last"]:
                yield s, "over", (placed, there)
            else:
                yield from self._repeat(s, me, placed, there, None)
        elif pc == "over":
            placed, there = loc
            yield s, "marks", (placed, there, s.item(there.open))
        elif pc == "marks":
            yield from self._repeat(s, me, *loc)
        elif pc == "over after marks":
            placed, there = loc
            yield s, "again", (placed, there.open, s.item(there.open))
        elif pc == "again":
            placed, token, expected = loc
            if s.item(token) != expected and RULES["repeat_on_condition"]:
                yield s, "verify", (placed,)
            else:
                yield s.with_item(token, me), "verify", ((*placed, (token, s.item(token))),)
        elif pc == "back":  # looks tidy, and loses an older value that the late put had replaced
            placed, opened = loc
            mine = s.item(placed[-1][0]) == me
            yield (s.with_item(placed[-1][0], None) if mine else s), "put", (opened, ())
        elif pc == "settle":
            left, placed, onwards = loc
            if not left:
                if onwards is None:
                    yield changed(s, refused=s.refused | {me}), "done", ()
                else:
                    yield s, "put", (onwards, ())
                return
            yield from self._settle(s, me, left, placed, onwards)
        elif pc == "into":
            left, placed, onwards, token = loc
            (_, replaced), *_ = left
            open_there = any(branch.open == token for _, branch in s.branches)
            untouched = s.item(token) == replaced or (open_there and s.item(token) != me)
            yield (s, "settle", (left[1:], placed, onwards)) if untouched else (s, "done", ())

    # A late put: put it again under the open token, unless it has been replaced on a condition in the meantime.
    def _repeat(self, s: State, me: str, placed: Place, there: Branch, over: str | None) -> Iterator[Step]:
        tokens = [token for token, _ in placed]
        gone = dict(s.gone)
        taken = any(self._was_taken(s, me, token, replaced) for token, replaced in placed)
        now = s.branch("a")
        published = gone.get(tokens[-1]) == ("published", there.head)
        on_top = over is None and (there.sealed[-1:] == tuple(tokens[-1:]) or (not there.sealed and published))
        overwritten = any(s.item(token) not in (me, None) for token in tokens)
        if any((token, me) in s.marked and s.item(token) == me for token in tokens) and RULES["marked_is_done"]:
            yield changed(s, acked=s.acked | {me}), "done", ()
        elif RULES["taken_is_unclear"] and ((taken and not on_top) or overwritten) and (now is None or now.written):
            yield s, "done", ()  # nobody knows
        elif RULES["marks_read_last"]:
            yield s, "again", (placed, there.open, over)
        else:
            yield s, "over after marks", (placed, there)

    @staticmethod
    def _was_taken(s: State, me: str, token: str, replaced: str | None) -> bool:
        outcome, commit = dict(s.gone).get(token, ("", 0))
        if outcome != "published" or not same(s.trees[commit], me):
            return False
        return not absent(me) or not absent(replaced) or not absent(s.trees[commit - 1])

    def _acknowledge(self, s: State, me: str, token: str) -> State:
        if token.startswith("e"):
            return changed(s, acked_elsewhere=s.acked_elsewhere | {me})
        return changed(s, acked=s.acked | {me})

    @staticmethod
    def _lineage(token: str) -> str:
        return token[0]

    def _refuse(self, s: State, me: str, placed: Place) -> Iterator[Step]:
        if not RULES["restore_before_refusing"]:
            yield changed(s, refused=s.refused | {me}), "done", ()
        else:
            left = placed if RULES["settle_every_put"] else placed[-1:]
            yield s, "settle", (left, placed, None)

    # Show that the first of the puts that are left has no effect, or give up: nobody knows ("done" without any word).
    def _settle(self, s: State, me: str, left: Place, placed: Place, onwards: str | None) -> Iterator[Step]:
        (token, replaced), *_ = left
        there = s.branch("a")
        outcome = dict(s.gone).get(token)
        tokens = () if there is None else (there.open, *there.sealed)
        if there is not None and token in tokens and (there.open == token or not RULES["restore_while_open"]):
            if there.mark is not None and RULES["restore_while_open"]:
                return  # wait until the rename is over
            if s.item(token) == me or not RULES["restore_only_own"]:
                yield s.with_item(token, replaced), "settle", (left[1:], placed, onwards)
            else:
                yield s, "done", ()
        elif outcome is None:
            yield s, "done", ()
        elif outcome[0] == "into":
            yield s, "into", (left, placed, onwards, outcome[1])
        elif outcome[0] == "published":
            taken = s.trees[outcome[1]] == me
            yield (s, "done", ()) if taken else (s, "settle", (left[1:], placed, onwards))

    # A batch, which learns nothing of what it replaces: it looks before it puts, and is refused only then.
    def u(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        there = s.branch("a")
        if pc == "start":
            if not RULES["batch_refused_before"]:
                yield begin(s, me), "put", ("t0",)
            elif there is None or s.closed:
                yield changed(s, refused=s.refused | {me}), "done", ()
            elif there.mark is None:
                yield begin(s, me), "put", (there.open,)
        elif pc == "put":
            yield s.with_first_put(loc[0], me), "verify", loc
        elif pc == "verify":
            if there is None or s.closed:
                refused = s.refused if RULES["batch_refused_before"] else s.refused | {me}
                yield changed(s, refused=refused), "done", ()
            elif there.mark is not None and RULES["rename_closes_first"]:
                return
            elif there.open == loc[0]:
                yield self._acknowledge(s, me, loc[0]), "done", ()
            elif self._lineage(there.open) != self._lineage(loc[0]):
                yield s, "done", ()  # nobody knows
            else:
                yield s, "put", (there.open,)

    # Protects the branch, or makes the repository read-only.
    def l(self, s: State, _: str, pc: str, __: Place) -> Iterator[Step]:  # noqa: E743
        if pc == "close":
            yield changed(s, closed=True), "done", ()

    # Renames a to b: mark, stage again under a fresh token, and one transaction. loc: the state staged from, found, next.
    def n(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        there = s.branch("a")
        if pc in ("done", "crash") or s.branch("b") is not None:
            return
        fresh = f"n{me}"
        if pc == "mark":
            if there is None or there.mark is not None or s.closed:
                return
            if not RULES["rename_stages_again"]:
                moved = s.with_branch("a", None).with_branch("b", there)
                yield moved, "done", ()
                return
            yield s.with_branch("a", changed(there, mark=fresh)), "look", ()
            return
        yield s, "crash", ()
        if there is None or there.mark != fresh:
            yield s, "done", ()  # somebody took the mark away
        elif pc == "look":
            yield s, "scan", (there, (there.open, *reversed(there.sealed)), 0, None)
        elif pc == "scan":
            state, tokens, at, found = loc
            if found is None and at < len(tokens):
                yield s, "scan", (state, tokens, at + 1, s.item(tokens[at]))
            else:
                yield s.with_item(fresh, found), "move", (state, tokens)
        elif pc == "move":
            state, tokens = loc
            if there != state and RULES["rename_from_one_state"]:
                yield s, "look", ()
                return
            moved = s.with_branch("a", None).with_branch("b", Branch(there.head, fresh))
            yield moved.leaving(tokens, ("into", fresh)), "done", ()

    # Takes the mark of a rename away, whose lease has run out as far as this process knows.
    def k(self, s: State, _: str, pc: str, __: Place) -> Iterator[Step]:
        there = s.branch("a")
        if pc == "clear" and there is not None and there.mark is not None:
            yield s.with_branch("a", changed(there, mark=None)), "done", ()

    # Creates another branch under the old name.
    def e(self, s: State, _: str, pc: str, __: Place) -> Iterator[Step]:
        if pc == "create" and s.branch("a") is None:
            yield s.with_branch("a", Branch(0, "e0")), "done", ()

    # Create only if absent: look at everything below, then put in one transaction with the conditions that the branch is
    # still the one that was looked at, and the item too. (Without the first, two creators win: one puts late into a
    # sealed token, which a commit takes.)
    def x(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        yield from self._put_on_condition(s, me, pc, loc, lambda now: s if absent(now) else None)

    # Replace only a certain value, the one that this process finds first: like x, with another condition.
    def y(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        def condition(now: str | None) -> State | None:
            required = dict(s.replaced).get(me)
            if required is None and now is not None and not absent(now):
                return changed(s, replaced=(*s.replaced, (me, now)))
            return s if now == required and now is not None else None

        yield from self._put_on_condition(s, me, pc, loc, condition)

    def _put_on_condition(
        self, s: State, me: str, pc: str, loc: Place, condition: Callable[[str | None], State | None]
    ) -> Iterator[Step]:
        branch = s.branch("a")
        if branch is None or s.closed:
            if pc not in ("done", "lost"):
                yield s, "done", ()
            return
        if pc == "start":
            if branch.mark is None:
                path = (branch.open, *reversed(branch.sealed))
                yield begin(s, me), "look", (path, branch, 0, None)
        elif pc == "look":
            path, looked, at, item = loc
            value = s.item(path[at]) if at < len(path) else s.trees[looked.head]
            item = value if at == 0 else item
            if value == me:  # an earlier try, whose answer was lost
                yield changed(s, acked=s.acked | {me}), "done", ()
            elif not value and at < len(path):
                yield s, "look", (path, looked, at + 1, item)
            elif (after := condition(value)) is None:
                yield s, "lost", ()
            else:  # a value, nothing, or a tombstone that hides what is below
                late = (path[at], value) if 0 < at < len(path) else None
                yield after, "put", (path[0], looked, item, late)
        elif pc == "put":
            token, looked, item, late = loc
            unchanged = changed(branch, written=looked.written) == looked and (
                late is None or s.item(late[0]) == late[1]
            )
            if s.item(token) != item or (RULES["condition_in_transaction"] and not unchanged):
                yield s, "start", ()
            else:
                stored = s.with_item(token, me)
                if late is not None and RULES["replaced_is_marked"]:
                    stored = changed(stored, marked=s.marked | {late})
                if RULES["condition_in_transaction"] and RULES["condition_marks_branch"]:
                    stored = stored.with_branch("a", changed(branch, written=me))
                yield stored, "start", ()  # the answer was lost: try again
                if RULES["condition_in_transaction"]:
                    yield changed(stored, acked=s.acked | {me}), "done", ()
                else:
                    yield stored, "verify", (token,)
        elif pc == "verify":
            yield (changed(s, acked=s.acked | {me}), "done", ()) if branch.open == loc[0] else (s, "start", ())

    # A committer. It builds its tree at once, on the head that it finds, while older tokens may still be in flight.
    # loc: the branch's name, own token, tokens to apply, next to scan, value found, head built on, tree.
    def c(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        if pc in ("done", "crash"):
            return
        if pc == "seal":
            name = s.here
            there = s.branch(name)
            if there is None or (there.mark is not None and RULES["rename_closes_first"]):
                return
            token = f"{there.open[0]}{s.next_token}"
            sealed = changed(there, open=token, sealed=(*there.sealed, there.open))
            after = changed(s.with_branch(name, sealed), next_token=s.next_token + 1)
            yield after, "scan", (name, there.open, (there.open,), 0, None, None, None)
            return
        yield s, "crash", ()
        if pc == "scan":  # one read for each token, oldest first; newer ones win
            name, own, tokens, at, found, _, _ = loc
            there = s.branch(name)
            if there is None:
                yield s, "done", ()  # the branch has another name now
            elif at < len(tokens):
                yield s, "scan", (name, own, tokens, at + 1, s.item(tokens[at]) or found, None, None)
            else:
                yield s, "publish", (name, own, tokens, at, found, there.head, found or s.trees[there.head])
        elif pc == "publish":
            name, own, tokens, at, found, head, tree = loc
            there = s.branch(name)
            if there is None:
                yield s, "done", ()
                return
            if own not in there.sealed and RULES["tokens_in_condition"]:
                yield s, "done", ()  # somebody adopted it, and wrote down which commit took it
                return
            in_front = there.sealed[: len(tokens)] == tokens
            if not in_front and RULES["oldest_first"] and RULES["tokens_in_condition"]:
                # Wait (no step), or adopt everything older: leases may have run out at any time.
                yield s, "scan", (name, own, there.sealed[: there.sealed.index(own) + 1], 0, None, None, None)
            elif there.head != head:
                base, theirs = s.trees[head], s.trees[there.head]
                if RULES["reapply_on_new_head"]:
                    again = found or theirs
                else:  # merge (base, own tree, new head), own side winning
                    same = tree == base or (absent(tree) and absent(base))
                    again = theirs if same else tree
                yield s, "publish", (name, own, tokens, at, found, there.head, again)
            else:
                left = tuple(t for t in there.sealed if t not in tokens)
                moved = changed(there, head=len(s.trees), sealed=left)
                published = changed(s.with_branch(name, moved), trees=(*s.trees, tree))
                yield published.leaving(tokens, ("published", len(s.trees))), "clean", (tokens,)
        elif pc == "clean":
            waiting = ("token", "look", "put", "verify", "over", "marks", "again", "settle", "into", "scan", "move")
            busy = any(p[0] in "rxywun" and p[2] in waiting for p in s.procs)
            if not (RULES["late_cleanup"] and busy):
                cleaned = s
                for token in loc[0]:
                    cleaned = cleaned.with_item(token, None)
                yield cleaned, "done", ()

    # A reader of the branch: branch item, open token, sealed tokens from the newest, commit.
    def r(self, s: State, _: str, pc: str, loc: Place) -> Iterator[Step]:
        if pc == "start":
            there = s.branch(s.here)
            if there is not None:
                path = (there.open, *reversed(there.sealed))
                yield s, "token", (path, there.head, s.acked, s.refused, 0)
        elif pc == "token":
            path, head, seen, refused, at = loc
            value = s.item(path[at]) if at < len(path) else s.trees[head]
            if value or at == len(path):
                yield changed(s, readers=(*s.readers, (value, seen, refused))), "done", ()
            else:
                yield s, "token", (path, head, seen, refused, at + 1)

    # A merge that does not change the key: whatever is staged stays where it is.
    def b(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        there = s.branch("a")
        if there is None or pc == "done":
            return
        if pc == "read" and there.mark is None:
            yield begin(s, me), "publish", (there,)
        elif pc == "publish":
            moved = s.with_branch("a", changed(there, head=len(s.trees)))
            brought = changed(moved, trees=(*s.trees, s.trees[there.head]))
            yield (brought if there == loc[0] else s), "done", ()

    # A merge that brings a value for the key. It is refused while the key has an uncommitted change.
    def m(self, s: State, me: str, pc: str, loc: Place) -> Iterator[Step]:
        there = s.branch("a")
        if there is None:
            return
        if pc == "read":
            if there.mark is not None:
                return
            dirty = s.item(there.open) or any(s.item(t) for t in there.sealed)
            if dirty and RULES["merge_apart"]:
                yield s, "done", ()
            else:
                yield begin(s, me), "publish", (there,)
        elif pc == "publish":
            if there == loc[0]:
                moved = s.with_branch("a", changed(there, head=len(s.trees)))
                yield changed(moved, trees=(*s.trees, me), acked=s.acked | {me}), "done", ()
            else:  # the branch moved: merged anew, which is another merge; here it gives up
                yield s, "done", ()

    def bad(self, s: State) -> str | None:
        before = dict(s.starts)
        there = s.branch(s.here)
        value = None if there is None else s.item(there.open)
        if there is not None:
            for token in reversed(there.sealed):
                value = value or s.item(token)
            value = value or s.trees[there.head]
        replaced = dict(s.replaced)
        for read, seen, refused in (*s.readers, (value, s.acked, s.refused)):
            if read in refused:
                return f"read {read} although it had been refused"
            line = [read]  # nothing comes between a value and the one that replaced it
            while line[-1] in replaced:
                line.append(replaced[line[-1]])
            for later in seen - set(line):
                if read is not None and (read == replaced.get(later) or (read[0] == "x" and not self.deleters)):
                    return f"read {read} although {later} had been acknowledged"
                if read == NONE or not before.get(later, frozenset()).isdisjoint(line):
                    return f"read {read} although {later} had been acknowledged"
        if value in s.strays and s.here == "b":
            return f"{value} was put under the old name, and is on the renamed branch"
        if value in s.acked_elsewhere and s.here == "b":
            return f"{value} was acknowledged for another branch, and is on the renamed one"
        if sum(v[0] == "x" for v in s.acked) > 1:
            return "two creators won"
        won = [replaced[v] for v in s.acked if v in replaced]
        if len(set(won)) < len(won):
            return "two writers replaced one value"
        return None

    def run(self) -> tuple[int, str | None, list[str]]:
        """The states searched; the first bad history, if there is one: what is wrong, and its steps."""
        seen: dict[State, tuple[State, str] | None] = {self.first: None}
        stack = [self.first]
        while stack:
            s = stack.pop()
            wrong = self.bad(s)
            if wrong:
                trail = []
                while (came := seen[s]) is not None:
                    s, label = came
                    trail.append(label)
                return len(seen), wrong, trail[::-1]
            for proc, t in self.steps(s):
                if t not in seen:
                    seen[t] = (s, " ".join(map(str, proc[1:])))
                    stack.append(t)
        return len(seen), None, []


Case = dict[str, Any]

CASES: list[Case] = [
    {"writers": 2, "committers": 1, "readers": 1},
    {"writers": 1, "deleters": 1, "committers": 2, "sequential": True},
    {"writers": 2, "committers": 2, "sequential": True},
    {"writers": 2, "committers": 2, "mergers": 1, "sequential": True},
    {"writers": 1, "deleters": 1, "committers": 1, "besides": 1},
    {"writers": 2, "committers": 2, "besides": 1, "sequential": True},
    {"writers": 2, "committers": 1, "besides": 1, "readers": 1, "sequential": True},
    {"writers": 1, "deleters": 1, "committers": 2, "readers": 1, "sequential": True},
    {"writers": 2, "deleters": 1, "committers": 1, "readers": 1, "sequential": True},
    {"creators": 2, "committers": 2},
    {"creators": 2, "writers": 1, "committers": 1},
    {"creators": 2, "committers": 1, "mergers": 1},
    {"creators": 1, "writers": 1, "deleters": 1, "committers": 1},
    {"writers": 1, "replacers": 1, "committers": 1},
    {"writers": 1, "replacers": 2, "committers": 1},
    {"writers": 1, "creators": 1, "deleters": 1, "committers": 1},
    {"writers": 2, "replacers": 1, "committers": 1, "sequential": True},
    {"writers": 1, "deleters": 1, "replacers": 1, "committers": 1},
    {"writers": 1, "replacers": 1, "committers": 2},
    {"writers": 1, "replacers": 1, "committers": 1, "mergers": 1},
    {"creators": 1, "committers": 1, "mergers": 1},
    {"writers": 2, "rules": 1},
    {"writers": 2, "rules": 1, "committers": 1},
    {"writers": 1, "deleters": 1, "rules": 1, "committers": 1, "sequential": True},
    {"writers": 1, "batches": 1, "rules": 1, "committers": 1},
    {"writers": 2, "renamers": 1},
    {"writers": 2, "renamers": 1, "readers": 1, "sequential": True},
    {"writers": 2, "renamers": 1, "committers": 1, "sequential": True},
    {"writers": 1, "deleters": 1, "renamers": 1, "committers": 1, "sequential": True},
    {"writers": 2, "renamers": 1, "recreators": 1},
    {"writers": 2, "renamers": 1, "rules": 1, "sequential": True},
    {"writers": 1, "batches": 1, "renamers": 1, "recreators": 1},
    {"writers": 2, "renamers": 1, "recreators": 1, "committers": 1, "sequential": True},
]


def main() -> int:
    """Search all cases, then those that each rule's absence spoils; 1 if anything is not as it should be."""
    failed = False
    for case in CASES:
        states, wrong, trail = Search(**case).run()
        sys.stdout.write(f"{case} {states} states: {wrong or 'no bad history'}\n")
        sys.stdout.flush()
        if wrong:
            failed = True
            sys.stdout.write("   " + "\n   ".join(trail) + "\n")
    for rule in RULES:
        found = needed_by(rule)
        sys.stdout.write(f"without {rule}: {f'bad history with {found}' if found else 'no bad history found'}\n")
        sys.stdout.flush()
        failed = failed or found is None
    return int(failed)


def needed_by(rule: str, cases: Sequence[Case] = CASES) -> Case | None:
    """The first of the cases that has a bad history without the rule."""
    RULES[rule] = False
    try:
        return next((case for case in cases if Search(**case).run()[1]), None)
    finally:
        RULES[rule] = True


if __name__ == "__main__":
    sys.exit(main())
