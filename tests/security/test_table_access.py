"""A reader of one table attacks credentials and signatures: other tables, other repositories, the lake's own files, writing,
deleting, after the end of the key, by tricks with paths."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl
from urllib.request import Request, urlopen

import pytest

from graveler.access.permissions import Role
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.objects.s3_clients import CLIENTS
from tests.api.support import Answer
from tests.support.role_sessions import allows
from tests.support.servers import REGION, s3proxy
from tests.support.tables_on_s3 import SCHEMA, TablesOnS3, tables_on_s3

ORDERS = "namespaces/shop/tables/orders"
SIGNING = {"X-Iceberg-Access-Delegation": "remote-signing"}


@pytest.fixture(scope="module")
def lake() -> Iterator[TablesOnS3]:
    with tables_on_s3() as lake:
        yield lake


def load(
    lake: TablesOnS3, key: str = "", repository: str = "sales", ref: str = "main", headers: dict[str, str] | None = None
) -> Answer:
    return lake.call("GET", f"!/iceberg/v1/{repository}/{ref}/{ORDERS}", headers=headers or {}, authorization=key)


def folder(lake: TablesOnS3, repository: str = "sales") -> str:
    """The location of a repository's table."""
    return str(load(lake, repository=repository).json()["metadata"]["location"])


def sign(
    lake: TablesOnS3,
    location: str,
    key: str = "",
    method: str = "GET",
    *,
    path: str = f"v1/sales/main/{ORDERS}/sign",
    query: str = "",
    headers: dict[str, list[str]] | None = None,
) -> Answer:
    uri = location.replace("s3:/", s3proxy(), 1) + query
    body = {"method": method, "uri": uri, "region": REGION, "headers": headers or {}, "provider": "s3"}
    return lake.call("POST", f"!/iceberg/{path}", body=body, authorization=key)


def put(lake: TablesOnS3, location: str) -> None:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    CLIENTS.get(S3Settings(REGION, s3proxy())).put_object(Bucket=bucket, Key=key, Body=b"rows")


def policy(lake: TablesOnS3) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(lake.sts.policy)
    return document


def test_credentials_open_the_files_of_one_table(lake: TablesOnS3) -> None:
    reader = lake.key(Role.READER, repositories=("sales",))
    answer = load(lake, reader).json()
    [credential] = answer["storage-credentials"]
    assert credential["prefix"] == f"{folder(lake)}/"
    assert answer["config"] == credential["config"]
    assert {"s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms"} < set(
        answer["config"]
    )
    assert answer["config"]["s3.endpoint"] == s3proxy()
    assert answer["config"]["s3.path-style-access"] == "true"
    session = policy(lake)
    for address, readable in (
        (f"{folder(lake)}/data/a", True),
        (f"{folder(lake, 'other')}/data/a", False),
        (f"s3://{lake.bucket}/lake/sales/data/a", False),
        (f"s3://{lake.bucket}/lake/sales/_graveler/ranges/a", False),
        (f"s3://{lake.bucket}/raw/a", False),
    ):
        load(lake, reader)
        assert allows(session, "s3:GetObject", address) is readable, address
        assert not allows(session, "s3:PutObject", address)
    assert load(lake, reader, "other").status == 403


def test_who_may_not_change_the_ref_gets_no_right_to_write(lake: TablesOnS3) -> None:
    lake.world.lake.repository("sales").create_branch("locked", "main")
    lake.world.lake.repository("sales").protect(["locked"])
    lake.world.lake.repository("sales").create_tag("v1", "main")
    head = lake.world.lake.repository("sales").commit_of("main").id
    other_branches = lake.key(Role.WRITER, branches=("dev-*",))
    for key, ref, writes in (
        (lake.key(Role.WRITER), "main", True),
        (lake.key(Role.READER), "main", False),
        (other_branches, "main", False),
        (lake.key(Role.ADMIN), "v1", False),
        (lake.key(Role.ADMIN), head, False),
        (lake.key(Role.ADMIN), "locked", False),
    ):
        assert load(lake, key, ref=ref).status == 200
        assert allows(policy(lake), "s3:PutObject", f"{folder(lake)}/data/a") is writes, ref
        signed = sign(lake, f"{folder(lake)}/data/new", key, "PUT", path=f"v1/sales/{ref}/{ORDERS}/sign")
        assert signed.status == (200 if writes else 403), (ref, signed)


