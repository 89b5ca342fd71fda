"""Credentials over HTTP, with the texts of refusals; login, users and their keys; set-up."""

import json
import logging
import time
from http.cookies import SimpleCookie

import msgspec
import pytest

from graveler.access import failure_limits
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.api.support import OF_HTTP, Answer, Client, EventClient, as_answer, basic, make_world
from tests.support.keyrings import keyring

UNKNOWN = (401, "error authenticating request")


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.message


def login(call: Client, key_id: str, secret: str, **options: object) -> Answer:
    body = {"access_key_id": key_id, "secret_access_key": secret, **options}
    return call("POST", "/auth/login", body=body, authorization=None)


def test_a_missing_a_wrong_and_an_unknown_credential_are_the_same(call: Client) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    gone = call.world.access.create_key("bob", Role.ADMIN)
    call.world.access.revoke(gone.key.key_id)
    answers = [
        call("GET", "/repositories", authorization=header)
        for header in (None, "Basic !", "Digest x", "Bearer x.y.z", basic(gone), basic(ann)[:-4] + "AAAA")
    ]
    assert {said(answer) for answer in answers} == {UNKNOWN}
    assert {tuple(sorted(answer.headers.keys() - OF_HTTP)) for answer in answers} == {
        ("cache-control", "content-type", "x-content-type-options", "x-request-id")
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthcheck", 204),
        ("GET", "/setup_lakefs", 200),
        ("POST", "/setup_comm_prefs", 403),
        ("GET", "/auth/capabilities", 200),
    ],
)
def test_some_routes_need_no_credentials(call: Client, method: str, path: str, status: int) -> None:
    assert call(method, path, authorization=None).status == status
    assert call(method, path, authorization="Basic wrong").status == status


def test_who_may_not_is_told_so_with_a_401(call: Client) -> None:
    reader = call.world.reader
    for method, path, body in [
        ("POST", "/repositories", {"name": "new", "storage_namespace": "mem://new"}),
        ("POST", "/repositories/repo/branches", {"name": "b", "source": "main"}),
        ("GET", "/auth/users", None),
        ("DELETE", "/auth/users/somebody", None),
        ("GET", "/auth/users/somebody/credentials", None),
        ("POST", "/auth/users/reader/credentials", None),
    ]:
        status, message = said(call(method, path, body=body, authorization=reader))
        assert (status, message.partition(":")[0]) == (401, "insufficient permissions")
    assert call("GET", "/repositories/repo", authorization=reader).status == 200


def test_a_limited_key_sees_and_changes_its_own_part(call: Client) -> None:
    call.world.lake.create_repository("other", "mem://other")
    ann = basic(call.world.access.create_key("ann", Role.WRITER, ["rep*"], ["dev-*"]))
    listed = call("GET", "/repositories", authorization=ann).json()["results"]
    assert [each["id"] for each in listed] == ["repo"]
    assert call("GET", "/repositories/other", authorization=ann).status == 401
    branches = "/repositories/repo/branches"
    assert call("POST", branches, body={"name": "dev-1", "source": "main"}, authorization=ann).status == 201
    assert call("POST", branches, body={"name": "prod", "source": "main"}, authorization=ann).status == 401
    assert call("DELETE", f"{branches}/main", authorization=ann).status == 401
    assert call("DELETE", f"{branches}/dev-1", authorization=ann).status == 204


