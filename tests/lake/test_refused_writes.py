"""A refused write has no effect, and no write under a branch's old name reaches it under the new one (promise C1).

The writer remembers the branch's open token, so it puts first, and is refused afterwards.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from graveler.errors import (
    AnswerLostError,
    ForbiddenError,
    GravelerError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
)
from graveler.history.refs import BranchState
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from tests.lake.support import Before, DieAt, Schedule, World, changes, died
from tests.support.instruments import Fault

OLD, NEW, ELSE = 1, 2, 3
"""Sizes of objects, by which tests tell them apart."""


def entry(path: str, size: int) -> ObjectEntry:
    return ObjectEntry(path, f"mem://elsewhere/{size}", size, f"{size:032x}", 0)


def sizes(repository: OpenRepository, ref: str) -> dict[str, int]:
    return {found.path: found.size for found in repository.objects(ref)}


WRITES: dict[str, Callable[[OpenRepository], object]] = {
    "link": lambda r: r.link("work", entry("a", NEW)),
    "link another": lambda r: r.link("work", entry("new", NEW)),
    "delete": lambda r: r.delete("work", ["a"]),
    "delete what is not there": lambda r: r.delete("work", ["new"]),
    "upload": lambda r: r.upload("work", "a", b"22"),
    "copy": lambda r: r.copy("work", "b", "a"),
    "move": lambda r: r.move("work", "b", "a"),
    "link many": lambda r: r.link_many("work", [entry("a", NEW), entry("b", NEW)]),
    "delete many": lambda r: r.delete("work", ["a", "b", "new"]),
    "create": lambda r: r.link("work", entry("new", NEW), if_absent=True),
    "update metadata": lambda r: r.update_metadata("work", "a", {"k": "v"}),
}
RULES: dict[str, tuple[Callable[[OpenRepository], object], Callable[[OpenRepository], object]]] = {
    "protect": (lambda r: r.protect(["w*"]), lambda r: r.unprotect(["w*"])),
    "read-only": (lambda r: r.set_read_only(True), lambda r: r.set_read_only(False)),
}


def scene() -> tuple[World, OpenRepository]:
    """A branch with a commit and uncommitted changes, and a writer that remembers its open token."""
    world = World()
    world.main.create_branch("work", "main")
    world.main.link_many("work", [entry("a", ELSE), entry("b", ELSE), entry("c", ELSE)])
    world.main.commit("work", "before")
    writer = world.repository()
    writer.link("work", entry("a", OLD))
    writer.link("work", entry("b", OLD))
    writer.delete("work", ["c"])
    return world, writer


STAGED = {"a": OLD, "b": OLD}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_a_rule_refuses_has_no_effect(rule: str, write: str) -> None:
    world, writer = scene()
    forbid, allow = RULES[rule]
    forbid(world.repository())
    with pytest.raises(ForbiddenError):
        WRITES[write](writer)
    assert sizes(world.main, "work") == STAGED
    allow(world.repository())
    world.repository().commit("work", "after")
    assert sizes(world.main, "work@") == STAGED


@pytest.mark.parametrize("sealed_first", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_under_the_old_name_has_no_effect_on_the_renamed_branch(write: str, sealed_first: bool) -> None:
    world, writer = scene()
    if sealed_first:  # by a commit whose process died
        assert died(lambda: world.repository(DieAt("objects.put")).commit("work", "dies"))
    world.repository().rename_branch("work", "renamed")
    with pytest.raises(RefNotFoundError):
        WRITES[write](writer)
    assert sizes(world.main, "renamed") == STAGED
    world.wait_for_leases()
    world.repository().commit("renamed", "after")
    assert sizes(world.main, "renamed@") == STAGED


@pytest.mark.parametrize("write", ["link", "link another", "delete", "upload", "link many", "delete many"])
def test_a_write_to_a_new_branch_of_the_old_name_stays_off_the_renamed_one(write: str) -> None:
    world, writer = scene()
    world.repository().rename_branch("work", "renamed")
    world.repository().create_branch("work", "main")
    WRITES[write](writer)
    assert sizes(world.main, "renamed") == STAGED
    world.repository().commit("renamed", "after")
    assert sizes(world.main, "renamed@") == STAGED


@pytest.mark.parametrize("write", ["link", "link another", "delete", "link many", "delete many"])
@pytest.mark.parametrize("there_again", [False, True])
def test_a_put_under_the_old_name_stays_off_the_renamed_branch_though_its_process_dies(
    write: str, there_again: bool
) -> None:
    world, _ = scene()
    killer = Later(lambda: DieAt("tables.put" if "many" not in write else "tables.write_many", after=True))
    dies = world.repository(killer)
    dies.link("work", entry("b", OLD))
    world.repository().rename_branch("work", "renamed")
    if there_again:
        world.repository().create_branch("work", "main")
    killer.begin()
    assert died(lambda: WRITES[write](dies))
    assert sizes(world.main, "renamed") == STAGED
    world.repository().commit("renamed", "after")
    assert sizes(world.main, "renamed@") == STAGED


@pytest.mark.parametrize("write", ["link", "delete"])
@pytest.mark.parametrize("moment", range(1, 8))
@pytest.mark.parametrize("rule", [*RULES, "rename", "delete"])
def test_what_comes_at_any_moment_of_a_write_refuses_it_without_effect_or_says_that_nobody_knows(
    rule: str, moment: int, write: str
) -> None:
    """Afterwards: acknowledged is there, refused is not, and otherwise it is as before or as after."""
    world, _ = scene()
    acts: dict[str, Callable[[OpenRepository], object]] = {
        "rename": lambda r: r.rename_branch("work", "renamed"),
        "delete": lambda r: r.delete_branch("work"),
        **{name: forbid for name, (forbid, _) in RULES.items()},
    }
    later = Later(lambda: At(moment, lambda: acts[rule](world.repository())))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    later.begin()
    error: GravelerError | None = None
    try:
        WRITES[write](writer)
    except GravelerError as caught:
        error = caught
    if rule == "delete":
        assert error is None or isinstance(error, NotFoundError | AnswerLostError)
        return
    found = sizes(world.repository(), "renamed" if "renamed" in names(world) else "work")
    after = {"a": NEW, "b": OLD} if write == "link" else {"b": OLD}
    if error is None:
        assert found == after
    elif isinstance(error, AnswerLostError):
        assert found in (STAGED, after)
    else:
        assert isinstance(error, ForbiddenError | NotFoundError)
        assert found == STAGED


@pytest.mark.parametrize("moment", [("tables.get_many", 1), ("tables.put", 1)], ids=["over", "under"])
def test_of_two_who_are_refused_at_once_neither_has_an_effect(moment: tuple[str, int]) -> None:
    """The second puts over the first one's put and is refused before it; or the first over the second's."""
    world, second = scene()
    inner: list[GravelerError] = []

    def delete() -> None:
        try:
            second.delete("work", ["a"])
        except GravelerError as error:
            inner.append(error)

    later = Later(lambda: Before(*moment, act=delete))
    first = world.repository(later)
    first.link("work", entry("b", OLD))
    world.repository().set_read_only(True)
    later.begin()
    with pytest.raises(ForbiddenError):
        first.link("work", entry("a", NEW))
    assert [isinstance(error, ForbiddenError) for error in inner] == [True]
    assert sizes(world.main, "work") == STAGED


def test_whoever_put_over_a_refused_write_is_not_overwritten() -> None:
    world, _ = scene()
    later = Later(
        lambda: Before("tables.transact", act=lambda: world.repository().link("work", entry("a", ELSE), force=True))
    )
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    world.repository().set_read_only(True)
    later.begin()
    with pytest.raises(AnswerLostError, match="'work'"):
        writer.link("work", entry("a", NEW))
    assert sizes(world.main, "work") == {"a": ELSE, "b": OLD}


def test_a_commit_that_may_have_read_the_put_makes_the_refusal_an_open_question() -> None:
    world, _ = scene()
    later = Later(lambda: Before("tables.get_many", act=seal_and_forbid))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))

    def seal_and_forbid() -> None:
        assert died(lambda: world.repository(DieAt("objects.put")).commit("work", "dies"))
        world.repository().set_read_only(True)

    later.begin()
    with pytest.raises(AnswerLostError, match="'work'"):
        writer.link("work", entry("a", NEW))


def test_a_put_is_not_taken_back_once_a_commit_may_have_read_it() -> None:
    """A commit seals and reads between the refusal and its transaction: the item must stay as the commit has it."""
    world, _ = scene()
    later = Later(lambda: Before("tables.transact", act=commit_by_force))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))

    def commit_by_force() -> None:
        assert died(lambda: world.repository(DieAt("objects.put")).commit("work", "dies", force=True))

    world.repository().set_read_only(True)
    later.begin()
    with pytest.raises(AnswerLostError):
        writer.link("work", entry("a", NEW))
    assert sizes(world.main, "work") == {"a": NEW, "b": OLD}


def test_a_put_that_no_commit_took_is_refused_as_such() -> None:
    """Somebody has committed since: the put lies under a token that nobody reads any more."""
    world, writer = scene()
    world.repository().commit("work", "between")
    world.repository().protect(["work"])
    for write in ("link", "link another", "delete"):
        with pytest.raises(ForbiddenError):
            WRITES[write](writer)
    assert sizes(world.main, "work") == STAGED


def test_a_put_whose_answer_was_lost_is_not_refused_as_such() -> None:
    """The adapter has put twice, and was told of its own first try: what that had replaced nobody knows."""
    world, _ = scene()
    later = Later(lambda: Before("tables.put", fault="repeat"))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    world.repository().set_read_only(True)
    later.begin()
    with pytest.raises(AnswerLostError):
        writer.link("work", entry("a", NEW))


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "refuse", "repeat"])
@pytest.mark.parametrize("number", range(1, 4))
@pytest.mark.parametrize("asked", ["tables.transact", "tables.get", "tables.get_many"])
def test_a_refusal_whose_own_requests_fail_tells_the_truth(fault: Fault, number: int, asked: str) -> None:
    world, _ = scene()
    later = Later(lambda: Before(asked, number, fault=fault))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    world.repository().set_read_only(True)
    later.begin()
    with pytest.raises((ForbiddenError, AnswerLostError)) as caught:
        writer.link("work", entry("a", NEW))
    if isinstance(caught.value, ForbiddenError):
        assert sizes(world.main, "work") == STAGED


def told(writer: OpenRepository, *entries: ObjectEntry) -> str:
    """What a writer hears: the name of the error, or nothing."""
    try:
        writer.link_many("work", entries)
    except GravelerError as error:
        return type(error).__name__
    return ""


REFUSED = "ReadOnlyRepositoryError"
UNKNOWN = "AnswerLostError"


def commit_dies(world: World) -> None:
    assert died(lambda: world.repository(DieAt("objects.put")).commit("work", "dies"))


@pytest.mark.parametrize("key", ["a", "other"])
def test_a_put_that_a_reset_of_another_path_staged_again_is_an_open_question(key: str) -> None:
    """A commit died that had sealed the put, and a reset of some path brought back what else the commit had taken."""
    world, _ = scene()

    def act() -> None:
        commit_dies(world)
        world.repository().reset("work", prefix="b")
        world.repository().set_read_only(True)

    later = Later(lambda: Before("tables.get_many", act=act))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    later.begin()
    assert told(writer, entry(key, NEW)) == UNKNOWN


def test_a_put_that_came_after_a_reset_of_another_path_is_refused() -> None:
    world, _ = scene()
    writer = world.repository()
    writer.link("work", entry("b", OLD))
    commit_dies(world)
    world.repository().reset("work", prefix="b")
    world.repository().set_read_only(True)
    assert told(writer, entry("a", NEW)) == REFUSED
    assert sizes(world.main, "work") == {"a": OLD, "b": ELSE}


@pytest.mark.parametrize("by", ["commit", "merge"])
def test_a_put_that_hid_a_change_of_an_older_token_that_was_dropped_with_it_is_an_open_question(by: str) -> None:
    """The put says what the head has already, so nothing was left to commit: the older change is gone."""
    world = World()
    world.main.create_branch("work", "main")
    world.main.link("work", entry("a", ELSE))
    world.main.commit("work", "before")
    world.main.create_branch("other", "work")
    world.main.link("other", entry("c", ELSE))
    world.main.commit("other", "more")
    world.main.link("work", entry("a", OLD))
    commit_dies(world)

    def act() -> None:
        if by == "merge":
            world.repository().merge("other", "work")
        else:
            with pytest.raises(NoChangesError):
                world.repository().commit("work", "nothing")
        world.repository().set_read_only(True)

    writer = world.repository(Before("tables.get_many", 2, act=act))
    assert told(writer, entry("a", ELSE)) == UNKNOWN


def test_a_put_of_what_the_head_has_is_an_open_question_once_a_commit_has_read_it() -> None:
    """The commit has another record of the same object, the head's own; the change that the put replaced is gone."""
    world, _ = scene()

    def act() -> None:
        world.repository().commit("work", "after")
        world.repository().set_read_only(True)

    later = Later(lambda: Before("tables.get_many", act=act))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    later.begin()
    assert told(writer, ObjectEntry("a", f"mem://elsewhere/{ELSE}", ELSE, f"{ELSE:032x}", 77)) == UNKNOWN
    assert sizes(world.main, "work") == {"a": ELSE, "b": OLD}


