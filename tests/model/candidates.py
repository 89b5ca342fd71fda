"""Exhaustive search over the protocol of rules, candidates and statuses (``docs/design/0023-gates.md``).

    python -m tests.model.candidates

Every step is one atomic request to the table, and the search runs every order of the steps of all processes. A transaction may be
carried out without an answer, or hang and arrive when its sender has gone on; mergers, committers and rule setters may die at any
step. The rules have two levels: by the first, a tree needs a status (and a pull request an approval); by the second, nothing
passes. They guard the branch and the tag ``a``. A history is bad if

- after ``SetRules`` has returned, ``a`` is pointed at a tree that does not pass these rules with the statuses that it has;
- a pull request is merged without its commit, is open after it, or is merged although its approval was taken back before;
- an end of a candidate changes, is wrong about its commit, or was never written although everybody is dead and time has passed;
- a staged change is lost or published twice, two open candidates hold one, or one is held for ever;
- a token's item forgets what became of the token;
- a publication was acknowledged, and did not happen;
- the collector removed the head of a branch, or the commit of a candidate that is open or was published a moment ago;
- a merge publishes below an object that was created after the merge had read what is staged;
- a candidate is published on another branch, which took the name of the one that it was made for.

With any of :data:`RULES` switched off, the search finds a bad history.
"""

import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.model.candidate_items import (
    ATTEMPTS,
    DEAD,
    DONE,
    OPEN,
    OTHER,
    PUBLISHED,
    RULES,
    TAG,
    TRANSACTIONS,
    A,
    Branch,
    Commit,
    Late,
    Pairs,
    Process,
    PullRequest,
    Row,
    Token,
    World,
    end,
    get,
    having,
    merged,
    moved,
    prepare,
    seal,
    verdict,
)
from tests.support.tuples import changed

Step = tuple[str, World, str, tuple[Any, ...]]
"""What happens, the world afterwards, and where the process is then: its step, and what it remembers."""
Place = tuple[str, tuple[Any, ...]]
STOP: Final[Place] = (DONE, ())


