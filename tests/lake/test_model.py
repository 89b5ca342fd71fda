"""All verbs against a model of a repository in plain dicts: Hypothesis drives both and compares.

``GRAVELER_EXAMPLES=n`` runs n examples of the machine in memory instead of the short form.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from graveler.errors import (
    AlreadyExistsError,
    DirtyBranchError,
    ForbiddenError,
    InvalidError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    ObjectChangedError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Branch, Change, Commit, CommitID, CommonPrefix, MergeStrategy, ObjectEntry, Page
from tests.lake import oracles
from tests.lake.support import TINY, FakeClock, World, write_files

EXAMPLES = int(os.environ.get("GRAVELER_EXAMPLES", "100"))

PATHS = [
    "a",
    "a/",
    "a/b",
    "a//c",
    "b",
    "b/é",
    "data/file1",
    "data/file10",
    "data/x/_SUCCESS",
    "data/y/_SUCCESS",
    "z\0",
    "z\0/x",
]
PREFIXES = ["", "a", "a/", "a//", "b", "data/", "data/file1", "data/x/", "z", "zz", "é"]
DELIMITERS = ["", "/", "/", "file"]
CONTENTS = [b"", b"0", b"1", b"2"]
BRANCHES = ["main", "b1", "b2"]
TAGS = ["v1", "v2"]
FOLDERS = [{}, {"file1": "0"}, {"file1": "1", "x/_SUCCESS": "", "y/_SUCCESS": ""}, {"a!b": "0", "a/b": "0", "a0": "1"}]

Value = tuple[int, str, str]
"""Size, checksum, and the address if it is not in the namespace: what makes two objects equal."""
State = dict[str, Value]

picks = st.integers(0, 1 << 20)


class Model:
    """A repository: commits with their states, branches with what is staged, tags."""

    def __init__(self, first: Commit) -> None:
        self.states: dict[str, State] = {first.id: {}}
        self.parents: dict[str, tuple[str, ...]] = {first.id: ()}
        self.order: list[str] = [first.id]
        self.heads: dict[str, str] = {"main": first.id}
        self.staged: dict[str, dict[str, Value | None]] = {"main": {}}
        self.tags: dict[str, str] = {}
        self.moves: dict[str, list[tuple[str | None, str | None]]] = {"main": [(None, first.id)]}
        """The reference log of each branch's name: from where to where, the newest first."""

    def point(self, branch: str, commit: str | None) -> None:
        """Move, create or (None) delete a branch."""
        self.moves.setdefault(branch, []).insert(0, (self.heads.get(branch), commit))
        if commit is None:
            del self.heads[branch], self.staged[branch]
        else:
            self.heads[branch] = commit
            self.staged[branch] = {}

    def committed(self, branch: str) -> State:
        return self.states[self.heads[branch]]

    def current(self, branch: str) -> State:
        state = {**self.committed(branch), **self.staged[branch]}
        return {path: value for path, value in state.items() if value is not None}

    def dirty(self, branch: str) -> bool:
        return self.current(branch) != self.committed(branch)

    def add(self, commit: Commit, branch: str, state: State, parents: tuple[str, ...]) -> None:
        assert commit.parents == parents
        assert commit.id not in self.states
        self.states[commit.id] = state
        self.parents[commit.id] = parents
        self.order.append(commit.id)
        self.point(branch, commit.id)

    def walk(self, start: str, steps: str) -> str | None:
        """Follow ``~`` and ``^`` with one digit each."""
        at = start
        for kind, number in zip(steps[::2], map(int, steps[1::2]), strict=True):
            if kind == "~":
                for _ in range(number):
                    if not self.parents[at]:
                        return None
                    at = self.parents[at][0]
            elif number:
                if len(self.parents[at]) < number:
                    return None
                at = self.parents[at][number - 1]
        return at


