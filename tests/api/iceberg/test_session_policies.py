"""Policies of sessions for one table, evaluated as IAM evaluates them."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from graveler.access.permissions import Identity, Role
from graveler.api.iceberg.session_policies import S3Folder, TableRights, partition_of, policy_of, session_name
from graveler.errors import InvalidError
from graveler.storage.role_sessions import MAX_POLICY
from tests.support.role_sessions import ROLE, allows

STAMP = "0123456789abcdefghij"
FOLDER = S3Folder("lake", f"repos/sales/tables/{STAMP}/{STAMP}")
READER = TableRights(FOLDER, writes=False)
WRITER = TableRights(FOLDER, writes=True)
FILE = f"{FOLDER.address}data/day=1/part-0.parquet"
OBJECT_ACTIONS = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
    "s3:DeleteObject",
    "s3:DeleteObjectVersion",
    "s3:GetObjectVersion",
    "s3:PutObjectAcl",
    "s3:PutObjectTagging",
    "s3:RestoreObject",
)


def policy(rights: TableRights) -> dict[str, Any]:
    text = policy_of(rights, "aws")
    assert len(text) <= MAX_POLICY
    document: dict[str, Any] = json.loads(text)
    return document


def allowed(rights: TableRights, address: str) -> set[str]:
    """The actions that a session may do with an object."""
    return {action for action in OBJECT_ACTIONS if allows(policy(rights), action, address)}


def test_a_reader_reads_the_files_of_the_table_and_does_nothing_else() -> None:
    assert allowed(READER, FILE) == {"s3:GetObject"}


def test_a_writer_writes_files_too_and_deletes_none() -> None:
    assert allowed(WRITER, FILE) == set(OBJECT_ACTIONS[:4])


@pytest.mark.parametrize(
    "address",
    [
        f"s3://lake/repos/sales/tables/{STAMP}/{STAMP[::-1]}/data/a",
        f"s3://lake/repos/sales/tables/{STAMP}/{STAMP}x/data/a",
        f"s3://lake/repos/sales/tables/{STAMP}/{STAMP}",
        f"s3://lake/repos/other/tables/{STAMP}/{STAMP}/data/a",
        f"s3://other/repos/sales/tables/{STAMP}/{STAMP}/data/a",
        "s3://lake/repos/sales/data/a",
        "s3://lake/repos/sales/_graveler/ranges/a",
    ],
    ids=["another folder", "a longer name", "the folder", "repository", "bucket", "data", "ranges"],
)
def test_other_places_are_closed(address: str) -> None:
    assert allowed(WRITER, address) == set()


def test_a_session_lists_its_folder_alone() -> None:
    document = policy(WRITER)
    for prefix, listed in (
        (f"{FOLDER.path}/data/", True),
        (FOLDER.path, False),
        ("", False),
        ("repos/sales/tables/", False),
        (f"{FOLDER.path}x/", False),
    ):
        assert allows(document, "s3:ListBucket", "s3://lake", s3_prefix=prefix) is listed, prefix
    assert not allows(document, "s3:ListBucket", "s3://lake")
    assert not allows(document, "s3:ListBucketMultipartUploads", "s3://lake", s3_prefix=f"{FOLDER.path}/")


def test_keys_are_for_s3_alone() -> None:
    key = "arn:aws:kms:eu-central-1:123456789012:key/1"
    assert allows(policy(READER), "kms:Decrypt", key, kms_viaservice="s3.eu-central-1.amazonaws.com")
    assert not allows(policy(READER), "kms:Decrypt", key)
    assert not allows(policy(READER), "kms:Decrypt", key, kms_viaservice="dynamodb.eu-central-1.amazonaws.com")


def test_import_sources_are_only_read() -> None:
    rights = replace(WRITER, sources=(S3Folder("raw", "events/day=1"), S3Folder("raw", "")))
    assert allowed(rights, "s3://raw/events/day=1/a.parquet") == {"s3:GetObject"}
    assert allowed(rights, "s3://raw/a.parquet") == {"s3:GetObject"}
    narrow = replace(WRITER, sources=(S3Folder("raw", "events/day=1"),))
    assert allowed(narrow, "s3://raw/events/day=2/a.parquet") == set()


def test_characters_of_a_folder_are_no_wildcards() -> None:
    wild = TableRights(S3Folder("lake", "a*b?c${aws:x}"), writes=True, sources=(S3Folder("raw", "*"),))
    assert allowed(wild, "s3://lake/a*b?c${aws:x}/f") == set(OBJECT_ACTIONS[:4])
    assert allowed(wild, "s3://lake/axxbxc${aws:x}/f") == set()
    assert allowed(wild, "s3://raw/x/f") == set()
    assert not allows(policy(wild), "s3:ListBucket", "s3://lake", s3_prefix="axxbxc${aws:x}/")


def test_a_policy_ends_with_the_token_of_its_caller() -> None:
    document = policy(replace(WRITER, sources=(S3Folder("raw", "a"),), ends=1_700_000_000.5))
    for moment, open_ in (("2023-11-14T22:13:19Z", True), ("2023-11-14T22:13:21Z", False)):
        assert allows(document, "s3:PutObject", FILE, aws_currenttime=moment) is open_
        assert allows(document, "s3:GetObject", "s3://raw/a/f", aws_currenttime=moment) is open_


def test_sessions_are_named_after_their_caller() -> None:
    assert session_name(Identity("AKIA1", "Ann <ann@example.org>", Role.READER)) == "AKIA1.Ann--ann@example.org-"
    assert session_name(Identity("rule:1", "ü" * 100, Role.READER)) == "rule-1." + "-" * 57


def test_a_role_has_the_form_of_one() -> None:
    assert partition_of(ROLE) == "aws"
    assert partition_of("arn:aws-cn:iam::123456789012:role/path/name") == "aws-cn"
    for text in ("tables", "arn:aws:iam::123456789012:user/name", "arn:aws:iam::1:role/x", f"{ROLE}\n"):
        with pytest.raises(InvalidError, match="GRAVELER_TABLE_ROLE"):
            partition_of(text)