class Search:
    """Every interleaving of some processes, which are named by their kind and a number: ``m0`` merges, ``m0'`` repeats its
    request.

    m, c, q: merges, commits, merges a pull request; s1, s2: sets the rules of this level; o: a merge of a version before rules;
    p, f: posts success, a failure; b, t: creates the branch, the tag; n: renames another branch to its name; d: deletes it;
    h: resets it hard; r: resets what is staged; w: withdraws a candidate; k: time is over for one; g: collects garbage;
    a: takes the approval back; x: creates an object on a condition; e: stages a change; z: the verb and the collector that come
    when everybody else has ended, and time has passed.
    """

    def __init__(
        self, processes: str, *, version: int, exists: bool = True, lost: bool = False, beats: bool = False
    ) -> None:
        self.lost = lost
        self.beats = beats
        names = processes.split()
        self.target = "c0" if exists else "c1"
        self.creates_branches = any(name[0] in "bt" for name in names)
        self.creates_objects = any(name[0] == "x" for name in names)
        commits = {"c0": Commit(frozenset()), "c1": Commit(frozenset({"z"}))}
        branches = {A: Branch("c0", "life0.0", stamp=version)} if exists else {}
        if any(name[0] == "n" for name in names):
            branches[OTHER] = Branch("c1", "other.0")
        self.start = World(
            version,
            version,
            tuple(sorted(branches.items())),
            tuple(sorted(commits.items())),
            (),
            (),
            (),
            (),
            frozenset({"life0.0"} if any(name[0] == "c" for name in names) else ()),
            tuple(Process(name, "begin") for name in names),
            log=frozenset({"c0"}),
        )

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        for number, process in enumerate(w.processes):
            if process.step in (DONE, DEAD):
                continue
            for label, after, step, memory in getattr(self, f"_{process.name[0]}")(w, process):
                later = Process(process.name, step, memory)
                processes = (*w.processes[:number], later, *w.processes[number + 1 :])
                yield f"{process.name} {label}", changed(after, processes=processes)
        for late in w.late:
            rest = list(w.late)
            rest.remove(late)
            arrived = TRANSACTIONS[late.kind](w, *late.arguments)
            yield f"late: {late.kind}", changed(arrived or w, late=tuple(rest))

    def _sent(
        self, w: World, label: str, late: Late, done: Place, refused: Place, unsure: Place | None = None
    ) -> Iterator[Step]:
        after = TRANSACTIONS[late.kind](w, *late.arguments)
        if after is None:
            yield f"{label}: refused", w, *refused
        else:
            yield label, after, *done
        if self.lost and unsure is not None:
            if after is not None:
                yield f"{label}, and the answer is lost", after, *unsure
            if not w.late:
                yield f"{label}: hangs", changed(w, late=(late,)), *unsure
                yield f"{label}: hangs, and it dies", changed(w, late=(late,)), DEAD, ()

    # A verb reads the branch and the rules one after the other, in either order. number: of the candidates that it has prepared.
    @staticmethod
    def _read(w: World, step: str, memory: tuple[Any, ...]) -> Iterator[Step]:
        """Yield the reads; the last one goes to ``judged`` with the branch and the version of the rules."""
        number, *items = memory or (0,)
        if step == "begin":
            yield "reads the branch", w, "rules", (number, w.branch())
            if w.version < 2:  # later the order makes no difference
                yield "reads the rules", w, "branch", (number, w.version)
        else:
            branch, version = (items[0], w.version) if step == "rules" else (w.branch(), items[0])
            label = f"reads the {step}"
            if branch is None:
                yield f"{label}: no branch", w, *STOP
            elif branch.stamp > version and RULES["reread_on_newer_stamp"]:
                yield f"{label}: the stamp is newer", w, "begin", (number,)
            else:
                yield label, w, "look", (number, branch, version)

    def _m(self, w: World, process: Process) -> Iterator[Step]:
        if process.step in ("begin", "rules", "branch"):
            yield from self._read(w, process.step, process.memory)
        elif process.step == "look":
            yield from self._look(w, process)
        else:
            yield from getattr(self, f"_{process.step}")(w, process, *process.memory)
        if process.step in ("judge", "publish", "refuse", "build", "merge_request", "end_row"):
            yield "dies", w, DEAD, ()

    _c = _q = _m

    def _look(self, w: World, process: Process) -> Iterator[Step]:
        """The verb looks at the branch that it has read."""
        number, branch, version = process.memory
        request = process.name.rstrip("'")
        if request[0] == "c":
            if branch.sealed:
                items = tuple((token, get(w.tokens, token)) for token in branch.sealed)
                yield "reads the tokens", w, "holders", (number, branch, version, items)
            else:
                yield from self._seal_step(w, process, number, branch, version, ())
        elif request in w.tree(branch.head):
            yield "finds nothing to merge", w, *STOP
        elif self.creates_objects and w.created and (RULES["staging_read_again"] or not number):
            yield "finds staged changes", w, *STOP
        elif self.creates_objects:
            yield "finds nothing staged", w, "build", (number, branch, version, ())
        else:
            yield from self._build(w, process, number, branch, version, ())

    def _holders(
        self, w: World, process: Process, number: int, branch: Branch, version: int, items: Pairs[Token]
    ) -> Iterator[Step]:
        """Read the rows of those that hold the sealed tokens."""
        request = process.name.rstrip("'")
        if any(item.state != "sealed" for _, item in items) and RULES["tokens_are_sealed"]:
            yield "finds that a token is decided", w, "begin", (number,)
            return
        for candidate in {item.candidate for _, item in items if item.candidate}:
            row = get(w.rows, candidate)
            if row is None or row.request == request:
                continue
            if row.state != OPEN and RULES["ended_is_free"]:
                continue
            if row.state == OPEN and row.over and RULES["over_is_ended"]:
                late = Late("end", (candidate, "expired"))
                yield from self._sent(w, f"ends {candidate}", late, ("begin", (number,)), ("begin", (number,)))
            else:
                yield f"is refused: {candidate} holds the changes", w, *STOP
            return
        yield from self._seal_step(w, process, number, branch, version, items)

    def _seal_step(
        self, w: World, process: Process, number: int, branch: Branch, version: int, items: Pairs[Token]
    ) -> Iterator[Step]:
        if branch.open in w.staged:
            after = seal(w, process.name, branch)
            if after is None:
                yield "seals: refused", w, "begin", (number,)
                return
            now = after.branch()
            item = (branch.open, Token("sealed", process.name))
            yield "seals", after, "build", (number, now, version, (*items, item))
        elif branch.sealed:
            yield "finds sealed changes", w, "build", (number, branch, version, items)
        else:
            yield "finds nothing to commit", w, *STOP

    def _build(
        self, w: World, process: Process, number: int, branch: Branch, version: int, items: Pairs[Token]
    ) -> Iterator[Step]:
        """Read the request's newest candidate; prepare another, unless that fits. Without rules: publish."""
        request = process.name.rstrip("'")
        changes = {name for name, _ in items if name in w.staged} if items else {request}
        tree = w.tree(branch.head) | changes
        if version == 0:
            commit = f"{process.name}.{number}"
            late = Late("land", (commit, branch, tree, items))
            yield from self._sent(w, "publishes without rules", late, STOP, ("begin", (number + 1,)), STOP)
            return
        if self.beats and items and not w.late:
            late = Late("renew", (items[-1][0], process.name))
            yield "renews a lease, which hangs", changed(w, late=(late,)), "build", process.memory
        pointer = get(w.pointers, request)
        row = get(w.rows, pointer) if pointer else None
        previous = ""
        if pointer and row is not None and row.state == OPEN:
            if row.life != branch.life and RULES["compare_lives"]:
                yield "finds a candidate for another branch", w, "end_row", (pointer, "gone")
                return
            if row.head == branch.head and row.tokens == tuple(name for name, _ in items):
                yield f"finds {pointer}", w, "judge", (number, branch, version, pointer, items)
                return
            previous = pointer
        if number < ATTEMPTS:
            fresh = Row(OPEN, request, branch.head, branch.life, tuple(name for name, _ in items))
            yield (
                "finds no candidate that fits",
                w,
                "prepare",
                (number, branch, version, items, tree, pointer, previous, fresh),
            )
        else:
            yield "gives up", w, *STOP

    def _prepare(
        self,
        w: World,
        process: Process,
        number: int,
        branch: Branch,
        version: int,
        items: Pairs[Token],
        tree: frozenset[str],
        pointer: str | None,
        previous: str,
        row: Row,
    ) -> Iterator[Step]:
        candidate = f"{process.name}.{number}"
        late = Late("prepare", (candidate, row, tree, pointer, previous, items, process.name))
        again = ("begin", (number + 1,))
        held = tuple((name, Token("sealed", process.name, candidate)) for name, _ in items)
        judge = ("judge", (number + 1, branch, version, candidate, held))
        yield from self._sent(w, f"prepares {candidate}", late, judge, again, again)
        prepared = prepare(w, *late.arguments)
        if self.lost and not w.late and prepared is not None:
            yield f"prepares {candidate} twice", changed(prepared, late=(late,)), *judge

    def _judge(
        self, w: World, process: Process, number: int, branch: Branch, version: int, candidate: str, items: Pairs[Token]
    ) -> Iterator[Step]:
        """Read the statuses and the pull request."""
        status, state = w.status(candidate)
        pull_request = w.pull_request if process.name[0] == "q" else None
        result = verdict(version, state, approved=pull_request is None or pull_request.approved)
        if pull_request is not None and pull_request.state != OPEN:
            result = "never"
        if self.beats and not w.late:
            yield (
                "gives a sign of life, which hangs",
                changed(w, late=(Late("beat", (candidate,)),)),
                "judge",
                process.memory,
            )
        if result == "passes":
            memory = (number, branch, version, candidate, status, pull_request, items)
            yield f"judges {candidate}: passes", w, "publish", memory
        elif result == "never":
            yield f"judges {candidate}: never", w, "end_row", (candidate, "refused")
        else:
            yield f"judges {candidate}: lacks something", w, *STOP

    def _publish(
        self,
        w: World,
        process: Process,
        number: int,
        branch: Branch,
        version: int,
        candidate: str,
        status: int,
        pull_request: PullRequest | None,
        items: Pairs[Token],
    ) -> Iterator[Step]:
        late = Late("publish", (candidate, branch, status, pull_request, items))
        after_done: Place = STOP
        if not RULES["end_in_publication"]:
            after_done = "end_row", (candidate, PUBLISHED)
        elif pull_request is not None and not RULES["merged_in_publication"]:
            after_done = "merge_request", ()
        look = ("outcome", (number, candidate))
        for label, after, step, memory in self._sent(w, f"publishes {candidate}", late, after_done, look, look):
            if (step, memory) == after_done:
                after = changed(after, acknowledged=w.acknowledged | {candidate})
            yield label, after, step, memory

    def _outcome(self, w: World, process: Process, number: int, candidate: str) -> Iterator[Step]:
        """Read what became of the candidate."""
        row = get(w.rows, candidate)
        published = row is not None and row.state == PUBLISHED
        if not RULES["row_is_proof"]:
            published = get(w.commits, candidate) is not None
        if published:
            yield "looks: published", changed(w, acknowledged=w.acknowledged | {candidate}), *STOP
        elif w.is_open(candidate):
            yield "looks: open", w, "begin", (number,)
        else:
            yield "looks: ended", w, *STOP

    def _merge_request(self, w: World, process: Process) -> Iterator[Step]:
        yield "ends the pull request as merged", changed(w, pull_request=merged(w.pull_request)), *STOP

    def _end_row(self, w: World, process: Process, candidate: str, state: str) -> Iterator[Step]:
        late = Late("end", (candidate, state))
        yield from self._sent(w, f"ends {candidate} as {state}", late, STOP, STOP, STOP)

    def _s(self, w: World, process: Process) -> Iterator[Step]:
        level = int(process.name[1])
        if process.step == "begin":
            if w.version < level:
                yield "reads the rules", w, "put", (w.version,)
            elif RULES["repetition_stamps"]:
                yield "finds the rules", w, "list", (w.version,)
            else:
                yield from self._returns(w, w.version)
        elif process.step == "put":
            (version,) = process.memory
            late = Late("put_rules", (version, level))
            stamps = ("list", (level,)) if RULES["stamp_branches"] else ("return", (level,))
            yield from self._sent(w, "puts the rules", late, stamps, ("begin", ()), ("begin", ()))
        elif process.step == "list":
            (version,) = process.memory
            yield "dies", w, DEAD, ()
            yield "lists the branches", w, "stamp" if w.branch() is not None else "return", (version,)
        elif process.step == "stamp":
            (version,) = process.memory
            branch = w.branch()
            is_newer = branch is not None and branch.stamp > version and RULES["stamp_never_lowered"]
            if branch is None or branch.stamp == version or is_newer:
                yield from self._returns(w, version)
            else:
                yield "reads the branch", w, "move", (version, branch)
        elif process.step == "move":
            version, branch = process.memory
            late = Late("stamp", (branch, version))
            yield from self._sent(
                w, "stamps", late, ("return", (version,)), ("stamp", (version,)), ("stamp", (version,))
            )
        else:
            yield from self._returns(w, *process.memory)

    @staticmethod
    def _returns(w: World, version: int) -> Iterator[Step]:
        yield f"returns: version {version}", changed(w, returned=max(w.returned, version)), *STOP

    def _o(self, w: World, process: Process) -> Iterator[Step]:
        """A version before rules reads uid and branch in one request, which reads them one after the other."""
        moved_away = w.version > 0 and RULES["uid_moves"]
        branch = w.branch()
        if process.step == "begin":
            yield "reads the branch", w, "uid", (branch,)
            yield "reads the uid", w, *(STOP if moved_away else ("branch", ()))
        elif process.step == "uid":
            yield "reads the uid", w, *(STOP if moved_away else ("publish", process.memory))
        elif process.step == "branch":
            refused = branch is None or (branch.stamp and RULES["stamp_is_unreadable"])
            yield "reads the branch", w, *(STOP if refused else ("publish", (branch,)))
        else:
            late = Late("publish_early", (process.name, *process.memory))
            yield from self._sent(w, "publishes", late, STOP, ("begin", ()))

    def _p(self, w: World, process: Process) -> Iterator[Step]:
        yield from self._post(w, "success", lambda state: not state)

    def _f(self, w: World, process: Process) -> Iterator[Step]:
        yield from self._post(w, "failure", lambda state: state == "success")

    def _post(self, w: World, posted: str, is_due: Any) -> Iterator[Step]:
        for commit, _ in w.commits:
            version, state = w.status(commit)
            if (commit != "c0" or self.creates_branches) and is_due(state):
                statuses = {**dict(w.statuses), w.tree(commit): (version + 1, posted)}
                items = tuple(sorted(statuses.items(), key=lambda item: sorted(item[0])))
                yield f"posts {posted} for {commit}", changed(w, statuses=items), *STOP

    def _b(self, w: World, process: Process, name: str = A) -> Iterator[Step]:
        if process.step == "begin":
            if name == TAG or w.branch() is None:
                yield "reads the rules", w, "judge", (w.version, w.branch(OTHER) if process.name[0] == "n" else None)
        elif process.step == "judge":
            version, source = process.memory
            commit = source.head if source is not None else self.target
            status, state = w.status(commit)
            if not w.is_alive(commit) or verdict(version, state) != "passes":
                yield "is refused", w, *STOP
            else:
                yield "judges: passes", w, "point", (name, commit, source, version, status)
        else:
            again: Place = ("begin", ()) if w.version != process.memory[3] else STOP
            yield from self._sent(w, "points", Late("point", process.memory), STOP, again)

    def _t(self, w: World, process: Process) -> Iterator[Step]:
        yield from self._b(w, process, TAG)

    _n = _b

    def _d(self, w: World, process: Process) -> Iterator[Step]:
        if w.branch() is not None:
            yield "deletes the branch", changed(w, branches=having(w.branches, A, None)), *STOP

    def _h(self, w: World, process: Process) -> Iterator[Step]:
        if process.step in ("begin", "rules", "branch"):
            yield from self._read(w, process.step, process.memory)
        elif process.step == "look":
            _, branch, version = process.memory
            status, state = w.status("c1")
            passes = verdict(version, state) == "passes"
            yield "judges", w, *(("publish", (branch, "c1", status)) if passes else STOP)
        else:
            late = Late("reset_hard", process.memory)
            yield from self._sent(w, "resets the branch hard", late, STOP, ("begin", ()), STOP)

    def _r(self, w: World, process: Process) -> Iterator[Step]:
        branch = w.branch()
        if branch is None:
            return
        if process.step == "begin":
            holders = {item.candidate for token in branch.sealed if (item := get(w.tokens, token)) is not None}
            for candidate in sorted(filter(w.is_open, holders)):
                yield f"ends {candidate}", end(w, candidate, "withdrawn") or w, "begin", ()
                return
            yield "reads the branch", w, "drop", (branch,)
        elif process.memory != (branch,):
            yield "drops what is staged: refused", w, "begin", ()
        else:
            items = w.tokens
            for token in branch.sealed:
                items = having(items, token, Token("reset", process.name))
            after = changed(branch, sealed=(), open=branch.next_token())
            reset = w.reset | {*branch.sealed, branch.open}
            yield "drops what is staged", changed(moved(w, after), tokens=items, reset=reset), *STOP

    def _w(self, w: World, process: Process) -> Iterator[Step]:
        if process.step == "begin":
            for candidate, row in w.rows:
                if row.state == OPEN:
                    yield f"reads {candidate}", w, "end_row", (candidate, "withdrawn")
        else:
            yield from self._end_row(w, process, *process.memory)

    def _k(self, w: World, process: Process) -> Iterator[Step]:
        for candidate, row in w.rows:
            if row.state == OPEN and not row.over:
                yield (
                    f"time is over for {candidate}",
                    changed(w, rows=having(w.rows, candidate, changed(row, over=True))),
                    *STOP,
                )

    # The collector. It notes which commits there are before it reads the roots: younger ones it lets alone.
    def _g(self, w: World, process: Process) -> Iterator[Step]:
        rows = frozenset(
            candidate
            for candidate, row in w.rows
            if row.state == OPEN and RULES["rows_are_roots"] and (RULES["end_before_roots"] or not row.over)
        )
        order = ("end", "rows", "logs") if RULES["rows_before_logs"] else ("logs", "end", "rows")
        following = dict(zip(("begin", *order), (*order, "mark"), strict=True))
        if process.step == "begin":
            heads = frozenset(branch.head for _, branch in w.branches)
            old = frozenset(name for name, commit in w.commits if commit.alive)
            yield "reads the branches", w, following["begin"], (heads | {w.tag}, old)
            return
        pinned, old = process.memory
        if process.step == "end":
            over = [candidate for candidate, row in w.rows if row.state == OPEN and row.over]
            if over and RULES["end_before_roots"]:
                yield f"ends {over[0]}", end(w, over[0], "expired") or w, "end", process.memory
            else:
                yield "has ended those that are over", w, following["end"], process.memory
        elif process.step == "rows":
            yield "reads the candidates", w, following["rows"], (pinned | rows, old)
        elif process.step == "logs":
            yield "reads the logs", w, following["logs"], (pinned | w.log, old)
        elif process.step == "mark":
            after = self._alive(w, old - pinned, alive=False)
            yield "marks commits", after, "again", (frozenset(), old - pinned)
        elif process.step == "again":
            heads = frozenset(branch.head for _, branch in w.branches)
            yield "reads the branches again", w, "rows again", (heads | {w.tag}, old)
        elif process.step == "rows again":
            yield "reads the candidates again", w, "revive", (pinned | rows, old)
        else:
            yield "revives", self._alive(w, old & pinned, alive=True), *STOP

    @staticmethod
    def _alive(w: World, names: frozenset[str], *, alive: bool) -> World:
        return changed(w, commits=tuple((n, changed(c, alive=alive) if n in names else c) for n, c in w.commits))

    def _a(self, w: World, process: Process) -> Iterator[Step]:
        pull_request = w.pull_request
        if pull_request.state == OPEN:
            taken_back = changed(pull_request, approved=False, version=pull_request.version + 1)
            yield "takes the approval back", changed(w, pull_request=taken_back), *STOP

    def _x(self, w: World, process: Process) -> Iterator[Step]:
        branch = w.branch()
        if branch is None:
            return
        if process.step == "begin":
            is_there = any(change.startswith(("m", "q")) for change in w.tree(branch.head))
            yield "looks for the object", w, *(STOP if is_there else ("put", (branch,)))
        elif process.memory != (branch,):
            yield "creates the object: refused", w, "begin", ()
        else:
            yield "creates the object", changed(moved(w, changed(branch, mark=branch.mark + 1)), created=True), *STOP

    def _e(self, w: World, process: Process) -> Iterator[Step]:
        branch = w.branch()
        if branch is not None:
            yield "stages a change", changed(w, staged=w.staged | {branch.open}), *STOP

    # The last verb and the last collector.
    def _z(self, w: World, process: Process) -> Iterator[Step]:
        branch = w.branch()
        if process.step == "begin":
            others = [other for other in w.processes if other != process and other.step not in (DONE, DEAD)]
            if not w.late and not any(any(getattr(self, f"_{other.name[0]}")(w, other)) for other in others):
                over = tuple((candidate, changed(row, over=True)) for candidate, row in w.rows)
                yield "comes, and time has passed", changed(w, rows=over), "branch", (0, 0)
        elif process.step == "branch":
            if branch is None or not branch.sealed:
                yield "finds nothing sealed", w, "end", (frozenset(), frozenset())
            else:
                items = tuple((token, get(w.tokens, token)) for token in branch.sealed)
                yield "reads the tokens", w, "holders", (0, branch, 0, items)
        elif process.step == "holders":
            for label, after, step, memory in self._holders(w, process, *process.memory):
                yield (
                    label,
                    after,
                    *(("held", ()) if step == DONE else ("branch" if step == "begin" else "take", memory)),
                )
        elif process.step == "take" and branch is not None:
            after = changed(w, reset=w.reset | set(branch.sealed))
            yield "takes the tokens", moved(after, changed(branch, sealed=())), "end", (frozenset(), frozenset())
        elif process.step == "end":
            for label, after, step, memory in self._g(w, process):
                yield label, after, *(("end", memory) if step == "end" else ("over", ()))

    def run(self) -> tuple[int, str, list[str]]:
        """The number of states; the first bad history, if there is one: what is wrong, and its steps."""
        before: dict[World, tuple[World, str] | None] = {self.start: None}
        stack = [self.start]
        while stack:
            w = stack.pop()
            for label, after in self.steps(w):
                if bad := wrong(w, after):
                    return len(before), bad, [*history(before, w), label]
                if after not in before:
                    before[after] = w, label
                    stack.append(after)
        return len(before), "", []


