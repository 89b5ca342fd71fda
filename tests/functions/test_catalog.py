"""The catalog of Iceberg tables as a function: clients' logins, names, refusals and sizes through the gateway's events."""

import gzip
import json
import os
from base64 import b64decode, b64encode
from typing import Any, Final

import pytest
import urllib3

from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.entry import MAX_ANSWER, answered, api_handler, seconds_left
from graveler.functions.traffic import Traffic
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.functions.test_maintenance import Context
from tests.support.shell import Shell

BASE: Final = "/iceberg/v1/sales/main"
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "n", "type": "long", "required": False}],
}
TABLE: Final = {"name": "orders", "schema": SCHEMA}


@pytest.fixture
def catalog(deployment: None, authorization: str) -> Handler:
    """The function, on a lake with a repository."""
    created = {"name": "sales", "storage_namespace": "s3://lake/sales"}
    creation = api_handler("write")(
        event("POST", "/api/v1/repositories", body=created, authorization=authorization), None
    )
    assert creation["statusCode"] == 201
    return api_handler("catalog")


def login(catalog: Handler, authorization: str) -> str:
    """A token for an access key, which a client sends as a form; API Gateway passes that as base64."""
    key_id, _, secret = b64decode(authorization.partition(" ")[2]).decode().partition(":")
    form = f"grant_type=client_credentials&client_id={key_id}&client_secret={secret}&scope=catalog"
    request = event("POST", "/iceberg/v1/oauth/tokens")
    request |= {"body": b64encode(form.encode()).decode(), "isBase64Encoded": True}
    response = catalog(request, None)
    assert response["statusCode"] == 200, response["body"]
    return f"Bearer {json.loads(response['body'])['access_token']}"


def refusal_of(response: dict[str, Any]) -> dict[str, Any]:
    """The error in a response, as Iceberg's clients read it."""
    error: dict[str, Any] = json.loads(response["body"])["error"]
    assert error["code"] == response["statusCode"]
    return error


def test_a_client_logs_in_and_makes_tables_in_nested_namespaces(catalog: Handler, authorization: str) -> None:
    """``%1F`` between the levels of a namespace arrives decoded, as API Gateway has it."""
    token = login(catalog, authorization)

    def ask(method: str, path: str, body: Any = None, status: int = 200) -> Any:
        response = catalog(event(method, path, body=body, authorization=token), None)
        assert response["statusCode"] == status, response["body"]
        return json.loads(response["body"] or "null")

    config = catalog(event("GET", "/iceberg/v1/config", query="warehouse=sales%40main", authorization=token), None)
    assert json.loads(config["body"])["overrides"]["prefix"] == "sales/main"
    ask("POST", f"{BASE}/namespaces", {"namespace": ["shop", "eu"]})
    creation = ask("POST", f"{BASE}/namespaces/shop%1Feu/tables", TABLE)
    assert creation["metadata-location"].startswith("s3://lake/sales/tables/")
    ask("HEAD", "/iceberg/v1/sales%2Fmain/namespaces/shop%1Feu/tables/orders", status=204)
    changes = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    changed = ask("POST", f"{BASE}/namespaces/shop%1Feu/tables/orders", changes)
    assert changed["metadata"]["properties"]["a"] == "b"
    missing = catalog(event("GET", f"{BASE}/namespaces/shop/tables/orders", authorization=token), None)
    assert refusal_of(missing)["type"] == "NoSuchTableException"


def test_a_wrong_secret_logs_nobody_in(catalog: Handler) -> None:
    request = event("POST", "/iceberg/v1/oauth/tokens")
    request["body"] = "grant_type=client_credentials&client_id=AKIA&client_secret=wrong"
    response = catalog(request, None)
    assert (response["statusCode"], json.loads(response["body"])["error"]) == (401, "invalid_client")


def test_the_functions_own_refusals_are_icebergs(catalog: Handler, authorization: str, shell: Shell) -> None:
    packed = event("POST", f"{BASE}/namespaces", authorization=authorization)
    data = gzip.compress(json.dumps({"namespace": ["packed"]}).encode())
    packed["headers"] |= {"content-encoding": "gzip", "content-length": str(len(data))}
    packed["body"] = data.decode("utf-8", "replace")  # the gateway takes JSON for text
    assert "may not have arrived as it was sent" in refusal_of(catalog(packed, None))["message"]


