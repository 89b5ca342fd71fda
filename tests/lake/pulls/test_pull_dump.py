"""Pull requests survive the loss of the table, as the branches do."""

from functools import partial
from typing import Any

from graveler.lake.dump.dump import dump
from graveler.lake.dump.restore import restore
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.requests.pulls import PullRequest, PullState
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from tests.lake.support import NAME, Before, World, put
from tests.support.instruments import Boundaries, Fault, FaultyTables


def world_with_pulls() -> World:
    """An open pull request with an approval and a comment, a merged and a closed one, and one whose branch is gone."""
    world = World()
    repository = world.main
    put(repository, {"a": "1"})
    repository.commit("main", "one")
    for name in ("dev", "done", "gone"):
        repository.create_branch(name, "main")
        put(repository, {name: "1"}, name)
        repository.commit(name, name)
        repository.create_pull_request(name, name, "main", by="ada")
    repository.create_pull_request("closed", "dev", "main", by="ada")
    repository.merge_pull_request("2")
    repository.delete_branch("gone")
    repository.update_pull_request("4", status="closed")
    repository.approve_pull_request("1", repository.commit_of("dev").id, by="cyd")
    repository.comment_on_pull_request("1", "good", by="cyd")
    return world


def take(world: World, tables: Tables | None = None) -> str:
    record = world.main.repository
    return dump(record, tables or world.tables, world.objects(), world.clock).id


def restored(world: World, dump_id: str, tables: Tables | None = None) -> OpenRepository:
    target = tables or MemoryTables()
    restore(target, world.objects(), dump_id, NAME, world.clock.now())
    return Lake(target, world.objects, clock=world.clock).repository(NAME)


def shown(repository: OpenRepository) -> list[Any]:
    fields = ("number", "title", "state", "reason", "merged_commit", "approvals", "version")
    return [tuple(getattr(pull, name) for name in fields) for pull in repository.pull_requests().results]


def test_they_come_back_and_go_on_with_their_branches() -> None:
    world = world_with_pulls()
    before = shown(world.main)
    repository = restored(world, take(world))
    assert shown(repository) == before
    assert [comment.text for comment in repository.pull_comments("1").results] == ["good"]
    numbers = {
        status: [pull.number for pull in repository.pull_requests(status).results]
        for status in ("open", "closed", "merged")
    }
    assert numbers == {"open": [3, 1], "closed": [4, 2], "merged": [2]}, (
        "of 3 nobody has noticed yet that its branch is gone"
    )
    assert repository.create_pull_request("new", "dev", "main").number == 5
    assert repository.merge_pull_request("1").state is PullState.MERGED


def test_what_the_table_still_has_of_later_ones_is_removed() -> None:
    world = world_with_pulls()
    dump_id = take(world)
    world.main.create_pull_request("later", "dev", "main")
    world.main.comment_on_pull_request("5", "later")
    world.main.merge_pull_request("1")
    world.lake().delete_repository(NAME)
    repository = restored(world, dump_id, world.tables)
    assert [pull.number for pull in repository.pull_requests().results] == [4, 3, 2, 1]
    assert repository.pull_request("1").is_open
    assert [pull.number for pull in repository.pull_requests("merged").results] == [2]
    repository.create_pull_request("again", "dev", "main")
    assert repository.pull_comments("5").results == ()


def test_one_that_is_merged_during_the_dump_is_open_if_its_commit_is_not_in_it() -> None:
    for number in range(1, 200):
        world = world_with_pulls()
        race = Before("tables.query", number, partial(world.main.merge_pull_request, "1"))

        def schedule(method: str, count: int, race: Before = race) -> Fault:
            return race(f"tables.{method}", count)

        repository = restored(world, take(world, FaultyTables(world.tables, schedule, Boundaries())))
        pull: PullRequest = repository.pull_request("1")
        history = [commit.id for commit in repository.log("main").results]
        assert (pull.state is PullState.MERGED) == (repository.commit_of("main").message == "Merge pull request 1: dev")
        assert not pull.merged_commit or pull.merged_commit in history
        if not race.reached:
            return
    raise AssertionError("the dump reads on and on")