def history(before: dict[World, tuple[World, str] | None], w: World) -> list[str]:
    """The steps that lead to a state."""
    labels = []
    while (step := before[w]) is not None:
        w, label = step
        labels.append(label)
    return labels[::-1]


def wrong(before: World, w: World) -> str:
    """The fault of a step; most have none."""
    return wrong_publication(before, w) or wrong_candidates(before, w) or wrong_tokens(before, w) or wrong_end(w)


def wrong_publication(before: World, w: World) -> str:
    if w.tag != before.tag and verdict(before.returned, w.status(w.tag)[1]) != "passes":
        return f"the tag is made at {w.tag}, which does not pass"
    branch, previous = w.branch(), before.branch()
    if branch is None or (previous is not None and previous.head == branch.head):
        return ""
    head = branch.head
    if verdict(before.returned, w.status(head)[1]) != "passes":
        return f"the branch is pointed at {head}, which does not pass"
    row = get(before.rows, head)
    if row is not None and previous is not None and row.life != previous.life:
        return f"{head} was made for another branch"
    if row is not None and row.request[0] == "q" and not before.pull_request.approved:
        return f"{head} is published although its approval was taken back"
    if before.created and previous is not None and any(c[0] in "mq" for c in w.tree(head) - w.tree(previous.head)):
        return f"{head} is published below an object that was created since"
    return ""


