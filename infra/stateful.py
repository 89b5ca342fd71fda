"""What must not be lost: the buckets and the table."""

from typing import Final

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.acknowledged import acknowledge
from infra.buckets import private_bucket
from infra.encryption import make_key
from infra.settings import OWN_KEY, Settings
from infra.stateful_names import PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE

RESTORE_DAYS: Final = 35
"""How far back the table can be restored, and so how long the bucket keeps what was deleted: a table of some days ago still finds
the files that it names."""


class StatefulStack(Stack):
    """Buckets and table; all stay when the stack goes, unless the settings say otherwise. What lands in
    ``landing`` is ingested, and entries of commits link to it."""

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        keep = settings.removal == "retain"
        # Nobody deletes the stack by a slip: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-protect-stacks.html
        super().__init__(scope, name, description="graveler: objects and tables", termination_protection=keep)
        self._settings = settings
        self.encryption_key = make_key(self, settings)
        self.bucket = self._bucket("Objects")
        self.landing = self._bucket("Landing")
        resource = self.landing.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        # The property of the bucket above would need a function of its own to set this.
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
        self.table = dynamodb.Table(
            self,
            "Tables",
            partition_key=dynamodb.Attribute(name=PARTITION_KEY, type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name=SORT_KEY, type=dynamodb.AttributeType.BINARY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.DEFAULT
            if self.encryption_key is None
            else dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.encryption_key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True, recovery_period_in_days=RESTORE_DAYS
            ),
            time_to_live_attribute=TTL_ATTRIBUTE,
            deletion_protection=keep,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
            warm_throughput=_warm(settings),
        )
        self.first_key = self._first_key()
        self.sealing_key = kms.Key(
            self,
            "SealingKey",
            description="graveler: seals the secrets in the table",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        own_key = self.encryption_key if settings.encryption_key == OWN_KEY else None
        for shared in (
            *(name for bucket in (self.bucket, self.landing) for name in (bucket.bucket_name, bucket.bucket_arn)),
            self.table.table_name,
            self.table.table_arn,
            self.first_key.ref,
            self.sealing_key.key_arn,
            *([] if own_key is None else [own_key.key_arn]),
        ):
            self.export_value(shared)  # also while no other stack asks: so each of them can come and go
        CfnOutput(self, "ObjectsBucket", value=self.bucket.bucket_name)
        CfnOutput(self, "LandingBucket", value=self.landing.bucket_name, description="what lands here is ingested")
        CfnOutput(self, "LakeTable", value=self.table.table_name)
        CfnOutput(self, "FirstKeySecret", value=self.first_key.ref, description="where the first access key is kept")
        if self.encryption_key is not None:
            CfnOutput(
                self,
                "EncryptionKeyArn",
                value=self.encryption_key.key_arn,
                description="encrypts buckets, table and queues",
            )
        CfnOutput(self, "SealingKeyArn", value=self.sealing_key.key_arn, description="seals the secrets in the table")

    def _first_key(self) -> secretsmanager.CfnSecret:
        """The secret that the first access key is kept in, which opens the lake for as long as there is the table. Empty, until
        the function ``setup`` makes that key."""
        secret = secretsmanager.CfnSecret(self, "FirstKey", description="graveler: the first access key of the lake")
        secret.apply_removal_policy(
            RemovalPolicy.RETAIN if self._settings.removal == "retain" else RemovalPolicy.DESTROY
        )
        acknowledge(
            secret,
            "AwsSolutions-SMG4",
            "Whoever holds the key uses it: a rotation that nobody asked for would lock them out. `graveler keys` makes others.",
        )
        return secret

    def _bucket(self, name: str) -> s3.Bucket:
        return private_bucket(
            self,
            name,
            removal=RemovalPolicy.RETAIN if self._settings.removal == "retain" else RemovalPolicy.DESTROY,
            keep_deleted=Duration.days(RESTORE_DAYS),
            cors=_cors(self._settings),
            key=self.encryption_key,
        )


def lake_table(stack: Stack, settings: Settings, own: dynamodb.ITable) -> dynamodb.ITable:
    """The table that the lake is in, as ``stack`` uses it: the stateful stack's ``own``, or the one that the settings name."""
    return dynamodb.Table.from_table_name(stack, "LakeTable", settings.table) if settings.table else own


def _warm(settings: Settings) -> dynamodb.WarmThroughput | None:
    """What the table takes at once from its first second on. It can only be raised:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html"""
    if not settings.warm_reads and not settings.warm_writes:
        return None
    return dynamodb.WarmThroughput(
        read_units_per_second=settings.warm_reads or None, write_units_per_second=settings.warm_writes or None
    )


def _cors(settings: Settings) -> list[s3.CorsRule] | None:
    """Pages that may call the API may also use the URLs that it hands out."""
    if not settings.cors_origins:
        return None
    return [
        s3.CorsRule(
            allowed_methods=[s3.HttpMethods.GET, s3.HttpMethods.PUT, s3.HttpMethods.HEAD],
            allowed_origins=list(settings.cors_origins),
            allowed_headers=["*"],
            exposed_headers=["ETag"],
        )
    ]
