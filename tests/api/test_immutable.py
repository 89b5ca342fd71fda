"""Reads of commits have ETags, and are not computed again for who has them; reads of names are always computed."""

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.lake.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import EventClient, World, basic
from tests.support.instruments import CountingObjects, CountingTables
from tests.support.keyrings import keyring


class Counted(EventClient):
    """A client of a lake in memory whose requests are counted."""

    def __init__(self) -> None:
        self.tables, self.objects = CountingTables(MemoryTables()), CountingObjects(MemoryObjects("mem://sales"))
        self.lake = Lake(self.tables, lambda _: self.objects)
        self.access = Access(self.tables, keyring(self.tables))
        keys = [basic(self.access.create_key(role.value, role)) for role in (Role.ADMIN, Role.READER)]
        super().__init__(World(self.lake, self.access, Application(self.lake, self.access), *keys))

    def in_another_process(self) -> EventClient:
        """A client of another process with the same lake."""
        lake = Lake(self.tables, lambda _: self.objects)
        world = World(lake, self.access, Application(lake, self.access), self.world.admin, self.world.reader)
        return EventClient(world)


@pytest.fixture
def call() -> Counted:
    return Counted()


@pytest.fixture
def commits(call: Counted) -> tuple[str, str]:
    """Two commits of a repository, the older one first."""
    call("POST", "/repositories", body={"name": "sales", "storage_namespace": "mem://sales"})
    commit_ids = []
    for name in ("a", "b"):
        call("POST", "/repositories/sales/branches/main/objects", {"path": f"events/{name}"}, b"1")
        commit_ids.append(
            call("POST", "/repositories/sales/branches/main/commits", body={"message": name}).json()["id"]
        )
    return commit_ids[0], commit_ids[1]


def paths(left: str, right: str) -> list[tuple[str, str]]:
    below = "/repositories/sales/refs"
    return [
        (f"{below}/{right}/objects/ls", "delimiter=/"),
        (f"{below}/{right}/objects/ls", ""),
        (f"{below}/{right}/commits", "amount=1"),
        (f"{below}/{left}/diff/{right}", "type=two_dot"),
        (f"{below}/{left}/diff/{right}", ""),
        (f"{below}/{left}/diff/{right}/summary", ""),
        (f"{below}/{right}/usage", "delimiter=/"),
        (f"{below}/{right}/blame", "path=events/a"),
        (f"{below}/{right}/annotate", ""),
    ]


PATHS = range(len(paths("", "")))


@pytest.mark.parametrize("index", PATHS)
def test_a_read_of_commits_is_kept_and_asked_for_again(call: EventClient, commits: tuple[str, str], index: int) -> None:
    path, query = paths(*commits)[index]
    first = call("GET", path, query)
    assert (first.status, first.headers["cache-control"]) == (200, "private, no-cache")
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    again = call("GET", path, query, headers={"if-none-match": tag})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert again.headers["cache-control"] == "private, no-cache"
    for condition in ('"other"', "*"):
        assert call("GET", path, query, headers={"if-none-match": condition}).body == first.body


@pytest.mark.parametrize("index", PATHS)
def test_a_read_of_a_name_has_no_etag(call: EventClient, commits: tuple[str, str], index: int) -> None:
    path, query = paths("main~1", "main")[index]
    answer = call("GET", path, query)
    assert answer.status == 200
    assert not {"etag", "cache-control"} & answer.headers.keys()


@pytest.mark.parametrize("index", PATHS)
def test_what_a_client_has_is_not_computed_again(call: Counted, commits: tuple[str, str], index: int) -> None:
    path, query = paths(*commits)[index]
    call.lake.repository("sales").log("main")
    tag = call("GET", path, query).headers["etag"]
    assert call("GET", path, query, headers={"if-none-match": tag}).status == 304
    call.tables.reset()
    call.objects.reset()
    assert call("GET", path, query, headers={"if-none-match": tag}).status == 304
    assert call.objects.requests == 0
    refs = 2 if "/diff/" in path else 1
    assert call.tables.requests <= 1 + refs  # the key, and a read for each ref