def test_what_a_refused_put_hid_comes_back_though_it_was_staged_again_meanwhile() -> None:
    """A dead commit's changes are staged again where the open token holds none: a put that is refused may hold the place."""
    world = World()
    world.main.create_branch("work", "main")
    world.main.link_many("work", [entry("a", OLD), entry("b", OLD)])
    commit_dies(world)

    def act() -> None:
        world.repository().reset("work", path="b")
        world.repository().set_read_only(True)

    writer = world.repository(Before("tables.get_many", 2, act=act))
    said = told(writer, entry("a", NEW))
    assert (said, sizes(world.main, "work")) in ((REFUSED, {"a": OLD}), (UNKNOWN, {"a": NEW}))


def test_a_refused_put_does_not_bring_back_what_was_reset_meanwhile() -> None:
    world, _ = scene()
    placed, reset = Event(), Event()
    said: list[str] = []

    def wait() -> None:
        placed.set()
        reset.wait()
        world.repository().set_read_only(True)

    later = Later(lambda: Before("tables.get_many", act=wait))
    writer = world.repository(later)
    writer.link("work", entry("b", OLD))
    later.begin()
    thread = Thread(target=lambda: said.append(told(writer, entry("a", NEW))))

    def put() -> None:
        thread.start()
        placed.wait()

    world.repository(Before("tables.transact", act=put)).reset("work", path="a")
    reset.set()
    thread.join()
    assert said == [UNKNOWN]
    assert sizes(world.main, "work") == {"a": NEW, "b": OLD}


