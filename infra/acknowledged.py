"""Findings of cdk-nag that are as they should be, each with its reason."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Let a rule's finding about a construct pass."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def acknowledge_wildcards(
    policy: iam.Policy | iam.ManagedPolicy,
    statements: Sequence[iam.PolicyStatement],
    reason: str,
    *,
    shared: Sequence[s3.IBucket] = (),
) -> None:
    """Let pass that these statements of a policy name resources with a ``*``, each of those resources by itself: another one is a
    new finding. ``shared`` are buckets of another stack."""
    stack = Stack.of(policy)
    created = [bucket for bucket in shared if bucket.node.default_child is not None]  # an adopted one is no import
    imported = {_told(stack.resolve(bucket.bucket_arn)): _imported(bucket) for bucket in created}
    names = {_told(stack.resolve(resource)) for statement in statements for resource in statement.resources}
    for name in sorted(name for name in names if "*" in name):
        arn, slash, keys = name.partition("/")
        acknowledge(policy, f"AwsSolutions-IAM5[Resource::{imported.get(arn, arn)}{slash}{keys}]", reason)


def _imported(bucket: s3.IBucket) -> str:
    """How the template of another stack names a bucket's ARN."""
    home = Stack.of(bucket)
    name: str = home.resolve(home.export_value(bucket.bucket_arn))["Fn::ImportValue"]
    return name


def _told(resource: Any) -> str:
    """A resource as cdk-nag tells it: what only the deployment knows is in angle brackets."""
    if isinstance(resource, str):
        return resource
    ((how, what),) = resource.items()
    if how == "Fn::Join":
        return "".join(map(_told, what[1]))
    if how == "Fn::ImportValue":
        return str(what)
    return f"<{'.'.join(what) if how == 'Fn::GetAtt' else what}>"
