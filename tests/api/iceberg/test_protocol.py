"""The Iceberg REST catalog as its clients see it: names, pages, refusals, tokens, ETags."""

from urllib.parse import urlencode

import pytest

from graveler.access.permissions import Role
from tests.api.support import Answer, Client, basic, segment

CATALOG = "!/iceberg/v1/repo/main"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
SET = {"action": "set-properties", "updates": {"a": "b"}}
ORDERS = {"namespace": ["shop"], "name": "orders"}


@pytest.fixture
def tables(call: Client) -> Client:
    """A client of a lake with the table shop.orders."""
    assert call("POST", f"{CATALOG}/namespaces", body={"namespace": ["shop"], "properties": {"k": "v"}}).status == 200
    assert create(call, "orders").status == 200
    return call


def create(call: Client, name: str, **fields: object) -> Answer:
    return call("POST", f"{CATALOG}/namespaces/shop/tables", body={"name": name, "schema": SCHEMA, **fields})


def error(answer: Answer) -> tuple[int, str]:
    """The status and the type of a refusal, whose sentence is not empty."""
    document = answer.json()["error"]
    assert document["code"] == answer.status
    assert document["message"]
    return answer.status, document["type"]


def test_a_warehouse_names_a_repository_and_a_ref(call: Client) -> None:
    def prefix(warehouse: str) -> str:
        return str(call("GET", "!/iceberg/v1/config", {"warehouse": warehouse}).json()["overrides"]["prefix"])

    head = call("GET", "/repositories/repo/refs/main/commits").json()["results"][0]["id"]
    assert prefix("repo") == prefix("repo@main") == "repo/main"
    assert prefix("repo@main@") == prefix(f"repo@{head[:12]}") == f"repo/{head}"
    config = call("GET", "!/iceberg/v1/config", {"warehouse": "repo@main@"}).json()
    assert config["idempotency-key-lifetime"] == "P6D", "without it no client sends a key"
    endpoints = config["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables" in endpoints
    assert "POST /v1/{prefix}/namespaces" not in endpoints
    assert error(call("GET", "!/iceberg/v1/config")) == (400, "BadRequestException")
    assert error(call("GET", "!/iceberg/v1/config", {"warehouse": "none"})) == (404, "NotFoundException")
    assert error(call("GET", "!/iceberg/v1/config", {"warehouse": "repo@none"})) == (404, "NotFoundException")


def test_every_endpoint_that_is_offered_has_a_route(call: Client) -> None:
    for endpoint in call("GET", "!/iceberg/v1/config", {"warehouse": "repo"}).json()["endpoints"]:
        method, path = endpoint.split()
        path = path.replace("{prefix}", "repo/main").replace("{", "").replace("}", "")
        answer = call(method, f"!/iceberg{path}", body={} if method == "POST" else None)
        assert answer.status != 405, endpoint
        assert method == "HEAD" or answer.status != 404 or answer.json()["error"]["type"] != "NotFoundException", (
            endpoint
        )


def test_a_catalog_at_a_commit_changes_nothing(tables: Client) -> None:
    head = tables("GET", "!/iceberg/v1/config", {"warehouse": "repo@main@"}).json()["overrides"]["prefix"]
    catalog, names = f"!/iceberg/v1/{head}", {"source": ORDERS, "destination": {**ORDERS, "name": "x"}}
    assert tables("GET", f"{catalog}/namespaces/shop/tables/orders").status == 200
    for method, path, body in (
        ("POST", "namespaces", {"namespace": ["x"]}),
        ("POST", "namespaces/shop/properties", {"updates": {"a": "b"}}),
        ("POST", "namespaces/shop/tables", {"name": "x", "schema": SCHEMA}),
        ("POST", "namespaces/shop/tables", {"name": "x", "schema": SCHEMA, "stage-create": True}),
        ("POST", "namespaces/shop/tables/orders", {"updates": [SET]}),
        ("DELETE", "namespaces/shop/tables/orders", None),
        ("POST", "tables/rename", names),
        ("POST", "transactions/commit", {"table-changes": [{"identifier": ORDERS, "updates": [SET]}]}),
    ):
        assert error(tables(method, f"{catalog}/{path}", body=body)) == (404, "NotFoundException"), path


def test_some_clients_encode_the_slash_of_a_prefix(tables: Client) -> None:
    assert tables("GET", "!/iceberg/v1/repo%2Fmain/namespaces/shop/tables/orders").status == 200


def test_an_access_key_becomes_a_token_which_becomes_itself(call: Client) -> None:
    key = call.world.access.create_key("etl", Role.WRITER)
    form = {
        "grant_type": "client_credentials",
        "client_id": key.key.key_id,
        "client_secret": key.secret,
        "scope": "catalog",
    }

    def token_of(**fields: str) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return call("POST", "!/iceberg/v1/oauth/tokens", body=urlencode(fields), headers=headers, authorization=None)

    token = token_of(**form).json()
    assert token["token_type"] == "bearer"
    bearer = f"Bearer {token['access_token']}"
    assert call("GET", f"{CATALOG}/namespaces", authorization=bearer).status == 200
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    again = token_of(grant_type=exchange, subject_token=token["access_token"]).json()
    assert again["access_token"] == token["access_token"]
    assert 0 < again["expires_in"] <= token["expires_in"]
    wrong = token_of(**{**form, "client_secret": "wrong"})
    assert (wrong.status, wrong.json()["error"]) == (401, "invalid_client")
    assert token_of(grant_type=exchange, subject_token="x").json()["error"] == "invalid_grant"
    assert token_of(grant_type="password").json()["error"] == "unsupported_grant_type"
    assert error(call("GET", f"{CATALOG}/namespaces", authorization=None)) == (401, "NotAuthorizedException")


def test_roles_and_limits_of_keys_hold(tables: Client) -> None:
    reader = tables.world.reader
    assert tables("GET", f"{CATALOG}/namespaces/shop/tables/orders", authorization=reader).status == 200
    body = {"updates": [SET]}
    refused = tables("POST", f"{CATALOG}/namespaces/shop/tables/orders", body=body, authorization=reader)
    assert error(refused) == (403, "ForbiddenException")
    limited = basic(tables.world.access.create_key("dev", Role.WRITER, branches=("dev-*",)))
    refused = tables("POST", f"{CATALOG}/namespaces/shop/tables/orders", body=body, authorization=limited)
    assert error(refused) == (403, "ForbiddenException")
    elsewhere = basic(tables.world.access.create_key("other", Role.READER, repositories=("other",)))
    assert error(tables("GET", f"{CATALOG}/namespaces", authorization=elsewhere))[0] in (403, 404)
    assert error(tables("GET", "!/iceberg/v1/config", {"warehouse": "repo"}, authorization=elsewhere))[0] in (403, 404)


def test_namespaces_nest_and_have_properties(call: Client) -> None:
    for namespace in (["a"], ["a", "b"], ["x", "y", "z"]):
        assert call("POST", f"{CATALOG}/namespaces", body={"namespace": namespace}).status == 200
    listed = call("GET", f"{CATALOG}/namespaces").json()["namespaces"]
    assert listed == [["a"], ["x"]]
    assert call("GET", f"{CATALOG}/namespaces", {"parent": "x\x1fy"}).json()["namespaces"] == [["x", "y", "z"]]
    below = f"{CATALOG}/namespaces/{segment(chr(0x1F).join(['a', 'b']))}"
    changed = call("POST", f"{below}/properties", body={"updates": {"k": "v"}, "removals": ["none"]}).json()
    assert changed == {"updated": ["k"], "removed": [], "missing": ["none"]}
    assert call("GET", below).json() == {"namespace": ["a", "b"], "properties": {"k": "v"}}
    assert call("POST", f"{below}/properties", body={"removals": ["k"]}).json()["removed"] == ["k"]
    both = call("POST", f"{below}/properties", body={"updates": {"k": "v"}, "removals": ["k"]})
    assert error(both) == (422, "UnprocessableEntityException")
    assert error(call("DELETE", f"{CATALOG}/namespaces/a")) == (409, "NamespaceNotEmptyException")
    assert call("DELETE", below).status == 204
    assert call("DELETE", f"{CATALOG}/namespaces/a").status == 204
    assert call("HEAD", f"{CATALOG}/namespaces/a").status == 404
    assert error(call("GET", f"{CATALOG}/namespaces/a")) == (404, "NoSuchNamespaceException")
    assert error(call("POST", f"{CATALOG}/namespaces", body={"namespace": ["x"]})) == (409, "AlreadyExistsException")
    assert error(call("POST", f"{CATALOG}/namespaces", body={"namespace": []})) == (400, "BadRequestException")


def test_tables_are_listed_in_pages(tables: Client) -> None:
    for name in ("a", "b/c", "d"):
        assert create(tables, name).status == 200
    path = f"{CATALOG}/namespaces/shop/tables"
    whole = [table["name"] for table in tables("GET", path).json()["identifiers"]]
    assert sorted(whole) == ["a", "b/c", "d", "orders"]
    names, token = [], ""
    while True:
        page = tables("GET", path, {"pageSize": "3", "pageToken": token}).json()
        names += [table["name"] for table in page["identifiers"]]
        token = page.get("next-page-token", "")
        if not token:
            break
    assert names == whole
    assert error(tables("GET", path, {"pageSize": "1", "pageToken": "zz"})) == (400, "BadRequestException")
    assert error(tables("GET", f"{CATALOG}/namespaces/none/tables")) == (404, "NoSuchNamespaceException")


def test_a_loaded_table_has_an_etag(tables: Client) -> None:
    path = f"{CATALOG}/namespaces/shop/tables/orders"
    loaded = tables("GET", path)
    assert loaded.json()["metadata-location"].endswith(".metadata.json")
    etag = loaded.headers["etag"]
    assert tables("GET", path, headers={"If-None-Match": etag}).status == 304
    assert tables("GET", path, {"snapshots": "refs"}, headers={"If-None-Match": etag}).status == 200
    changed = tables("POST", path, body={"requirements": [], "updates": [SET]})
    assert changed.json()["metadata"]["properties"]["a"] == "b"
    assert changed.headers["etag"] == tables("GET", path).headers["etag"] != etag


def test_refusals_say_what_clients_look_for(tables: Client) -> None:
    path = f"{CATALOG}/namespaces/shop/tables/orders"
    wrong = {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}
    assert error(tables("POST", path, body={"requirements": [wrong], "updates": []})) == (409, "CommitFailedException")
    assert error(tables("POST", path, body={"updates": [{"action": "x"}]})) == (400, "BadRequestException")
    assert error(tables("POST", path, body={"updates": "x"})) == (400, "BadRequestException")
    assert error(tables("POST", path, body={"requirements": [{"type": "x"}], "updates": []}))[0] == 400
    for target in (path, f"{CATALOG}/transactions/commit"):  # a success would say that changes which got lost were made
        for lost in (None, {}, {"requirements": [wrong]}):
            assert error(tables("POST", target, body=lost)) == (400, "BadRequestException")
    assert error(tables("GET", f"{CATALOG}/namespaces/shop/tables/none")) == (404, "NoSuchTableException")
    assert error(tables("DELETE", f"{CATALOG}/namespaces/shop/tables/none")) == (404, "NoSuchTableException")
    assert error(create(tables, "orders")) == (409, "AlreadyExistsException")
    assert error(tables("GET", "!/iceberg/v1/none/main/namespaces"))[0] == 404
    assert error(tables("GET", "!/iceberg/v1/repo/none/namespaces"))[0] == 404
    assert error(tables("GET", "!/iceberg/v2/x"))[0] == 404
    assert error(tables("PUT", path))[0] == 405


def test_a_staged_table_exists_once_a_commit_creates_it(tables: Client) -> None:
    staged = create(tables, "staged", **{"stage-create": True}).json()["metadata"]
    path = f"{CATALOG}/namespaces/shop/tables/staged"
    assert tables("HEAD", path).status == 404
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": staged["schemas"][0], "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    created = tables("POST", path, body=body).json()
    assert created["metadata"]["table-uuid"] == staged["table-uuid"]
    assert created["metadata"]["location"] == staged["location"]
    assert error(tables("POST", path, body=body)) == (409, "CommitFailedException")


def test_a_repeated_request_with_a_key_has_one_effect(tables: Client) -> None:
    path = f"{CATALOG}/namespaces/shop/tables/orders"
    headers = {"Idempotency-Key": "0190e2b4-0000-7000-8000-000000000000"}
    answers = [tables("POST", path, body={"updates": [SET]}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    log = tables("GET", "/repositories/repo/refs/main/commits").json()["results"]
    assert [commit["message"] for commit in log].count("Change table shop.orders") == 1


def test_a_key_is_for_one_request(tables: Client) -> None:
    assert create(tables, "other").status == 200
    path = f"{CATALOG}/namespaces/shop/tables"
    headers = {"Idempotency-Key": "0190e2b4-0000-7000-8000-000000000000"}
    assert tables("POST", f"{path}/orders", body={"updates": [SET]}, headers=headers).status == 200
    other = {"updates": [{**SET, "updates": {"a": "c"}}]}
    for target, body in ((f"{path}/orders", other), (f"{path}/other", {"updates": [SET]})):
        refused = tables("POST", target, body=body, headers=headers)
        assert error(refused) == (400, "BadRequestException")
        assert "another request used this key" in refused.json()["error"]["message"]


def test_tables_are_renamed_dropped_and_registered(tables: Client) -> None:
    def renamed(source: str, destination: str) -> Answer:
        names = {
            side: {"namespace": ["shop"], "name": name}
            for side, name in (("source", source), ("destination", destination))
        }
        return tables("POST", f"{CATALOG}/tables/rename", body=names)

    path = f"{CATALOG}/namespaces/shop/tables"
    location = tables("GET", f"{path}/orders").json()["metadata-location"]
    assert renamed("orders", "sales").status == 204
    assert error(renamed("orders", "x")) == (404, "NoSuchTableException")
    assert create(tables, "orders").status == 200
    assert error(renamed("orders", "sales")) == (409, "AlreadyExistsException")
    assert tables("DELETE", f"{path}/sales", {"purgeRequested": "true"}).status == 204
    registered = tables(
        "POST", f"{CATALOG}/namespaces/shop/register", body={"name": "again", "metadata-location": location}
    )
    assert registered.json()["metadata"] == tables("GET", f"{path}/again").json()["metadata"]
    elsewhere = {"name": "y", "metadata-location": "s3://elsewhere/x.metadata.json"}
    assert error(tables("POST", f"{CATALOG}/namespaces/shop/register", body=elsewhere)) == (400, "BadRequestException")


def test_a_transaction_changes_all_its_tables_or_none(tables: Client) -> None:
    assert create(tables, "other").status == 200

    def change(name: str, *requirements: object) -> dict[str, object]:
        return {"identifier": {"namespace": ["shop"], "name": name}, "requirements": requirements, "updates": [SET]}

    wrong = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}
    path = f"{CATALOG}/transactions/commit"
    refused = tables("POST", path, body={"table-changes": [change("orders"), change("other", wrong)]})
    assert error(refused) == (409, "CommitFailedException")
    assert "a" not in tables("GET", f"{CATALOG}/namespaces/shop/tables/orders").json()["metadata"]["properties"]
    assert tables("POST", path, body={"table-changes": [change("orders"), change("other")]}).status == 204
    assert tables("POST", path, body={"table-changes": []}).status == 204
    assert error(tables("POST", path, body={"table-changes": [{"updates": [SET]}]})) == (400, "BadRequestException")
    metrics = tables("POST", f"{CATALOG}/namespaces/shop/tables/orders/metrics", body={"report-type": "scan-report"})
    assert metrics.status == 204


def test_a_table_names_files_of_import_sources_only(tables: Client) -> None:
    """The world of these tests permits any source; the file itself does not exist."""
    path = f"{CATALOG}/namespaces/shop/tables/orders"
    statistics = {
        "snapshot-id": 1,
        "statistics-path": "file:///nowhere/a.stats",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    update = {"action": "set-statistics", "snapshot-id": 1, "statistics": statistics}
    refused = tables("POST", path, body={"updates": [update]})
    assert error(refused) == (400, "BadRequestException")
    assert "does not exist" in refused.json()["error"]["message"]
    inner_file = f"{tables('GET', path).json()['metadata']['location'].rsplit('/', 3)[0]}/tables/x/y/a.stats"
    update = {**update, "statistics": {**statistics, "statistics-path": inner_file}}
    assert "not in the table's folder" in tables("POST", path, body={"updates": [update]}).json()["error"]["message"]


def test_views_are_made_changed_renamed_and_dropped(tables: Client) -> None:
    path = f"{CATALOG}/namespaces/shop/views"
    version = {
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "x"},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["shop"],
    }
    created = tables("POST", path, body={"name": "recent", "schema": SCHEMA, "view-version": version, "properties": {}})
    view = created.json()["metadata"]
    assert tables("GET", f"{path}/recent").json() == created.json()
    assert tables("GET", path).json() == {"identifiers": [{"namespace": ["shop"], "name": "recent"}]}
    assert error(create(tables, "recent")) == (409, "AlreadyExistsException")
    other = {**version, "version-id": 2, "representations": [{"type": "sql", "sql": "SELECT 2", "dialect": "spark"}]}
    updates = [
        {"action": "add-view-version", "view-version": other},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    uuid = {"type": "assert-view-uuid", "uuid": view["view-uuid"]}
    replaced = tables("POST", f"{path}/recent", body={"requirements": [uuid], "updates": updates}).json()["metadata"]
    assert replaced["current-version-id"] == 2
    wrong = {**uuid, "uuid": "00000000-0000-4000-8000-000000000000"}
    refused = tables("POST", f"{path}/recent", body={"requirements": [wrong], "updates": updates})
    assert error(refused) == (409, "CommitFailedException")
    names = {
        side: {"namespace": ["shop"], "name": name} for side, name in (("source", "recent"), ("destination", "new"))
    }
    assert tables("POST", f"{CATALOG}/views/rename", body=names).status == 204
    assert tables("HEAD", f"{path}/new").status == 204
    register = f"{CATALOG}/namespaces/shop/register-view"
    location = tables("GET", f"{path}/new").json()["metadata-location"]
    for taken in ("new", "orders"):
        refused = tables("POST", register, body={"name": taken, "metadata-location": location})
        assert error(refused) == (409, "AlreadyExistsException")
    assert tables("DELETE", f"{path}/new").status == 204
    registered = tables("POST", register, body={"name": "again", "metadata-location": location})
    assert registered.json()["metadata"] == replaced == tables("GET", f"{path}/again").json()["metadata"]
    table = tables("GET", f"{CATALOG}/namespaces/shop/tables/orders").json()["metadata-location"]
    for address in ("s3://elsewhere/x.metadata.json", table):
        refused = tables("POST", register, body={"name": "y", "metadata-location": address})
        assert error(refused) == (400, "IllegalArgumentException")
    query = {"type": "sql", "sql": "SELECT 1", "dialect": "spark"}
    twice = {**version, "representations": [query, query]}
    refused = tables("POST", path, body={"name": "z", "schema": SCHEMA, "view-version": twice})
    assert error(refused) == (400, "IllegalArgumentException")
    assert error(tables("GET", f"{path}/new")) == (404, "NoSuchViewException")
