"""Listings of branches: staged changes overlay the commit, with unusual keys, in any number of tokens and shards."""

from random import Random

import msgspec
import pytest

from graveler.lake.committing import sealing
from graveler.lake.repository import OpenRepository
from graveler.model import Change, CommonPrefix, ObjectEntry
from graveler.staging.tokens import new_token
from graveler.tree.range_notes import MemoryNotes
from graveler.tree.rendered_pages import Renderer, Rendering
from tests.lake import oracles
from tests.lake.support import NAMESPACE, World, paths

NASTY = [
    "a",
    "a/",
    "a//",
    "a//b",
    "a/b",
    "a/b/",
    "a/b/c",
    "a0",
    "aa",
    "a\0",
    "a\0b",
    "/",
    "//",
    "///x",
    "/a",
    "é",
    "é/",
    "é/ü",
    "e\u0301",
    "\0",
    "\0\0",
    "\0/\0",
    "z/" + "k" * 1022,
    "z/" + "k" * 1021 + "j",
    "z" * 1024,
    "zz/",
    "\U0010ffff",
    "\U0010ffff/x",
    "😀/😀",
    "~",
    "\x7f",
    "data/file1",
    "data/file10",
    "data/file1/x",
    "data-old/x",
    "data",
    "data/",
    "data//",
    "data/_SUCCESS",
    "p/q/r/s/t",
    "p/q/r/s/",
    "p/q",
]
PREFIXES = [
    "",
    "a",
    "a/",
    "a//",
    "é",
    "é/",
    "/",
    "//",
    "z/",
    "data/",
    "data/file1",
    "\0",
    "nothing",
    "\U0010ffff",
    "p/q/",
]
DELIMITERS = ["", "/", "//", "file", "é", "\0"]
JSON: Rendering[ObjectEntry | CommonPrefix] = Rendering(ObjectEntry, msgspec.json.encode)


def entry(path: str, version: int) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{version}", version, f"{version:032x}", 0)


def use_shards(world: World, shards: int, branch: str = "main") -> None:
    """Give the branch a fresh open token of many shards, as a bulk writer's branch has one."""
    state = world.main.parts.branches.state(branch)
    after = msgspec.structs.replace(state, open=new_token(shards))
    world.tables.transact(world.main.parts.refs.move_branch_writes(state, after, None))


def seal(world: World, branch: str = "main") -> None:
    """As a commit that died after its seal."""
    sealing.seal(world.main.parts, branch, "somebody")


def stage(repository: OpenRepository, changes: dict[str, int | None], model: dict[str, int]) -> None:
    repository.link_many("main", [entry(path, version) for path, version in changes.items() if version is not None])
    repository.delete("main", [path for path, version in changes.items() if version is None])
    for path, version in changes.items():
        if version is None:
            model.pop(path, None)
        else:
            model[path] = version


def layered(random: Random, layers: int, shards: int) -> tuple[World, dict[str, int], dict[str, int]]:
    """A branch with committed objects and ``layers`` tokens of staged changes; what is there, and what was committed."""
    world = World()
    world.main._renderer = Renderer(NAMESPACE, MemoryNotes(), least=1)
    model: dict[str, int] = {}
    keys = [*NASTY, *(f"{p}{n}" for p in ("a/b", "data/f", "x/y/") for n in range(20))]
    stage(world.main, {key: 1 for key in keys if random.random() < 0.6}, model)
    world.main.commit("main", "m")
    committed = dict(model)
    if shards > 1:
        use_shards(world, shards)
    for layer in range(layers):
        chosen = [key for key in keys if random.random() < 0.3]
        stage(world.main, {key: random.choice((None, None, 1, layer + 2)) for key in chosen}, model)
        if layer < layers - 1:
            seal(world)
    return world, model, committed


def pages(
    repository: OpenRepository, amount: int, prefix: str = "", after: str = "", delimiter: str = ""
) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    place: str | None = after
    while place is not None:
        page = repository.list_objects("main", prefix=prefix, after=place, delimiter=delimiter, amount=amount)
        assert len(page.results) <= amount
        assert page.next_after is None or len(page.results) == amount
        if not delimiter:
            rendered = repository.render(JSON, "main", prefix=prefix, after=place, amount=amount)
            assert b"[" + b",".join(rendered.pieces) + b"]" == JSON.encode([*page.results])
            assert (rendered.count, rendered.next_after) == (len(page.results), page.next_after)
            assert (rendered.commit_id,) == page.commits
        found += [(item.path, isinstance(item, CommonPrefix)) for item in page.results]
        place = page.next_after
    return found


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("shards", [1, 4])
def test_listing_is_the_oracles_for_every_prefix_delimiter_and_start(layers: int, shards: int) -> None:
    random = Random(layers * 10 + shards)
    world, model, committed = layered(random, layers, shards)
    found = {item.path: item.size for item in world.main.objects("main")}
    assert found == model
    assert {item.path: item.size for item in world.main.objects("main@")} == committed
    for prefix in PREFIXES:
        for delimiter in DELIMITERS:
            expected = oracles.rolled_up(model, prefix, "", delimiter)
            assert pages(world.main, 1000, prefix, "", delimiter) == expected
            assert pages(world.main, random.choice((1, 2, 3, 7)), prefix, "", delimiter) == expected
            after = random.choice([*NASTY, *PREFIXES])
            expected = oracles.rolled_up(model, prefix, after, delimiter)
            assert pages(world.main, 5, prefix, after, delimiter) == expected, (prefix, after, delimiter)


