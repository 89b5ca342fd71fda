"""Two names on one branch for tables with one UUID, since a table was registered under another name, too. Each is a table."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import AlreadyExistsError, InvalidError, MergeConflictError, NotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.linked_files import FOLDER_FIELD
from graveler.model import MergeStrategies, MergeStrategy
from graveler.sdk.iceberg_tables import Tables
from graveler.table_format.reached_files import reached_files
from tests.lake.iceberg.support import append, with_table
from tests.lake.iceberg.test_table_names import do, drop, named, rename
from tests.lake.support import StoredWorld, World
from tests.support.campaigns import examples

Work = Callable[[StoredWorld, str], object]
ORDERS, COPY, NEW, OTHER = "shop.orders", "shop.copy", "shop.new", "shop.other"


def register(old: str, new: str) -> Work:
    """Give a table another name, beside the one that it has."""

    def work(world: StoredWorld, branch: str) -> None:
        location = CatalogReader(world.main.parts, branch).load(named(old)).location
        world.main.register_table(branch, table=named(new), location=location)

    return work


def add(name: str, file: str) -> Work:
    return lambda world, branch: append(world, f"data/{file}", branch=branch, table=named(name))


def nothing(world: StoredWorld, branch: str) -> None:
    """Do nothing to a table."""
    world.main.commit(branch, "nothing", allow_empty=True)


def world_with(base: Work, source: Work, destination: Work) -> World:
    """A world with the table shop.orders of one file, changed on dev (the source) and on main."""
    world = with_table()
    add(ORDERS, "0")(world, "main")
    base(world, "main")
    world.main.create_branch("dev", "main")
    source(world, "dev")
    destination(world, "main")
    return world


def tables(world: World, ref: str = "main") -> dict[str, str]:
    """The data files of each table of a ref, all of whose files are linked, below a folder of its own."""
    files = {}
    folders = []
    for entry in Tables(world.main, ref).list():
        table = Tables(world.main, ref).load(entry.name)
        assert table.check() == [], entry.name
        folders.append(table.entry.metadata[FOLDER_FIELD])
        locations = reached_files(table.metadata, table.read_file)
        files[entry.name] = "".join(sorted(name.rpartition("/")[2] for name in locations if "/data/" in name))
    assert len(set(folders)) == len(folders)
    return files


BOTH = register(ORDERS, COPY)

MERGED: dict[str, tuple[Work, Work, Work, dict[str, str]]] = {
    "each side changed another one": (BOTH, add(ORDERS, "a"), add(COPY, "b"), {ORDERS: "0a", COPY: "0b"}),
    "both changed one of two": (BOTH, add(COPY, "a"), add(COPY, "b"), {ORDERS: "0", COPY: "0ab"}),
    "both changed both": (
        BOTH,
        do(add(ORDERS, "a"), add(COPY, "c")),
        do(add(ORDERS, "b"), add(COPY, "d")),
        {ORDERS: "0ab", COPY: "0cd"},
    ),
    "each side renamed another one": (BOTH, rename(COPY, NEW), rename(ORDERS, OTHER), {NEW: "0", OTHER: "0"}),
    "one renamed and the other dropped": (BOTH, drop(ORDERS), rename(COPY, NEW), {NEW: "0"}),
    "one dropped, one renamed and changed": (
        BOTH,
        do(drop(ORDERS), rename(COPY, NEW)),
        add(COPY, "b"),
        {NEW: "0b"},
    ),
    "one of two renamed and changed": (BOTH, rename(COPY, NEW), add(COPY, "b"), {ORDERS: "0", NEW: "0b"}),
    "registered and renamed": (nothing, BOTH, rename(ORDERS, NEW), {COPY: "0", NEW: "0"}),
    "registered, and both changed": (
        nothing,
        do(BOTH, add(COPY, "c"), add(ORDERS, "a")),
        add(ORDERS, "b"),
        {ORDERS: "0ab", COPY: "0c"},
    ),
    "registered and renamed, and both changed": (
        nothing,
        do(BOTH, add(ORDERS, "a")),
        do(rename(ORDERS, NEW), add(NEW, "b")),
        {COPY: "0", NEW: "0ab"},
    ),
    "registered on both sides, and changed": (
        nothing,
        do(add(ORDERS, "a"), BOTH, add(COPY, "c")),
        do(BOTH, add(COPY, "d")),
        {ORDERS: "0a", COPY: "0acd"},
    ),
    "registered instead of a rename": (nothing, do(BOTH, drop(ORDERS)), add(ORDERS, "b"), {COPY: "0b"}),
    "renamed, and the old name registered again": (
        nothing,
        do(rename(ORDERS, NEW), register(NEW, ORDERS)),
        nothing,
        {ORDERS: "0", NEW: "0"},
    ),
}

CONFLICTS: dict[str, tuple[Work, Work, Work, str]] = {
    "the dropped one changed": (
        BOTH,
        do(drop(ORDERS), rename(COPY, NEW)),
        add(ORDERS, "b"),
        "table shop.orders: the source dropped the table, and the destination changed it",
    ),
    "two of one UUID get one name": (
        BOTH,
        rename(ORDERS, NEW),
        rename(COPY, NEW),
        "table shop.new: both sides have a new table of this name, and they are two",
    ),
    "two names for one of two": (
        BOTH,
        rename(ORDERS, NEW),
        rename(ORDERS, OTHER),
        "table shop.orders: the source renamed it to table shop.new, and the destination to table shop.other",
    ),
    "renamed and dropped": (
        BOTH,
        rename(ORDERS, NEW),
        drop(ORDERS),
        "table shop.orders: the source renamed it to table shop.new, and the destination dropped it",
    ),
    "swapped and changed": (
        do(BOTH, add(COPY, "c")),
        do(rename(ORDERS, NEW), rename(COPY, ORDERS), rename(NEW, COPY)),
        add(ORDERS, "b"),
        "table shop.orders: the source renamed it to shop.copy and has another one here, and the destination changed it",
    ),
    "replaced by the other one": (
        do(BOTH, add(COPY, "c")),
        do(drop(ORDERS), rename(COPY, ORDERS)),
        add(ORDERS, "b"),
        "table shop.orders: one side made it anew, and the other changed it",
    ),
}


@pytest.mark.parametrize("name", MERGED)
def test_tables_of_one_uuid_are_merged_by_their_names(name: str) -> None:
    base, source, destination, expected = MERGED[name]
    world = world_with(base, source, destination)
    world.main.merge("dev", "main")
    assert tables(world) == expected
    mirrored = world_with(base, destination, source)
    mirrored.main.merge("dev", "main")
    assert tables(mirrored) == expected


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_of_one_of_them_has_its_reason(name: str) -> None:
    base, source, destination, sentence = CONFLICTS[name]
    world = world_with(base, source, destination)
    with pytest.raises(MergeConflictError) as refused:
        world.main.merge("dev", "main")
    assert f"; {sentence}; nothing was changed" in str(refused.value)


OUTSIDE: dict[str, dict[str, str]] = {
    "the dropped one changed": {NEW: "0", ORDERS: "0b"},
}
"""What the tables are if the destination wins, where the source did something else that is no conflict."""


@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("strategy", [MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS])
def test_a_strategy_takes_one_side(name: str, strategy: MergeStrategy) -> None:
    world = world_with(*CONFLICTS[name][:3])
    source, destination = tables(world, "dev"), tables(world)
    world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    expected = source if strategy is MergeStrategy.SOURCE_WINS else OUTSIDE.get(name, destination)
    assert tables(world) == expected


def test_the_next_merge_goes_on_after_folders_of_links_have_come_together() -> None:
    world = world_with(*MERGED["registered instead of a rename"][:3])
    world.main.merge("dev", "main")
    add(COPY, "c")(world, "dev")
    add(COPY, "d")(world, "main")
    world.main.merge("dev", "main")
    assert tables(world) == {COPY: "0bcd"}
    world.main.merge("main", "dev")
    assert tables(world, "dev") == {COPY: "0bcd"}


NAMES = [ORDERS, COPY, NEW, OTHER]
STEPS = st.lists(
    st.tuples(st.sampled_from(["register", "rename", "drop", "add"]), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    max_size=5,
)


def steps(label: str, chosen: list[tuple[str, str, str]]) -> Work:
    """The steps of a random work, of which those are left out that have no sense."""

    def work(world: StoredWorld, branch: str) -> None:
        for number, (verb, name, other) in enumerate(chosen):
            step = {
                "register": register(name, other),
                "rename": rename(name, other),
                "drop": drop(name),
                "add": add(name, f"{label}{number}"),
            }[verb]
            with suppress(NotFoundError, AlreadyExistsError, InvalidError):
                step(world, branch)
        nothing(world, branch)

    return work


@settings(max_examples=examples(120))
@given(base=STEPS, source=STEPS, destination=STEPS, strategy=st.sampled_from(list(MergeStrategy)))
def test_each_table_of_a_random_merge_has_its_files_and_a_folder_of_its_own(
    base: list[tuple[str, str, str]],
    source: list[tuple[str, str, str]],
    destination: list[tuple[str, str, str]],
    strategy: MergeStrategy,
) -> None:
    world = world_with(steps("b", base), steps("s", source), steps("d", destination))
    sides = {**tables(world, "dev"), **tables(world)}
    try:
        world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    except MergeConflictError:
        assert strategy is MergeStrategy.NONE
        return
    merged = tables(world)
    assert merged.keys() <= sides.keys()
    while merged:
        name, _ = merged.popitem()
        drop(name)(world, "main")
        assert tables(world) == merged, f"{name} has taken files of others with it"
