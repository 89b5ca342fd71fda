"""Missing permissions, operations that are not implemented, internal errors."""

import json
import logging
import re

import pytest

from graveler import errors
from graveler.access.permissions import Role
from graveler.access.refusals import AuthenticationError, NotPermittedError, SourceNotAllowedError, TooManyFailuresError
from graveler.api.errors import status_and_error
from graveler.api.resources import GROUPS
from graveler.api.resources.unimplemented import OPERATIONS
from graveler.api.routing import Router
from graveler.lake.lake import Lake
from graveler.requests.base import Permission
from graveler.storage.objects.port import NotPermittedError as StoreRefusedError
from graveler.storage.secrets.keyring import SealingKeyLostError
from tests.api.support import Client, basic

REPO = "/repositories/repo"


def test_no_and_wrong_credentials_are_the_same_401(call: Client) -> None:
    said = {
        call("GET", "/repositories", authorization=given).body
        for given in (None, "Basic nonsense", "Bearer nonsense", "Digest x", "Basic " + "QUtJQTox")
    }
    assert said == {b'{"message":"error authenticating request","code":"authentication_failed"}'}
    assert call("GET", "/repositories", authorization=None).status == 401


def test_every_route_needs_what_it_declares(call: Client) -> None:
    checked = 0
    for route in Router(GROUPS).routes:
        path = re.sub(r"{\w+}", "repo", route.template)
        if route.permission is None:
            continue
        assert call(route.method, path, authorization=None).status == 401, route.operation
        if route.permission is not Permission.READ:
            refused = call(route.method, path, (), {}, authorization=call.world.reader)
            assert refused.status in (400, 401), route.operation
            checked += refused.status == 401
    assert checked > 20


def test_a_key_for_some_branches_changes_those_only(call: Client) -> None:
    key = basic(call.world.access.create_key("limited", Role.WRITER, branches=["exp-*"]))
    branches = f"{REPO}/branches"
    assert call("POST", branches, (), {"name": "exp-1", "source": "main"}, authorization=key).status == 201
    refused = call("POST", branches, (), {"name": "other", "source": "main"}, authorization=key)
    assert (refused.status, "insufficient permissions" in refused.message) == (401, True)
    body = {"message": "m", "allow_empty": True}
    assert call("POST", f"{branches}/exp-1/commits", (), body, authorization=key).status == 201
    assert call("POST", f"{branches}/main/commits", (), body, authorization=key).status == 401
    assert call("POST", f"{REPO}/refs/exp-1/merge/main", (), {}, authorization=key).status == 401


def test_a_key_for_some_repositories_sees_those_only(call: Client) -> None:
    call.world.lake.create_repository("other", "local://other")
    key = basic(call.world.access.create_key("limited", Role.ADMIN, repositories=["oth*"]))
    listed = call("GET", "/repositories", authorization=key).json()
    assert [item["id"] for item in listed["results"]] == ["other"]
    assert call("GET", REPO, authorization=key).status == 401


@pytest.mark.parametrize(("method", "template", "operation"), OPERATIONS)
def test_what_is_not_there_is_a_501_or_somebody_else_does_it(
    call: Client, method: str, template: str, operation: str
) -> None:
    found = next(r for r in Router(GROUPS).routes if (r.method, r.template) == (method, template))
    if found.tag != "not implemented":
        return
    answer = call(method, re.sub(r"{\w+}", "x", template))
    assert answer.status == 501
    assert operation in answer.message
    assert re.search(r"; .*(`graveler |/repositories/|access key|listing)", answer.message), "it names no other way"


def test_runs_of_hooks_are_an_empty_list(call: Client) -> None:
    assert call("GET", f"{REPO}/actions/runs").json()["results"] == []
    for path in ("/x", "/x/hooks", "/x/hooks/y/output"):
        assert call("GET", f"{REPO}/actions/runs{path}").status == 404