class RepositoryMachine(RuleBasedStateMachine):
    """Does the same to a repository and to the model."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.repository = self.open()
        self.model = Model(self.repository.commit_of("main"))
        self.made = 0

    def open(self) -> OpenRepository:
        world = World(clock=self.clock)
        self.reopen: Callable[[], OpenRepository] = world.repository
        return world.main

    def branch(self, pick: int) -> str:
        names = sorted(self.model.heads)
        return names[pick % len(names)]

    # Changing

    @rule(pick=picks, path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS))
    def upload(self, pick: int, path: str, content: bytes) -> None:
        branch = self.branch(pick)
        self.clock.time += 1
        entry = self.repository.upload(branch, path, content)
        self.model.staged[branch][path] = value_of(self.repository, entry)
        assert self.repository.read(branch, path) == content

    @rule(pick=picks, path=st.sampled_from(PATHS), number=st.integers(0, 2))
    def link(self, pick: int, path: str, number: int) -> None:
        branch = self.branch(pick)
        entry = ObjectEntry(path, f"mem://other/{number % 2}", number, f"{number:032x}", 5, metadata={"n": "1"})
        self.repository.link(branch, entry)
        self.model.staged[branch][path] = value_of(self.repository, entry)
        assert self.repository.stat(branch, path) == entry or self.model.committed(branch).get(path) is not None

    @rule(pick=picks, paths=st.lists(st.sampled_from(PATHS), max_size=4))
    def delete(self, pick: int, paths: list[str]) -> None:
        branch = self.branch(pick)
        self.repository.delete(branch, paths)
        self.model.staged[branch].update(dict.fromkeys(paths))

    @rule(pick=picks, path=st.sampled_from(PATHS), number=st.integers(0, 2))
    def link_if_absent(self, pick: int, path: str, number: int) -> None:
        branch = self.branch(pick)
        entry = ObjectEntry(path, f"mem://other/{number}", number, f"{number:032x}", 5, metadata={"n": "1"})
        if path in self.model.current(branch):
            with pytest.raises(AlreadyExistsError):
                self.repository.link(branch, entry, if_absent=True)
        else:
            self.repository.link(branch, entry, if_absent=True)
            self.model.staged[branch][path] = value_of(self.repository, entry)

    @rule(pick=picks, path=st.sampled_from(PATHS), number=st.integers(0, 2), seen=st.booleans())
    def link_if_match(self, pick: int, path: str, number: int, seen: bool) -> None:
        branch = self.branch(pick)
        entry = ObjectEntry(path, f"mem://other/{number}", number, f"{number:032x}", 5, metadata={"n": "1"})
        if path not in self.model.current(branch):
            with pytest.raises(ObjectNotFoundError):
                self.repository.link(branch, entry, if_match="*")
            return
        if not seen:
            with pytest.raises(ObjectChangedError):
                self.repository.link(branch, entry, if_match="0" * 8)
            return
        self.repository.link(branch, entry, if_match=self.repository.stat(branch, path).checksum)
        self.model.staged[branch][path] = value_of(self.repository, entry)

    @rule(pick=picks, ref=picks, into=picks, source=st.sampled_from(PATHS), destination=st.sampled_from(PATHS))
    def copy(self, pick: int, ref: int, into: int, source: str, destination: str) -> None:
        text, state, _ = self.reference(pick, ref)
        branch = self.branch(into)
        if state is None or source not in state:
            with pytest.raises(RefNotFoundError if state is None else ObjectNotFoundError):
                self.repository.copy(branch, source, destination, source_ref=text)
        else:
            self.repository.copy(branch, source, destination, source_ref=text)
            self.model.staged[branch][destination] = state[source]

    @rule(pick=picks, source=st.sampled_from(PATHS), destination=st.sampled_from(PATHS))
    def move(self, pick: int, source: str, destination: str) -> None:
        branch = self.branch(pick)
        state = self.model.current(branch)
        if source == destination or source not in state:
            with pytest.raises(InvalidError if source == destination else ObjectNotFoundError):
                self.repository.move(branch, source, destination)
        else:
            self.repository.move(branch, source, destination)
            self.model.staged[branch].update({destination: state[source], source: None})

    @rule(pick=picks, path=st.sampled_from(PATHS), prefix=st.sampled_from(PREFIXES), kind=st.integers(0, 5))
    def reset(self, pick: int, path: str, prefix: str, kind: int) -> None:
        branch = self.branch(pick)
        staged = self.model.staged[branch]
        self.clock.time += 1
        if kind == 0:
            self.repository.reset(branch)
            staged.clear()
        elif kind < 3:
            self.repository.reset(branch, path=path)
            staged.pop(path, None)
        else:
            self.repository.reset(branch, prefix=prefix)
            for key in [key for key in staged if key.startswith(prefix)]:
                del staged[key]

    @rule(pick=picks, empty=st.booleans())
    def commit(self, pick: int, empty: bool) -> None:
        branch = self.branch(pick)
        state, head = self.model.current(branch), self.model.heads[branch]
        self.clock.time += 1
        if not empty and not self.model.dirty(branch):
            with pytest.raises(NoChangesError):
                self.repository.commit(branch, "nothing")
            self.model.staged[branch] = {}
            return
        self.made += 1
        commit = self.repository.commit(branch, f"c{self.made}", allow_empty=empty)
        self.model.add(commit, branch, state, (head,))

    @rule(pick=picks, name=st.sampled_from(BRANCHES), ref=picks)
    def create_branch(self, pick: int, name: str, ref: int) -> None:
        text, _, commit = self.reference(pick, ref)
        if commit is None:
            with pytest.raises(RefNotFoundError):
                self.repository.create_branch(name, text)
        elif name in self.model.heads:
            with pytest.raises(AlreadyExistsError):
                self.repository.create_branch(name, text)
        else:
            self.clock.time += 1  # rows of the reference log are in the order of time
            assert self.repository.create_branch(name, text).commit_id == commit
            self.model.point(name, commit)

    @rule(name=st.sampled_from(BRANCHES))
    def delete_branch(self, name: str) -> None:
        if name == "main":
            with pytest.raises(ForbiddenError):
                self.repository.delete_branch(name)
        elif name not in self.model.heads:
            with pytest.raises(RefNotFoundError):
                self.repository.delete_branch(name)
        else:
            self.clock.time += 1
            self.repository.delete_branch(name)
            self.model.point(name, None)

    @rule(old=st.sampled_from(BRANCHES), new=st.sampled_from(BRANCHES))
    def rename_branch(self, old: str, new: str) -> None:
        if old == "main":
            with pytest.raises(ForbiddenError):
                self.repository.rename_branch(old, new)
        elif old not in self.model.heads:
            with pytest.raises(RefNotFoundError):
                self.repository.rename_branch(old, new)
        elif new in self.model.heads:
            with pytest.raises(AlreadyExistsError):
                self.repository.rename_branch(old, new)
        else:
            self.clock.time += 1
            head, staged = self.model.heads[old], self.model.staged[old]
            assert self.repository.rename_branch(old, new).commit_id == head
            self.model.point(old, None)
            self.model.point(new, head)
            self.model.staged[new] = staged

    @rule(pick=picks, ref=picks, into=picks)
    def hard_reset(self, pick: int, ref: int, into: int) -> None:
        text, _, commit = self.reference(pick, ref)
        branch = self.branch(into)
        self.clock.time += 1
        if commit is None:
            with pytest.raises(RefNotFoundError):
                self.repository.hard_reset(branch, text)
        else:
            self.move_to(branch, commit, lambda: self.repository.hard_reset(branch, text))

    @rule(pick=picks)
    def undo(self, pick: int) -> None:
        branch = self.branch(pick)
        now = self.model.heads[branch]
        before = next((old for old, new in self.model.moves[branch] if new == now and old != now), None)
        self.clock.time += 1
        if before is None:
            with pytest.raises(NotFoundError):
                self.repository.undo(branch)
        else:
            self.move_to(branch, before, lambda: self.repository.undo(branch))

    def move_to(self, branch: str, commit: str, verb: Callable[[], Branch]) -> None:
        if self.model.heads[branch] == commit:
            verb()
        elif self.model.dirty(branch):
            with pytest.raises(DirtyBranchError):
                verb()
        else:
            assert verb().commit_id == commit
            self.model.point(branch, commit)

    @rule(pick=picks, name=st.sampled_from(TAGS), ref=picks)
    def create_tag(self, pick: int, name: str, ref: int) -> None:
        text, _, commit = self.reference(pick, ref)
        if commit is None:
            with pytest.raises(RefNotFoundError):
                self.repository.create_tag(name, text)
        elif name in self.model.tags:
            with pytest.raises(AlreadyExistsError):
                self.repository.create_tag(name, text)
        else:
            assert self.repository.create_tag(name, text).commit_id == commit
            self.model.tags[name] = commit

    @rule(name=st.sampled_from(TAGS))
    def delete_tag(self, name: str) -> None:
        if name in self.model.tags:
            self.repository.delete_tag(name)
            del self.model.tags[name]
        else:
            with pytest.raises(RefNotFoundError):
                self.repository.delete_tag(name)

    @rule(pick=picks, ref=picks, into=picks, strategy=st.sampled_from(list(MergeStrategy)))
    def merge(self, pick: int, ref: int, into: int, strategy: MergeStrategy) -> None:
        text, _, source = self.reference(pick, ref)
        branch = self.branch(into)
        head = self.model.heads[branch]
        self.clock.time += 1

        def merged() -> Commit:
            return self.repository.merge(text, branch, strategy=strategy)

        if source is None:
            with pytest.raises(RefNotFoundError):
                merged()
            return
        if self.model.dirty(branch):
            with pytest.raises(DirtyBranchError):
                merged()
            return
        self.model.staged[branch] = {}
        base = oracles.merge_base(self.model.parents, source, head)
        assert base is not None
        if base == source:
            with pytest.raises(NoChangesError):
                merged()
            return
        states = self.model.states
        state, conflicts = oracles.three_way(states[base], states[source], states[head], strategy.value)
        if conflicts:
            with pytest.raises(MergeConflictError) as caught:
                merged()
            assert [c.path for c in caught.value.conflicts] == conflicts
            for conflict in caught.value.conflicts:
                for entry, commit in ((conflict.base, base), (conflict.source, source), (conflict.destination, head)):
                    known = states[commit].get(conflict.path)
                    assert (None if entry is None else value_of(self.repository, entry)) == known
            return
        self.model.add(merged(), branch, state, (head, source))

    @rule(pick=picks, ref=picks, into=picks, back=st.booleans(), parent=st.integers(0, 2))
    def replay(self, pick: int, ref: int, into: int, back: bool, parent: int) -> None:
        """Revert, or pick, a commit."""
        text, _, commit = self.reference(pick, ref)
        branch = self.branch(into)
        head = self.model.heads[branch]
        self.clock.time += 1

        def replayed() -> Commit:
            verb = self.repository.revert if back else self.repository.cherry_pick
            return verb(branch, text, parent_number=parent)

        if commit is None:
            with pytest.raises(RefNotFoundError):
                replayed()
            return
        parents = self.model.parents[commit]
        if parent > len(parents) or (parent == 0 and len(parents) > 1):
            with pytest.raises(InvalidError):
                replayed()
            return
        if self.model.dirty(branch):
            with pytest.raises(DirtyBranchError):
                replayed()
            return
        self.model.staged[branch] = {}
        states = self.model.states
        old = states[parents[max(parent - 1, 0)]] if parents else {}
        base, source = (states[commit], old) if back else (old, states[commit])
        state, conflicts = oracles.three_way(base, source, states[head])
        if conflicts:
            with pytest.raises(MergeConflictError) as caught:
                replayed()
            assert [conflict.path for conflict in caught.value.conflicts] == conflicts
        elif state == states[head]:
            with pytest.raises(NoChangesError):
                replayed()
        else:
            self.model.add(replayed(), branch, state, (head,))

    @rule(pick=picks, number=st.integers(0, len(FOLDERS) - 1), destination=st.sampled_from(["", "data/", "a/", "new/"]))
    def take_folder(self, pick: int, number: int, destination: str) -> None:
        branch = self.branch(pick)
        folder = self.folder / str(number)
        self.clock.time += 1
        if self.model.dirty(branch):
            with pytest.raises(DirtyBranchError):
                self.repository.import_folder(branch, folder, destination, allow_empty=True)
            return
        state = {p: v for p, v in self.model.committed(branch).items() if not p.startswith(destination)}
        for name, text in FOLDERS[number].items():
            digest = md5(text.encode(), usedforsecurity=False).hexdigest()
            state[destination + name] = (len(text), digest, f"file://{folder / name}")
        commit = self.repository.import_folder(branch, folder, destination, allow_empty=True)
        self.model.add(commit, branch, state, (self.model.heads[branch],))

    @rule()
    def another_process(self) -> None:
        self.repository = self.reopen()

    @rule()
    def time_passes(self) -> None:
        self.clock.time += 2000

    # Reading

    def reference(self, pick: int, ref: int) -> tuple[str, State | None, str | None]:
        """An expression; what it shows, and the commit that it means (None: nothing)."""
        model = self.model
        names: list[tuple[str, State | None, str]] = []
        for name, head in sorted(model.heads.items()):
            names += [(name, model.current(name), head), (f"{name}@", model.committed(name), head)]
        names += [(name, model.states[commit], commit) for name, commit in sorted(model.tags.items())]
        some = model.order[ref % len(model.order)]
        names += [(some, model.states[some], some), (some[:20], model.states[some], some)]
        text, state, start = names[pick % len(names)]
        steps = ["", "", "", "~1", "^1", "~2", "^2", "~0", "^0", "^2~1", "~1^2", "^1^1", "~3"][(pick // 64) % 13]
        if not steps:
            return text, state, start
        commit = model.walk(start, steps)
        return text + steps, None if commit is None else model.states[commit], commit

    @rule(pick=picks, ref=picks, path=st.sampled_from(PATHS))
    def stat(self, pick: int, ref: int, path: str) -> None:
        text, state, _ = self.reference(pick, ref)
        if state is None:
            with pytest.raises(RefNotFoundError):
                self.repository.stat(text, path)
        elif path not in state:
            with pytest.raises(ObjectNotFoundError):
                self.repository.stat(text, path)
        else:
            assert value_of(self.repository, self.repository.stat(text, path)) == state[path]

    @rule(
        pick=picks,
        ref=picks,
        prefix=st.sampled_from(PREFIXES),
        after=st.sampled_from(["", *PATHS, *PREFIXES]),
        delimiter=st.sampled_from(DELIMITERS),
        amount=st.integers(1, 5),
    )
    def list(self, pick: int, ref: int, prefix: str, after: str, delimiter: str, amount: int) -> None:
        text, state, _ = self.reference(pick, ref)
        if state is None:
            return
        expected = oracles.rolled_up(state, prefix, after, delimiter)
        found: list[tuple[str, bool]] = []
        place: str | None = after
        while place is not None:
            page = self.repository.list_objects(text, prefix=prefix, after=place, delimiter=delimiter, amount=amount)
            assert len(page.results) <= amount
            for item in page.results:
                if isinstance(item, ObjectEntry):
                    assert value_of(self.repository, item) == state[item.path]
                found.append((item.path, isinstance(item, CommonPrefix)))
            place = page.next_after
        assert found == expected

    def compare_pages(
        self, page_of: Callable[[str], Page[Change]], changed: dict[str, str], prefix: str, delimiter: str
    ) -> None:
        expected = oracles.rolled_up(changed, prefix, "", delimiter)
        found: list[tuple[str, bool]] = []
        place: str | None = ""
        while place is not None:
            page = page_of(place)
            for change in page.results:
                common = change.type.value == "prefix_changed"
                assert common or change.type.value == changed[change.path]
                found.append((change.path, common))
            place = page.next_after
        assert found == expected

    @rule(pick=picks, prefix=st.sampled_from(PREFIXES), delimiter=st.sampled_from(DELIMITERS), amount=st.integers(1, 4))
    def uncommitted(self, pick: int, prefix: str, delimiter: str, amount: int) -> None:
        branch = self.branch(pick)
        changed = oracles.differences(self.model.committed(branch), self.model.current(branch))
        self.compare_pages(
            lambda after: self.repository.uncommitted(
                branch, prefix=prefix, after=after, delimiter=delimiter, amount=amount
            ),
            changed,
            prefix,
            delimiter,
        )

    @rule(
        pick=st.tuples(picks, picks),
        ref=st.tuples(picks, picks),
        prefix=st.sampled_from(PREFIXES),
        delimiter=st.sampled_from(DELIMITERS),
        amount=st.integers(1, 4),
        dots=st.sampled_from([2, 3]),
    )
    def diff(
        self, pick: tuple[int, int], ref: tuple[int, int], prefix: str, delimiter: str, amount: int, dots: int
    ) -> None:
        left, _, one = self.reference(pick[0], ref[0])
        right, _, other = self.reference(pick[1], ref[1])
        verb = self.repository.diff if dots == 2 else self.repository.compare
        if one is None or other is None:
            with pytest.raises(RefNotFoundError):
                verb(left, right)
            return
        base = one if dots == 2 else oracles.merge_base(self.model.parents, one, other)
        assert base is not None
        if dots == 3:
            found = self.repository.merge_base(left, right)
            assert found is not None
            assert found.id == base
        self.compare_pages(
            lambda after: verb(left, right, prefix=prefix, after=after, delimiter=delimiter, amount=amount),
            oracles.differences(self.model.states[base], self.model.states[other]),
            prefix,
            delimiter,
        )

    @rule(pick=picks, ref=picks, amount=st.integers(1, 4), first=st.booleans())
    def log(self, pick: int, ref: int, amount: int, first: bool) -> None:
        text, _, commit = self.reference(pick, ref)
        if commit is None:
            return
        ids: list[str] = []
        place: CommitID | None = None
        while True:
            page = self.repository.log(text, after=place, amount=amount, first_parent=first)
            ids += [c.id for c in page.results]
            if page.next_after is None:
                break
            place = CommitID(page.next_after)
        parents = {c: p[:1] for c, p in self.model.parents.items()} if first else self.model.parents
        assert sorted(ids) == sorted(oracles.ancestors(parents, commit))
        for number, one in enumerate(ids):
            assert not any(p in ids[:number] for p in parents[one]), "children before parents"

    @invariant()
    def refs_are_the_same(self) -> None:
        assert {b.name: b.commit_id for b in self.repository.branches().results} == self.model.heads
        assert {t.name: t.commit_id for t in self.repository.tags().results} == self.model.tags

    @rule(name=st.sampled_from(BRANCHES))
    def reflog(self, name: str) -> None:
        moves = [(row.old, row.new) for row in self.repository.reflog(name, 1000) if row.old != row.new]
        assert moves == self.model.moves.get(name, [])


class FolderMachine(RepositoryMachine):
    """The same on the folder lake."""

    def open(self) -> OpenRepository:
        self.place = Path(mkdtemp(prefix="graveler-test-"))
        lake = create_folder_lake(self.place / "lake", clock=self.clock)
        self.reopen = lambda: open_folder_lake(self.place / "lake", clock=self.clock).repository("repo")
        return lake.create_repository("repo", "local://repo", split=TINY)

    def teardown(self) -> None:
        self.repository.parts.tables.close()  # type: ignore[attr-defined]
        with suppress(OSError):
            rmtree(self.place)


def value_of(repository: OpenRepository, entry: ObjectEntry) -> Value:
    inside = entry.address.startswith(repository.repository.namespace + "/")
    return entry.size, entry.checksum, "" if inside else entry.address


@pytest.mark.parametrize(("machine", "examples"), [(RepositoryMachine, EXAMPLES), (FolderMachine, EXAMPLES // 10)])
def test_verbs_agree_with_the_model(machine: type[RepositoryMachine], examples: int, tmp_path: Path) -> None:
    for number, files in enumerate(FOLDERS):
        (tmp_path / str(number)).mkdir()
        write_files(tmp_path / str(number), files)
    machine.folder = tmp_path
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(1, examples),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_amounts_below_one_are_refused() -> None:
    repository = World().main
    for verb in (repository.list_objects, repository.uncommitted, repository.log):
        with pytest.raises(InvalidError, match="amount is 0"):
            verb("main", amount=0)
