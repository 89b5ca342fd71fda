"""Rights to the table by its partitions: what belongs to access keys, and what belongs to repositories.

``dynamodb:LeadingKeys`` are the partitions of all items of a request. It is a key of several values, so AWS demands
``ForAllValues`` (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html), which holds for a
request without the key, too; ``Null`` excludes that
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html). All
actions here have the key, as members of a transaction have
(https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from aws_cdk import aws_iam as iam

READ_TABLE: Final = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
WRITE_TABLE: Final = (
    *READ_TABLE,
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
)

LAKE: Final = "lake"
"""The partition with the lake's ID and the sealed secrets."""
KEYS: Final = (LAKE, "access", "access/*", "access-*")
"""Partitions of access keys, rules about AWS principals, ended tokens, and the secrets that sign."""
REPOSITORIES: Final = (
    "????????????????/*",
    "repositories",
    "deleted-repositories",
    "bare-repositories",
    "namespaces",
    "namespaces-above",
    "ingest/*",
    "requests",
    "lake-rules",
)
"""All others: those of each repository begin with its ID of 16 characters and a slash."""


CHECK_RUNS: Final = "????????????????/check-runs"
"""The partition of a repository in which verdicts of its checks are kept."""


class KeyRights(Enum):
    """What somebody who has rights to the table may do with the partitions of keys."""

    NONE = "none"
    """Nothing, but read the lake's ID."""
    READ = "read"
    """Read them, as who checks the credentials of requests."""
    WRITE = "write"
    """The same as with all others."""
    ALONE = "alone"
    """The same, and nothing with any other."""


def table_rights(table_arn: str, actions: Sequence[str], keys: KeyRights) -> list[iam.PolicyStatement]:
    """The statements that allow ``actions`` on the items of a table."""
    reads = [action for action in actions if action in READ_TABLE]
    writes = [action for action in actions if action not in READ_TABLE]
    parts: list[tuple[list[str], tuple[str, ...]]]
    match keys:
        case KeyRights.NONE:
            parts = [(reads, (*REPOSITORIES, LAKE)), (writes, REPOSITORIES)]
        case KeyRights.READ:
            parts = [(reads, ()), (writes, REPOSITORIES)]
        case KeyRights.WRITE:
            parts = [(list(actions), ())]
        case KeyRights.ALONE:
            parts = [(list(actions), KEYS)]
    return [
        iam.PolicyStatement(actions=some, resources=[table_arn], conditions=_in(partitions))
        for some, partitions in parts
        if some
    ]


def run_rights(table_arn: str) -> iam.PolicyStatement:
    """The statement that allows to keep verdicts of checks, and nothing else."""
    return iam.PolicyStatement(actions=["dynamodb:PutItem"], resources=[table_arn], conditions=_in([CHECK_RUNS]))


def _in(partitions: Sequence[str]) -> dict[str, Any] | None:
    if not partitions:
        return None
    return {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(partitions)},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
