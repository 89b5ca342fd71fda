"""Pull requests over HTTP: who may do what, and how each refusal is answered."""

from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.lake.repository import OpenRepository
from graveler.model import RequiredApprovals, Rule
from tests.api.support import Client, basic
from tests.lake.gates.support import set_rules
from tests.lake.support import put

PULLS = "/repositories/repo/pulls"


@pytest.fixture
def repository(call: Client) -> OpenRepository:
    """``main`` and ``dev``, which has a commit more."""
    repository = call.world.lake.repository("repo")
    put(repository, {"a": "1"})
    repository.commit("main", "one", committer="bob")
    repository.create_branch("dev", "main")
    put(repository, {"b": "1"}, "dev")
    repository.commit("dev", "two", committer="bob")
    return repository


def person(call: Client, name: str, *branches: str, role: Role = Role.WRITER) -> str:
    return basic(call.world.access.create_key(name, role, branches=branches))


def create(call: Client, authorization: str = "", **document: Any) -> Any:
    body = {"title": "t", "source_branch": "dev", "destination_branch": "main", **document}
    return call("POST", PULLS, body=body, authorization=authorization)


def test_people_are_told_apart_by_their_keys(call: Client, repository: OpenRepository) -> None:
    ada, bob, cyd = (person(call, name) for name in ("ada", "bob", "cyd"))
    assert create(call, ada).json() == {"id": "1"}
    head = repository.commit_of("dev").id
    path = f"{PULLS}/1/approvals"
    for authorization, status in ((ada, 403), (bob, 403), (cyd, 200)):
        assert call("POST", path, body={"source_commit": head}, authorization=authorization).status == status
    shown = call("GET", f"{PULLS}/1").json()
    assert [approval["principal"] for approval in shown["approvals"]] == ["cyd"]
    assert (shown["author"], shown["can_be_merged"]) == ("ada", True)
    assert call("DELETE", path, authorization=cyd).json()["approvals"] == []
    put(repository, {"c": "1"}, "dev")
    repository.commit("dev", "three")
    moved = call("POST", path, body={"source_commit": head}, authorization=cyd)
    assert (moved.status, moved.json()["code"]) == (409, "branch_moved")
    assert call("POST", path, body={}, authorization=cyd).status == 400


def test_a_key_that_is_limited_to_branches_takes_part_where_one_is_its_own(
    call: Client, repository: OpenRepository
) -> None:
    of_dev, of_other = person(call, "ada", "dev"), person(call, "eve", "other")
    reader = person(call, "ray", role=Role.READER)
    for authorization in (of_other, reader):
        assert create(call, authorization).status == 401
    assert create(call, of_dev).status == 201
    for method, path, body in (
        ("PATCH", "", {"title": "new"}),
        ("POST", "/comments", {"text": "good"}),
        ("POST", "/approvals", {"source_commit": repository.commit_of("dev").id}),
        ("DELETE", "/approvals", None),
    ):
        for authorization in (of_other, reader):
            assert call(method, f"{PULLS}/1{path}", body=body, authorization=authorization).status == 401
    assert call("PATCH", f"{PULLS}/2", body={"title": "new"}, authorization=of_dev).status == 401, "it may be of others"
    assert call("PATCH", f"{PULLS}/1", body={"title": "new"}, authorization=of_dev).status == 204
    assert call("PUT", f"{PULLS}/1/merge", authorization=of_dev).status == 401, "it changes main"
    assert call("PUT", f"{PULLS}/1/merge").status == 200


def test_a_refused_merge_names_its_candidate_and_may_wait(call: Client, repository: OpenRepository) -> None:
    set_rules(repository, Rule(name="reviewed", branches=("main",), approvals=(RequiredApprovals(1),)))
    ada, cyd = person(call, "ada"), person(call, "cyd")
    create(call, ada)
    refused = call("PUT", f"{PULLS}/1/merge", authorization=ada)
    assert (refused.status, refused.json()["code"]) == (412, "rule_not_fulfilled")
    shown = call("GET", f"{PULLS}/1").json()
    assert shown["candidate_id"] == refused.json()["fields"]["candidate"]
    assert ([lack["requirement"] for lack in shown["lacks"]], shown["can_be_merged"]) == (["approvals"], False)
    waiting = call("PUT", f"{PULLS}/1/merge", body={"when_ready": True}, authorization=ada)
    assert (waiting.status, waiting.json()) == (200, {"reference": ""})
    assert call("GET", f"{PULLS}/1").json()["when_ready"] == "ada"
    body = {"source_commit": repository.commit_of("dev").id}
    merged = call("POST", f"{PULLS}/1/approvals", body=body, authorization=cyd).json()
    assert (merged["status"], merged["merged_commit_id"]) == ("merged", repository.commit_of("main").id)
    assert repository.commit_of("main").committer == "ada"
    again = call("PUT", f"{PULLS}/1/merge", authorization=cyd)
    assert again.json() == {"reference": merged["merged_commit_id"]}


def test_bad_input_is_told(call: Client, repository: OpenRepository) -> None:
    assert create(call, title="").status == 400
    assert create(call, title="x" * 256).status == 400
    assert create(call, source_branch="main").status == 400
    assert create(call, source_branch="none").status == 404
    assert call("POST", PULLS, body={"title": "t"}).status == 400
    assert create(call, draft=True).status == 201
    merge = call("PUT", f"{PULLS}/1/merge")
    assert (merge.status, merge.json()["code"]) == (412, "precondition_failed")
    assert call("PATCH", f"{PULLS}/1", body={"status": "merged"}).status == 400
    assert call("PATCH", f"{PULLS}/1", body={"status": "none"}).status == 400
    assert call("PATCH", f"{PULLS}/1", body={"status": "closed"}).status == 204
    ended = call("PUT", f"{PULLS}/1/merge")
    assert (ended.status, ended.json()["code"]) == (409, "pull_request_ended")
    for query in ({"status": "none"}, {"prefix": "x"}, {"after": "x"}, {"amount": 1001}):
        assert call("GET", PULLS, query).status == 400
    assert call("GET", f"{PULLS}/2").json()["code"] == "pull_request_not_found"
    assert call("GET", f"{PULLS}/1/comments", {"after": "x"}).status == 400
    assert call("POST", f"{PULLS}/1/comments", body={"text": "x" * 16385}).status == 400