def test_a_session_is_no_longer_than_the_token_of_its_caller(lake: TablesOnS3) -> None:
    key = lake.world.access.create_key("Ann", Role.READER)
    long, short = (lake.world.access.login(key.key.key_id, key.secret, "127.0.0.1", seconds) for seconds in (7200, 600))
    expiry = "s3.session-token-expires-at-ms"
    hour = int(load(lake, f"Bearer {long.token}").json()["config"][expiry])
    requests = len(lake.sts.requests)
    assert int(load(lake, f"Bearer {long.token}").json()["config"][expiry]) == hour
    assert len(lake.sts.requests) == requests, "a session is used again"
    assert int(lake.sts.requests[-1]["DurationSeconds"]) == 3600
    minutes = int(load(lake, f"Bearer {short.token}").json()["config"][expiry])
    assert minutes <= short.expires * 1000 < hour
    assert allows(policy(lake), "s3:GetObject", f"{folder(lake)}/a", aws_currenttime="2020-01-01T00:00:00Z") is True
    load(lake, f"Bearer {short.token}")
    assert "DateLessThan" in lake.sts.requests[-1]["Policy"] or "DateLessThan" in lake.sts.requests[-2]["Policy"]


def test_a_revoked_key_gets_nothing(lake: TablesOnS3) -> None:
    key = lake.world.access.create_key("Ann", Role.READER)
    token = lake.world.access.login(key.key.key_id, key.secret, "127.0.0.1", 3600).token
    assert load(lake, f"Bearer {token}").status == 200
    lake.world.access.revoke(key.key.key_id)
    assert load(lake, f"Bearer {token}").status == 401
    assert sign(lake, f"{folder(lake)}/data/a", f"Bearer {token}").status == 401


def test_a_signed_request_works_once_signed_and_no_other_does(lake: TablesOnS3) -> None:
    address = f"{folder(lake)}/data/day%3D2020-01-01T00%253A00/%C3%BC%20x.parquet"

    def send(answer: Answer, method: str, data: bytes | None = None) -> bytes:
        document = answer.json()
        headers = {name: ",".join(text) for name, text in document["headers"].items()} | {"Content-Type": "a/b"}
        sent = Request(document["uri"], data, headers, method=method)
        with urlopen(sent) as response:
            return bytes(response.read())

    signed = sign(lake, address, method="PUT")
    assert signed.headers["cache-control"] == "no-store"
    send(signed, "PUT", b"rows")
    reading = sign(lake, address, lake.world.reader)
    assert reading.headers["cache-control"] == "private"
    assert send(reading, "GET") == b"rows"
    with pytest.raises(OSError, match="412"):  # nothing is replaced
        send(sign(lake, address, method="PUT"), "PUT", b"others")
    with pytest.raises(OSError, match="403"):
        send(reading, "DELETE")
    other = reading.json() | {"uri": f"{s3proxy()}/{lake.bucket}/lake/sales/x"}
    with pytest.raises(OSError, match="403"):
        send(Answer(200, reading.headers, json.dumps(other).encode()), "GET")


def test_nothing_outside_of_the_table_is_signed(lake: TablesOnS3) -> None:
    table_folder, other_folder = folder(lake), folder(lake, "other")
    root = f"s3://{lake.bucket}/lake"
    for location in (
        f"{other_folder}/data/a",
        f"{table_folder}x/data/a",
        table_folder,
        f"{table_folder}/../a",
        f"{table_folder}/%2e%2e/{other_folder.rsplit('/', 1)[-1]}/a",
        f"{table_folder}/a%2F..%2F..%2F..%2Fb",
        f"{table_folder}//a",
        f"{root}/sales/data/a",
        f"{root}/sales/_graveler/x",
        f"s3://{lake.bucket}/raw/a",
        f"s3://another/{table_folder.removeprefix('s3://')}/a",
        f"s3://{lake.bucket}/",
        f"s3://{lake.bucket}",
    ):
        for path in (f"v1/sales/main/{ORDERS}/sign", "v1/aws/s3/sign"):
            for method in ("GET", "PUT"):
                key = lake.key(Role.WRITER, repositories=("sales",))
                assert sign(lake, location, key, method, path=path).status == 403, (location, path, method)
    copied = {"x-amz-copy-source": [f"{lake.bucket}/lake/other/x"]}
    for method, query, headers in (
        ("DELETE", "", {}),
        ("POST", "?delete", {}),
        ("GET", "?acl", {}),
        ("PUT", "", copied),
        ("PUT", "?partNumber=1&uploadId=u", copied),
    ):
        assert sign(lake, f"{table_folder}/data/a", method=method, query=query, headers=headers).status == 403, (
            method,
            query,
        )


