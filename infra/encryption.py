"""By option: a KMS key of the account that encrypts the deployment's buckets, table and queues, and keys that did so earlier.

Services that keep what is encrypted ask KMS on behalf of whoever asks them, so each role needs rights to the key, and has them
through those services alone.
"""

from collections.abc import Sequence
from typing import Final

from aws_cdk import CfnOutput, Fn, RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.settings import OWN_KEY, SETTING_TAG, Settings

DECRYPT: Final = ("kms:Decrypt",)
ENCRYPT: Final = ("kms:Decrypt", "kms:GenerateDataKey")
"""What S3 asks for where something is written in parts, and SQS where something is sent:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html and
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html"""


def make_key(scope: Construct, settings: Settings) -> kms.IKey | None:
    """Return the key that encrypts what is written from now on, or None: keys of AWS encrypt everything.

    The deployment's own key is created if it encrypts now or did so earlier, and its ARN is exported in both cases: stacks that
    were deployed while it encrypted import it until they are deployed anew, and CloudFormation removes no export that is in use
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html).
    """
    own_key = (
        _make_own_key(scope, settings)
        if OWN_KEY in (settings.encryption_key, *settings.former_encryption_keys)
        else None
    )
    if settings.encryption_key == OWN_KEY:
        return own_key
    return kms.Key.from_key_arn(scope, "NamedKey", settings.encryption_key) if settings.encryption_key else None


def _make_own_key(scope: Construct, settings: Settings) -> kms.Key:
    """EventBridge, which puts events into queues, is no role: the key itself lets it. For a rule that would be another stack's
    resource, the account is what tells it (https://github.com/aws/aws-cdk/issues/11158). Who names a key has that in its policy.
    """
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
    Stack.of(scope).export_value(key.key_arn)
    Tags.of(key).add(SETTING_TAG, "encryption_key" if settings.encryption_key == OWN_KEY else "former_encryption_keys")
    CfnOutput(scope, "OwnKeyArn", value=key.key_arn, export_name=_own_key_export(settings))
    return key


def former_keys(settings: Settings) -> list[str]:
    """Return the ARNs of the keys that encrypted earlier, for any stack but the stateful one."""
    return [
        Fn.import_value(_own_key_export(settings)) if key == OWN_KEY else key for key in settings.former_encryption_keys
    ]


def _own_key_export(settings: Settings) -> str:
    return f"{settings.name}-own-encryption-key"


def key_in(scope: Construct, key: kms.IKey | None) -> kms.IKey | None:
    """The key of another stack, as the one of ``scope`` uses it: without changing its policy."""
    return None if key is None else kms.Key.from_key_arn(scope, "EncryptionKey", key.key_arn)


def through(key_arn: str, stack: Stack, actions: Sequence[str], services: Sequence[str]) -> iam.PolicyStatement:
    """Return the right to a key through these services (``s3``) only."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[key_arn],
        conditions={"StringLike": {"kms:ViaService": [f"{service}.*.{stack.url_suffix}" for service in services]}},
    )