def wrong_candidates(before: World, w: World) -> str:
    if w.acknowledged - w.log:
        return "a publication is acknowledged that did not happen"
    requests: set[str] = set()
    for candidate, row in w.rows:
        earlier = get(before.rows, candidate)
        if earlier is not None and earlier.state not in (OPEN, row.state):
            return f"{candidate} was {earlier.state}, and is {row.state}"
        if (row.state == PUBLISHED) != (candidate in w.log):
            return (
                f"{candidate} is {row.state}, and its commit {'is' if candidate in w.log else 'was not'} on the branch"
            )
        if row.state == OPEN and row.request in requests:
            return f"{row.request} has two open candidates"
        if row.state == OPEN:
            requests.add(row.request)
    is_merged = any(candidate in w.log for candidate, row in w.rows if row.request[0] == "q")
    if is_merged != (w.pull_request.state == "merged"):
        return f"the pull request is {w.pull_request.state}, and its commit {'is' if is_merged else 'is not'} on the branch"
    return ""


def wrong_tokens(before: World, w: World) -> str:
    branch = w.branch()
    for token in w.staged - w.reset:
        if branch is not None and token not in (branch.open, *branch.sealed) and token not in w.tree(branch.head):
            return f"what was staged under {token} is lost"
    for name, item in before.tokens:
        if item.state != "sealed" and get(w.tokens, name) != item:
            return f"{name} was {item.state} by {item.owner}, and its item says something else"
    items = dict(w.tokens)
    held = [token for _, row in w.rows if row.state == OPEN for token in row.tokens if items[token].state == "sealed"]
    if len(held) > len(set(held)):
        return "two open candidates hold the same changes"
    return ""