def test_the_path_without_a_table_needs_rights_to_the_repository(lake: TablesOnS3) -> None:
    older = "v1/aws/s3/sign"
    file = f"{folder(lake)}/data/a"
    assert sign(lake, file, lake.world.reader, path=older).status == 200
    assert sign(lake, file, lake.world.reader, "PUT", path=older).status == 403
    assert sign(lake, file, lake.key(Role.WRITER), "PUT", path=older).status == 200
    assert sign(lake, file, lake.key(Role.WRITER, branches=("main",)), "PUT", path=older).status == 403
    assert sign(lake, file, lake.key(Role.ADMIN, repositories=("other",)), path=older).status == 403
    assert sign(lake, file, "Basic eDp5", path=older).status == 401


def test_a_staged_table_is_written_before_it_is_there(lake: TablesOnS3) -> None:
    tables = "!/iceberg/v1/sales/main/namespaces/shop/tables"
    staged = lake.call("POST", tables, body={"name": "new", "schema": SCHEMA, "stage-create": True}).json()
    location = staged["metadata"]["location"]
    assert [credential["prefix"] for credential in staged["storage-credentials"]] == [f"{location}/"]
    assert allows(policy(lake), "s3:PutObject", f"{location}/data/a")
    path = "v1/sales/main/namespaces/shop/tables/new/sign"
    assert sign(lake, f"{location}/data/a", method="PUT", path=path).status == 200
    assert sign(lake, f"{location}/data/a", lake.world.reader, path=path).status == 403
    assert sign(lake, f"s3://{lake.bucket}/lake/sales/data/a", method="PUT", path=path).status == 403


def stage(lake: TablesOnS3, name: str, key: str, ref: str = "main") -> tuple[dict[str, Any], str]:
    """Stage the creation of a table. Return the response, and the address at which its credentials are renewed."""
    path = f"!/iceberg/v1/sales/{ref}/namespaces/shop/tables"
    body = {"name": name, "schema": SCHEMA, "stage-create": True}
    staged = lake.call("POST", path, body=body, authorization=key).json()
    return staged, str(staged["config"]["client.refresh-credentials-endpoint"])


def renew(lake: TablesOnS3, address: str, key: str) -> Answer:
    path, _, query = address.partition("?")
    return lake.call("GET", f"!/iceberg/{path}", dict(parse_qsl(query)), authorization=key)


def commit_staged(lake: TablesOnS3, staged: dict[str, Any], name: str, key: str, ref: str = "main") -> None:
    metadata = staged["metadata"]
    updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    path = f"!/iceberg/v1/sales/{ref}/namespaces/shop/tables/{name}"
    assert lake.call("POST", path, body=body, authorization=key).status == 200


def test_credentials_of_a_staged_table_are_renewed(lake: TablesOnS3) -> None:
    key = lake.key(Role.WRITER, branches=("main",))
    staged, address = stage(lake, "slow", key)
    for _ in range(2):  # what is renewed can be renewed again
        lake.sts.requests.clear()
        answer = renew(lake, address, key)
        assert answer.headers["cache-control"] == "no-store"
        [credential] = answer.json()["storage-credentials"]
        assert credential["prefix"] == f"{staged['metadata']['location']}/"
        address = credential["config"]["client.refresh-credentials-endpoint"]
    load(lake, key)
    stage(lake, "slow", key)
    assert renew(lake, address, key).json()["storage-credentials"][0]["prefix"] == credential["prefix"]
    commit_staged(lake, staged, "slow", key)
    [credential] = renew(lake, address, key).json()["storage-credentials"]
    assert credential["prefix"] == f"{staged['metadata']['location']}/"
    assert "claim" not in credential["config"]["client.refresh-credentials-endpoint"]


