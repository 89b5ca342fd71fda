"""Exhaustive search over the interleavings of collectors and writers, on the smallest world in which they can hurt each other.

Every step below is one atomic request to the table or the object store. Time passes in ticks of half a grace. There is one data
object ``X`` and one range ``R``, both old when the search begins; commits that name them; two branches with a staged slot each,
and a tag. A history is bad if what somebody can still reach (a staged slot, or the commit of a ref) names a file that is gone.

Collectors are one-shot: a case with two of them covers two runs in a row as well as two at once, and each may die at any step.
Switches in :data:`RULES` turn single rules off, to show that each is needed. ``python -m tests.retention.model`` prints the
states searched, and for each rule the history that goes wrong without it.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from tests.support.tuples import changed

RULES: Final[tuple[str, ...]] = (
    "young_files_stay",  # what was put within the grace before the mark began is not swept
    "if_match",  # a file is swept only with the ETag that the mark saw
    "put_again",  # a writer that finds a range older than half the grace puts it again
    "deadline",  # nothing publishes later than half the grace after it began
    "link_age",  # an uploaded object is linked at most half the grace after its address was handed out
    "staged_first",  # the mark reads what is staged before it reads refs and commits
    "quick_reading",  # a mark whose reading of these took more than half the grace is given up
    "two_steps",  # a commit is marked as expired a grace before what it names is swept
    "alive_check",  # a ref is pointed at an old commit only while that is not marked
    "reach_anew",  # the second step believes its own reachability, not the mark alone
    "trace",  # who copies an old staged record or renames a branch notes it, and the mark reads the notes last
    "look_again",  # after noting it, the copier looks whether the source is still there
    "no_own_import",  # an object that was uploaded to the repository is not taken over from a listing
    "new_etag",  # a range that is put again has another ETag than before
    "table_grace",  # a file of a table gets old after a grace of its own, which is longer
    "table_age",  # a table's commit refuses a file older than half of that
)

GRACE: Final = 2
"""Ticks. What is counted in whole ticks is surely this old only after one more."""

OLD: Final = GRACE + 1
TABLE_GRACE: Final = 4
TABLE_OLD: Final = TABLE_GRACE + 1
SLOTS: Final = ("b", "a")
"""Staged slots, one of each branch, in the order in which a mark reads them: against the copier's."""
REFS: Final = ("b", "a", "t")

Names = frozenset[str]
V = TypeVar("V")


class Commit(NamedTuple):
    """``put`` is the tick of its record, ``expired`` that of its mark."""

    names: Names
    put: int
    expired: int | None = None


class File(NamedTuple):
    etag: int
    put: int


class Process(NamedTuple):
    kind: str
    name: str
    step: str
    began: int
    memory: tuple[object, ...] = ()


class State(NamedTuple):
    tick: int
    etags: int
    files: tuple[tuple[str, File], ...]
    commits: tuple[tuple[str, Commit], ...]
    refs: tuple[tuple[str, str], ...]
    log: frozenset[tuple[int, str]]
    staged: tuple[tuple[str, str], ...]
    traces: frozenset[tuple[int, str]]
    processes: tuple[Process, ...]

    def commit_of(self, ref: str) -> Commit:
        """What a ref points at."""
        return dict(self.commits)[dict(self.refs)[ref]]


def put_into(pairs: tuple[tuple[str, V], ...], key: str, value: V | None) -> tuple[tuple[str, V], ...]:
    """A copy of a sorted tuple of pairs with one more; None removes."""
    found = dict(pairs)
    if value is None:
        found.pop(key, None)
    else:
        found[key] = value
    return tuple(sorted(found.items()))


