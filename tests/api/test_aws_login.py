"""Logging in by AWS over HTTP: as the published client does it, and the rules that let principals in."""

import json
import logging
from base64 import encodebytes
from collections.abc import Iterator
from typing import Any

import boto3
import lakefs
import pytest
from lakefs.client import Client as PublishedClient
from lakefs.client import from_aws_role
from lakefs.exceptions import NotAuthorizedException
from lakefs_sdk.exceptions import ApiException, NotFoundException

from graveler.access.authentication import MAX_AWS_SECONDS
from graveler.access.aws_login import AwsLogin
from graveler.access.permissions import Role
from tests.api.over_http import HOST, Switch
from tests.api.support import Answer, Client, EventClient, HttpClient, World, make_world
from tests.support.lakefs_clients import drop_connections
from tests.support.shell import Shell
from tests.support.sts import ACCOUNT, FakeSts, Principal, identity_parts, identity_token, role, user

NAME = "lake.example.org"
RULES = "/auth/principals"
ETL = role("etl-nightly")


@pytest.fixture(scope="module")
def sts() -> Iterator[FakeSts]:
    with FakeSts() as made:
        made.knows(ETL)
        yield made


@pytest.fixture
def world(sts: FakeSts) -> World:
    """A lake that clients know as lake.example.org, or by this machine's address."""
    made = make_world(aws=AwsLogin((NAME, HOST), sts.client()))
    made.lake.create_repository("repo", "local://repo")
    return made


@pytest.fixture
def port(world: World, server: Switch) -> int:
    server.application = world.application
    return server.port


@pytest.fixture(params=["events", "http"])
def call(request: pytest.FixtureRequest, world: World) -> Iterator[Client]:
    if request.param == "events":
        yield EventClient(world)
        return
    client = HttpClient(world, HOST, request.getfixturevalue("port"))
    yield client
    client.close()


def log_in(call: Client, principal: Principal = ETL, name: str = NAME, **said: object) -> Answer:
    token = identity_token(identity_parts(principal, name))
    body = {"identityRequest": {"identity_token": token}, **said}
    return call("POST", "/auth/external/principal/login", body=body, authorization=None)


def let_in(call: Client, pattern: str = "role/etl-*", **said: object) -> Any:
    body = {"principal": f"arn:aws:iam::{ACCOUNT}:{pattern}", "name": "etl", **said}
    return call("POST", RULES, body=body)


def test_a_role_with_a_rule_gets_a_token_with_its_rights(call: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "graveler.audit")
    made = let_in(call, role="reader", repositories=["repo"]).json()
    answer = log_in(call, token_expiration_duration=10**6)
    assert answer.status == 200
    bearer = f"Bearer {answer.json()['token']}"
    user = call("GET", "/user", authorization=bearer).json()["user"]
    assert (user["id"], user["creation_date"]) == ("etl", made["created"])
    assert call("GET", "/repositories/repo", authorization=bearer).status == 200
    assert call("GET", "/repositories/other", authorization=bearer).status == 401
    refused = call("GET", RULES, authorization=bearer).message
    assert refused.startswith(
        f"insufficient permissions: rule {made['id']} of 'etl' (a reader) may not administer the lake: "
    )
    lines = [json.loads(line.message) for line in caplog.records]
    (line,) = [line for line in lines if line["action"] == "externalPrincipalLogin"]
    assert (line["outcome"], line["key_id"], line["name"], line["principal"]) == ("200", made["id"], "etl", ETL.arn)
    assert not [line for line in caplog.messages if answer.json()["token"] in line or ETL.token in line]


def test_a_login_for_longer_than_may_be_says_when_it_ends(call: Client) -> None:
    """lakectl asks for 60 hours."""
    made = let_in(call).json()
    answer = log_in(call, token_expiration_duration=216_000)
    assert answer.json()["token_expiration"] - made["created"] in range(MAX_AWS_SECONDS, MAX_AWS_SECONDS + 600)
    assert log_in(call, token_expiration_duration=0).status == 400


