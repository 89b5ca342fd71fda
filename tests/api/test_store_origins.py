"""A page may load bytes from the buckets of its lake, as presigned URLs name them, and from no other."""

import pytest

from graveler.api.store_origins import store_origins
from graveler.lake.lake import Lake
from graveler.storage.objects.namespaces import open_namespace
from graveler.storage.objects.s3 import S3Settings
from graveler.storage.tables.memory import MemoryTables
from tests.support.shell import Shell


@pytest.fixture(autouse=True)
def credentials(shell: Shell) -> None:
    shell.export_all({"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})
    shell.unset("AWS_ENDPOINT_URL")


def origins(settings: S3Settings, *stores: str) -> tuple[str, ...]:
    lake = Lake(MemoryTables(), lambda namespace: open_namespace(namespace, s3=settings))
    return store_origins(lake, stores)


def test_a_bucket_in_the_hosts_name_is_an_origin() -> None:
    expected = ("https://lake.s3.eu-central-1.amazonaws.com",)
    assert origins(S3Settings("eu-central-1"), "s3://lake", "s3://lake/folder/") == expected


def test_a_bucket_in_the_path_is_part_of_the_source() -> None:
    assert origins(S3Settings("us-east-1", "http://127.0.0.1:9000"), "s3://lake/folder", "s3://raw/") == (
        "http://127.0.0.1:9000/lake/",
        "http://127.0.0.1:9000/raw/",
    )


def test_a_bucket_with_dots_is_in_the_path() -> None:
    assert origins(S3Settings("eu-central-1"), "s3://data.example.org") == (
        "https://s3.eu-central-1.amazonaws.com/data.example.org/",
    )


def test_folders_have_no_origin_of_their_own() -> None:
    assert origins(S3Settings("eu-central-1"), "local://sales", "file:///raw/") == ()