def wrong_end(w: World) -> str:
    steps = {process.name[0]: process.step for process in w.processes if process.name[0] in "gz"}
    if steps.get("z") == "held":
        return "changes are held for ever"
    if steps.get("z") == "over" and any(row.state == OPEN for _, row in w.rows):
        return "a candidate has no end"
    if steps.get("g") not in ("again", "rows again", "revive"):
        candidates = [candidate for candidate, row in w.rows if row.state in (OPEN, PUBLISHED)]
        for name in [*(branch.head for _, branch in w.branches), *candidates]:
            if not w.is_alive(name):
                return f"{name} is needed, and was collected"
    return ""


class Case(NamedTuple):
    """Processes, and how the search begins: ``version`` of the rules; whether the branch exists; whether answers are lost and
    transactions hang; whether leases and candidates are renewed, by requests that hang."""

    processes: str
    version: int = 1
    exists: bool = True
    lost: bool = False
    beats: bool = False

    def search(self) -> Search:
        return Search(self.processes, version=self.version, exists=self.exists, lost=self.lost, beats=self.beats)


FAST: Final = [
    Case("m0 s1 p0", 0),
    Case("o0 s1", 0),
    Case("m0 s1 s1'", 0),
    Case("h0 s1 s2 p0", 0),
    Case("b0 s1 m0 p0", 0, exists=False),
    Case("n0 s1 m0 p0", 0, exists=False),
    Case("t0 s1 p0 f0", 0),
    Case("m0 p0 f0 z0"),
    Case("m0 w0 p0 z0", lost=True),
    Case("m0 w0 p0", beats=True),
    Case("m0 x0 p0"),
    Case("q0 a0 p0", lost=True),
    Case("q0 q0' p0 p1"),
    Case("c0 m0 p0 p1 z0"),
    Case("c0 c1 k0 p0 z0"),
    Case("c0 c1 p0 z0", beats=True),
    Case("c0 r0 p0", lost=True),
    Case("m0 g0 k0 p0"),
    Case("m0 g0 h0 p0 p1"),
    Case("b0 g0 p0", exists=False),
]
"""Cases of few states."""