def test_nobody_else_renews_the_credentials_of_a_staged_table(lake: TablesOnS3) -> None:
    lake.world.lake.repository("sales").create_branch("side", "main")
    key = lake.key(Role.WRITER, branches=("main",))
    _, address = stage(lake, "mine", key)
    time, uuid, proof = address.partition("claim=")[2].split(".")
    orders = load(lake).json()["metadata"]["table-uuid"]
    assert renew(lake, address.partition("?")[0], key).status == 404
    for other in (lake.key(Role.WRITER), lake.key(Role.READER), lake.key(Role.ADMIN)):
        assert renew(lake, address, other).status == 403
    lake.sts.requests.clear()
    for forged in (
        address.replace(uuid, orders),
        address.replace(time, str(int(time) + 3600)),
        address.replace(proof, "0" * len(proof)),
        address.replace("/mine/", "/yours/"),
        address.replace("/shop/", "/shop%1Fmine/"),
        address.replace("/main/", "/side/"),
        f"{address}.",
        address.replace(f"{time}.{uuid}.", ""),
    ):
        assert renew(lake, forged, key).status == 403, forged
    assert renew(lake, address.replace("/sales/", "/other/"), key).status == 403
    assert not lake.sts.requests


def test_a_claim_ends_with_the_first_commit_of_the_table(lake: TablesOnS3) -> None:
    key = lake.key(Role.WRITER)
    lake.world.lake.repository("sales").create_branch("apart", "main")
    staged, address = stage(lake, "moved", key)
    commit_staged(lake, staged, "moved", key, "apart")
    assert renew(lake, address, key).status == 404
    staged, address = stage(lake, "dropped", key)
    commit_staged(lake, staged, "dropped", key)
    dropped = lake.call("DELETE", "!/iceberg/v1/sales/main/namespaces/shop/tables/dropped", authorization=key)
    assert dropped.status == 204
    assert renew(lake, address, key).status == 404


def test_a_staged_table_of_a_branch_that_is_protected_since_is_only_read(lake: TablesOnS3) -> None:
    repository, key = lake.world.lake.repository("sales"), lake.key(Role.WRITER)
    repository.create_branch("later", "main")
    staged, address = stage(lake, "late", key, "later")
    assert allows(policy(lake), "s3:PutObject", f"{staged['metadata']['location']}/data/a")
    repository.protect(["later"])
    assert renew(lake, address, key).status == 200
    assert not allows(policy(lake), "s3:PutObject", f"{staged['metadata']['location']}/data/a")


def link(lake: TablesOnS3, name: str, *outside: str) -> str:
    """Create a table with files elsewhere, and return its path in the catalog."""
    tables = "!/iceberg/v1/sales/main/namespaces/shop/tables"
    assert lake.call("POST", tables, body={"name": name, "schema": SCHEMA}).status == 200
    updates = []
    for number, location in enumerate(outside):
        put(lake, location)
        statistics = {"snapshot-id": number, "statistics-path": location, "file-size-in-bytes": 4}
        updates.append({"action": "set-partition-statistics", "partition-statistics": statistics})
    committed = lake.call("POST", f"{tables}/{name}", body={"requirements": [], "updates": updates})
    assert committed.status == 200, committed
    return f"namespaces/shop/tables/{name}"


def test_files_of_import_sources_are_only_read(lake: TablesOnS3) -> None:
    outside = f"s3://{lake.bucket}/raw/in/statistics.puffin"
    linked = link(lake, "linked", outside)
    assert allows(policy(lake), "s3:GetObject", outside)
    assert not allows(policy(lake), "s3:PutObject", outside)
    assert not allows(policy(lake), "s3:GetObject", f"s3://{lake.bucket}/raw/b")
    path = f"v1/sales/main/{linked}/sign"
    assert sign(lake, outside, lake.world.reader, path=path).status == 200
    assert sign(lake, outside, method="PUT", path=path).status == 403
    assert sign(lake, f"s3://{lake.bucket}/raw/in/b", path=path).status == 403
    assert sign(lake, outside).status == 403
    lake.world.lake.repository("sales").set_import_sources(())
    assert sign(lake, outside, path=path).status == 403
    answer = lake.call("GET", f"!/iceberg/v1/sales/main/{linked}", authorization=lake.key(Role.READER)).json()
    assert outside.rpartition("/")[0] in answer["config"]["graveler-not-covered"]
    assert not allows(policy(lake), "s3:GetObject", outside)
    lake.world.lake.repository("sales").set_import_sources(None)


