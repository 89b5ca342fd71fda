"""The functions: one for each verb, each with a role that may do what it does and nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aws_cdk import Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.acknowledged import acknowledge
from infra.layer import build
from infra.network import MOUNT, NetworkStack
from infra.settings import Settings

FOLDER: Final = Path(__file__).resolve().parent.parent / "functions"
REQUEST_SECONDS: Final = 29
"""Of a function that a client waits for: API Gateway waits 30."""

LONG_SECONDS: Final = 900

_READ_TABLE: Final = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
_WRITE_TABLE: Final = (
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
)
_READ_OBJECTS: Final = ("s3:GetObject",)
_WRITE_OBJECTS: Final = ("s3:GetObject", "s3:PutObject")
_UPLOADS: Final = ("s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


@dataclass(frozen=True)
class Duty:
    """What a function is for, and what it may do."""

    description: str
    table: tuple[str, ...]
    objects: tuple[str, ...]
    seconds: int = REQUEST_SECONDS
    queue: tuple[str, ...] = ()
    """What it may do with the queue of long operations."""
    reads_trees: bool = True
    """Whether files of trees are worth keeping near it."""


DUTIES: Final = {
    "read": Duty("refs, objects, listings, presigned URLs, the log", _READ_TABLE, _READ_OBJECTS),
    "write": Duty(
        "staging, links, uploads, refs, settings, keys",
        (*_READ_TABLE, *_WRITE_TABLE),
        (*_WRITE_OBJECTS, *_UPLOADS),
        queue=("sqs:SendMessage",),
        reads_trees=False,  # it asks a queue, which the network of the cache does not reach
    ),
    "commit": Duty("commit", (*_READ_TABLE, *_WRITE_TABLE), _WRITE_OBJECTS),
    "merge": Duty("merge, revert, cherry-pick", (*_READ_TABLE, *_WRITE_TABLE), _WRITE_OBJECTS),
    "diff": Duty("differences, summaries, blame, checks", _READ_TABLE, _READ_OBJECTS),
    "maintain": Duty(
        "imports, and the clean-up of what commits leave behind",
        (*_READ_TABLE, *_WRITE_TABLE),
        _WRITE_OBJECTS,
        seconds=LONG_SECONDS,
        queue=("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"),
        reads_trees=False,
    ),
}


class Functions(Construct):
    """All functions of :data:`DUTIES`, by their names in ``all``."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        operations: sqs.IQueue,
        network: NetworkStack | None,
    ) -> None:
        super().__init__(scope, name)
        self._operations = operations
        self._settings = settings
        self._bucket = bucket
        self._table = table
        self._network = network
        architecture = lambda_.Architecture.ARM_64 if settings.architecture == "arm64" else lambda_.Architecture.X86_64
        self._architecture = architecture
        self._layer = lambda_.LayerVersion(
            self,
            "Layer",
            code=lambda_.Code.from_asset(str(build(settings.architecture))),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[architecture],
            description="graveler and what it runs on",
            removal_policy=RemovalPolicy.RETAIN,  # so that a roll back finds it
        )
        self.all = {verb: self._function(verb, duty) for verb, duty in DUTIES.items()}

    def _function(self, verb: str, duty: Duty) -> lambda_.Function:
        settings = self._settings
        title = verb.capitalize()
        keep = settings.removal == "retain"
        log_group = logs.LogGroup(
            self,
            f"{title}Log",
            retention=retention(settings.log_days),
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        role, policy = self._role(title, duty, log_group)
        network = self._network if duty.reads_trees else None
        function = lambda_.Function(
            self,
            title,
            description=f"graveler: {duty.description}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=self._architecture,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(FOLDER / verb), exclude=["__pycache__", "*.pyc"]),
            layers=[self._layer],
            role=role.without_policy_updates(),
            memory_size=settings.memory,
            ephemeral_storage_size=Size.mebibytes(settings.scratch),
            timeout=Duration.seconds(duty.seconds),
            log_group=log_group,
            reserved_concurrent_executions=settings.reserved_concurrency or None,
            tracing=lambda_.Tracing.ACTIVE if settings.tracing else lambda_.Tracing.DISABLED,
            environment=self._environment(verb, duty, network),
            vpc=None if network is None else network.vpc,
            vpc_subnets=None if network is None else ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=None if network is None else [network.functions_group],
            filesystem=None
            if network is None
            else lambda_.FileSystem.from_efs_access_point(network.access_point, MOUNT),
        )
        function.node.add_dependency(policy)  # whoever starts it finds it able
        if network is not None:
            function.node.add_dependency(network.file_system.mount_targets_available)
        acknowledge(
            function,
            "AwsSolutions-L1",
            "The layer's byte code and libraries are made for this Python; it changes with the layer.",
        )
        return function

    def _environment(self, verb: str, duty: Duty, network: NetworkStack | None) -> dict[str, str]:
        settings = self._settings
        queue = {"GRAVELER_OPERATIONS_QUEUE": self._operations.queue_url} if duty.queue else {}
        return {
            **queue,
            "GRAVELER_OBJECTS": f"s3://{self._bucket.bucket_name}",
            "GRAVELER_TABLES": f"dynamodb://{self._table.table_name}",
            "GRAVELER_DATA_BUCKETS": ",".join(settings.data_buckets),
            "GRAVELER_PRESIGN_SECONDS": str(settings.presign_seconds),
            "GRAVELER_CACHE": "/tmp/cache" if network is None else MOUNT,
            "GRAVELER_CACHE_BYTES": str(_cache_bytes(settings) if network is None else 64 << 30),
            "POWERTOOLS_SERVICE_NAME": verb,
            "POWERTOOLS_METRICS_NAMESPACE": "graveler",
        }

    def _role(self, title: str, duty: Duty, log_group: logs.ILogGroup) -> tuple[iam.Role, iam.Policy]:
        role = iam.Role(
            self,
            f"{title}Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"graveler: {duty.description}",
        )
        buckets = [self._bucket.bucket_arn, *(_bucket_arn(self, name) for name in self._settings.data_buckets)]
        objects = [f"{bucket}/*" for bucket in buckets]
        statements = [
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.log_group_arn]
            ),
            iam.PolicyStatement(actions=list(duty.table), resources=[self._table.table_arn]),
            iam.PolicyStatement(actions=list(duty.objects), resources=objects),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=buckets),
        ]
        if duty.queue:
            statements.append(iam.PolicyStatement(actions=list(duty.queue), resources=[self._operations.queue_arn]))
        if self._settings.tracing:
            statements.append(
                iam.PolicyStatement(actions=["xray:PutTraceSegments", "xray:PutTelemetryRecords"], resources=["*"])
            )
        if self._network is not None and duty.reads_trees:
            statements.append(
                iam.PolicyStatement(
                    actions=[
                        "ec2:CreateNetworkInterface",
                        "ec2:DescribeNetworkInterfaces",
                        "ec2:DescribeSubnets",
                        "ec2:DeleteNetworkInterface",
                        "ec2:AssignPrivateIpAddresses",
                        "ec2:UnassignPrivateIpAddresses",
                    ],
                    resources=["*"],
                )
            )
            statements.append(
                iam.PolicyStatement(
                    actions=["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"],
                    resources=[self._network.file_system.file_system_arn],
                    conditions={
                        "StringEquals": {
                            "elasticfilesystem:AccessPointArn": self._network.access_point.access_point_arn
                        }
                    },
                )
            )
        policy = iam.Policy(self, f"{title}Policy", statements=statements, roles=[role])
        self._acknowledge(policy)
        return role, policy

    def _acknowledge(self, policy: iam.Policy) -> None:
        home = Stack.of(self._bucket)
        exported = home.resolve(home.export_value(self._bucket.bucket_arn))["Fn::ImportValue"]
        others = [f"arn:<AWS::Partition>:s3:::{name}/*" for name in self._settings.data_buckets]
        for resource in (f"{exported}/*", *others, "*"):
            acknowledge(
                policy,
                f"AwsSolutions-IAM5[Resource::{resource}]",
                "Keys are chosen by repositories; networks and traces have no names to grant.",
            )


_RETENTIONS: Final = {
    1: "ONE_DAY",
    3: "THREE_DAYS",
    5: "FIVE_DAYS",
    7: "ONE_WEEK",
    14: "TWO_WEEKS",
    30: "ONE_MONTH",
    60: "TWO_MONTHS",
    90: "THREE_MONTHS",
    120: "FOUR_MONTHS",
    150: "FIVE_MONTHS",
    180: "SIX_MONTHS",
    365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS",
    545: "EIGHTEEN_MONTHS",
    731: "TWO_YEARS",
    1827: "FIVE_YEARS",
    3653: "TEN_YEARS",
}


def retention(days: int) -> logs.RetentionDays:
    """CloudWatch's name for so many days."""
    return logs.RetentionDays[_RETENTIONS[days]]


def _cache_bytes(settings: Settings) -> int:
    """Three quarters of /tmp: the rest is for files that are being written."""
    return settings.scratch * 3 // 4 << 20


def _bucket_arn(scope: Construct, name: str) -> str:
    return f"arn:{Stack.of(scope).partition}:s3:::{name}"
