"""Cost follows the change, not the lake (L5): each verb's requests are those of its docstring.

Every client here is cold, so that commits and trees cost their read; ``warm`` says otherwise.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from graveler.errors import NoChangesError, ObjectNotFoundError
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import CommonPrefix, ObjectEntry, SplitParameters, StatusState
from tests.lake.support import Counted, World, commit, put, write_files
from tests.support.instruments import CountingObjects, CountingTables

WIDE = SplitParameters(min_size=200, max_size=1600, raggedness=4)
FOLDERS, FILES = 40, 2000

Verb = Callable[[OpenRepository], object]


def external(path: str, version: int = 1) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{version}/{path}", 1, "00" * 16, 0)


def path_of(number: int) -> str:
    return f"d{number % FOLDERS:02}/k{number:04}"


@pytest.fixture(scope="module")
def large() -> World:
    """A lake with many ranges, which no test here changes, except by branches of its own."""
    world = World(WIDE)
    world.main.link_many("main", [external(path_of(n)) for n in range(FILES)])
    world.main.commit("main", "all")
    assert len(world.main.tree("main")) > 150
    return world


def run(world: World, verb: Verb, *, warm: bool = False) -> Counted:
    counted = world.counted()
    if warm:
        verb(counted.repository)
    counted.reset()
    verb(counted.repository)
    return counted


def tables(counted: Counted) -> dict[str, int]:
    """Requests to the table, reads of one or several items taken together."""
    calls = counted.tables.calls
    found = {
        "read": calls["get"] + calls["get_many"],
        "query": calls["query"],
        "write": calls["put"] + calls["write_many"] + calls["delete"],
        "transact": calls["transact"],
    }
    return {kind: number for kind, number in found.items() if number}


def fresh_branch(world: World, name: str) -> str:
    world.main.create_branch(name, "main")
    return name


# Staging


@pytest.mark.parametrize("warm", [False, True])
def test_linking_one_object_is_one_write_and_one_read(large: World, warm: bool) -> None:
    branch = fresh_branch(large, f"link{warm:d}")
    counted = run(large, lambda r: r.link(branch, external("new")), warm=warm)
    assert tables(counted) == {"write": 1, "read": 1 if warm else 2}
    assert counted.objects.requests == 0


@pytest.mark.parametrize("warm", [False, True])
def test_uploading_is_linking_and_one_object_write(large: World, warm: bool) -> None:
    branch = fresh_branch(large, f"upload{warm:d}")
    counted = run(large, lambda r: r.upload(branch, "new", b"1"), warm=warm)
    assert tables(counted) == {"write": 1, "read": 1 if warm else 2}
    assert counted.objects.calls == {"put": 1}


@pytest.mark.parametrize(("amount", "writes", "reads"), [(1, 1, 1), (60, 3, 2), (1000, 40, 2), (1001, 41, 3)])
def test_deleting_many_is_a_read_a_write_for_each_25_and_a_read_for_each_thousand(
    large: World, amount: int, writes: int, reads: int
) -> None:
    branch = fresh_branch(large, f"delete{amount}")
    paths = [f"none{n}" for n in range(amount)]
    counted = run(large, lambda r: r.delete(branch, paths), warm=True)
    assert tables(counted) == {"write": writes, "read": reads}
    counted = run(large, lambda r: r.link_many(branch, [external(path) for path in paths]), warm=True)
    assert tables(counted) == {"write": writes, "read": reads}


# Reading


def test_stat_of_a_cold_client_is_one_metarange_and_one_range(large: World) -> None:
    head = large.main.branch("main").commit_id
    for ref, reads in (("main", 3), ("main@", 2), (head, 1)):  # the branch, what is staged, the commit
        counted = run(large, lambda r, ref=ref: r.stat(ref, path_of(7)))  # type: ignore[misc]
        assert tables(counted) == {"read": reads}
        assert (counted.metaranges_read(), counted.ranges_read(), counted.objects.requests) == (1, 1, 2)


def test_stat_of_a_warm_client_opens_nothing(large: World) -> None:
    for ref, reads in (("main", 1), ("main@", 1)):
        counted = run(large, lambda r, ref=ref: r.stat(ref, path_of(7)), warm=True)  # type: ignore[misc]
        assert tables(counted) == {"read": reads}
        assert counted.objects.requests == 0


def test_stat_of_what_is_staged_does_not_touch_the_tree(large: World) -> None:
    branch = fresh_branch(large, "stat")
    large.main.link(branch, external("staged"))
    counted = run(large, lambda r: r.stat(branch, "staged"))
    assert tables(counted) == {"read": 2}
    assert counted.objects.requests == 0


def test_stat_never_opens_a_second_range(large: World) -> None:
    for number in range(0, FILES, 83):
        for path in (path_of(number), path_of(number) + "x"):
            counted = large.counted()
            with suppress(ObjectNotFoundError):
                counted.repository.stat("main@", path)
            assert counted.ranges_read() <= 1


def test_reading_an_object_is_stat_and_one_object_read() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    counted = run(world, lambda r: r.read("main@", "a"), warm=True)
    assert tables(counted) == {"read": 1}
    assert counted.objects.calls == {"stream": 1}


def test_a_page_of_a_listing_opens_the_ranges_that_it_spans(large: World) -> None:
    tree = large.main.tree("main")
    spanned = next(n for n in range(len(tree)) if sum(tree.info(i).count for i in range(n + 1)) >= 100) + 1
    for ref, expected in (("main@", {"read": 2}), ("main", {"read": 2, "query": 1})):
        counted = run(large, lambda r, ref=ref: r.list_objects(ref, amount=100))  # type: ignore[misc]
        assert tables(counted) == expected
        assert counted.metaranges_read() == 1
        assert counted.ranges_read() in (spanned, spanned + 1)


def test_a_delimiter_jumps_over_ranges(large: World) -> None:
    counted = large.counted()
    page = counted.repository.list_objects("main@", delimiter="/", amount=1000)
    assert len(page.results) == FOLDERS
    assert all(isinstance(item, CommonPrefix) for item in page.results)
    assert counted.ranges_read() <= FOLDERS
    assert counted.ranges_read() < len(large.main.tree("main")) / 3


def test_a_delimiter_reads_what_is_staged_once(large: World) -> None:
    branch = fresh_branch(large, "staged")
    large.main.link_many(branch, [external(path_of(n), 2) for n in range(0, FILES, 4)])
    for verb in (
        lambda r: r.list_objects(branch, delimiter="/", amount=1000),
        lambda r: r.uncommitted(branch, delimiter="/", amount=1000),
    ):
        assert tables(run(large, verb)) == {"read": 2, "query": 1}


def test_uncommitted_opens_the_ranges_that_are_touched(large: World) -> None:
    branch = fresh_branch(large, "touched")
    large.main.link_many(branch, [external(path_of(n), 2) for n in (1, 500)])
    counted = run(large, lambda r: r.uncommitted(branch))
    assert tables(counted) == {"read": 2, "query": 1}
    assert (counted.metaranges_read(), counted.ranges_read()) == (1, 2)


# Statuses


def test_a_status_is_four_reads_and_one_write_and_a_list_two_reads(large: World) -> None:
    head = large.main.branch("main").commit_id
    # The commit, whether it has expired, the statuses of its tree, and the candidate whose pull request it may make ready.
    counted = run(large, lambda r: r.post_status(head, "dbt", StatusState.SUCCESS, by="ann"))
    assert tables(counted) == {"read": 4, "write": 1}
    counted = run(large, lambda r: r.post_status("main", "dbt", StatusState.SUCCESS, by="ann"))
    assert tables(counted) == {"read": 5}, "the branch, too; nothing new"
    assert tables(run(large, lambda r: r.statuses(head))) == {"read": 2}, "no key, whose end might be looked up"
    assert counted.objects.requests == 0


# Commits


@pytest.mark.parametrize("amount", [1, 10, 40])
def test_a_commit_costs_what_it_touches(large: World, amount: int) -> None:
    branch = fresh_branch(large, f"commit{amount}")
    tree = large.main.tree("main")
    step = len(tree) // amount
    firsts = [tree.info(number).first.decode() for number in range(0, len(tree), step)][:amount]
    large.main.link_many(branch, [external(path, 100 + amount) for path in firsts])  # values change: no cut moves
    counted = run(large, lambda r: r.commit(branch, "m"))
    # The branch, and its head; is anything staged, what, is clean-up due; seal and publish.
    assert tables(counted) == {"read": 2, "query": 3, "transact": 2}
    assert (counted.metaranges_read(), counted.ranges_read()) == (1, amount)
    assert (counted.metaranges_written(), counted.ranges_written()) == (1, amount)
    assert counted.objects.requests == 2 * (1 + amount) + 1  # and the commit record


def test_a_commit_with_a_request_id_costs_one_read_more(large: World) -> None:
    branch = fresh_branch(large, "request")
    large.main.link(branch, external("new"))
    assert tables(run(large, lambda r: r.commit(branch, "m", request_id="r"))) == {"read": 3, "query": 3, "transact": 2}
    assert tables(run(large, lambda r: r.commit(branch, "m", request_id="r"))) == {"read": 2, "query": 1}


def test_a_commit_reads_what_is_staged_by_the_thousand(large: World) -> None:
    branch = fresh_branch(large, "thousands")
    large.main.link_many(branch, [external(f"new/{n:05}") for n in range(2500)])
    assert tables(run(large, lambda r: r.commit(branch, "m"))) == {"read": 2, "query": 5, "transact": 2}


def test_a_commit_without_changes_costs_two_reads(large: World) -> None:
    def refused(repository: OpenRepository) -> None:
        with pytest.raises(NoChangesError):
            repository.commit("main", "m")

    assert tables(run(large, refused)) == {"read": 1, "query": 1}


# Comparing and merging


def test_a_diff_opens_the_ranges_that_differ(large: World) -> None:
    branch = fresh_branch(large, "diff")
    large.main.link_many(branch, [external(path_of(n), 2) for n in (1, 500, 999)])
    large.main.commit(branch, "m")
    heads = [large.main.branch(name).commit_id for name in ("main", branch)]
    counted = large.counted()
    assert len(counted.repository.diff(*heads).results) == 3
    assert (counted.metaranges_read(), counted.ranges_read()) == (2, 6)
    assert tables(counted) == {"read": 2}
    counted = run(large, lambda r: r.diff("main", branch))
    assert tables(counted) == {"read": 3}  # two refs, the two commits in one
    assert counted.objects.requests == 8


def test_a_diff_of_equal_commits_opens_nothing_but_their_metarange(large: World) -> None:
    counted = run(large, lambda r: r.diff("main", "main@"))
    assert counted.objects.requests == 1


def test_a_merge_of_changes_in_different_places_opens_and_writes_no_range(large: World) -> None:
    one, other = fresh_branch(large, "one"), fresh_branch(large, "other")
    large.main.link(one, external(path_of(1), 2))
    large.main.commit(one, "m")
    large.main.link(other, external(path_of(1999), 2))
    large.main.commit(other, "m")
    counted = run(large, lambda r: r.merge(one, other))
    assert (counted.metaranges_read(), counted.ranges_read()) == (3, 0)
    assert (counted.metaranges_written(), counted.ranges_written()) == (1, 0)
    assert counted.objects.requests == 5
    # Source and destination; the commits of both; the destination again; what lies between them and their base.
    assert tables(counted) == {"read": 4, "query": 1, "transact": 1}


def test_a_merge_opens_what_both_sides_changed(large: World) -> None:
    one, other = fresh_branch(large, "both1"), fresh_branch(large, "both2")
    info = large.main.tree("main").info(5)
    large.main.link(one, external(info.first.decode(), 2))
    large.main.commit(one, "m")
    large.main.link(other, external(info.last.decode(), 2))
    large.main.commit(other, "m")
    counted = run(large, lambda r: r.merge(one, other))
    assert (counted.metaranges_read(), counted.ranges_read()) == (3, 3)
    assert (counted.metaranges_written(), counted.ranges_written()) == (1, 1)


def test_a_merge_over_staged_nothings_costs_two_transactions_more(large: World) -> None:
    one, other = fresh_branch(large, "nothing1"), fresh_branch(large, "nothing2")
    large.main.link(one, external("x"))
    large.main.commit(one, "m")
    large.main.delete(other, ["never was"])
    counted = run(large, lambda r: r.merge(one, other))
    assert counted.tables.calls["transact"] == 3


# Refs


def test_refs_cost_the_same_whatever_the_size(large: World) -> None:
    small = World()
    verbs: list[tuple[Verb, dict[str, int]]] = [
        (lambda r: r.create_branch("ref", "main"), {"read": 1, "query": 1, "transact": 1}),
        (lambda r: r.branch("ref"), {"read": 1}),
        (lambda r: r.create_tag("tag", "main"), {"read": 1, "transact": 1}),
        (lambda r: r.tag("tag"), {"read": 1}),
        (lambda r: r.reflog("ref"), {"query": 1}),
        (lambda r: r.commit_of("tag"), {"read": 2}),
        (lambda r: r.delete_tag("tag"), {"read": 1, "transact": 1}),
        (lambda r: r.delete_branch("ref"), {"read": 1, "transact": 1}),
        (lambda r: r.branches(), {"query": 16}),
        (lambda r: r.tags(), {"query": 16}),
    ]
    for verb, expected in verbs:
        for world in (small, large):
            counted = run(world, verb)
            assert tables(counted) == expected
            assert counted.objects.requests == 0


def test_a_log_reads_many_commits_at_once() -> None:
    world = World()
    for number in range(100):
        world.main.commit("main", f"m{number}", allow_empty=True)
    counted = run(world, lambda r: r.log("main", amount=100))
    assert tables(counted)["read"] <= 1 + 1 + 100 // 32 + 1
    assert set(tables(counted)) == {"read"}


# Import, repositories


def test_an_import_writes_its_ranges_and_opens_seams_only(large: World, tmp_path: Path) -> None:
    branch = fresh_branch(large, "import")
    folder = write_files(tmp_path, {f"f{n:04}": "x" for n in range(300)})
    counted = run(large, lambda r: r.import_folder(branch, folder, "d20x/"))
    # The branch, its head; a look whether something is staged.
    assert tables(counted) == {"read": 2, "query": 1, "transact": 1}
    ranges = len(counted.repository.tree(branch)) - len(counted.repository.tree("main"))
    assert counted.ranges_read() <= 4
    assert ranges <= counted.ranges_written() <= ranges + 4
    assert (counted.metaranges_read(), counted.metaranges_written()) == (1, 1)


def test_creating_a_repository_is_few_requests() -> None:

    world = World()
    counting_tables = CountingTables(world.tables)
    objects = CountingObjects(world.objects("mem://new"))
    Lake(counting_tables, lambda _: objects, clock=world.clock).create_repository("new", "mem://new")
    # Besides the name, the lake's own item and what was created below: repositories, deleted ones, and rules of ingest.
    assert counting_tables.calls == {"get": 2, "get_many": 1, "query": 3, "transact": 1}
    assert objects.calls == {"put": 2}
    counting_tables.reset()
    lake = Lake(counting_tables, lambda _: objects, clock=world.clock)
    lake.repository("new")
    assert counting_tables.calls == {"get": 1}
    counting_tables.reset()
    lake.delete_repository("new")
    assert counting_tables.calls == {"get": 1, "transact": 1}


def test_clean_up_takes_requests_only_when_it_is_due() -> None:
    world = World()
    put(world.main, {"a": "1"})
    world.main.commit("main", "m")
    put(world.main, {"a": "2"})
    counted = run(world, lambda r: r.commit("main", "m"))
    assert tables(counted) == {"read": 2, "query": 3, "transact": 2}
    world.clock.time += 1000
    put(world.main, {"a": "3"})
    counted = run(world, lambda r: r.commit("main", "m"))
    # Two tokens are due: for each a query and a batch of deletes, the second sweep noted, the first one struck off.
    assert tables(counted) == {"read": 2, "query": 3 + 2, "write": 2 * 3, "transact": 2}