def test_two_who_are_refused_on_a_renamed_branch_leave_nothing_that_was_refused() -> None:
    """The first one's put was renamed with its branch, and the second one puts over it, under the new name."""
    world, _ = scene()
    over, free = Event(), Event()
    said: list[str] = []

    def wait() -> None:
        over.set()
        free.wait()

    later_second = Later(lambda: Before("tables.transact", act=wait))
    second = world.repository(later_second)

    def delete() -> None:
        try:
            second.delete("renamed", ["a"])
        except GravelerError as error:
            said.append(type(error).__name__)

    thread = Thread(target=delete)

    def act() -> None:
        world.repository().rename_branch("work", "renamed")
        second.link("renamed", entry("b", OLD))
        world.repository().set_read_only(True)
        later_second.begin()
        thread.start()
        over.wait()

    later = Later(lambda: Before("tables.get_many", act=act))
    first = world.repository(later)
    first.link("work", entry("b", OLD))
    later.begin()
    first_said = told(first, entry("a", NEW))
    free.set()
    thread.join()
    found = sizes(world.main, "renamed")
    if found.get("a") == NEW:
        assert first_said == UNKNOWN
    elif "a" not in found:
        assert said == [UNKNOWN]
    else:
        assert found == STAGED


def test_a_stage_that_succeeds_costs_what_it_did() -> None:
    world, _ = scene()
    counted = world.counted()
    counted.repository.link("work", entry("a", NEW))
    counted.reset()
    counted.repository.link("work", entry("a", OLD))
    assert counted.tables.calls == {"put": 1, "get_many": 1}
    world.repository().set_read_only(True)
    counted.reset()
    with pytest.raises(ForbiddenError):
        counted.repository.link("work", entry("a", NEW))
    assert counted.tables.calls == {"put": 1, "get_many": 1, "get": 1, "transact": 1}


