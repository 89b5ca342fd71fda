"""Looking up many objects gives the result of looking up each, in a few requests: staged under several tokens, and in the
tree."""

import random

import pytest

from graveler.errors import ObjectNotFoundError
from graveler.lake.committing.sealing import seal
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from tests.lake.support import World, commit, put

PATHS = [f"d{number % 5}/k{number:03}" for number in range(120)]


def alone(repository: OpenRepository, ref: str, path: str) -> ObjectEntry | None:
    try:
        return repository.stat(ref, path)
    except ObjectNotFoundError:
        return None


@pytest.mark.parametrize("seed", range(8))
def test_each_is_found_as_it_is_alone(seed: int) -> None:
    """Committed, staged under a token that is being committed, staged behind it, deleted, never there; twice, in any order."""
    chance = random.Random(seed)
    world = World()
    commit(world.main, dict.fromkeys(chance.sample(PATHS, 80), "committed"))
    for text in ("sealed", "open"):
        put(world.main, {path: chance.choice((text, None)) for path in chance.sample(PATHS, 40)})
        if text == "sealed":
            seal(world.main.parts, "main", "somebody")
    asked = chance.choices(PATHS, k=150)
    for ref in ("main", "main@", world.main.branch("main").commit_id):
        found = world.repository().stat_many(ref, asked)
        assert found == [alone(world.main, ref, path) for path in asked]
    assert world.main.stat_many("main", []) == []


def test_a_branch_is_asked_for_a_hundred_at_a_time() -> None:
    world = World()
    commit(world.main, dict.fromkeys(PATHS, "committed"))
    put(world.main, dict.fromkeys(PATHS[:10], "staged"))
    counted = world.counted()
    assert all(counted.repository.stat_many("main", PATHS))
    assert counted.tables.calls == {"get_many": 4}  # the repository and the branch; its head; 120 paths
    assert counted.tables.items["get_many"] == 3 + len(PATHS)
