"""PyIceberg on a lake in S3: with credentials that the catalog gives it, and with signatures."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pyarrow as pa
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import SignError
from pyiceberg.io.fsspec import S3V4RestSigner

from graveler.access.permissions import Role
from tests.api.over_http import HOST, Switch
from tests.support.servers import REGION, s3proxy
from tests.support.tables_on_s3 import TablesOnS3, tables_on_s3

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(scope="module")
def lake(server: Switch) -> Iterator[TablesOnS3]:
    with tables_on_s3() as lake:
        yield lake


def opened(lake: TablesOnS3, server: Switch, ref: str, role: Role = Role.WRITER, **properties: str) -> Catalog:
    key, uri = lake.world.access.create_key("Ann", role), f"http://{HOST}:{server.port}/iceberg"
    server.application = lake.world.application
    more = {"oauth2-server-uri": f"{uri}/v1/oauth/tokens", "credential": f"{key.key.key_id}:{key.secret}"}
    return load_catalog("lake", type="rest", uri=uri, warehouse=f"sales@{ref}", **more, **properties)


def ids(catalog: Catalog, name: str) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def test_tables_are_written_branched_merged_and_read(lake: TablesOnS3, server: Switch) -> None:
    main = opened(lake, server, "main")
    table = main.create_table("shop.events", ROWS.schema)
    assert "s3.session-token-expires-at-ms" in table.io.properties
    assert table.location().startswith(f"s3://{lake.bucket}/lake/sales/tables/")
    table.append(ROWS)
    repository = lake.world.lake.repository("sales")
    repository.create_branch("dev", "main")
    opened(lake, server, "dev").load_table("shop.events").append(ROWS)
    table.append(ROWS)
    assert ids(opened(lake, server, "dev", Role.READER), "shop.events") == [1, 1, 2, 2]
    repository.merge("dev", "main")
    assert ids(opened(lake, server, "main", Role.READER), "shop.events") == [1, 1, 1, 2, 2, 2]
    assert ids(opened(lake, server, "main~1", Role.READER), "shop.events") == [1, 1, 2, 2]


def test_its_signer_writes_and_reads_files_of_the_table(lake: TablesOnS3, server: Switch) -> None:
    """As its file IO on fsspec does, with the same library, but not in an event loop."""

    def client(role: Role) -> tuple[Any, str]:
        headers = {"header.X-Iceberg-Access-Delegation": "remote-signing"}
        table = opened(lake, server, "main", role, **headers).load_table("shop.orders")
        assert table.io.properties["s3.signer"] == "S3V4RestSigner"
        config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
        s3 = boto3.session.Session(region_name=REGION).client("s3", endpoint_url=s3proxy(), config=config)
        s3.meta.events.register_last("before-sign.s3", S3V4RestSigner(table.io.properties))
        return s3, table.location().removeprefix(f"s3://{lake.bucket}/")

    writer, folder = client(Role.WRITER)
    reader, _ = client(Role.READER)
    name = {"Bucket": lake.bucket, "Key": f"{folder}/data/day=1/a b%3A.parquet"}
    writer.put_object(**name, Body=b"rows")
    assert reader.get_object(**name, Range="bytes=1-2")["Body"].read() == b"ow"
    with pytest.raises(ClientError, match="PreconditionFailed"):
        writer.put_object(**name, Body=b"others")
    upload = writer.create_multipart_upload(**name | {"Key": f"{folder}/data/b"})["UploadId"]
    part = {"Bucket": lake.bucket, "Key": f"{folder}/data/b", "UploadId": upload}
    etag = writer.upload_part(**part, PartNumber=1, Body=b"rows")["ETag"]
    writer.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert reader.head_object(Bucket=lake.bucket, Key=f"{folder}/data/b")["ContentLength"] == 4
    attempts: tuple[Callable[[], object], ...] = (
        lambda: writer.delete_object(**name),
        lambda: writer.list_objects_v2(Bucket=lake.bucket),
        lambda: writer.copy_object(**name, CopySource=name),
        lambda: reader.put_object(Bucket=lake.bucket, Key=f"{folder}/data/c", Body=b"rows"),
    )
    for forbidden in attempts:
        with pytest.raises((SignError, HTTPClientError), match="403"):
            forbidden()
