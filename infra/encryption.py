"""By option: a KMS key of the account's own that encrypts the deployment's buckets, table and queues.

Services that keep what is encrypted ask KMS on behalf of whoever asks them, so each role needs rights to the key, and has them
through those services alone.
"""

from collections.abc import Sequence
from typing import Final

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.settings import OWN_KEY, Settings

DECRYPT: Final = ("kms:Decrypt",)
ENCRYPT: Final = ("kms:Decrypt", "kms:GenerateDataKey")
"""What S3 asks for where something is written in parts, and SQS where something is sent:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html and
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html"""


def make_key(scope: Construct, settings: Settings) -> kms.IKey | None:
    """The key that the settings name, or one that is made; None: keys of AWS encrypt everything.

    EventBridge, which puts events into queues, is no role: the key itself lets it. For a rule that would be another stack's
    resource, the account is what tells it (https://github.com/aws/aws-cdk/issues/11158). Who names a key has that in its policy.
    """
    if not settings.encryption_key:
        return None
    if settings.encryption_key != OWN_KEY:
        return kms.Key.from_key_arn(scope, "EncryptionKey", settings.encryption_key)
    key = kms.Key(
        scope,
        "EncryptionKey",
        description="graveler: encrypts buckets, table and queues",
        enable_key_rotation=True,
        removal_policy=RemovalPolicy.RETAIN if settings.removal == "retain" else RemovalPolicy.DESTROY,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            actions=list(ENCRYPT),
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            resources=["*"],
            conditions={"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}},
        )
    )
    return key


def key_in(scope: Construct, key: kms.IKey | None) -> kms.IKey | None:
    """The key of another stack, as the one of ``scope`` uses it: without changing its policy."""
    return None if key is None else kms.Key.from_key_arn(scope, "EncryptionKey", key.key_arn)


def through(key: kms.IKey, stack: Stack, actions: Sequence[str], services: Sequence[str]) -> iam.PolicyStatement:
    """The right to a key through these services (``s3``) only."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[key.key_arn],
        conditions={"StringLike": {"kms:ViaService": [f"{service}.*.{stack.url_suffix}" for service in services]}},
    )
