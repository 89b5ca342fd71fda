"""Repositories and their settings over the API."""

import pytest

from tests.api.support import Client

REPO = "/repositories/repo"


def creation(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "storage_namespace": f"local://{name}", **more}


def test_create_get_and_delete(call: Client) -> None:
    made = call("POST", "/repositories", (), creation("lake-2", default_branch="trunk"))
    assert made.status == 201
    said = made.json()
    assert {**said, "creation_date": 0} == {
        "id": "lake-2",
        "creation_date": 0,
        "default_branch": "trunk",
        "storage_namespace": "local://lake-2",
        "storage_id": "",
        "read_only": False,
    }
    assert isinstance(said["creation_date"], int)
    assert call("GET", "/repositories/lake-2").json() == said
    assert call("GET", "/repositories/lake-2/branches/trunk").status == 200
    assert call("DELETE", "/repositories/lake-2").status == 204
    gone = call("GET", "/repositories/lake-2")
    assert (gone.status, "repository not found" in gone.message) == (404, True)
    assert call("DELETE", "/repositories/lake-2").status == 404


def test_the_first_commit_is_the_one_that_clients_know(call: Client) -> None:
    first = call("GET", f"{REPO}/commits/main").json()
    assert {**first, "id": "", "creation_date": 0} == {
        "id": "",
        "parents": [],
        "committer": "",
        "message": "Repository created",
        "creation_date": 0,
        "meta_range_id": "",
        "metadata": {},
        "generation": 1,
        "version": 1,
    }
    assert len(first["id"]) == 64


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (creation("repo"), 409, "error creating repository: not unique"),
        ({"name": "repo", "storage_namespace": "local://repo"}, 409, "not unique"),
        ({"name": "other", "storage_namespace": "local://repo"}, 400, "already belongs"),
        (creation("R"), 400, "repository"),
        (creation("x_y"), 400, "'_'"),
        (creation("abc", storage_id="second"), 400, "storage_id"),
        ({"name": "abc", "storage_namespace": "ftp://etc"}, 400, "must match"),
        ({"name": "abc", "storage_namespace": ""}, 400, "must match"),
        ({"name": "abc"}, 400, "storage_namespace"),
        (creation("abc", default_branch="a b"), 400, "branch"),
    ],
)
def test_create_refuses(call: Client, body: dict[str, object], status: int, words: str) -> None:
    answer = call("POST", "/repositories", (), body)
    assert answer.status == status, answer
    assert words in answer.message
    assert [item["id"] for item in call("GET", "/repositories").json()["results"]] == ["repo"]


def test_listing_by_prefix_and_search_in_pages(call: Client) -> None:
    for name in ("alpha-1", "alpha-2", "beta-1"):
        call("POST", "/repositories", (), creation(name))

    def names(**query: object) -> list[str]:
        return [item["id"] for item in call("GET", "/repositories", query).json()["results"]]

    assert names() == ["alpha-1", "alpha-2", "beta-1", "repo"]
    assert names(prefix="alpha") == ["alpha-1", "alpha-2"]
    assert names(search="-1") == ["alpha-1", "beta-1"]
    assert names(after="alpha-2") == ["beta-1", "repo"]
    page = call("GET", "/repositories", {"search": "-1", "amount": 1}).json()
    assert page["pagination"] == {"has_more": True, "next_offset": "alpha-1", "results": 1, "max_per_page": 1000}


def test_metadata_is_merged_and_removed_by_key(call: Client) -> None:
    metadata = f"{REPO}/metadata"
    assert call("GET", metadata).json() == {}
    assert call("POST", metadata, (), {"metadata": {"a": "1", "ä": "2"}}).status == 204
    assert call("POST", metadata, (), {"metadata": {"b": "3"}}).status == 204
    assert call("DELETE", metadata, (), {"keys": ["a", "nothing"]}).status == 204
    assert call("GET", metadata).json() == {"ä": "2", "b": "3"}
    assert call("POST", metadata, (), {"metadata": {"a": 1}}).status == 400
    assert call("GET", "/repositories/nothing/metadata").status == 404


@pytest.mark.parametrize(("path", "put"), [("/settings/gc_rules", "PUT"), ("/gc/rules", "POST")])
def test_retention_rules(call: Client, path: str, put: str) -> None:
    rules = {"default_retention_days": 21, "branches": [{"branch_id": "main", "retention_days": 28}]}
    assert call("GET", REPO + path).status == 404
    assert call(put, REPO + path, (), rules).status == 204
    assert call("GET", REPO + path).json() == rules
    assert call(put, REPO + path, (), {"default_retention_days": "21", "branches": []}).status == 400
    assert call(put, REPO + path, (), {"default_retention_days": 0, "branches": []}).status == 400
    assert call("DELETE", REPO + path).status == 204
    assert call("GET", REPO + path).status == 404


def test_branch_protection_is_changed_only_by_who_has_seen_it(call: Client) -> None:
    path = f"{REPO}/settings/branch_protection"
    none = call("GET", path)
    assert none.json() == []
    assert call("PUT", path, (), [{"pattern": "main"}], {"If-Match": none.headers["etag"]}).status == 204
    seen = call("GET", path)
    assert seen.json() == [{"pattern": "main"}]
    assert call("PUT", path, (), [], {"If-Match": none.headers["etag"]}).status == 412
    assert call("PUT", path, (), [{"pattern": ""}]).status == 400
    refused = call("POST", f"{REPO}/branches/main/commits", (), {"message": "m", "allow_empty": True})
    assert (refused.status, "protected" in refused.message) == (403, True)
    assert call("PUT", path, (), [], {"If-Match": seen.headers["etag"]}).status == 204
    assert call("PUT", path, (), []).status == 204
    assert call("GET", path).json() == []


def test_a_read_only_repository_refuses_changes_that_are_not_forced(call: Client) -> None:
    assert call("POST", "/repositories", (), creation("fixed", read_only=True)).json()["read_only"]
    refused = call("POST", "/repositories/fixed/branches", (), {"name": "x", "source": "main"})
    assert (refused.status, "read-only" in refused.message) == (403, True)
    forced = {"name": "x", "source": "main", "force": True}
    assert call("POST", "/repositories/fixed/branches", (), forced).status == 201
    assert call("DELETE", "/repositories/fixed").status == 403
    assert call("DELETE", "/repositories/fixed", {"force": "true"}).status == 204


@pytest.mark.parametrize("path", ["/branch_protection/set_allowed", "/gc/rules/set_allowed"])
def test_preflights(call: Client, path: str) -> None:
    assert call("GET", REPO + path).status == 204
    assert call("GET", REPO + path, authorization=call.world.reader).status == 401
    assert call("GET", "/repositories/nothing" + path).status == 404