@pytest.mark.parametrize("amount", [*range(1, 12), 30, 60, 101, 102, 103, 1000])
def test_every_page_size_gives_the_same_listing(amount: int) -> None:
    world, model, _ = layered(Random(5), 3, 2)
    for delimiter in ("", "/"):
        assert pages(world.main, amount, delimiter=delimiter) == oracles.rolled_up(model, "", "", delimiter)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("delimiter", ["", "/", "//"])
def test_uncommitted_changes_are_the_difference_of_the_two(layers: int, delimiter: str) -> None:
    for seed in range(4):
        world, model, committed = layered(Random(seed), layers, 1 + seed)
        changed = oracles.differences(committed, model)
        for prefix in ("", "a/", "data/", "data/f", "é"):
            found: list[Change] = []
            place: str | None = ""
            while place is not None:
                page = world.main.uncommitted("main", prefix=prefix, after=place, delimiter=delimiter, amount=seed + 1)
                found += page.results
                place = page.next_after
            shown = [(change.path, change.type.value == "prefix_changed") for change in found]
            assert shown == oracles.rolled_up(changed, prefix, "", delimiter)
            assert all(
                common or changed[path] == change.type for change, (path, common) in zip(found, shown, strict=True)
            )


def test_tombstones_hide_a_whole_common_prefix() -> None:
    world = World()
    model: dict[str, int] = {}
    stage(world.main, {f"{folder}/{n}": 1 for folder in "abc" for n in range(30)}, model)
    world.main.commit("main", "m")
    stage(world.main, {f"b/{n}": None for n in range(30)}, model)
    assert pages(world.main, 1, delimiter="/") == [("a/", True), ("c/", True)]
    assert pages(world.main, 10, prefix="b/") == []
    assert [c.path for c in world.main.uncommitted("main", delimiter="/").results] == ["b/"]
    seal(world)
    stage(world.main, {"b/7": 2}, model)
    assert pages(world.main, 2, delimiter="/") == [("a/", True), ("b/", True), ("c/", True)]


@pytest.mark.parametrize("shards", [1, 3])
def test_more_than_a_thousand_staged_items_are_listed_whole(shards: int) -> None:
    world = World()
    model: dict[str, int] = {}
    stage(world.main, {f"f{n % 7}/k{n:05}": 1 for n in range(3000)}, model)
    world.main.commit("main", "m")
    if shards > 1:
        use_shards(world, shards)
    stage(world.main, {f"f{n % 7}/k{n:05}": None for n in range(0, 3000, 2)}, model)
    seal(world)
    stage(world.main, {f"f{n % 7}/k{n:05}": 3 for n in range(0, 3000, 3)}, model)
    stage(world.main, {f"g/{n:05}": 2 for n in range(1700)}, model)
    assert {item.path: item.size for item in world.main.objects("main")} == model
    for amount in (1, 997):
        assert pages(world.main, amount, delimiter="/") == oracles.rolled_up(model, delimiter="/")
    assert pages(world.main, 500) == oracles.rolled_up(model)
    assert pages(world.main, 500, prefix="f3/") == oracles.rolled_up(model, "f3/")
    world.wait_for_leases()
    world.main.commit("main", "all of it")
    assert {item.path: item.size for item in world.main.objects("main@")} == model


def test_thousands_of_tombstones_over_nothing_are_listed_as_nothing() -> None:
    world = World()
    world.main.delete("main", [f"k{n:05}" for n in range(2500)])
    world.main.link("main", entry("k01234x", 1))
    assert paths(world.main) == ["k01234x"]
    assert pages(world.main, 1, delimiter="1") == [("k01", True)]
    assert [c.path for c in world.main.uncommitted("main").results] == ["k01234x"]


def test_a_listing_of_a_branch_goes_on_while_others_commit() -> None:
    """Each page is a request of its own: what is acknowledged between two is in the second."""
    world = World()
    world.main.link_many("main", [entry(f"k{n}", 1) for n in range(9)])
    first = world.main.list_objects("main", amount=4)
    world.main.commit("main", "m")
    world.main.delete("main", ["k1", "k5"])
    rest = world.main.list_objects("main", after=first.next_after or "", amount=10)
    assert [item.path for item in rest.results] == ["k4", "k6", "k7", "k8"]
