"""By option: the role whose credentials the catalog gives to clients of its tables.

The function ``catalog`` assumes it with a session policy for each table (GRAVELER_TABLE_ROLE tells it which role). What it gives
is what both allow, so this role is the most that any client gets: it reads, writes and lists files of tables, reads import
sources, in which registered tables may lie, and deletes nothing.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.acknowledged import acknowledge_wildcards
from infra.encryption import DECRYPT, ENCRYPT, former_keys, through
from infra.foreign_buckets import ForeignBuckets
from infra.foreign_places import TABLES, Rights, tables_of
from infra.functions import READ_OBJECTS, WRITE_OBJECTS
from infra.settings import Settings

VARIABLE: Final = "GRAVELER_TABLE_ROLE"
"""The environment variable that names the role to the function."""
_HOURS: Final = 1
"""The longest session of a role that another role assumes, which is what a function does:
https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining"""
_ON_TABLES: Final = (*WRITE_OBJECTS, "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
"""A client that fails to write a file ends its upload, so that no parts remain."""


class TableCredentials(Construct):
    """The role, and the right of a function, and of no other, to assume it."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        function: lambda_.Function,
        bucket: s3.IBucket,
        encryption_key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, name)
        assert function.role is not None
        foreign = ForeignBuckets(self, "Buckets").policies(
            Rights(settings.data_buckets, READ_OBJECTS, (), tables=_ON_TABLES),
            Rights(settings.import_buckets, READ_OBJECTS, ()),
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ArnPrincipal(function.role.role_arn),
            description="graveler: the files of Iceberg tables, for clients of the catalog",
            max_session_duration=Duration.hours(_HOURS),
            managed_policies=foreign,
        )
        stack = Stack.of(self)
        statements = [
            iam.PolicyStatement(actions=list(_ON_TABLES), resources=[tables_of(bucket.bucket_arn)]),
            _listing([bucket.bucket_arn], [f"*/{TABLES}/*"]),
            *_foreign_listings(f"arn:{stack.partition}:s3:::", settings.data_buckets),
        ]
        if encryption_key is not None:
            statements.append(through(encryption_key.key_arn, stack, ENCRYPT, ["s3"]))
        statements += [through(key, stack, ENCRYPT, ["s3"]) for key in settings.kms_keys]
        statements += [through(key, stack, DECRYPT, ["s3"]) for key in former_keys(settings)]
        policy = iam.Policy(self, "Policy", statements=statements, roles=[role])
        acknowledge_wildcards(policy, statements, "Tables are made by clients.", shared=(bucket,))
        assuming = iam.Policy(
            self,
            "Assuming",
            statements=[iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[role.role_arn])],
            roles=[function.role],
        )
        function.node.add_dependency(assuming)
        function.add_environment(VARIABLE, role.role_arn)
        CfnOutput(stack, "TableRole", value=role.role_arn, description="whose credentials clients of tables get")


def _foreign_listings(arn: str, places: Sequence[str]) -> list[iam.PolicyStatement]:
    """The rights to list files of tables in whole buckets, and in folders of each other bucket."""
    prefixes: dict[str, list[str]] = defaultdict(list)
    for place in places:
        bucket, _, folder = place.partition("/")
        prefixes[bucket].append(f"{folder}*/{TABLES}/*")
    buckets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for bucket, patterns in prefixes.items():
        buckets[tuple(patterns)].append(f"{arn}{bucket}")
    return [_listing(named, patterns) for patterns, named in buckets.items()]


def _listing(buckets: Sequence[str], prefixes: Sequence[str]) -> iam.PolicyStatement:
    """The right to list what begins so. Without it, S3 says 403 for a file that is missing."""
    return iam.PolicyStatement(
        actions=["s3:ListBucket"], resources=list(buckets), conditions={"StringLike": {"s3:prefix": list(prefixes)}}
    )