LONG: Final = [
    Case("c0 c1 k0 s1 z0", 0),
    Case("m0 m0' d0 b0 p0 p1"),
    Case("m0 m0' h0 w0 p0"),
    Case("m0 s1 s1'", 0, lost=True),
    Case("m0 s1 s2 p0 f0", 0),
    Case("o0 s1 s1' m0", 0, lost=True),
    Case("b0 h0 s1 d0 p0 f0", 0),
    Case("c0 s1 p0 z0", 0, lost=True),
    Case("c0 c1 s1 p0 p1 z0", 0),
    Case("m0 s2 p0 z0", lost=True),
    Case("m0 m0' p0 z0", lost=True),
    Case("m0 h0 p0 p1 f0 z0", lost=True),
    Case("m0 m1 p0 p1 w0 z0"),
    Case("q0 q0' a0 p0", lost=True),
    Case("c0 c0' p0 k0 z0", lost=True),
    Case("c0 c1 p0 k0 z0", lost=True),
    Case("c0 c1 e0 p0 p1 w0 z0"),
    Case("c0 c0' r0 p0 f0 z0"),
    Case("c0 c1 m0 p0 p1 z0"),
    Case("m0 g0 k0 w0 p0", lost=True),
    Case("c0 g0 k0 p0 z0", lost=True),
]