def test_a_rule_that_is_removed_ends_its_sessions(call: Client) -> None:
    made = let_in(call).json()
    bearer = f"Bearer {log_in(call).json()['token']}"
    assert call("GET", "/user", authorization=bearer).status == 200
    assert call("DELETE", f"{RULES}/{made['id']}").status == 204
    assert call("GET", "/user", authorization=bearer).message == "error authenticating request"
    assert call("DELETE", f"{RULES}/{made['id']}").status == 404
    refused = log_in(call)
    assert (refused.status, refused.message) == (
        401,
        "error authenticating request: no rule lets AWS principals in; ask an admin to create one",
    )


def test_a_session_can_be_ended(call: Client) -> None:
    let_in(call)
    bearer = f"Bearer {log_in(call).json()['token']}"
    assert call("POST", "/auth/logout", authorization=bearer).status == 204
    assert call("GET", "/user", authorization=bearer).status == 401


def test_who_is_not_believed_is_told_why_and_noted(call: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "graveler.audit")
    let_in(call)
    elsewhere = log_in(call, name="evil.example.org")
    assert elsewhere.status == 401
    assert elsewhere.json()["message"] == "error authenticating request"
    assert "SignatureDoesNotMatch" in elsewhere.json()["detail"]
    (line,) = [json.loads(text) for text in caplog.messages if "externalPrincipalLogin" in text]
    assert (line["outcome"], line["principal"]) == ("401", ETL.key_id)


def test_the_hosts_name_in_the_request_counts_for_nothing(call: Client) -> None:
    """Who replays a token that was signed for evil.example.org says that this server is called so."""
    let_in(call)
    parts = identity_parts(ETL, "evil.example.org")
    body = {"identityRequest": {"identity_token": identity_token(parts)}}
    headers = {
        "Host": "evil.example.org",
        "X-LakeFS-Server-ID": "evil.example.org",
        "X-Forwarded-Host": "evil.example.org",
    }
    answer = call("POST", "/auth/external/principal/login", body=body, headers=headers, authorization=None)
    assert answer.status == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"identityRequest": {}},
        {"identityRequest": {"identity_token": 7}},
        {"identityRequest": {"identity_token": "!"}},
        [],
    ],
)
def test_a_body_that_is_none_is_a_bad_request(call: Client, body: object) -> None:
    let_in(call)
    assert call("POST", "/auth/external/principal/login", body=body, authorization=None).status == 400