def test_a_protected_branch_is_not_replaced_by_a_writer(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    repository.create_branch("release", "main")
    repository.set_protection(["rel*"])
    writer, admin = (basic(call.world.access.create_key("ann", role)) for role in (Role.WRITER, Role.ADMIN))
    branches = "/repositories/repo/branches"
    for who in (writer, admin):
        for force in (False, True):
            assert call("DELETE", f"{branches}/release", {"force": force}, authorization=who).status == 403
    for name, who, status in (("rel-2", writer, 401), ("rel-2", admin, 201), ("dev", writer, 201)):
        assert call("POST", branches, body={"name": name, "source": "main"}, authorization=who).status == status
    hidden = {"name": "rel-tx", "source": "main", "hidden": True}
    assert call("POST", branches, body=hidden, authorization=writer).status == 201


def test_a_login_gives_a_token_and_a_cookie(call: Client) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    answer = login(call, ann.key.key_id, ann.secret)
    token = answer.json()
    assert answer.status == 200
    assert set(token) == {"token", "token_expiration"}
    assert type(token["token_expiration"]) is int
    cookie = SimpleCookie(answer.cookies[0])["internal_auth_session"]
    assert (
        cookie.value,
        cookie["httponly"],
        cookie["samesite"],
        cookie["max-age"],
        cookie["path"],
        cookie["secure"],
    ) == (
        token["token"],
        True,
        "Lax",
        str(7 * 24 * 3600),
        "/",
        "",
    )
    assert call("GET", "/user", authorization=f"Bearer {token['token']}").json()["user"]["id"] == "ann"
    call.world.access.revoke(ann.key.key_id)
    assert said(call("GET", "/user", authorization=f"Bearer {token['token']}")) == UNKNOWN
    assert said(login(call, ann.key.key_id, ann.secret)) == UNKNOWN


@pytest.mark.parametrize(("session", "max_age"), [("window", ""), ("twelve_hours", str(12 * 3600))])
def test_a_page_asks_for_a_session_that_ends(call: Client, session: str, max_age: str) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    before = int(time.time())
    answer = login(call, ann.key.key_id, ann.secret, session=session)
    cookie = SimpleCookie(answer.cookies[0])["internal_auth_session"]
    attributes = (cookie["max-age"], cookie["expires"], cookie["httponly"], cookie["samesite"], cookie["path"])
    assert attributes == (max_age, "", True, "Lax", "/")
    assert 12 * 3600 <= answer.json()["token_expiration"] - before <= 12 * 3600 + 60
    sent = {"cookie": f"internal_auth_session={cookie.value}"}
    if isinstance(call, EventClient):
        event = call.event("GET", "/api/v1/user", "", None, {}) | {"cookies": [sent["cookie"]]}
        assert as_answer(call.world.application(event)).json()["user"]["id"] == "ann"
    else:
        assert call("GET", "/user", headers=sent, authorization=None).json()["user"]["id"] == "ann"


@pytest.mark.parametrize("session", ["forever", 12, ""])
def test_a_session_of_another_length_is_a_400(call: Client, session: object) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    assert login(call, ann.key.key_id, ann.secret, session=session).status == 400


def test_a_cookie_is_for_https_only_where_the_api_is() -> None:
    world = make_world(Settings(namespace_prefix="mem://", secure_cookies=True))
    ann = world.access.create_key("ann", Role.READER)
    assert "Secure" in login(EventClient(world), ann.key.key_id, ann.secret).cookies[0]


def test_a_cookie_is_sent_below_the_base_path_only_and_a_logout_removes_that_one() -> None:
    world = make_world(Settings(namespace_prefix="mem://", base_path="/lake/"))
    ann = world.access.create_key("ann", Role.READER)
    call = EventClient(world)
    signed_in = SimpleCookie(login(call, ann.key.key_id, ann.secret).cookies[0])["internal_auth_session"]
    removed = SimpleCookie(call("POST", "/auth/logout", authorization=basic(ann)).cookies[0])["internal_auth_session"]
    assert (signed_in["path"], removed["path"], removed["max-age"], removed.value) == ("/lake/", "/lake/", "0", "")


@pytest.mark.parametrize(
    "body", [None, "", "{", "[]", {}, {"access_key_id": "a"}, {"access_key_id": 1, "secret_access_key": "x"}]
)
def test_a_login_that_makes_no_sense_is_a_400(call: Client, body: object) -> None:
    assert call("POST", "/auth/login", body=body, authorization=None).status == 400


def test_too_many_failures_are_a_429_that_says_when_to_come_again(call: Client) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    for _ in range(failure_limits.MOST):
        assert said(login(call, ann.key.key_id, "wrong")) == UNKNOWN
    refused = login(call, ann.key.key_id, "wrong")
    assert refused.status == 429
    assert 1 <= int(refused.headers["retry-after"]) <= failure_limits.WINDOW
    assert login(call, ann.key.key_id, ann.secret).status == 200
    assert call("GET", "/user").status == 200


def test_the_current_user_is_who_holds_the_key(call: Client) -> None:
    user = call("GET", "/user").json()["user"]
    assert (user["id"], user["friendly_name"], type(user["creation_date"])) == ("somebody", "somebody", int)


def test_the_current_user_learns_what_they_may(call: Client) -> None:
    ann = call.world.access.create_key("ann", Role.WRITER, ["repo", "lab-*"], ["dev-*"])
    rights = call("GET", "/user", authorization=basic(ann)).json()
    del rights["user"]
    limits = {"role": "writer", "repositories": ["repo", "lab-*"], "branches": ["dev-*"]}
    assert rights == {**limits, "expires": None}
    token = login(call, ann.key.key_id, ann.secret).json()
    for _ in range(2):  # the second time from memory
        rights = call("GET", "/user", authorization=f"Bearer {token['token']}").json()
        assert {name: rights[name] for name in limits} == limits
        assert rights["expires"] == token["token_expiration"]
    assert call("GET", "/user").json()["role"] == "admin"
    assert call("GET", "/user", authorization=call.world.reader).json()["repositories"] == []


def test_users_are_the_holders_of_keys(call: Client) -> None:
    for name in ("ann", "ann", "bob"):
        call.world.access.create_key(name, Role.READER)
    page = call("GET", "/auth/users", {"amount": 2}).json()
    assert [each["id"] for each in page["results"]] == ["ann", "bob"]
    assert page["pagination"] == {"has_more": True, "next_offset": "bob", "results": 2, "max_per_page": 1000}
    rest = call("GET", "/auth/users", {"after": "bob"}).json()
    assert [each["id"] for each in rest["results"]] == ["reader", "somebody"]
    assert rest["pagination"]["next_offset"] == ""
    assert [each["id"] for each in call("GET", "/auth/users", {"prefix": "b"}).json()["results"]] == ["bob"]
    assert call("GET", "/auth/users/ann").json()["id"] == "ann"
    assert said(call("GET", "/auth/users/nobody"))[0] == 404
    assert call("GET", "/auth/users/nobody").message.startswith("user not found")
    assert call("POST", "/auth/users", body={"id": "ann"}).message.startswith("Already exists")
    assert call("POST", "/auth/users", body={"id": "ann"}).status == 409
    refused = call("POST", "/auth/users", body={"id": "cleo"})
    assert (refused.status, "`graveler keys create NAME --role ROLE`" in refused.message) == (501, True)
    assert "`graveler keys create`" in call("POST", "/auth/users/nobody/credentials").json()["detail"]
    assert call("POST", "/auth/users", body={"id": ""}).status == 400
    assert call("DELETE", "/auth/users/ann").status == 204
    assert call("GET", "/auth/users/ann").status == 404


def test_credentials_are_keys(call: Client) -> None:
    first = call.world.access.create_key("ann", Role.WRITER, ["repo"], ["dev-*"]).key
    path = "/auth/users/ann/credentials"
    made = call("POST", path)
    assert made.status == 201
    key = made.json()
    assert set(key) == {"access_key_id", "secret_access_key", "creation_date"}
    ids = sorted([first.key_id, key["access_key_id"]])
    listed = call("GET", path).json()
    assert [each["access_key_id"] for each in listed["results"]] == ids
    assert "secret_access_key" not in call("GET", path).text
    known = call.world.access.key(key["access_key_id"])
    assert (known.role, known.repositories, known.branches) == (Role.WRITER, ("repo",), ("dev-*",))
    one = f"{path}/{key['access_key_id']}"
    assert call("GET", one).json() == {"access_key_id": known.key_id, "creation_date": known.created}
    assert call("DELETE", one).status == 204
    assert call("DELETE", one).status == 404
    assert call("GET", one).message.startswith("credentials not found")
    assert call("POST", "/auth/users/nobody/credentials").status == 404
    assert call("GET", f"/auth/users/somebody/credentials/{first.key_id}").status == 404, "somebody else's key"


def test_anybody_may_look_at_their_own_keys(call: Client) -> None:
    listed = call("GET", "/auth/users/reader/credentials", authorization=call.world.reader)
    assert (listed.status, len(listed.json()["results"])) == (200, 1)
    assert call("GET", "/auth/users/reader", authorization=call.world.reader).status == 200


@pytest.fixture
def fresh() -> EventClient:
    """A client of a lake that never had a key."""
    from graveler.access.authentication import Access
    from tests.api.support import World

    tables = MemoryTables()
    lake, access = Lake(tables, MemoryObjects), Access(tables, keyring(tables))
    return EventClient(World(lake, access, Application(lake, access, Settings(open_setup=True)), "", ""))


def test_a_lake_without_keys_is_set_up_once(fresh: EventClient) -> None:
    state = fresh("GET", "/setup_lakefs", authorization=None).json()
    assert (state["state"], state["comm_prefs_missing"], state["login_config"]["RBAC"]) == (
        "not_initialized",
        False,
        "none",
    )
    assert fresh("POST", "/setup_lakefs", body={"username": ""}, authorization=None).status == 400
    made = fresh("POST", "/setup_lakefs", body={"username": "ann", "firstName": "A"}, authorization=None)
    assert made.status == 200
    key = made.json()
    assert fresh("GET", "/setup_lakefs", authorization=None).json()["state"] == "initialized"
    again = fresh("POST", "/setup_lakefs", body={"username": "eve"}, authorization=None)
    assert (again.status, "already initialized" in again.message) == (409, True)
    assert login(fresh, key["access_key_id"], key["secret_access_key"]).status == 200


@pytest.mark.parametrize("path", ["/setup_lakefs", "/setup_comm_prefs"])
def test_nobody_sets_up_a_lake_over_http_unless_the_server_is_for_that(fresh: EventClient, path: str) -> None:
    world = fresh.world
    closed = EventClient(msgspec.structs.replace(world, application=Application(world.lake, world.access)))
    chosen = {"username": "eve", "key": {"access_key_id": "AKIAIAAAAAAAAAAAAAAQ", "secret_access_key": "y" * 40}}
    for body in (chosen, {"username": "eve"}, {"username": ""}):
        refused = closed("POST", path, body=body, authorization=None)
        assert (refused.status, "this lake cannot be set up over HTTP" in refused.message) == (403, True)
    assert closed("GET", "/setup_lakefs", authorization=None).json()["state"] == "not_initialized"
    assert not world.access.has_keys()


def test_who_comes_second_cannot_set_up_a_key_of_their_own(fresh: EventClient) -> None:
    chosen = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "x" * 40}
    assert fresh("POST", "/setup_lakefs", body={"username": "ann", "key": chosen}, authorization=None).status == 200
    evil = {"access_key_id": "AKIAIAAAAAAAAAAAAAAQ", "secret_access_key": "y" * 40}
    assert fresh("POST", "/setup_lakefs", body={"username": "eve", "key": evil}, authorization=None).status == 409
    assert login(fresh, evil["access_key_id"], evil["secret_access_key"]).status == 401
    weak = {"access_key_id": "AKIAIAAAAAAAAAAAAAAQ", "secret_access_key": "short"}
    assert fresh("POST", "/setup_lakefs", body={"username": "eve", "key": weak}, authorization=None).status == 409