@pytest.mark.parametrize("index", PATHS)
def test_another_process_computes_the_same_etag(call: Counted, commits: tuple[str, str], index: int) -> None:
    path, query = paths(*commits)[index]
    tag = call("GET", path, query).headers["etag"]
    other = call.in_another_process()
    assert other("GET", path, query, headers={"if-none-match": tag}).status == 304
    assert other("GET", path, query).headers["etag"] == tag


def test_a_key_that_may_no_longer_read_gets_no_304(call: Counted, commits: tuple[str, str]) -> None:
    path, query = paths(*commits)[0]
    tag = call("GET", path, query).headers["etag"]
    narrow = basic(call.access.create_key("narrow", Role.READER, repositories=("other",)))
    for authorization in (None, narrow):
        refused = call("GET", path, query, headers={"if-none-match": tag}, authorization=authorization)
        assert (refused.status, refused.headers["cache-control"]) == (401, "no-store")


def test_a_deleted_repository_is_not_found(call: Counted, commits: tuple[str, str]) -> None:
    path, query = paths(*commits)[0]
    tag = call("GET", path, query).headers["etag"]
    call.lake.delete_repository("sales")
    assert call("GET", path, query, headers={"if-none-match": tag}).status == 404


def test_a_branch_that_is_called_like_a_commit_is_read(call: Counted, commits: tuple[str, str]) -> None:
    older, newer = commits
    path, query = paths(older, newer)[1]
    tag = call("GET", path, query).headers["etag"]
    call("POST", "/repositories/sales/branches", body={"name": newer, "source": older})
    read = call("GET", path, query, headers={"if-none-match": tag})
    assert (read.status, [entry["path"] for entry in read.json()["results"]]) == (200, ["events/a"])


@pytest.mark.parametrize("is_asked_twice", [False, True])
@pytest.mark.parametrize("kind", ["branches", "tags"])
def test_what_a_branch_called_like_a_commit_had_is_not_the_commit_after_its_deletion(
    call: Counted, commits: tuple[str, str], kind: str, is_asked_twice: bool
) -> None:
    older, newer = commits
    path, query = paths(older, newer)[1]
    body = {"name": newer, "source": older} if kind == "branches" else {"id": newer, "ref": older}
    assert call("POST", f"/repositories/sales/{kind}", body=body).status == 201
    tag = call("GET", path, query).headers["etag"]
    if is_asked_twice:
        assert call("GET", path, query, headers={"if-none-match": tag}).status == 304
    assert call("DELETE", f"/repositories/sales/{kind}/{newer}").status == 204
    read = call("GET", path, query, headers={"if-none-match": tag})
    assert (read.status, [entry["path"] for entry in read.json()["results"]]) == (200, ["events/a", "events/b"])


def test_what_may_change_although_it_is_about_a_commit_has_no_etag(call: Counted, commits: tuple[str, str]) -> None:
    older, newer = commits
    below = f"/repositories/sales/refs/{newer}"
    for path, query in (("commits", f"stop_at={older}"), ("commits", "after=main"), ("objects/ls", "presign=true")):
        answer = call("GET", f"{below}/{path}", query)
        assert "etag" not in answer.headers, path


def test_another_page_is_another_response(call: Counted, commits: tuple[str, str]) -> None:
    path, _ = paths(*commits)[1]
    tags = {call("GET", path, query).headers["etag"] for query in ("amount=1", "amount=1&after=events/a", "amount=2")}
    assert len(tags) == 3


def test_a_log_that_names_branches_or_ended_by_the_clock_may_change(call: Counted, commits: tuple[str, str]) -> None:
    path = f"/repositories/sales/refs/{commits[1]}/commits"
    for query in ("fields=id,message", "fields=id&author=nobody", "within=5"):
        assert "etag" in call("GET", path, query).headers, query
    for query in ("fields=id,refs", "within=5&limit=true&amount=9"):
        answer = call("GET", path, query)
        assert ("etag" in answer.headers, answer.headers["cache-control"]) == (False, "no-cache")
