"""Readers that read the branch before a commit still find the staged changes, and clean-up continues where it stopped (C3)."""

import pytest

from graveler.errors import (
    BusyError,
    NoChangesError,
)
from graveler.staging.cleanup import LONGEST_REQUEST, SECOND_SWEEP, CleanupQueue
from graveler.staging.tokens import TokenState
from graveler.storage.tables.port import Key, Value
from tests.lake.support import (
    Before,
    World,
    commit,
    messages,
    paths,
    put,
    texts,
)
from tests.support.instruments import CountingTables, Fault


def test_a_reader_that_took_the_branch_before_the_publish_still_finds_what_was_staged() -> None:
    world = World()
    put(world.main, {"a": "1"})

    def publish() -> None:
        world.main.commit("main", "m")
        world.clock.time += LONGEST_REQUEST - 1
        put(world.main, {"b": "1"})
        world.main.commit("main", "cleans up")

    reader = world.repository(Before("tables.query", 1, publish))
    assert paths(reader) in (["a"], ["a", "b"])


@pytest.mark.parametrize("moment", range(6))
def test_a_read_at_any_moment_of_commits_and_clean_up_finds_what_was_acknowledged(moment: int) -> None:
    world = World()
    put(world.main, {"a": "1"})

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            world.main.commit("main", "m")
            world.clock.time += LONGEST_REQUEST - 1
            put(world.main, {"b": "1"})
            world.main.commit("main", "cleans up")
        return None

    assert world.repository(schedule).read("main", "a") == b"1"


def test_applied_tokens_are_cleaned_up_after_the_longest_request_and_again_a_day_later() -> None:
    world = World()
    writer = world.repository()
    put(writer, {"a": "1"})
    token = writer.parts.branches.state("main").open
    world.main.commit("main", "m")
    staged, queue = world.staged(), world.cleanup()
    assert list(queue.waiting()) == [token]
    assert queue.sweep(staged, world.clock.now() + LONGEST_REQUEST - 1) == 0
    assert staged.exists([token])
    world.clock.time += LONGEST_REQUEST + 1
    commit(world.main, {"b": "1"})
    assert not staged.exists([token])
    # A writer with the token from long ago leaves an item there.
    put(writer, {"c": "1"})
    assert staged.exists([token])
    assert texts(world.main) == {"a": "1", "b": "1", "c": "1"}
    world.clock.time += SECOND_SWEEP + 1
    world.main.commit("main", "c")
    assert not staged.exists([token])
    assert token not in list(queue.waiting())


def test_a_clean_up_that_found_nothing_due_asks_again_when_something_is() -> None:
    world = World()
    tables = CountingTables(world.tables)
    queue, staged = CleanupQueue(tables, world.main.repository.uid), world.staged()
    now = world.clock.now()

    def sweep(later: float) -> tuple[int, int]:
        before = tables.calls["query"]
        return queue.sweep(staged, now + later), tables.calls["query"] - before

    commit(world.main, {"a": "1"})
    assert sweep(0) == (0, 1)
    commit(world.main, {"b": "1"})  # by another process: what it queues is due no earlier
    assert [sweep(1), sweep(LONGEST_REQUEST - 1)] == [(0, 0), (0, 0)]
    assert sweep(LONGEST_REQUEST + 1) == (2, 1)
    assert sweep(LONGEST_REQUEST + 1) == (0, 1)
    assert sweep(2 * LONGEST_REQUEST) == (0, 0)
    assert sweep(SECOND_SWEEP + 2 * LONGEST_REQUEST + 3) == (2, 1)


def test_an_empty_queue_is_looked_at_again_after_the_longest_request() -> None:
    world = World()
    tables = CountingTables(world.tables)
    queue, staged, now = CleanupQueue(tables, world.main.repository.uid), world.staged(), world.clock.now()
    for later, requests in ((0, 1), (LONGEST_REQUEST - 1, 1), (LONGEST_REQUEST, 2)):
        queue.sweep(staged, now + later)
        assert tables.requests == requests


def test_the_clean_up_of_a_token_with_many_items_goes_on_where_it_stopped() -> None:
    world = World()
    world.main.delete("main", [f"k{n}" for n in range(2500)])
    put(world.main, {"a": "1"})
    token = world.main.parts.branches.state("main").open
    world.main.commit("main", "m")
    now = world.clock.now() + LONGEST_REQUEST + 1
    staged, queue = world.staged(), world.cleanup()
    done = [queue.sweep(staged, now) for _ in range(4)]
    assert sum(done) == 1
    assert not staged.exists([token])


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_clean_up_that_fails_does_not_fail_the_commit(fault: Fault) -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.clock.time += LONGEST_REQUEST + 1
    put(world.main, {"b": "1"})
    sweeping = False

    def schedule(request: str, _: int) -> Fault:
        nonlocal sweeping
        if request == "tables.write_many":
            sweeping = True
        return fault if sweeping else None

    world.repository(schedule).commit("main", "m")
    assert sweeping
    assert messages(world.main)[0] == "m"


def test_a_clean_up_that_finds_the_table_busy_does_not_fail_the_commit() -> None:
    world = World()
    put(world.main, {"b": "1"})
    committed = False

    def schedule(request: str, _: int) -> Fault:
        nonlocal committed
        if committed and request == "tables.query":
            raise BusyError("the table is busy")
        if request == "tables.transact" and world.main.parts.branches.state("main").sealed:
            committed = True
        return None

    world.repository(schedule).commit("main", "m")
    assert messages(world.main)[0] == "m"


def test_a_clean_up_entry_that_makes_no_sense_does_not_break_a_commit() -> None:
    world = World()
    uid = world.main.repository.uid
    senseless: list[dict[str, Value]] = [{}, {"token": "t"}, {"sweep": 1}, {"token": "no token", "sweep": 1}]
    for number, item in enumerate(senseless):
        world.tables.put(Key(f"{uid}/cleanup", bytes(8) + bytes([number])), item)
    commit(world.main, {"a": "1"})
    token = next(world.cleanup().waiting())
    world.clock.time += LONGEST_REQUEST + 1
    commit(world.main, {"b": "1"})
    assert not world.staged().exists([token])


def test_outcomes_tell_where_tokens_went() -> None:
    world = World()
    put(world.main, {"a": "1"})
    token = world.main.parts.branches.state("main").open
    made = world.main.commit("main", "m")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert (outcome.state, outcome.commit_id) == (TokenState.PUBLISHED, made.id)
    put(world.main, {"a": "1"})
    token = world.main.parts.branches.state("main").open
    with pytest.raises(NoChangesError):
        world.main.commit("main", "m")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert outcome.state is TokenState.DROPPED
    world.main.create_branch("b", "main")
    put(world.main, {"x": "1"}, "b")
    token = world.main.parts.branches.state("b").open
    world.main.delete_branch("b")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert outcome.state is TokenState.DELETED
