"""Buckets of others, and folders in them, by the policies of a deployment that names some."""

from typing import Any

import pytest

from tests.infra.conftest import KMS_KEY
from tests.infra.iam.declared import as_role
from tests.infra.iam.policies import Policies
from tests.infra.iam.templates import Stacks

BUCKET = "arn:aws:s3:::"
DATA, IMPORT = ("first-bucket", "shared-bucket/lake"), ("raw-bucket", "shared-bucket/raw/daily")


@pytest.fixture(scope="module")
def stacks(full: dict[str, dict[str, Any]]) -> Stacks:
    return Stacks(full)


@pytest.fixture(scope="module")
def policies(stacks: Stacks) -> Policies:
    return stacks.policies()


def roles(stacks: Stacks, name: str) -> list[str]:
    """Roles of functions whose name begins so, and of Spark jobs."""
    found = [
        stacks.arn(stack, logical)
        for stack, logical, _ in stacks.each("AWS::IAM::Role")
        if logical.startswith((f"Functions{name}Role", f"{name}Role"))
    ]
    assert found
    return found


def may(policies: Policies, role: str, action: str, resource: str, **keys: str) -> bool:
    return not policies.decide(as_role(role, action, resource, "test", **keys)).refusal


@pytest.mark.parametrize("name", ["Read", "Write", "Commit", "Merge", "Diff", "Operate", "Maintain", "Ingest", "Job"])
def test_import_places_are_read_and_data_places_written_to_and_nothing_beside_them(
    stacks: Stacks, policies: Policies, name: str
) -> None:
    writes = name not in ("Read", "Diff")
    for role in roles(stacks, name):
        for place in (*DATA, *IMPORT):
            assert may(policies, role, "s3:GetObject", f"{BUCKET}{place}/a/b")
            for key, written in (("a/b", name in ("Write", "Job")), ("a/_graveler/b", writes), ("_graveler/b", writes)):
                assert may(policies, role, "s3:PutObject", f"{BUCKET}{place}/{key}") is (written and place in DATA)
            assert not may(policies, role, "s3:GetObject", f"{BUCKET}{place}-2/a")
        for beside in ("shared-bucket/other/x", "shared-bucket/raw/hourly/x", "shared-bucket/x"):
            assert not may(policies, role, "s3:GetObject", BUCKET + beside)


@pytest.mark.parametrize("name", ["Read", "Operate", "Job"])
def test_a_folder_is_listed_and_nothing_beside_it(stacks: Stacks, policies: Policies, name: str) -> None:
    for role in roles(stacks, name):
        for prefix in ("lake/", "lake/a/b", "raw/daily/"):
            assert may(policies, role, "s3:ListBucket", f"{BUCKET}shared-bucket", s3__prefix=prefix)
        for prefix in ("", "other/", "lake", "raw/"):
            assert not may(policies, role, "s3:ListBucket", f"{BUCKET}shared-bucket", s3__prefix=prefix)
        # What S3 asks for before it says that an object is not there, and not that it is forbidden.
        assert may(policies, role, "s3:ListBucket", f"{BUCKET}shared-bucket")
        assert may(policies, role, "s3:ListBucket", f"{BUCKET}raw-bucket", s3__prefix="anything")


@pytest.mark.parametrize("name", ["Read", "Write", "Diff", "Maintain", "Setup"])
def test_keys_of_encrypted_buckets_are_used_by_who_needs_them_and_through_s3_only(
    stacks: Stacks, policies: Policies, name: str
) -> None:
    for role in roles(stacks, name):
        for action, needed in (
            ("kms:Decrypt", name != "Setup"),
            ("kms:GenerateDataKey", name in ("Write", "Maintain")),
        ):
            through = {"kms__viaservice": "s3.eu-west-1.amazonaws.com"}
            assert may(policies, role, action, KMS_KEY, **through) is needed, (name, action)
            assert not may(policies, role, action, KMS_KEY, kms__viaservice="sqs.eu-west-1.amazonaws.com")
            assert not may(policies, role, action, KMS_KEY)
