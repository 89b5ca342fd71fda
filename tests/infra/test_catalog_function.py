"""Iceberg tables of a deployment: its function ``catalog`` through the gateway, and a client that writes files to its bucket."""

from secrets import token_hex

import lakefs
import pyarrow as pa
import pytest
import urllib3
from lakefs.client import Client
from pyiceberg.catalog import Catalog, load_catalog

from tests.infra.conftest import Deployed

pytestmark = pytest.mark.ci

TABLE = ("shop", "eu", "orders")


def endpoint(deployed: Deployed) -> str:
    """The API's address by its path: below the host of an API, the emulator takes ``/iceberg`` for AWS Glue's."""
    api_id = deployed.url.partition("//")[2].partition(".")[0]
    return f"{deployed.emulator.url}/_aws/execute-api/{api_id}/$default/iceberg"


def catalog_of(deployed: Deployed, warehouse: str) -> Catalog:
    """PyIceberg, which logs in by OAuth2's client credentials, and gets credentials for the bucket."""
    return load_catalog(
        "lake",
        type="rest",
        uri=endpoint(deployed),
        warehouse=warehouse,
        credential=f"{deployed.key_id}:{deployed.secret}",
        **{
            "oauth2-server-uri": f"{endpoint(deployed)}/v1/oauth/tokens",
            "s3.endpoint": deployed.emulator.url,
        },
    )


def rows(deployed: Deployed, warehouse: str) -> list[int]:
    """The table's rows as a new client reads them."""
    table = catalog_of(deployed, warehouse).load_table(TABLE)
    ids: list[int] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(ids)


def appended(deployed: Deployed, warehouse: str, *ids: int) -> None:
    table = catalog_of(deployed, warehouse).load_table(TABLE)
    table.append(pa.table({"id": pa.array(ids, pa.int64())}))


def test_the_story_of_a_table(deployed: Deployed, client: Client) -> None:
    """Two branches append to one table of a nested namespace, and the merge has both appends. Each call of the functions is
    judged by the policies (the fixture ``allowed``)."""
    name = f"tables-{token_hex(3)}"
    repository = lakefs.Repository(name, client=client).create(storage_namespace=f"s3://{deployed.bucket}/{name}")
    main = catalog_of(deployed, f"{name}@main")
    main.create_namespace(("shop", "eu"))
    main.create_table(TABLE, pa.schema([("id", pa.int64())]))
    appended(deployed, f"{name}@main", 1)
    repository.tag("before").create("main")
    dev = repository.branch("dev").create(source_reference="main")
    appended(deployed, f"{name}@dev", 2)
    appended(deployed, f"{name}@main", 3)
    dev.merge_into(repository.branch("main"))
    assert rows(deployed, name) == [1, 2, 3]
    assert rows(deployed, f"{name}@before") == [1]
    assert rows(deployed, f"{name}@main~1") == [1, 3]
    assert main.list_namespaces(("shop",)) == [("shop", "eu")]


def test_the_gateways_paths_and_refusals_are_icebergs(deployed: Deployed) -> None:
    with urllib3.PoolManager(timeout=60) as http:
        unknown = http.request("GET", f"{endpoint(deployed)}/v1/config?warehouse=sales")
        assert (unknown.status, unknown.json()["error"]["type"]) == (401, "NotAuthorizedException")
        basic = urllib3.make_headers(basic_auth=f"{deployed.key_id}:{deployed.secret}")
        large = http.request("POST", f"{endpoint(deployed)}/v1/a/main/namespaces", body=b" " * (5 << 20), headers=basic)
        assert (large.status, large.json()["error"]["code"]) == (413, 413)