def test_rules_are_made_shown_listed_and_removed_by_admins(call: Client) -> None:
    made = let_in(call, role="admin", branches=["x-*"]).json()
    assert made["principal"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/etl-*/*"
    others = [let_in(call, f"role/r{number}").json() for number in range(3)]
    assert call("GET", f"{RULES}/{made['id']}").json() == made
    listed = sorted([made, *others], key=lambda rule: rule["id"])
    assert call("GET", RULES).json()["results"] == listed
    first = call("GET", RULES, {"amount": 3}).json()
    assert first["results"] == listed[:3]
    assert call("GET", RULES, {"after": first["pagination"]["next_offset"]}).json()["results"] == listed[3:]
    assert let_in(call).status == 409
    assert let_in(call, "role/x", role="emperor").status == 400
    assert call("POST", RULES, body={"principal": "*", "name": "x"}).status == 400
    assert call("GET", f"{RULES}/aws:0").status == 404
    for method, path in (("GET", RULES), ("POST", RULES), ("GET", f"{RULES}/x"), ("DELETE", f"{RULES}/x")):
        assert call(method, path, body={"principal": "x", "name": "x"}, authorization=call.world.reader).status == 401


def test_without_a_configured_name_nobody_logs_in_by_aws(world: World) -> None:
    answer = log_in(EventClient(make_world()))
    assert answer.status == 501
    assert "--aws-login" in answer.message


# The published client, unmodified


def session(principal: Principal, region: str = "eu-west-1") -> boto3.Session:
    return boto3.Session(principal.key_id, principal.secret, principal.token, region_name=region)


@pytest.mark.parametrize("region", ["eu-west-1", "us-gov-west-1"])
def test_the_published_client_logs_in_from_a_session(world: World, port: int, region: str) -> None:
    let_in(EventClient(world), role="admin")
    client = from_aws_role(session(ETL, region), host=f"http://{HOST}:{port}")
    assert [repo.id for repo in lakefs.repositories(client=client)] == ["repo"]


def test_the_published_client_logs_in_by_its_environment_and_signs_another_name(
    world: World, port: int, shell: Shell, tmp_path: Any
) -> None:
    let_in(EventClient(world), role="admin")
    said = {
        "LAKECTL_SERVER_ENDPOINT_URL": f"http://{HOST}:{port}",
        "LAKECTL_CREDENTIALS_PROVIDER_TYPE": "aws_iam",
        "LAKECTL_CREDENTIALS_PROVIDER_AWS_IAM_TOKEN_REQUEST_HEADERS": json.dumps({"X-LakeFS-Server-ID": NAME}),
        "LAKECTL_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_DEFAULT_REGION": "eu-west-1",
        **ETL.environment,
    }
    shell.export_all(said)
    assert [repo.id for repo in lakefs.repositories(client=PublishedClient())] == ["repo"]


def test_the_published_client_is_told_that_nobody_let_it_in(world: World, port: int) -> None:
    with pytest.raises(NotAuthorizedException, match="no rule lets AWS principals in"):
        from_aws_role(session(ETL), host=f"http://{HOST}:{port}")


# What the clients in Go and Java write, which cannot be had here


def test_tokens_as_lakectl_and_hadoop_lakefs_write_them_are_read(call: Client, sts: FakeSts) -> None:
    """Go writes an empty session token; Gson leaves out what is null, and commons-codec of Hadoop 2 breaks lines."""
    ann = user("ann")
    sts.knows(ann)
    let_in(call, "user/ann")
    parts = identity_parts(ann, NAME, host="sts.amazonaws.com", seconds=900)
    lean = {name: value for name, value in parts.items() if value is not None}
    lines = encodebytes(json.dumps(lean).encode()).replace(b"\n", b"\r\n").decode()
    for token in (identity_token({**parts, "security_token": ""}), identity_token(lean), lines):
        body = {"identityRequest": {"identity_token": token}}  # hadoop-lakefs asks for no time
        answer = call("POST", "/auth/external/principal/login", body=body, authorization=None)
        assert answer.status == 200, answer
        assert isinstance(answer.json()["token_expiration"], int)


def test_the_published_clients_operations_on_principals_make_rules_of_users(world: World, port: int) -> None:
    held = [world.access.create_key("ann", role, [role.value]).key for role in (Role.READER, Role.WRITER)]
    oldest = min(
        held, key=lambda key: (key.created, key.key_id)
    )  # of two of the same second, the one whose ID is first
    admin = world.access.create_key("admin", Role.ADMIN)
    client = PublishedClient(host=f"http://{HOST}:{port}", username=admin.key.key_id, password=admin.secret)
    api, arn = client.sdk_client.auth_api, f"arn:aws:sts::{ACCOUNT}:assumed-role/etl-nightly"
    api.create_user_external_principal("ann", arn)
    (rule,) = world.access.rules()
    assert (rule.name, rule.role, rule.repositories) == ("ann", oldest.role, oldest.repositories)
    (listed,) = api.list_user_external_principals("ann").results
    assert (listed.id, listed.user_id) == (f"{arn}/*", "ann")
    assert api.get_external_principal(arn).user_id == "ann"
    with pytest.raises(ApiException, match="409"):
        api.create_user_external_principal("ann", arn)
    assert log_in(EventClient(world)).status == 200
    for wrong in (("bob", arn), ("admin", arn)):
        with pytest.raises(NotFoundException):
            api.delete_user_external_principal(*wrong)
    api.delete_user_external_principal("ann", arn)
    assert api.list_user_external_principals("ann").results == []
    with pytest.raises(NotFoundException):
        api.get_external_principal(arn)
    with pytest.raises(NotFoundException):
        api.create_user_external_principal("bob", arn)
    with pytest.raises(NotFoundException):
        api.list_user_external_principals("bob")
    drop_connections(client)


@pytest.mark.parametrize("principal", ["", "ann", "arn:aws:iam::*:role/x"])
def test_a_principal_that_is_none_is_a_bad_request(call: Client, principal: str) -> None:
    path = "/auth/users/somebody/external/principals"
    for method, where in (("POST", path), ("DELETE", path), ("GET", "/auth/external/principals")):
        assert call(method, where, {"principalId": principal}).status == 400
        assert call(method, where, {"principalId": principal}, authorization=call.world.reader).status == 401