def test_each_change_and_each_login_leaves_a_line(call: Client, caplog: pytest.LogCaptureFixture) -> None:
    ann = call.world.access.create_key("ann", Role.READER)
    with caplog.at_level(logging.INFO, "graveler.audit"):
        call("POST", "/repositories/repo/branches", body={"name": "dev", "source": "main"})
        call("DELETE", "/repositories/repo/branches/dev", authorization=call.world.reader)
        token = login(call, ann.key.key_id, ann.secret).json()["token"]
        login(call, ann.key.key_id, "wrong")
        call("POST", "/auth/users/ann/credentials")
        call("GET", "/user")
    lines = [json.loads(message) for message in caplog.messages]
    assert [(line["action"], line["outcome"], line.get("name", "")) for line in lines] == [
        ("createBranch", "201", "somebody"),
        ("deleteBranch", "401", "reader"),
        ("login", "200", ""),
        ("login", "401", ""),
        ("createCredentials", "201", "somebody"),
    ]
    assert lines[0]["repository"] == "repo"
    assert {line["source"] for line in lines} == {"127.0.0.1"}
    assert all(line["request_id"] for line in lines)
    assert lines[3]["key_id"] == ann.key.key_id
    assert ann.secret not in caplog.text
    assert token not in caplog.text


def test_only_an_admin_forces_a_read_only_repository(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    repository.set_read_only(True)
    writer, admin = (basic(call.world.access.create_key("ann", role)) for role in (Role.WRITER, Role.ADMIN))
    branch = {"name": "dev", "source": "main", "force": True}
    for who, status in ((writer, 403), (admin, 201)):
        assert call("POST", "/repositories/repo/branches", body=branch, authorization=who).status == status
    commit = {"message": "m", "allow_empty": True, "force": True}
    for who, status in ((writer, 403), (admin, 201)):
        assert call("POST", "/repositories/repo/branches/main/commits", body=commit, authorization=who).status == status
    for who, status in ((writer, 403), (admin, 204)):
        deleted = call("DELETE", "/repositories/repo/branches/dev", {"force": True}, authorization=who)
        assert deleted.status == status


def test_a_protected_branch_is_rewritten_by_an_admin_and_not_into_dust(call: Client) -> None:
    repository = call.world.lake.repository("repo")
    repository.upload("main", "a", b"x")
    repository.commit("main", "m")
    repository.set_protection(["main"])
    writer, admin = (basic(call.world.access.create_key("ann", role)) for role in (Role.WRITER, Role.ADMIN))
    place = "/repositories/repo/branches/main/rewrite"
    usual = {"min_size": 1 << 20, "max_size": 8 << 20, "raggedness": 100}
    assert call("POST", place, body=usual, authorization=writer).status == 401
    assert call("POST", place, body={**usual, "min_size": 100}, authorization=admin).status == 400
    assert call("POST", place, body=usual, authorization=admin).status == 201