class Search:
    """All histories of a collector or two and some writers. ``rules`` are those that hold."""

    def __init__(
        self,
        *processes: str,
        rules: frozenset[str] = frozenset(RULES),
        collectors: int = 1,
        staged: Mapping[str, str] | None = None,
        refs: Mapping[str, str] | None = None,
        ticks: int = OLD,
    ) -> None:
        # What is only staged is named by no commit.
        held = frozenset("R" if staged else "RX")
        self.rules = rules
        self.last = OLD + ticks
        all_processes = [Process(kind, kind, "start", -1) for kind in processes]
        all_processes += [Process("collector", f"collector{number}", "start", -1) for number in range(collectors)]
        self.first = State(
            OLD,
            1,
            (("R", File(0, 0)), ("X", File(0, 0))),
            (("c0", Commit(held, 0)), ("c1", Commit(frozenset(), 0))),
            tuple(sorted(({"a": "c1", "b": "c1"} if refs is None else refs).items())),
            frozenset(),
            tuple(sorted((staged or {}).items())),
            frozenset(),
            tuple(all_processes),
        )

    # What may happen next

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for number, process in enumerate(state.processes):
            if process.step in ("done", "dead"):
                continue
            if process.kind == "collector" and process.step != "start":
                yield f"{process.name} dies", self._with(state, number, changed(process, step="dead", memory=()))
            begun = changed(process, began=state.tick) if process.began < 0 else process
            for after, moved in getattr(self, f"_{process.kind}")(state, begun):
                shown = f"tick {state.tick}: {process.name} {process.step}"
                yield shown, self._with(moved, number, after)
        if state.tick < self.last and not ("deadline" in self.rules and self._hurries(state)):
            yield "time passes", changed(state, tick=state.tick + 1)

    @staticmethod
    def _hurries(state: State) -> bool:
        """Is a writer under way that began before this tick? It has to be done before the next one begins."""
        return any(
            p.kind != "collector" and p.step not in ("start", "done") and p.began < state.tick for p in state.processes
        )

    @staticmethod
    def _with(state: State, number: int, process: Process) -> State:
        processes = state.processes
        if process.step in ("done", "dead"):
            process = changed(process, memory=(), began=0)
        return changed(state, processes=(*processes[:number], process, *processes[number + 1 :]))

    # Writers

    def _copy(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Copies what is staged on ``a`` to ``b``."""
        source = dict(state.staged).get("a")
        if me.step == "start":
            if source is None:
                yield changed(me, step="done"), state
            else:
                yield changed(me, step="note" if "trace" in self.rules else "stage", memory=(source,)), state
        elif me.step == "note":
            noted = changed(state, traces=state.traces | {(state.tick, str(me.memory[0]))})
            yield changed(me, step="look" if "look_again" in self.rules else "stage"), noted
        elif me.step == "look":
            yield changed(me, step="stage" if source == me.memory[0] else "start", began=me.began), state
        elif me.step == "stage":
            yield changed(me, step="done"), self._stage(state, "b", str(me.memory[0]))

    def _delete(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Deletes, or resets, what is staged on ``a``."""
        yield changed(me, step="done"), self._stage(state, "a", None)

    def _rename(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Gives branch ``a`` the name ``b``, which is free, with what is staged on it: one transaction."""
        refs, staged = dict(state.refs), dict(state.staged)
        if "b" in refs or "a" not in refs or state.commit_of("a").expired is not None:
            yield changed(me, step="done"), state
            return
        moved = changed(state, refs=put_into(put_into(state.refs, "a", None), "b", refs["a"]))
        if "a" in staged:
            moved = self._stage(self._stage(moved, "a", None), "b", staged["a"])
            if "trace" in self.rules:
                moved = changed(moved, traces=moved.traces | {(state.tick, staged["a"])})
        yield changed(me, step="done"), moved

    def _commit(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Commits what is staged on ``a``: one transaction takes it out of staging and into a commit."""
        taken = dict(state.staged).get("a")
        names = dict(state.commits)[dict(state.refs)["a"]].names if "a" in dict(state.refs) else frozenset()
        if taken is not None and "a" in dict(state.refs):
            state = self._publish(self._stage(state, "a", None), "a", "c2", names | {taken})
        yield changed(me, step="done"), state

    def _build(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Writes the contents of ``R`` once more, puts the file if it is absent, and publishes."""
        if me.step == "start":
            found = dict(state.files).get("R")
            if found is None or ("put_again" in self.rules and state.tick > found.put):
                state = self._put(state, "R")
            yield changed(me, step="publish"), state
        else:
            yield changed(me, step="done"), self._publish(state, "b", "c3", frozenset("R"))

    def _upload(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Uploads ``Y``, and links it some time later. Not bound by the deadline: somebody else's process."""
        if me.step == "start":
            yield changed(me, step="link", began=self.last, memory=(state.tick,)), self._put(state, "Y")
        elif "link_age" in self.rules and state.tick > int(str(me.memory[0])) + 1:
            yield changed(me, step="done"), state
        else:
            yield changed(me, step="done"), self._stage(state, "b", "Y")

    def _table(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Writes the file ``T`` of a table, for as long as it takes, and then commits it: looks at it, and publishes."""
        if me.step == "start":
            yield changed(me, step="look", began=self.last, memory=(state.tick,)), self._put(state, "T")
        elif me.step == "look":
            is_young = state.tick <= int(str(me.memory[0])) + TABLE_GRACE // 2 or "table_age" not in self.rules
            is_good = is_young and "T" in dict(state.files)
            yield changed(me, step="publish" if is_good else "done", began=state.tick), state
        else:
            yield changed(me, step="done"), self._publish(state, "b", "c6", frozenset("T"))

    def _tag(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Names the old commit, whatever it was reachable from."""
        yield changed(me, step="done"), self._point(state, "t", "c0")

    def _import(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Takes over ``X`` where it lies, as a listing names it, into ``b``."""
        if "no_own_import" not in self.rules and "X" in dict(state.files):
            state = self._publish(state, "b", "c5", frozenset("X"))
        yield changed(me, step="done"), state

    def _untag(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        yield changed(me, step="done"), changed(state, refs=put_into(state.refs, "t", None))

    def _branch(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Points the new branch ``b`` at where ``a`` is: reads, then points."""
        if me.step == "start":
            head = dict(state.refs).get("a")
            yield changed(me, step="point" if head else "done", memory=(head,)), state
        else:
            yield changed(me, step="done"), self._point(state, "b", str(me.memory[0]))

    def _drop(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Deletes branch ``a`` with what is staged on it."""
        head = dict(state.refs).get("a")
        if head is not None:
            state = changed(
                self._stage(state, "a", None),
                refs=put_into(state.refs, "a", None),
                log=state.log | {(state.tick, head)},
            )
        yield changed(me, step="done"), state

    def _merge(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        """Merges the old commit by its ID into ``b``, taking over by reference what it names."""
        old = dict(state.commits).get("c0")
        if me.step == "start":
            yield changed(me, step="publish" if old else "done", memory=(old.names if old else None,)), state
            return
        if "alive_check" not in self.rules or (old is not None and old.expired is None):
            names = me.memory[0]
            assert isinstance(names, frozenset)
            state = self._publish(state, "b", "c4", names)
        yield changed(me, step="done"), state

    # What writers do

    def _stage(self, state: State, slot: str, value: str | None) -> State:
        return changed(state, staged=put_into(state.staged, slot, value))

    def _put(self, state: State, name: str) -> State:
        found = dict(state.files).get(name)
        etag = state.etags if found is None or "new_etag" in self.rules else found.etag
        file = File(etag, state.tick)
        return changed(state, files=put_into(state.files, name, file), etags=state.etags + 1)

    def _publish(self, state: State, branch: str, commit: str, names: Names) -> State:
        commits = put_into(state.commits, commit, Commit(names, state.tick))
        return changed(
            state, commits=commits, refs=put_into(state.refs, branch, commit), log=state.log | {(state.tick, commit)}
        )

    def _point(self, state: State, ref: str, commit: str) -> State:
        old = dict(state.commits).get(commit)
        if "alive_check" in self.rules and (old is None or old.expired is not None):
            return state
        return changed(state, refs=put_into(state.refs, ref, commit))

    # The collector. Memory: tick of its beginning, files and commits that it met.

    def _collector(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        staged = [f"staged {slot}" for slot in SLOTS]
        refs = [f"ref {ref}" for ref in REFS]
        order = [*staged, *refs, "traces", "commits", "judge"]
        if "staged_first" not in self.rules:
            order = [*refs, "commits", *staged, "traces", "judge"]
        if me.step == "start":
            yield changed(me, step=order[0], memory=(state.tick, frozenset(), frozenset(), ())), state
        elif "quick_reading" in self.rules and me.step in order and state.tick > int(str(me.memory[0])) + 1:
            yield changed(me, step="dead"), state
        elif me.step in order and me.step != "judge":
            began, met, reached, commits = me.memory
            assert isinstance(met, frozenset)
            assert isinstance(reached, frozenset)
            what, _, name = me.step.partition(" ")
            if what == "staged":
                met |= {dict(state.staged).get(name)} - {None}
            elif what == "ref":
                reached |= {dict(state.refs).get(name)} - {None}
            elif what == "commits":
                commits = state.commits
            else:
                met |= {noted for tick, noted in state.traces if tick >= state.tick - GRACE}
                reached |= {commit for tick, commit in state.log if tick >= state.tick - GRACE}
            after = order[order.index(me.step) + 1]
            yield changed(me, step=after, memory=(began, met, reached, commits)), state
        elif me.step == "judge":
            yield changed(me, step="work", memory=self._judge(state, me)), state
        else:
            yield from self._work(state, me)

    def _judge(self, state: State, me: Process) -> tuple[object, ...]:
        """What to do, one request each."""
        began, met, reached, commits = me.memory
        assert isinstance(began, int)
        assert isinstance(met, frozenset)
        assert isinstance(reached, frozenset)
        assert isinstance(commits, tuple)
        live = set(met)
        todo: list[tuple[object, ...]] = []
        dead = []
        for name, commit in commits:
            gone = commit.expired is not None and commit.expired <= began - OLD
            if "two_steps" not in self.rules:
                gone = commit.put <= began - OLD
            if gone and ("reach_anew" not in self.rules or name not in reached):
                dead.append(("forget", name, commit.expired))
                continue
            live |= commit.names
            if name not in reached and commit.expired is None and commit.put <= began - OLD:
                todo.append(("expire", name))
            if name in reached and commit.expired is not None:
                todo.append(("revive", name, commit.expired))
        for name, file in state.files:
            age = TABLE_OLD if name == "T" and "table_grace" in self.rules else OLD
            if name not in live and (file.put <= began - age or "young_files_stay" not in self.rules):
                todo.append(("sweep", name, file.etag))
        return (*todo, *dead)

    def _work(self, state: State, me: Process) -> Iterator[tuple[Process, State]]:
        if not me.memory:
            yield changed(me, step="done"), state
            return
        todo, *rest = me.memory
        assert isinstance(todo, tuple)
        verb, name = todo[:2]
        commit = dict(state.commits).get(name)
        if verb == "sweep":
            file = dict(state.files).get(name)
            if file is not None and (file.etag == todo[2] or "if_match" not in self.rules):
                state = changed(state, files=put_into(state.files, name, None))
        elif verb == "expire" and commit is not None and commit.expired is None:
            state = changed(state, commits=put_into(state.commits, name, changed(commit, expired=state.tick)))
        elif verb == "revive" and commit is not None and commit.expired == todo[2]:
            state = changed(state, commits=put_into(state.commits, name, changed(commit, expired=None)))
        elif verb == "forget" and commit is not None and commit.expired == todo[2]:
            state = changed(state, commits=put_into(state.commits, name, None))
        yield changed(me, memory=tuple(rest)), state

    # Judging

    @staticmethod
    def bad(state: State) -> str | None:
        files, commits = dict(state.files), dict(state.commits)
        for slot, name in state.staged:
            if name not in files:
                return f"{name} is staged on {slot}, and gone"
        for ref, commit in state.refs:
            if commit not in commits:
                return f"{ref} points at {commit}, which is gone"
            for name in commits[commit].names:
                if name not in files:
                    return f"{name} of {ref} is gone"
        return None

    def run(self) -> tuple[int, str | None, list[str]]:
        """States searched, and of the first bad history what is wrong and its steps."""
        came: dict[State, tuple[State, str] | None] = {self.first: None}
        stack = [self.first]
        while stack:
            state = stack.pop()
            wrong = self.bad(state)
            if wrong is not None:
                trail = []
                before = came[state]
                while before is not None:
                    trail.append(before[1])
                    before = came[before[0]]
                return len(came), wrong, trail[::-1]
            for label, after in self.steps(state):
                if after not in came:
                    came[after] = (state, label)
                    stack.append(after)
        return len(came), None, []


class Case(NamedTuple):
    """Who is at work, and what there is when they begin."""

    processes: tuple[str, ...]
    collectors: int = 1
    staged: Mapping[str, str] = {}
    refs: Mapping[str, str] | None = None
    ticks: int = OLD

    def search(self, rules: frozenset[str] = frozenset(RULES)) -> tuple[int, str | None, list[str]]:
        """Search it under these rules."""
        return Search(
            *self.processes,
            rules=rules,
            collectors=self.collectors,
            staged=self.staged,
            refs=self.refs,
            ticks=self.ticks,
        ).run()


CASES: Final = {
    "copy, delete": Case(("copy", "delete"), staged={"a": "X"}),
    "rename": Case(("rename",), staged={"a": "X"}, refs={"a": "c1"}),
    "commit": Case(("commit",), staged={"a": "X"}),
    "copy, commit, drop": Case(("copy", "commit", "drop"), staged={"a": "X"}),
    "upload": Case(("upload",), collectors=2),
    "build": Case(("build",), collectors=2),
    "tag": Case(("tag",), collectors=2),
    "tag, untag": Case(("tag", "untag"), collectors=2, refs={"a": "c1", "b": "c1", "t": "c0"}),
    "merge": Case(("merge",), collectors=2),
    "import": Case(("import",), collectors=2),
    "table": Case(("table",), ticks=TABLE_OLD + GRACE),
    "branch, drop": Case(("branch", "drop"), collectors=2, refs={"a": "c0"}),
    "rename, drop": Case(("rename", "drop"), collectors=2, refs={"a": "c0"}),
}
"""By who is at work."""


def main() -> None:
    """Search everything, then without each rule in turn."""
    for name, case in CASES.items():
        states, wrong, trail = case.search()
        print(f"{name}: {states:,} states, {wrong or 'no bad history'}")  # noqa: T201 - a program for people
        print("".join(f"    {step}\n" for step in trail), end="")  # noqa: T201
    for rule in RULES:
        for name, case in CASES.items():
            _, wrong, trail = case.search(frozenset(RULES) - {rule})
            if wrong is not None:
                print(f"without {rule} ({name}): {wrong}")  # noqa: T201
                print("".join(f"    {step}\n" for step in trail), end="")  # noqa: T201
                break
        else:
            print(f"without {rule}: no bad history")  # noqa: T201


if __name__ == "__main__":
    main()