def test_what_goes_wrong_inside_is_logged_under_an_id_and_not_told(
    call: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Lake, name: str) -> None:
        raise ZeroDivisionError("the secret is 42")

    monkeypatch.setattr(Lake, "repository", broken)
    with caplog.at_level(logging.ERROR, "graveler.api"):
        answer = call("GET", REPO)
    assert answer.status == 500
    request_id = answer.headers["x-request-id"]
    assert answer.message == f"unexpected error; see request ID {request_id} in the log"
    assert "the secret is 42" in caplog.text
    assert request_id in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (errors.RepositoryNotFoundError("r"), 404, "repository not found"),
        (errors.RefNotFoundError("r"), 404, "commit not found"),
        (errors.RefNotFoundError("r", kind="branch"), 404, "branch not found"),
        (errors.RefNotFoundError("r", "it is gone", "tag"), 404, "tag not found"),
        (errors.ObjectNotFoundError("p", "r"), 404, "object not found"),
        (errors.NotFoundError("x"), 404, "not found"),
        (errors.ParentNotFoundError("r~9"), 400, "invalid ref"),
        (errors.GoneError("g"), 410, "gone"),
        (errors.AlreadyExistsError("repository", "r"), 409, "error creating repository: not unique"),
        (errors.AlreadyExistsError("branch", "b"), 409, "branch already exists: not unique"),
        (errors.AlreadyExistsError("tag", "t"), 409, "tag already exists: not unique"),
        (errors.AlreadyExistsError("object", "o"), 412, "path already exists"),
        (errors.MergeConflictError("s", "d", []), 409, "conflict found"),
        (errors.NoChangesError("none"), 400, "no changes"),
        (errors.DirtyBranchError("b", "it"), 400, "uncommitted changes (dirty branch)"),
        (errors.PreconditionError("not yet"), 412, "precondition failed"),
        (errors.ProtectedBranchError("main", "ma*"), 403, "cannot write to protected branch"),
        (errors.ReadOnlyRepositoryError("r"), 403, "read-only repository"),
        (errors.BusyError("busy"), 429, "too many tries"),
        (NotPermittedError("x"), 401, "insufficient permissions"),
        (TooManyFailuresError(3), 429, "too many tries"),
        (errors.InvalidError("bad"), 400, ""),
        (errors.ForbiddenError("no"), 403, ""),
        (errors.CorruptError("broken"), 500, ""),
        (errors.UnavailableError("disk"), 503, ""),
        (StoreRefusedError("may not"), 500, ""),
        (SealingKeyLostError("gone"), 500, ""),
        (errors.CheckSettingsError("unknown field"), 500, ""),
        (errors.AnswerLostError("lost"), 503, "the outcome is unknown"),
        (AuthenticationError(), 401, ""),
        (SourceNotAllowedError("s3://x"), 403, ""),
    ],
)
def test_each_error_has_its_status_and_words(error: errors.GravelerError, status: int, words: str) -> None:
    """Clients compare the message as a whole; without words of theirs it is the error's own sentence."""
    told, said = status_and_error(error)
    assert (told, said.message, said.detail) == (status, words or str(error), str(error) if words else "")


def test_each_change_leaves_a_line_in_the_audit_log(call: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "graveler.audit"):
        call("GET", f"{REPO}/branches")
        call("POST", f"{REPO}/branches/main/commits", (), {"message": "m"})
        call("DELETE", f"{REPO}/branches/main", authorization=call.world.reader)
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "graveler.audit"]
    assert [(line["action"], line["outcome"], line["name"], line["ref"]) for line in lines] == [
        ("commit", "400", "somebody", "main"),
        ("deleteBranch", "401", "reader", "main"),
    ]
    assert {line["repository"] for line in lines} == {"repo"}


def test_the_audit_log_names_the_object_that_was_changed_whatever_else_the_query_says(
    call: Client, caplog: pytest.LogCaptureFixture
) -> None:
    objects = f"{REPO}/branches/main/objects"
    with caplog.at_level(logging.INFO, "graveler.audit"):
        assert call("POST", objects, [("path", "harmless"), ("path", "taken")], b"1").json()["path"] == "taken"
        copied = call("POST", f"{objects}/copy", [("path", "harmless"), ("dest_path", "to")], {"src_path": "taken"})
        assert copied.json()["path"] == "to"
        call("DELETE", f"{REPO}/branches/none", {"path": "harmless"})
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "graveler.audit"]
    assert [(line["action"], line.get("path", "")) for line in lines] == [
        ("uploadObject", "taken"),
        ("copyObject", "to"),
        ("deleteBranch", ""),
    ]