def test_a_paused_catalog_is_read_and_changes_nothing(authorization: str, catalog: Handler, shell: Shell) -> None:
    shell.export("GRAVELER_PAUSED", "true")
    paused = api_handler("catalog")
    token = login(paused, authorization)
    assert paused(event("GET", f"{BASE}/namespaces", authorization=token), None)["statusCode"] == 200
    response = paused(event("POST", f"{BASE}/namespaces", body={"namespace": ["a"]}, authorization=token), None)
    assert (refusal_of(response)["type"], response["headers"]["retry-after"]) == ("ServiceUnavailableException", "60")
    assert response["headers"]["x-request-id"] == "request"


@pytest.mark.parametrize(
    ("method", "status", "kind", "words"),
    [
        ("GET", 400, "BadRequestException", "snapshot-loading-mode=refs"),
        ("POST", 500, "CommitStateUnknownException", "the change was made"),
    ],
)
def test_a_response_that_lambda_would_not_return_is_refused_and_no_client_deletes_what_it_committed(
    method: str, status: int, kind: str, words: str
) -> None:
    """After a 4xx clients delete the files of their commit."""
    large = {"statusCode": 200, "headers": {"etag": "e"}, "body": '"' * (MAX_ANSWER // 2), "isBase64Encoded": False}
    response = answered(lambda _: large, event(method, f"{BASE}/namespaces/shop/tables/orders"))
    refused = refusal_of(response)
    assert (response["statusCode"], refused["type"]) == (status, kind)
    assert words in refused["message"]
    assert "etag" not in response["headers"]


def test_a_commit_that_waits_for_its_turn_is_refused_before_the_function_is_ended(
    catalog: Handler, authorization: str
) -> None:
    hurried = Context(3)
    assert seconds_left(hurried) == 0
    turns = open_deployed_lake(read_configuration(os.environ), Traffic()).repository("sales").parts.turns
    creation = event("POST", f"{BASE}/namespaces", body={"namespace": ["shop"]}, authorization=authorization)
    with turns.at("main", "an operation", keep=True) as turn:
        turn.state()  # others trust its ticket for twenty seconds
    response = catalog(creation, hurried)
    assert refusal_of(response)["type"] == "TooManyRequestsException"
    assert response["headers"]["retry-after"] == "1"
    listing = event("GET", f"{BASE}/namespaces", authorization=authorization)
    assert json.loads(catalog(listing, None)["body"])["namespaces"] == []
    turns.release("main", "an operation")
    assert catalog(creation, hurried)["statusCode"] == 200


def test_a_commit_whose_checks_take_too_long_has_an_unknown_outcome_and_lands_when_it_is_repeated(
    catalog: Handler, authorization: str
) -> None:
    """Its candidate stays open, and needs the files that clients delete after a 4xx."""
    rule = {"name": "kept", "branches": ["main"], "statuses": [{"name": "kept", "check": {"kind": "no-deletes"}}]}
    rules = event(
        "PUT", "/api/v1/repositories/sales/settings/rules", body={"rules": [rule]}, authorization=authorization
    )
    assert api_handler("write")(rules, None)["statusCode"] == 200
    creation = event("POST", f"{BASE}/namespaces", body={"namespace": ["shop"]}, authorization=authorization)
    response = catalog(creation, Context(3))
    assert (response["statusCode"], refusal_of(response)["type"]) == (500, "CommitStateUnknownException")
    listing = event("GET", "/api/v1/repositories/sales/candidates", authorization=authorization)
    (candidate,) = json.loads(api_handler("read")(listing, None)["body"])["results"]
    assert candidate["state"] == "open"
    assert catalog(creation, Context(25))["statusCode"] == 200
    log = event("GET", "/api/v1/repositories/sales/refs/main/commits", authorization=authorization)
    assert json.loads(api_handler("read")(log, None)["body"])["results"][0]["id"] == candidate["commit_id"]


def test_large_metadata_are_returned_to_clients_that_accept_gzip(catalog: Handler, authorization: str) -> None:
    headers = urllib3.make_headers(accept_encoding="gzip")
    names = [{"id": n, "name": f"column_{n}", "type": "long", "required": False} for n in range(1, 200)]
    for body, path in (
        ({"namespace": ["shop"]}, "/namespaces"),
        ({**TABLE, "schema": {**SCHEMA, "fields": names}}, "/namespaces/shop/tables"),
    ):
        response = catalog(event("POST", BASE + path, body=body, authorization=authorization), None)
        assert response["statusCode"] == 200, response["body"]
    request = event("GET", f"{BASE}/namespaces/shop/tables/orders", authorization=authorization)
    response = catalog({**request, "headers": {**request["headers"], **headers}}, None)
    assert (response["headers"]["content-encoding"], response["isBase64Encoded"]) == ("gzip", True)
    document = json.loads(gzip.decompress(b64decode(response["body"])))
    assert len(document["metadata"]["schemas"][0]["fields"]) == len(names)
