"""When its time is up, a verb hands over at the end of any range: the operation continues from there, and makes the commit of
one call."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pytest
from msgspec import structs

from graveler.errors import MergeConflictError, TooMuchWorkError
from graveler.lake.context import Context
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, PartialResult, SplitParameters
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.rounds import Rounds, open_rounds
from graveler.requests import committing as requests
from graveler.requests.base import CommitInfo
from graveler.requests.merging import CherryPick, Merge, Revert
from graveler.storage.objects.port import Objects
from tests.lake.support import NAME, Died, World, died, put, texts
from tests.support.campaigns import share
from tests.support.instruments import CountingObjects, Fault
from tests.support.pinned import Asked, pinned_cherry_pick, pinned_commit, pinned_merge, pinned_revert

SMALL = Sizes(records=30, parts=5)
COARSE = SplitParameters(min_size=300, max_size=2_000, raggedness=5)


class After:
    """Says that time is up when it is asked for the n-th time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > self.number


def noting(world: World) -> tuple[OpenRepository, CountingObjects]:
    """A client with empty caches whose requests are noted."""
    objects = CountingObjects(world.objects())
    return Lake(world.tables, lambda _: objects, clock=world.clock).repository(NAME), objects


def ranges_put(objects: CountingObjects) -> Counter[str]:
    """Which range files were put, how often each."""
    return Counter(key for method, key in objects.keys if method == "put" and "/ranges/" in key)


def ids(names: Iterable[str]) -> set[str]:
    """What the ranges hold; of a name, the rest is of where the bytes lie, which is another place in each world."""
    return {name.rpartition("/")[2].partition("-")[0] for name in names}


