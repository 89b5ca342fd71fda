"""What any ref is, over the API: its kind, its commit, and what may be done with it."""

import pytest

from graveler.access.permissions import Role
from graveler.lake.repository import OpenRepository
from graveler.model import RefDescription
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from graveler.storage.objects.memory import MemoryObjects
from graveler.wire.documents import commit_document
from tests.api.over_http import HOST, Switch
from tests.api.support import Client, basic, make_world, segment
from tests.api.test_cost import Counted

REFS = "/repositories/repo/refs"


def history(call: Client) -> OpenRepository:
    """A repository whose branch ``main`` has three commits, and the tags ``v1`` and ``nightly/2026-01-31`` on the second."""
    repository = call.world.lake.repository("repo")
    for number in range(2):
        repository.upload("main", "x", str(number).encode())
        repository.commit("main", str(number))
    for name in ("v1", "nightly/2026-01-31"):
        repository.create_tag(name, "main~1")
    return repository


@pytest.mark.parametrize(
    ("ref", "kind", "message"),
    [
        ("main", "branch", "1"),
        ("v1", "tag", "0"),
        ("nightly/2026-01-31", "tag", "0"),
        ("main@", "expression", "1"),
        ("main~1", "expression", "0"),
        ("v1^", "expression", "Repository created"),
        ("nightly/2026-01-31~1", "expression", "Repository created"),
        ("main@{1}", "expression", "0"),
        ("main@{now}", "expression", "1"),
    ],
)
def test_each_ref_is_what_it_is(call: Client, ref: str, kind: str, message: str) -> None:
    repository = history(call)
    answer = call("GET", f"{REFS}/{segment(ref)}").json()
    commit = repository.commit_of(ref)
    assert (answer["id"], answer["type"], answer["commit"]["message"]) == (ref, kind, message)
    assert answer["commit_id"] == answer["commit"]["id"] == commit.id
    assert answer["commit"] == call("GET", f"/repositories/repo/commits/{segment(ref)}").json()
    assert answer["uncommitted"] == (False if kind == "branch" else None)
    assert (answer["protected"], answer["read_only"]) == (False, False)


@pytest.mark.parametrize("digits", [64, 20, 6])
def test_a_commit_is_named_by_its_digits(call: Client, digits: int) -> None:
    commit = history(call).commit_of("main~1")
    answer = call("GET", f"{REFS}/{commit.id[:digits]}").json()
    assert (answer["id"], answer["type"], answer["commit_id"]) == (commit.id[:digits], "commit", commit.id)


def test_only_a_branch_has_uncommitted_changes(call: Client) -> None:
    repository = history(call)
    repository.upload("main", "y", b"1")
    assert call("GET", f"{REFS}/main").json()["uncommitted"] is True
    assert call("GET", f"{REFS}/main%40").json()["uncommitted"] is None
    repository.commit("main", "2")
    assert call("GET", f"{REFS}/main").json()["uncommitted"] is False


def test_settings_are_those_of_now(call: Client) -> None:
    repository = history(call)
    assert call("GET", f"{REFS}/main").status == 200
    repository.protect(["ma*"])
    repository.set_read_only(True)
    for ref, protected in (("main", True), ("main@", False), ("v1", False)):
        answer = call("GET", f"{REFS}/{segment(ref)}").json()
        assert (answer["protected"], answer["read_only"]) == (protected, True)


def test_a_hidden_branch_is_never_protected(call: Client) -> None:
    repository = history(call)
    repository.create_branch("work", "main", hidden=True)
    repository.protect(["*"])
    answer = call("GET", f"{REFS}/work").json()
    assert (answer["type"], answer["protected"]) == ("branch", False)


@pytest.mark.parametrize(
    ("ref", "status", "words"),
    [
        ("nothing", 404, "no branch, tag or commit has this name"),
        ("no/thing", 404, "no branch, tag or commit has this name"),
        ("objects/ls", 404, "no branch, tag or commit has this name"),
        ("main~9", 404, "only 3 commits"),
        ("main^2", 400, "1 parent"),
        ("v1@", 404, "no branch is called 'v1'"),
        ("main@{2001-01-01}", 404, ""),
        ("main@{yester", 400, "the brace is not closed"),
        ("main~x", 400, "character 6"),
        ("main$", 404, ""),
        ("a b", 400, "not the name of a branch"),
        ("é\u202e", 404, ""),
    ],
)
def test_what_does_not_exist_is_refused_with_a_sentence(call: Client, ref: str, status: int, words: str) -> None:
    history(call)
    answer = call("GET", f"{REFS}/{segment(ref)}")
    assert answer.status == status
    assert words in answer.message
    assert answer.message == call("GET", f"/repositories/repo/commits/{segment(ref)}").message


def test_a_repository_that_does_not_exist_is_named(call: Client) -> None:
    assert "repository not found" in call("GET", "/repositories/other/refs/main").message


def test_a_repository_made_again_is_not_taken_for_the_one_before() -> None:
    counted = Counted()
    world = counted.call.world
    before = counted.call("GET", f"{REFS}/main").json()["commit_id"]
    world.lake.delete_repository("repo")
    assert counted.call("GET", f"{REFS}/main").status == 404
    world.lake.store_of = MemoryObjects
    world.lake.create_repository("repo", "local://again")
    again = counted.call("GET", f"{REFS}/main").json()
    assert again["commit_id"] != before
    assert again["commit"]["message"] == "Repository created"


def test_a_reader_limited_to_other_repositories_is_refused(call: Client) -> None:
    limited = basic(call.world.access.create_key("limited", Role.READER, ["other"]))
    assert call("GET", f"{REFS}/main", authorization=limited).status == 401


def test_the_client_reads_what_the_lake_has(server: Switch) -> None:
    world = make_world()
    repository = world.lake.create_repository("repo", "local://repo")
    repository.upload("main", "x", b"1")
    repository.create_tag("nightly/1", "main")
    repository.protect(["main"])
    server.application = world.application
    key = world.access.create_key("ada", Role.READER)
    connection = Connection(f"http://{HOST}:{server.port}", key.key.key_id, key.secret)
    remote = RemoteRepository(connection, "repo")
    for ref in ("main", "main@", "nightly/1", repository.commit_of("main").id):
        assert shown(remote.describe_ref(ref)) == shown(repository.describe_ref(ref))
    connection.close()


def shown(ref: RefDescription) -> object:
    """A description with the commit as clients see it."""
    return (ref.id, ref.type, commit_document(ref.commit), ref.uncommitted, ref.protected, ref.read_only)
