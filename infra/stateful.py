"""The stack of all that must not be lost: buckets, table, keys."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct, IConstruct

from infra.acknowledged import acknowledge
from infra.buckets import private_bucket
from infra.encryption import make_key
from infra.record import record_settings
from infra.settings import SETTING_TAG, Settings
from infra.stateful_names import PARTITION_KEY, SORT_KEY, TTL_ATTRIBUTE

RESTORE_DAYS: Final = 35
"""How far back the table can be restored, and so how long the bucket keeps what was deleted: a table of some days ago still finds
the files that it names."""


class StatefulStack(Stack):
    """Buckets, table, keys; all stay when the stack goes, unless the settings say otherwise. What lands in ``landing`` is
    ingested, and entries of commits link to it. What the settings name is adopted: it is not part of the stack, and nothing
    about it is changed."""

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        keep = settings.removal == "retain"
        # Nobody deletes the stack by a slip: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-protect-stacks.html
        super().__init__(scope, name, description="graveler: objects and tables", termination_protection=keep)
        self._settings = settings
        self._removal = RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY
        self.encryption_key = make_key(self, settings)
        self.bucket = self._bucket("Objects", "bucket")
        self.landing = self._landing_bucket()
        self.table = self._table()
        self.first_key = self._first_key()
        """ARN of the secret."""
        self.sealing_key = self._sealing_key()
        record_settings(self, settings)
        for label, value, description in (
            ("ObjectsBucket", self.bucket.bucket_name, None),
            ("LandingBucket", self.landing.bucket_name, "what lands here is ingested"),
            ("LakeTable", self.table.table_name, None),
            ("FirstKeySecret", self.first_key, "where the first access key is kept"),
            ("SealingKeyArn", self.sealing_key.key_arn, "seals the secrets in the table"),
        ):
            CfnOutput(self, label, value=value, description=description)
        if self.encryption_key is not None:
            CfnOutput(
                self,
                "EncryptionKeyArn",
                value=self.encryption_key.key_arn,
                description="encrypts buckets, table and queues",
            )

    def _bucket(self, name: str, setting: str) -> s3.IBucket:
        existing = getattr(self._settings, setting)
        if existing:
            return s3.Bucket.from_bucket_name(self, name, existing)
        bucket = private_bucket(
            self,
            name,
            removal=self._removal,
            keep_deleted=Duration.days(RESTORE_DAYS),
            cors=_cors(self, self._settings),
            key=self.encryption_key,
        )
        self._share(setting, bucket, bucket.bucket_name, bucket.bucket_arn)
        return bucket

    def _landing_bucket(self) -> s3.IBucket:
        """An adopted bucket sends its events to EventBridge already, since an earlier deployment had it do so; ``python -m
        infra.leftovers`` looks."""
        bucket = self._bucket("Landing", "landing_bucket")
        resource = bucket.node.default_child
        if resource is not None:
            assert isinstance(resource, s3.CfnBucket)
            # The property of the bucket above would need a function of its own to set this.
            resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            )
        return bucket

    def _table(self) -> dynamodb.ITable:
        """The stack's own table stays beside one that was restored: exports of it are in use while stacks switch to the other."""
        if self._settings.adopts_table:
            return dynamodb.Table.from_table_name(self, "Tables", self._settings.table)
        table = dynamodb.Table(
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
            deletion_protection=self._settings.removal == "retain",
            removal_policy=self._removal,
            warm_throughput=_warm(self._settings),
        )
        self._share("table", table, table.table_name, table.table_arn)
        return table

    def _sealing_key(self) -> kms.IKey:
        if self._settings.sealing_key:
            return kms.Key.from_key_arn(self, "SealingKey", self._settings.sealing_key)
        key = kms.Key(
            self,
            "SealingKey",
            description="graveler: seals the secrets in the table",
            enable_key_rotation=True,
            removal_policy=self._removal,
        )
        self._share("sealing_key", key, key.key_arn)
        return key

    def _first_key(self) -> str:
        """Return the ARN of the secret that the first access key is kept in, which opens the lake for as long as there is the
        table. A new one is empty, until the function ``setup`` makes that key."""
        if self._settings.first_key:
            return self._settings.first_key
        secret = secretsmanager.CfnSecret(self, "FirstKey", description="graveler: the first access key of the lake")
        secret.apply_removal_policy(self._removal)
        acknowledge(
            secret,
            "AwsSolutions-SMG4",
            "Whoever holds the key uses it: a rotation that nobody asked for would lock them out. `graveler keys` makes others.",
        )
        arn: str = secret.ref
        self._share("first_key", secret, arn)
        return arn

    def _share(self, setting: str, resource: IConstruct, *values: str) -> None:
        """Export what other stacks import, also while none does, so that each of them can come and go; and tag the resource with
        the setting by which a later deployment adopts it."""
        for value in values:
            self.export_value(value)
        Tags.of(resource).add(SETTING_TAG, setting)


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


def _cors(stack: Stack, settings: Settings) -> list[s3.CorsRule]:
    """Pages that may call the API may also use the URLs that it hands out: the deployment's own page, with the headers that it
    sends, and those of ``cors_origins``. S3 takes no star for headers of responses:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ManageCorsUsing.html

    Without a domain the page has the API's own name, which is made after the bucket; so all names of APIs of the region may use
    URLs. A URL is a secret, and whoever has it needs no page to use it.
    """
    page_origins = [f"https://{settings.domain}"] if settings.domain else []
    if not (settings.only_domain or settings.web_acl):
        page_origins.append(f"https://*.execute-api.{stack.region}.{stack.url_suffix}")
    return [
        _cors_rule(page_origins, ["range", "content-type", "content-md5", "x-amz-*"]),
        *([_cors_rule(settings.cors_origins, ["*"])] if settings.cors_origins else []),
    ]


def _cors_rule(origins: Sequence[str], headers: Sequence[str]) -> s3.CorsRule:
    return s3.CorsRule(
        allowed_methods=[s3.HttpMethods.GET, s3.HttpMethods.PUT, s3.HttpMethods.HEAD],
        allowed_origins=list(origins),
        allowed_headers=list(headers),
        exposed_headers=[
            "ETag",
            "Content-Range",
            "Accept-Ranges",
            "Content-Length",
            "Last-Modified",
            "x-amz-request-id",
        ],
        max_age=3600,
    )