# Renames


@pytest.mark.parametrize("request_", ["tables.write_many", "tables.query", "tables.transact"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_a_rename_that_died_is_taken_back_by_the_next_change(request_: str, number: int, after: bool) -> None:
    world, writer = scene()
    assert died(lambda: world.repository(DieAt(request_, number, after=after)).rename_branch("work", "renamed")) or (
        number == 2
    )
    if "renamed" not in names(world):
        before = world.clock.slept
        writer.link("work", entry("new", NEW))
        assert world.clock.slept - before < 8
        assert sizes(world.main, "work") == {**STAGED, "new": NEW}
        world.repository().rename_branch("work", "renamed")
    else:
        world.repository().link("renamed", entry("new", NEW))
    assert sizes(world.main, "renamed") == {**STAGED, "new": NEW}
    world.repository().commit("renamed", "after")
    assert changes(world.main, "renamed") == {}
    assert world.main.fsck().findings == ()


@pytest.mark.parametrize("number", range(8))
def test_what_is_staged_at_a_moment_of_a_rename_is_not_lost(number: int) -> None:
    """A writer that comes while the branch is closed is told so, after a while; whatever it is told is true."""
    world, writer = scene()
    told: list[GravelerError | None] = []

    def put() -> None:
        try:
            writer.link("work", entry("new", NEW))
            told.append(None)
        except GravelerError as error:
            told.append(error)

    schedule = At(number, put)
    try:
        world.repository(schedule).rename_branch("work", "renamed")
    except GravelerError:
        assert "renamed" not in names(world)
    found = sizes(world.main, "renamed" if "renamed" in names(world) else "work")
    if not schedule.reached:
        assert number > 4
        assert found == STAGED
    elif told == [None]:
        assert found == {**STAGED, "new": NEW}
    elif isinstance(told[0], AnswerLostError):
        assert found in (STAGED, {**STAGED, "new": NEW})
    else:
        assert found == STAGED


def test_a_rename_carries_many_changes_of_several_tokens_and_shards() -> None:
    world = World()
    world.main.create_branch("work", "main")
    expected: dict[str, int] = {}
    for generation in (1, 2, 3):
        staged = {f"k{number:05}": generation for number in range(generation, 2500, generation)}
        world.main.link_many("work", [entry(path, size) for path, size in staged.items()])
        expected.update(staged)
        if generation < 3:
            assert died(lambda: world.repository(DieAt("objects.put")).commit("work", "dies"))
    state = world.main.parts.branches.state("work")
    assert isinstance(state, BranchState)
    assert len(state.sealed) == 2
    world.repository().rename_branch("work", "renamed")
    assert sizes(world.main, "renamed") == expected
    world.wait_for_leases()
    world.repository().commit("renamed", "all")
    assert sizes(world.main, "renamed@") == expected


# Threads and processes on one lake


WRITER = """
import sys
from pathlib import Path
from graveler.lake.opening.folder import open_folder_lake
from graveler.model import ObjectEntry
from graveler.staging.changes import StagedChanges
from tests.support.children import end_process

repository = open_folder_lake(Path(sys.argv[1])).repository("repo")
entry = lambda size: ObjectEntry("a", f"mem://elsewhere/{size}", size, f"{size:032x}", 0)
repository.link("work", entry(1))
print("staged", flush=True)
sys.stdin.readline()
put = StagedChanges.put_and_look


def dies(*arguments):
    put(*arguments)
    end_process(9)


if sys.argv[2] == "dies":
    StagedChanges.put_and_look = dies
try:
    repository.link("work", entry(2))
    print("acknowledged", flush=True)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("end", ["lives", "dies"])
@pytest.mark.parametrize("act", ["rename", "rename and create", "read-only", "protect"])
def test_another_process_with_the_old_token_changes_nothing(tmp_path: Path, end: str, act: str) -> None:
    lake = create_folder_lake(tmp_path / "lake")
    lake.create_repository("repo", "local://repo")
    repository = lake.repository("repo")
    repository.create_branch("work", "main")
    command = [sys.executable, "-c", WRITER, str(tmp_path / "lake"), end]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "staged\n"
        if act.startswith("rename"):
            repository.rename_branch("work", "renamed")
            if act.endswith("create"):
                repository.create_branch("work", "main")
        else:
            RULES[act][0](repository)
        process.stdin.write("\n")
        process.stdin.flush()
        said = process.stdout.read()
    name = "renamed" if act.startswith("rename") else "work"
    found = sizes(open_folder_lake(tmp_path / "lake").repository("repo"), name)
    if end == "lives":
        words = {"rename": "RefNotFoundError", "rename and create": "acknowledged"}
        refused = {"read-only": "ReadOnlyRepositoryError", "protect": "ProtectedBranchError"}
        assert said == f"{(words | refused)[act]}\n"
        assert found == {"a": 1}
    elif act.startswith("rename"):
        assert found == {"a": 1}
    else:  # killed between its put and the refusal: it was told nothing, and nobody knows
        assert found in ({"a": 1}, {"a": 2})


def test_threads_that_write_while_a_branch_is_renamed_to_and_fro_lose_nothing(tmp_path: Path) -> None:
    lake = create_folder_lake(tmp_path / "lake")
    lake.create_repository("repo", "local://repo")
    lake.repository("repo").create_branch("work", "main")
    barrier = Barrier(4)
    acknowledged: list[dict[str, int]] = [{}, {}, {}]
    refused: list[set[tuple[str, int]]] = [set(), set(), set()]

    def write(number: int) -> None:
        repository = open_folder_lake(tmp_path / "lake").repository("repo")
        barrier.wait()
        for size in range(1, 40):
            path = f"{number}/{size % 5}"
            try:
                repository.link("work", entry(path, size))
            except NotFoundError:
                refused[number].add((path, size))
            except AnswerLostError:
                acknowledged[number].pop(path, None)
                refused[number] = {(p, s) for p, s in refused[number] if p != path}
            else:
                acknowledged[number][path] = size

    threads = [Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    repository = open_folder_lake(tmp_path / "lake").repository("repo")
    barrier.wait()
    for _ in range(10):
        repository.rename_branch("work", "renamed")
        repository.rename_branch("renamed", "work")
    for thread in threads:
        thread.join()
    found = sizes(repository, "work")
    for number in range(3):
        for path, size in acknowledged[number].items():
            assert found[path] == size
        for path, size in refused[number]:
            assert found.get(path) != size


class Later:
    """A schedule that begins when the test says so."""

    def __init__(self, make: Callable[[], Schedule]) -> None:
        self._make = make
        self._schedule: Schedule | None = None

    def begin(self) -> None:
        self._schedule = self._make()

    def __call__(self, request: str, number: int) -> Fault:
        return None if self._schedule is None else self._schedule(request, number)


class At:
    """Just before the ``number``-th request (from 0), run ``act`` once."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self._left = number
        self._act = act
        self.reached = False

    def __call__(self, _: str, __: int) -> Fault:
        self._left -= 1
        if self._left == -1:
            self.reached = True
            self._act()
        return None


def names(world: World) -> set[str]:
    return {branch.name for branch in world.repository().branches().results}