class DieAtAny:
    """Kills the client just before its n-th request of any kind."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, request: str, number: int) -> Fault:
        self._left -= 1
        if self._left < 0:
            raise Died
        return None


Make = Callable[[OpenRepository, After | None], Commit]
"""Does the verb on branch main, within the time that is given."""


def staged(world: World, kind: str) -> None:
    """A head of 120 objects, and on it changes of this kind."""
    put(world.main, {f"{number:05}": "base" for number in range(0, 240, 2)})
    world.main.commit("main", "base")
    if kind == "behind":
        put(world.main, {f"9/{number:05}": "new" for number in range(120)})
    elif kind == "all over":
        put(world.main, {f"{number:05}": "new" for number in range(0, 240, 3)})
    elif kind == "few":
        put(world.main, {f"{number:05}": "new" for number in range(0, 240, 40)})
    else:
        for number in range(40, 200, 2):
            world.main.delete("main", f"{number:05}")
        put(world.main, {"00001": "new"})


MINE = requests.Commit(branch="main", info=CommitInfo("m"))


def until(stop: After | None) -> Context:
    return Context() if stop is None else Context(limit=10**9, stop=stop)


def commit(repository: OpenRepository, stop: After | None) -> Commit:
    return repository.run(requests.Commit(branch="main", info=CommitInfo("m", request_id="r")), until(stop))


def commit_ask(error: TooMuchWorkError) -> Asked:
    return pinned_commit(branch="main", message="m", owner=error.operation, begun=error.partial_result)


def opened(world: World, ask: Asked, objects: Objects | None = None, sizes: Sizes = SMALL) -> Rounds:
    repository = (
        world.repository()
        if objects is None
        else Lake(world.tables, lambda _: objects, clock=world.clock).repository(NAME)
    )
    return open_rounds(repository, "op", ask, request_id="r", began=world.clock.now(), sizes=sizes)


def operate(world: World, ask: Asked, objects: Objects | None = None, sizes: Sizes = SMALL) -> Commit:
    for number in range(20):
        planned = opened(world, ask, objects, sizes).plan(number)
        for part in range(planned.parts):
            opened(world, ask, objects, sizes).run_part(part, number)
        made = opened(world, ask, objects, sizes).publish(number)
        if made is not None:
            return made
    raise AssertionError("no end")


KINDS = ("behind", "all over", "few", "deletes")


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_is_that_of_one_call_whichever_range_it_hands_over_behind(kind: str) -> None:
    alone = World(COARSE)
    staged(alone, kind)
    never = After(10**9)
    repository, objects = noting(alone)
    expected, contents = commit(repository, never), texts(alone.repository())
    direct = ids(ranges_put(objects))
    assert never.asked >= (5 if kind in ("behind", "all over") else 2)
    for moment in share(range(never.asked), 3, kind):
        world = World(COARSE)
        staged(world, kind)
        repository, objects = noting(world)
        with pytest.raises(TooMuchWorkError, match="takes longer than one call is allowed to") as handed:
            commit(repository, After(moment))
        before = ids(ranges_put(objects))
        made = operate(world, commit_ask(handed.value), objects)
        assert made.metarange_id == expected.metarange_id, moment
        assert texts(world.repository()) == contents
        assert world.repository().commit_of("main").id == made.id
        put_now = ranges_put(objects)
        assert direct <= ids(put_now), moment
        assert sum(count - 1 for count in put_now.values()) <= 1, (moment, put_now)
        if handed.value.partial_result is not None:
            assert before <= direct, "what was put in the request is what one call puts"
        else:
            assert not before


@pytest.mark.parametrize("kind", KINDS)
def test_the_operation_reads_nothing_again_of_what_was_done(kind: str) -> None:
    world = World(COARSE)
    staged(world, kind)
    with pytest.raises(TooMuchWorkError) as handed:
        commit(world.repository(), After(2))
    ask = commit_ask(handed.value)
    assert ask.begun is not None
    assert opened(world, ask).plan().parts > 1
    objects = CountingObjects(world.objects())
    opened(world, ask, objects).run_part(0)
    assert [key for _, key in objects.keys if "/ranges/" in key] == []


def test_another_head_has_the_part_made_anew() -> None:
    world = World(COARSE)
    staged(world, "all over")
    with pytest.raises(TooMuchWorkError) as handed:
        commit(world.repository(), After(4))
    world.main.create_branch("side", "main")
    put(world.main, {"00002": "side", "00200": "side"}, branch="side")
    world.main.commit("side", "side")
    world.main.merge("side", "main", beside_uncommitted=True)
    made = operate(world, commit_ask(handed.value))
    found = texts(world.repository())
    assert (found["00002"], found["00200"], found["00003"], found["00201"]) == ("side", "side", "new", "new")
    assert made.message == "m"


def test_a_head_that_moves_after_the_plan_has_the_part_made_anew() -> None:
    world = World(COARSE)
    staged(world, "all over")
    with pytest.raises(TooMuchWorkError) as handed:
        commit(world.repository(), After(4))
    ask = commit_ask(handed.value)
    planned = opened(world, ask).plan()
    for part in range(planned.parts):
        opened(world, ask).run_part(part)
    world.main.create_branch("side", "main")
    put(world.main, {"00001": "side"}, branch="side")
    world.main.commit("side", "side")
    world.main.merge("side", "main", beside_uncommitted=True)
    in_rounds = structs.replace(SMALL, in_place=0)
    assert operate(world, ask, sizes=in_rounds).message == "m"
    assert opened(world, ask).plan(1).parts == planned.parts, "another round, with the same cuts"
    assert texts(world.repository())["00001"] == "side"


def test_two_workers_and_a_death_at_any_request_make_one_commit() -> None:
    alone = World(COARSE)
    staged(alone, "few")
    expected = commit(alone.repository(), None)
    number = 0
    while True:
        world = World(COARSE)
        staged(world, "few")
        with pytest.raises(TooMuchWorkError) as handed:
            commit(world.repository(), After(2))
        ask = commit_ask(handed.value)
        if not died(partial(_steps, world.repository(DieAtAny(number)), ask)):
            break
        first, second = operate(world, ask), operate(world, ask)
        assert first == second, number
        assert first.metarange_id == expected.metarange_id
        number += 7
    assert number > 20


def _steps(repository: OpenRepository, ask: Asked) -> None:
    operation = open_rounds(repository, "op", ask, request_id="r", began=repository.clock.now(), sizes=SMALL)
    planned = operation.plan()
    for part in range(planned.parts):
        operation.run_part(part)
    operation.publish()


def test_a_request_that_dies_when_it_hands_over_leaves_all_to_the_next_commit() -> None:
    world = World(COARSE)
    staged(world, "all over")

    def kill() -> bool:
        raise Died

    with pytest.raises(Died):
        world.repository().run(MINE, Context(limit=10**9, stop=kill))
    world.clock.sleep(100)
    assert world.main.commit("main", "later").message == "later"
    assert texts(world.repository())["00003"] == "new"


def test_what_was_staged_after_the_hand_over_is_not_in_the_commit() -> None:
    world = World(COARSE)
    staged(world, "all over")
    with pytest.raises(TooMuchWorkError) as handed:
        commit(world.repository(), After(3))
    put(world.main, {"00000": "later", "99999": "later"})
    made = operate(world, commit_ask(handed.value))
    assert "99999" not in texts(world.repository(), made.id)
    assert texts(world.repository())["99999"] == "later"


def diverged(world: World) -> None:
    put(world.main, {f"{number:05}": "base" for number in range(200)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:05}": "dev" for number in range(0, 200, 7)}, branch="dev")
    world.main.commit("dev", "dev")
    put(world.main, {f"{number:05}": "main" for number in range(1, 200, 7)})
    world.main.commit("main", "main")
    put(world.main, {f"{number:05}": "again" for number in range(2, 200, 7)})
    world.main.commit("main", "again")


def merge(repository: OpenRepository, stop: After | None) -> Commit:
    return repository.run(Merge(source="dev", destination="main", info=CommitInfo(request_id="r")), until(stop))


def merge_ask(repository: OpenRepository, begun: PartialResult | None) -> Asked:
    return pinned_merge(source="dev", source_id=repository.commit_of("dev").id, destination="main", begun=begun)


def pick(repository: OpenRepository, stop: After | None) -> Commit:
    return repository.run(CherryPick(branch="main", ref="dev", info=CommitInfo(request_id="r")), until(stop))


def pick_ask(repository: OpenRepository, begun: PartialResult | None) -> Asked:
    return pinned_cherry_pick(branch="main", ref="dev", ref_id=repository.commit_of("dev").id, begun=begun)


def revert(repository: OpenRepository, stop: After | None) -> Commit:
    return repository.run(Revert(branch="main", ref="main~1", info=CommitInfo(request_id="r")), until(stop))


def revert_ask(repository: OpenRepository, begun: PartialResult | None) -> Asked:
    return pinned_revert(branch="main", ref="main~1", ref_id=repository.commit_of("main~1").id, begun=begun)


VERBS: Mapping[str, tuple[Make, Callable[[OpenRepository, PartialResult | None], Asked]]] = {
    "merge": (merge, merge_ask),
    "cherry-pick": (pick, pick_ask),
    "revert": (revert, revert_ask),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_merge_is_that_of_one_call_whichever_range_it_hands_over_behind(verb: str) -> None:
    make, ask_of = VERBS[verb]
    alone = World(COARSE)
    diverged(alone)
    never = After(10**9)
    repository, objects = noting(alone)
    expected = make(repository, never)
    direct = ids(ranges_put(objects))
    assert never.asked > 3
    for moment in share(range(never.asked), 3, verb):
        world = World(COARSE)
        diverged(world)
        repository, objects = noting(world)
        ask = ask_of(world.main, None)
        with pytest.raises(TooMuchWorkError) as handed:
            make(repository, After(moment))
        assert ids(ranges_put(objects)) <= direct
        ask = structs.replace(ask, begun=handed.value.partial_result)
        assert operate(world, ask, objects).metarange_id == expected.metarange_id, moment
        put_now = ranges_put(objects)
        assert sum(count - 1 for count in put_now.values()) <= 1, (moment, put_now)


def test_conflicts_of_a_merge_are_all_told_whenever_its_time_is_up() -> None:
    for moment in share(range(40), 5, "conflicts"):
        world = World(COARSE)
        diverged(world)
        put(world.main, {"00070": "mine", "00140": "mine"})
        world.main.commit("main", "mine")
        with pytest.raises((TooMuchWorkError, MergeConflictError)) as found:
            merge(world.repository(), After(moment))
        error = found.value
        if isinstance(error, TooMuchWorkError):
            with pytest.raises(MergeConflictError) as told:
                operate(world, merge_ask(world.main, error.partial_result))
            error = told.value
        assert isinstance(error, MergeConflictError)
        assert [conflict.path for conflict in error.conflicts] == ["00070", "00140"], moment


def test_the_hint_counts_before_anything_is_read_only() -> None:
    world = World(COARSE)
    staged(world, "all over")
    with pytest.raises(TooMuchWorkError, match="one call is allowed 10") as seen:
        world.repository().run(MINE, Context(limit=10, stop=After(10**9)))
    assert seen.value.partial_result is None
