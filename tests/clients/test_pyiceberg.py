"""PyIceberg on branches, tags and commits: by the REST catalog of a server, and in this process without one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import lakefs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NoSuchTableError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.clients.lakes_on_s3 import ServedOnS3, new_repository
from tests.clients.support import Served
from tests.support.shell import Shell

Open = Callable[[str], Catalog]
"""Opens the catalog at a ref."""


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.ci)])
def server(request: pytest.FixtureRequest, shell: Shell, environment: None) -> Served:
    """The server of a lake in a folder, or on S3 and DynamoDB."""
    if request.param == "folder":
        folder: Served = request.getfixturevalue("served")
        return folder
    on_s3: ServedOnS3 = request.getfixturevalue("served_on_s3")
    shell.export_all(on_s3.environment)
    return on_s3.served


@pytest.fixture
def repo(server: Served) -> Iterator[lakefs.Repository]:
    """A new repository."""
    with new_repository(server) as repository:
        yield repository


@pytest.fixture(params=["served", "embedded"])
def opened(request: pytest.FixtureRequest, server: Served, repo: lakefs.Repository) -> Iterator[Open]:
    catalogs: list[Catalog] = []
    if request.param == "served":
        uri = f"{server.url}/iceberg"
        properties = {
            "type": "rest",
            "uri": uri,
            "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            "credential": f"{server.key_id}:{server.secret}",
        }
    else:
        properties = {"py-catalog-impl": "graveler.iceberg.Catalog"}
        if server.lake is not None:
            properties["lake"] = str(server.lake)

    def open_at(ref: str) -> Catalog:
        catalogs.append(load_catalog("test", warehouse=f"{repo.id}@{ref}", **properties))
        return catalogs[-1]

    yield open_at
    for catalog in catalogs:
        catalog.close()


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "day": pa.array([f"d{number % 2}" for number in ids], pa.string())}
    )


def ids(catalog: Catalog, name: str = "shop.orders") -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def test_each_ref_has_its_own_state_of_a_table(opened: Open, main: lakefs.Branch, repo: lakefs.Repository) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows().schema)
    table.append(rows(1, 2))
    repo.tag("v1").create("main")
    repo.branch("dev").create("main")
    opened("dev").load_table("shop.orders").append(rows(3))
    table.append(rows(4))
    table.delete("id == 1")
    assert ids(opened("main")) == [2, 4]
    assert ids(opened("dev")) == [1, 2, 3]
    assert ids(opened("v1")) == [1, 2]
    assert ids(opened("main~1")) == [1, 2, 4]
    assert [commit.message for commit in main.log(max_amount=2)] == ["Change table shop.orders"] * 2
    with pytest.raises(Exception, match="not"):
        opened("v1").load_table("shop.orders").append(rows(5))
    location = table.location().removeprefix("file://")
    assert location.startswith("s3://") or Path(location).is_dir()


def test_a_partitioned_table_evolves(opened: Open) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows().schema)
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day")
    table.append(rows(1, 2))
    with table.update_schema() as schema:
        schema.add_column("note", StringType())
    table.overwrite(rows(3).append_column("note", pa.array(["x"])), "day == 'd1'")
    assert ids(catalog) == [2, 3]
    assert len(catalog.load_table("shop.orders").history()) >= 2
    assert table.spec().fields[0].name == "day"


def test_two_writers_of_one_state_do_not_overwrite_each_other(opened: Open) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    impatient = {"commit.retry.num-retries": "0"}
    writer = catalog.create_table("shop.orders", rows().schema, properties=impatient)
    other = catalog.load_table("shop.orders")
    writer.append(rows(1))
    with pytest.raises(CommitFailedException):
        other.append(rows(2))
    other.refresh()
    other.append(rows(2))
    assert ids(catalog) == [1, 2]


def test_a_staged_creation_is_one_commit(opened: Open, main: lakefs.Branch) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    before = main.head.id
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    with catalog.create_table_transaction("shop.orders", schema, partition_spec=spec) as transaction:
        staged = transaction.table_metadata.location.removeprefix("file://")
        has_folder = staged.startswith("s3://") or (Path(staged) / "metadata").is_dir()
        assert has_folder, "which DuckDB does not make by itself"
        transaction.append(rows(1, 2))
    assert ids(catalog) == [1, 2]
    assert [parent for commit in main.log(max_amount=1) for parent in commit.parents] == [before]
    catalog.rename_table("shop.orders", "shop.sales")
    assert ids(catalog, "shop.sales") == [1, 2]
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.orders")
    location = catalog.load_table("shop.sales").metadata_location
    catalog.drop_table("shop.sales")
    catalog.register_table("shop.orders", location)
    assert ids(catalog) == [1, 2]


def test_what_a_table_names_is_in_the_tree(opened: Open, main: lakefs.Branch) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    paths = {entry.path.rsplit("/", 1)[-1] for entry in main.objects(prefix="_iceberg/.files/")}
    snapshots = table.snapshots()
    named = {snapshot.manifest_list for snapshot in snapshots} | {
        entry.metadata_file for entry in table.metadata.metadata_log
    }
    for snapshot in snapshots:
        for manifest in snapshot.manifests(table.io):
            named.add(manifest.manifest_path)
            named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    assert {location.rsplit("/", 1)[-1] for location in named} <= paths


def test_a_file_that_is_elsewhere_is_no_commit(opened: Open) -> None:
    catalog = opened("main")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", rows().schema)
    with TemporaryDirectory() as folder:  # not below the import sources of the server
        pq.write_table(rows(1), f"{folder}/rows.parquet")
        with pytest.raises(ForbiddenError, match="outside the allowed import sources"):
            table.add_files([f"file://{folder}/rows.parquet"])
    assert ids(catalog) == []