SPOILED: Final = {
    "stamp_branches": Case("o0 s1", 0),
    "repetition_stamps": Case("m0 s1 s1'", 0),
    "stamp_never_lowered": Case("h0 s1 s2 p0", 0),
    "stamp_in_condition": Case("m0 s1 p0", 0),
    "reread_on_newer_stamp": Case("m0 s1 p0", 0),
    "create_checks_rules": Case("t0 s1 p0 f0", 0),
    "create_takes_stamp": Case("n0 s1 m0 p0", 0, exists=False),
    "create_checks_statuses": Case("t0 s1 p0 f0", 0),
    "uid_moves": Case("o0 s1", 0),
    "stamp_raises_moves": Case("o0 s1", 0),
    "stamp_is_unreadable": Case("o0 s1", 0),
    "pointer_as_read": Case("q0 q0' p0 p1"),
    "supersede_previous": Case("c0 m0 p0 p1 z0"),
    "supersede_if_open": Case("m0 m0' h0 w0 p0"),
    "end_if_open": Case("m0 w0 p0", beats=True),
    "beat_if_open": Case("m0 w0 p0", beats=True),
    "publish_if_open": Case("m0 w0 p0", beats=True),
    "end_in_publication": Case("m0 p0 f0 z0"),
    "row_is_proof": Case("m0 w0 p0", beats=True),
    "statuses_in_condition": Case("m0 p0 f0 z0"),
    "pull_request_in_condition": Case("q0 a0 p0", lost=True),
    "merged_in_publication": Case("q0 q0' p0 p1"),
    "compare_lives": Case("m0 m0' d0 b0 p0 p1"),
    "staging_read_again": Case("m0 x0 p0"),
    "tokens_as_read": Case("c0 r0 p0", lost=True),
    "tokens_are_sealed": Case("c0 r0 p0", lost=True),
    "renewal_keeps_hold": Case("c0 c1 p0 z0", beats=True),
    "over_is_ended": Case("c0 c1 k0 p0 z0"),
    "ended_is_free": Case("c0 c1 k0 p0 z0"),
    "rows_are_roots": Case("m0 g0 h0 p0 p1"),
    "end_before_roots": Case("m0 p0 f0 z0"),
    "rows_before_logs": Case("m0 g0 h0 p0 p1"),
    "alive_check": Case("b0 g0 p0", exists=False),
}
"""For each rule a case that has a bad history without it."""


def without(rule: str) -> str:
    """The fault in the rule's case without it; none if the rule is not needed there."""
    RULES[rule] = False
    try:
        return SPOILED[rule].search().run()[1]
    finally:
        RULES[rule] = True


def main() -> int:
    """Search all cases, then those that the lack of a rule spoils; 1 if anything is not as it should be."""
    failed = False
    for case in [*FAST, *LONG]:
        states, bad, trail = case.search().run()
        sys.stdout.write(f"{case}: {states:,} states, {bad or 'no bad history'}\n")
        sys.stdout.flush()
        failed = failed or bool(bad)
        sys.stdout.write("".join(f"    {label}\n" for label in trail))
    for rule in RULES:
        bad = without(rule)
        sys.stdout.write(f"without {rule}: {bad or 'no bad history'}\n")
        failed = failed or not bad
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
