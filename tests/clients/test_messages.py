"""The messages of the server that clients print or compare, to the letter.

lakectl prints ``message`` and status as they are, and scripts (and its own tests) compare that; lakefs-spec derives the text
of its errors from it.
"""

from collections.abc import Callable

import lakefs
import lakefs_sdk
import pytest
from lakefs_spec import LakeFSFileSystem

from tests.clients.support import Query, Served, Wire, new_name


@pytest.fixture
def base(repo: lakefs.Repository) -> str:
    return f"/repositories/{repo.id}"


@pytest.fixture
def change(wire: Wire, base: str) -> Callable[..., None]:
    def upload(branch: str, path: str, data: bytes, commit: bool = True) -> None:
        wire("POST", f"{base}/branches/{branch}/objects", {"path": path}, data).expect(201)
        if commit:
            wire("POST", f"{base}/branches/{branch}/commits", "", {"message": path}).expect(201)

    return upload


def test_what_is_not_there(wire: Wire, base: str) -> None:
    nowhere = f"/repositories/{new_name()}"
    asked: list[tuple[str, str, Query, str]] = [
        ("GET", nowhere, {}, "repository not found"),
        ("DELETE", nowhere, {}, "repository not found"),
        ("GET", f"{nowhere}/refs/main/commits", {}, "repository not found"),
        ("GET", f"{base}/commits/bad_ref", {}, "commit not found"),
        ("GET", f"{base}/branches/bad", {}, "branch not found"),
        ("GET", f"{base}/tags/bad", {}, "tag not found"),
        ("GET", f"{base}/refs/main/objects/stat", {"path": "none"}, "object not found"),
        ("DELETE", "/auth/users/nobody", {}, "user not found"),
    ]
    for method, path, query, message in asked:
        said = wire(method, path, query).expect(404).json()
        assert said["message"] == message
        assert len(said["detail"]) > len("nobody")


def test_what_is_there_already(wire: Wire, base: str, repo: lakefs.Repository) -> None:
    again = {"name": repo.id, "storage_namespace": f"local://{new_name()}"}
    wire("POST", f"{base}/tags", "", {"id": "v1", "ref": "main"}).expect(201)
    me = wire("GET", "/user").expect(200).json()["user"]["id"]
    for path, body, message in [
        ("/repositories", again, "error creating repository: not unique"),
        (f"{base}/branches", {"name": "main", "source": "main"}, "branch already exists: not unique"),
        (f"{base}/tags", {"id": "v1", "ref": "main"}, "tag already exists: not unique"),
        ("/auth/users", {"id": me}, "Already exists"),
    ]:
        assert wire("POST", path, "", body).expect(409).json()["message"] == message


def test_what_cannot_be_committed_merged_or_picked(wire: Wire, base: str, change: Callable[..., None]) -> None:
    nothing = wire("POST", f"{base}/branches/main/commits", "", {"message": "m"}).expect(400)
    assert nothing.json()["message"] == "commit: no changes"
    wire("POST", f"{base}/branches", "", {"name": "side", "source": "main"}).expect(201)
    assert wire("POST", f"{base}/refs/side/merge/main", "", {}).expect(400).json()["message"] == "no changes"
    change("main", "a", b"1")
    change("side", "a", b"2")
    for verb, body in (("cherry-pick", {"ref": "side"}), ("revert", {"ref": "side", "parent_number": 0})):
        said = wire("POST", f"{base}/branches/main/{verb}", "", body).expect(409).json()
        assert said["message"] == "update branch: conflict found"
        assert "'a'" in said["detail"]
    change("main", "b", b"1", commit=False)
    dirty = wire("POST", f"{base}/refs/side/merge/main", "", {}).expect(400).json()
    assert dirty["message"] == "uncommitted changes (dirty branch)"


def test_a_merge_is_not_reverted_without_its_parent(wire: Wire, base: str, change: Callable[..., None]) -> None:
    wire("POST", f"{base}/branches", "", {"name": "side", "source": "main"}).expect(201)
    change("side", "a", b"1")
    wire("POST", f"{base}/refs/side/merge/main", "", {}).expect(200)
    refused = wire("POST", f"{base}/branches/main/revert", "", {"ref": "main", "parent_number": 0}).expect(409)
    assert refused.json()["message"] == "must specify 1-based parent number for reverting merge commit"


def test_what_is_protected(served: Served, repo: lakefs.Repository, client: lakefs.Client) -> None:
    """lakefs-spec makes of it, word by word, the text of a PermissionError."""
    rules = [lakefs_sdk.BranchProtectionRule(pattern="main")]
    client.sdk_client.repositories_api.set_branch_protection_rules(repo.id, rules)
    fs = LakeFSFileSystem(host=served.url, username=served.key_id, password=served.secret, skip_instance_cache=True)
    path = f"{repo.id}/main/o"
    with (
        pytest.raises(PermissionError, match=rf"^403 cannot write to protected branch: {path!r}$"),
        fs.open(path, "wb") as file,
    ):
        file.write(b"1")


def test_nothing_is_deleted_where_the_path_is_empty(wire: Wire, base: str, change: Callable[..., None]) -> None:
    """Spark deletes the root of a branch so, and takes an error for a failure."""
    change("main", "a", b"1")
    deleted = wire("POST", f"{base}/branches/main/objects/delete", "", {"paths": ["", "none"]}).expect(200)
    assert deleted.json() == {"errors": []}
    wire("GET", f"{base}/refs/main/objects/stat", {"path": "a"}).expect(200)
