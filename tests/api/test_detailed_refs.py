"""Branches, tags and repositories with what a list shows of each."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from graveler.access.permissions import Role
from graveler.lake.lake import Lake
from graveler.lake.reading.detailed_refs import MOST_SORTED
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, DetailedRef, RefDetail, RefSelection, RepositoryUID
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from graveler.storage.tables.port import Query, QueryPage
from graveler.wire.documents import commit_document
from tests.api.over_http import HOST, Switch
from tests.api.support import Client, EventClient, basic, make_world
from tests.lake.support import World as LakeWorld
from tests.support.instruments import CountingTables

REPO = "/repositories/repo"
ALL = "commit,counts,uncommitted"


def commit(repository: OpenRepository, branch: str, created: int) -> CommitID:
    """A commit of this time, whose message is the time."""
    return repository.commit(branch, str(created), created=created, allow_empty=True).id


def lists(call: Client) -> OpenRepository:
    """Main with two commits; ``old`` at its first, ``new`` with two commits beyond its second, and a tag on each of these."""
    repository = call.world.lake.repository("repo")
    commit(repository, "main", 100)
    repository.create_branch("old", "main")
    commit(repository, "main", 200)
    repository.create_branch("new", "main")
    for created in (300, 400):
        commit(repository, "new", created)
    repository.create_tag("a/new", "new")
    repository.create_tag("v1", "old")
    repository.create_branch("same", "main")
    repository.upload("same", "x", b"1")
    return repository


def shown(answer: Any, *members: str) -> list[tuple[Any, ...]]:
    return [tuple(ref.get(member, "-") for member in ("id", *members)) for ref in answer.json()["results"]]


def test_without_details_a_list_is_as_it_was(call: Client) -> None:
    repository = lists(call)
    for kind, refs in (("branches", repository.branches()), ("tags", repository.tags())):
        results = call("GET", f"{REPO}/{kind}").json()["results"]
        assert results == [{"id": ref.name, "commit_id": ref.commit_id} for ref in refs.results]


def test_branches_have_commit_distance_and_uncommitted_changes(call: Client) -> None:
    lists(call)
    answer = call("GET", f"{REPO}/branches", {"details": ALL})
    assert shown(answer, "ahead", "behind", "more", "merged", "uncommitted") == [
        ("main", 0, 0, False, True, False),
        ("new", 2, 0, False, False, False),
        ("old", 0, 1, False, True, False),
        ("same", 0, 0, False, True, True),
    ]
    for ref in answer.json()["results"]:
        assert ref["commit"] == call("GET", f"{REPO}/commits/{ref['commit_id']}").json()
    of_new = call("GET", f"{REPO}/branches", {"details": "counts", "base": "a/new~1", "prefix": "o"})
    assert shown(of_new, "ahead", "behind", "merged", "commit", "uncommitted") == [("old", 0, 2, True, "-", "-")]
    assert shown(call("GET", f"{REPO}/branches", {"details": " uncommitted , commit"}), "ahead", "uncommitted") == [
        ("main", "-", False),
        ("new", "-", False),
        ("old", "-", False),
        ("same", "-", True),
    ]


def test_tags_have_the_same_but_nothing_uncommitted(call: Client) -> None:
    lists(call)
    answer = call("GET", f"{REPO}/tags", {"details": ALL})
    assert shown(answer, "ahead", "behind", "more", "merged", "uncommitted") == [
        ("a/new", 2, 0, False, False, None),
        ("v1", 0, 1, False, True, None),
    ]
    assert [ref["commit"]["creation_date"] for ref in answer.json()["results"]] == [400, 100]


def test_a_branch_far_behind_is_counted_to_the_limit() -> None:
    call = EventClient(make_world())
    repository = call.world.lake.create_repository("repo", "local://repo")
    repository.create_branch("stale", "main")
    commit(repository, "stale", 50)
    for created in range(1001):
        commit(repository, "main", 100 + created)
    [stale] = call("GET", f"{REPO}/branches", {"details": "counts", "prefix": "s"}).json()["results"]
    assert (stale["behind"], stale["more"], stale["merged"]) in ((1000, True, None), (1000, True, False))
    [main] = call("GET", f"{REPO}/branches", {"details": "counts", "prefix": "m", "base": "stale"}).json()["results"]
    assert (main["ahead"], main["more"], main["merged"]) == (1000, True, False)


def test_the_newest_commit_comes_first(call: Client) -> None:
    lists(call)
    by_update = call("GET", f"{REPO}/branches", {"sort": "updated"})
    assert shown(by_update) == [("new",), ("main",), ("same",), ("old",)]
    assert set(by_update.json()["results"][0]) == {"id", "commit_id"}
    assert shown(call("GET", f"{REPO}/tags", {"sort": "updated", "details": "commit"})) == [("a/new",), ("v1",)]
    assert shown(call("GET", f"{REPO}/branches", {"sort": "name"})) == [("main",), ("new",), ("old",), ("same",)]


@pytest.mark.parametrize("amount", [1, 2, 7, 100])
def test_pages_of_any_size_are_the_list_by_update(call: Client, amount: int) -> None:
    repository = call.world.lake.repository("repo")
    random = Random(7)
    times = {}
    for name in ("main", *(f"b{number}" for number in range(12)), "hid"):
        if name != "main":
            repository.create_branch(name, "main", hidden=name == "hid")
        times[name] = random.randrange(1, 5)
        commit(repository, name, times[name])
    for hidden in (False, True):
        names, after = [], ""
        while True:
            query = {"sort": "updated", "amount": amount, "after": after, "show_hidden": hidden}
            page = call("GET", f"{REPO}/branches", query).json()
            names += [ref["id"] for ref in page["results"]]
            after = page["pagination"]["next_offset"]
            if not page["pagination"]["has_more"]:
                break
        assert names == sorted((name for name in times if hidden or name != "hid"), key=lambda n: (-times[n], n))


def test_a_branch_that_moves_to_the_front_is_not_shown_again(call: Client) -> None:
    repository = lists(call)
    page = call("GET", f"{REPO}/branches", {"sort": "updated", "amount": 2}).json()
    commit(repository, "main", 900)
    rest = call("GET", f"{REPO}/branches", {"sort": "updated", "after": page["pagination"]["next_offset"]})
    assert shown(rest) == [("same",), ("old",)]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"details": "commit,size"}, 400, "there is no 'size' here; name some of commit, counts, uncommitted"),
        ({"details": "Commit"}, 400, "there is no 'Commit' here"),
        ({"details": ","}, 400, "there is no '' here"),
        ({"details": "counts", "base": "nothing"}, 404, "no branch, tag or commit has this name"),
        ({"details": "counts", "base": "main~x"}, 400, "character 6"),
        ({"sort": "size"}, 400, "sort"),
        ({"sort": "updated", "after": "main"}, 400, "'main' is not a position"),
        ({"sort": "updated", "after": "12:"}, 400, "is not a position"),
        ({"sort": "updated", "after": "9" * 30 + ":x"}, 400, "is not a position"),
        ({"sort": "updated", "amount": "1001"}, 400, "amount"),
    ],
)
@pytest.mark.parametrize("kind", ["branches", "tags"])
def test_what_makes_no_sense_is_refused(
    call: Client, kind: str, query: dict[str, str], status: int, words: str
) -> None:
    answer = call("GET", f"{REPO}/{kind}", query)
    assert answer.status == status
    assert words in answer.message


def test_more_refs_than_can_be_sorted_are_refused() -> None:
    call = EventClient(make_world())
    repository = call.world.lake.create_repository("repo", "local://repo")
    head, refs = repository.commit_of("main").id, repository.parts.refs
    for number in range(MOST_SORTED):
        repository.tables.put(refs.branch_key(f"b{number}"), {"commit": head, "open": "t"})
    refused = call("GET", f"{REPO}/branches", {"sort": "updated"})
    assert (refused.status, "give a longer prefix, or list them by name" in refused.message) == (400, True)
    page = call("GET", f"{REPO}/branches", {"sort": "updated", "prefix": "b", "amount": 2})
    assert shown(page) == [("b0",), ("b1",)]


class TablesOfBatches(CountingTables):
    """Counts also the batches of queries that are made together."""

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        self.calls["batches of queries"] += 1
        return super().query_many(queries)


def test_a_page_of_a_hundred_branches_reads_in_batches() -> None:
    world = LakeWorld()
    for number in range(99):
        world.main.create_branch(f"b{number:02}", "main")
        world.main.commit(f"b{number:02}", "own", allow_empty=True)
    tables = TablesOfBatches(world.tables)
    reads = {}
    for details in ((), ("commit",), ("counts",), ("uncommitted",)):
        cold = Lake(tables, world.objects, clock=world.clock).repository(world.main.repository.name)
        tables.reset()
        assert len(cold.detailed_branches(RefSelection(details=details)).results) == 100
        calls = tables.calls
        reads[details] = (calls["get"] + calls["get_many"], calls["batches of queries"], calls["query"])
        assert tables.calls.keys() <= {"get", "get_many", "query", "batches of queries"}
    assert reads == {
        (): (0, 1, 16),
        ("commit",): (1, 1, 16),
        ("counts",): (2, 1, 16),  # the base's name, and all heads, which hang on one commit
        ("uncommitted",): (0, 2, 116),
    }


def test_sorting_reads_all_names_and_their_commits_in_batches() -> None:
    world = LakeWorld()
    for number in range(99):
        world.main.create_branch(f"b{number:02}", "main")
        world.main.commit(f"b{number:02}", "own", allow_empty=True)
    counted = world.counted()
    page = counted.repository.detailed_branches(RefSelection(by_update=True, amount=2, details=("commit",)))
    assert len(page.results) == 2
    assert (counted.tables.calls["get_many"], counted.tables.calls["query"]) == (1, 16)


def test_repositories_have_their_last_commit_and_metadata(call: Client) -> None:
    lake = call.world.lake
    head = commit(lake.repository("repo"), "main", 100)
    other = lake.create_repository("other", "local://other", default_branch="trunk", metadata={"team": "Hydrology"})
    answer = call("GET", "/repositories", {"details": "commit,metadata"})
    assert shown(answer, "metadata") == [("other", {"team": "Hydrology"}), ("repo", {})]
    commits = [repository["commit"] for repository in answer.json()["results"]]
    assert [of["id"] for of in commits] == [other.commit_of("trunk").id, head]
    assert commits[1] == call("GET", f"{REPO}/commits/main").json()
    plain = call("GET", "/repositories").json()["results"]
    assert plain == [call("GET", f"/repositories/{name}").json() for name in ("other", "repo")]
    assert shown(call("GET", "/repositories", {"details": "metadata", "prefix": "r"}), "commit", "metadata") == [
        ("repo", "-", {})
    ]
    for search, names in (("Hydro", ["other"]), ("epo", ["repo"]), ("team", []), ("", ["other", "repo"])):
        results = call("GET", "/repositories", {"search": search}).json()["results"]
        assert [repository["id"] for repository in results] == names
    refused = call("GET", "/repositories", {"details": "commit,size"})
    assert (refused.status, "there is no 'size' here; name some of commit, metadata" in refused.message) == (400, True)


def test_a_limited_key_sees_details_of_its_repositories_only(call: Client) -> None:
    call.world.lake.create_repository("other", "local://other", metadata={"team": "secret"})
    limited = basic(call.world.access.create_key("limited", Role.READER, ["repo"]))
    query = {"details": "commit,metadata", "search": "secret"}
    assert call("GET", "/repositories", query, authorization=limited).json()["results"] == []


def test_last_commits_of_repositories_are_two_reads() -> None:
    world = LakeWorld()
    tables = CountingTables(world.tables)
    lake = Lake(tables, world.objects, clock=world.clock)
    for number in range(9):
        lake.create_repository(f"other{number}", f"mem://other{number}")
    repositories = lake.repositories().results
    tables.reset()
    commits = lake.head_commits(repositories)
    assert tables.requests == 2
    assert [commit.message for commit in commits if commit is not None] == ["Repository created"] * 10
    recreated = [replace(repositories[0], uid=RepositoryUID("0" * 16)), repositories[1]]
    assert [commit is None for commit in lake.head_commits(recreated)] == [True, False]
    assert lake.head_commits([]) == []


def test_the_client_reads_what_the_lake_has(server: Switch) -> None:
    world = make_world()
    world.lake.create_repository("repo", "local://repo")
    server.application = world.application
    repository = lists(EventClient(world))
    key = world.access.create_key("ada", Role.READER)
    connection = Connection(f"http://{HOST}:{server.port}", key.key.key_id, key.secret)
    remote = RemoteRepository(connection, "repo")
    whole: tuple[RefDetail, ...] = ("commit", "counts", "uncommitted")
    for selection in (
        RefSelection(),
        RefSelection(details=whole),
        RefSelection(details=whole, base="new", by_update=True, amount=1),
        RefSelection(details=("counts",), prefix="n"),
    ):
        for theirs, ours in (
            (remote.detailed_branches(selection), repository.detailed_branches(selection)),
            (remote.detailed_tags(selection), repository.detailed_tags(selection)),
        ):
            assert [as_client(ref) for ref in theirs.results] == [as_client(ref) for ref in ours.results]
            assert theirs.next_after == ours.next_after
    connection.close()


def as_client(detailed: DetailedRef) -> object:
    """A ref with the commit as clients see it."""
    commit = None if detailed.commit is None else commit_document(detailed.commit)
    return (detailed.ref, commit, detailed.divergence, detailed.uncommitted)