def test_a_source_with_the_storage_of_a_repository_is_left_out(lake: TablesOnS3) -> None:
    """Its folder would be opened as a whole, and the repository's own files with it."""
    outside = f"s3://{lake.bucket}/raw/mixed/statistics.puffin"
    linked = link(lake, "mixed", outside)
    lake.world.lake.create_repository("inner", f"s3://{lake.bucket}/raw/mixed/inner")
    lake.world.lake.neighbours.forget()
    answer = lake.call("GET", f"!/iceberg/v1/sales/main/{linked}", authorization=lake.key(Role.READER)).json()
    assert "'inner' has its storage there" in answer["config"]["graveler-not-covered"]
    assert not allows(policy(lake), "s3:GetObject", f"s3://{lake.bucket}/raw/mixed/inner/_graveler/x")


def test_more_sources_than_a_policy_can_name_are_left_out(lake: TablesOnS3) -> None:
    outside = [f"s3://{lake.bucket}/raw/{number}{'x' * 90}/a.puffin" for number in range(12)]
    linked = link(lake, "many", *outside)
    answer = lake.call("GET", f"!/iceberg/v1/sales/main/{linked}", authorization=lake.key(Role.READER)).json()
    session, reasons = policy(lake), answer["config"]["graveler-not-covered"]
    readable = [allows(session, "s3:GetObject", address) for address in outside]
    assert any(readable)
    for address, is_open in zip(outside, readable, strict=True):
        assert (address.rpartition("/")[0] in reasons) is not is_open
    lake.sts.room = 900  # what STS packs is no count of characters
    packed = lake.call("GET", f"!/iceberg/v1/sales/main/{linked}", authorization=lake.key(Role.READER)).json()
    lake.sts.room = 2048
    assert not any(allows(policy(lake), "s3:GetObject", address) for address in outside)
    assert all(address.rpartition("/")[0] in packed["config"]["graveler-not-covered"] for address in outside)


def test_a_client_chooses_the_way(lake: TablesOnS3) -> None:
    config = load(lake, headers=SIGNING).json()["config"]
    assert config["s3.signer.endpoint"] == config["signer.endpoint"] == f"v1/sales/main/{ORDERS}/sign"
    assert config["s3.remote-signing-enabled"] == "true"
    assert "s3.access-key-id" not in config
    both = load(lake, headers={"X-Iceberg-Access-Delegation": "remote-signing, vended-credentials"})
    assert both.json()["config"]["s3.access-key-id"]
    assert both.headers["cache-control"] == "no-store"
    assert "s3.access-key-id" not in load(lake, headers={"X-Iceberg-Access-Delegation": "x"}).json()["config"]
    endpoints = lake.call("GET", "!/iceberg/v1/config", {"warehouse": "sales@main"}).json()["endpoints"]
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert {f"GET {table}/credentials", f"POST {table}/sign"} < set(endpoints)
    credentials = lake.call("GET", f"!/iceberg/v1/sales/main/{ORDERS}/credentials")
    assert credentials.headers["cache-control"] == "no-store"
    assert credentials.json()["storage-credentials"] == load(lake).json()["storage-credentials"]


def test_a_failure_of_sts_is_none_of_a_change(lake: TablesOnS3) -> None:
    key = lake.key(Role.WRITER)
    lake.sts.refusal = "AccessDenied"
    try:
        assert load(lake, key).status == 500
        update = {"action": "set-properties", "updates": {"a": "b"}}
        body = {"requirements": [], "updates": [update]}
        changed = lake.call("POST", f"!/iceberg/v1/sales/main/{ORDERS}", body=body, authorization=key)
        assert changed.json()["metadata"]["properties"]["a"] == "b"
        assert "do not allow it" in changed.json()["config"]["graveler-not-covered"]
    finally:
        lake.sts.refusal = ""
