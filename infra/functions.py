"""The functions: one for each verb, each with a role that may do what it does and nothing else."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Size, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.acknowledged import acknowledge, acknowledge_wildcards
from infra.check_settings import Checks
from infra.encryption import DECRYPT, former_keys, through
from infra.foreign_buckets import ForeignBuckets
from infra.foreign_places import Rights, metadata_of, tables_of
from infra.function_code import LEFT_OUT, function_code
from infra.layer import build
from infra.network import MOUNT, NetworkStack
from infra.settings import Settings, SettingsError
from infra.table_rights import KeyRights, table_rights

REQUEST_SECONDS: Final = 29
"""Of a function that a client waits for: API Gateway waits 30."""

LONG_SECONDS: Final = 900

_LONGEST_READ: Final = 30
"""Seconds that a function waits for a byte of S3, if it has the time."""

READ_OBJECTS: Final = ("s3:GetObject",)
PUT_OBJECTS: Final = ("s3:PutObject",)
WRITE_OBJECTS: Final = (*READ_OBJECTS, *PUT_OBJECTS)
_LIST: Final = "s3:ListBucket"
READ_BY_KEY: Final = ("kms:Decrypt",)
USE_KEY: Final = (*READ_BY_KEY, "kms:GenerateDataKey")
"""Writing in parts takes both: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html"""

SETS_RULES: Final = "write"
"""The function that sets rules."""

LIVE: Final = "live"
"""The alias of the version that is called, of functions that start from a snapshot or are kept ready."""


@dataclass(frozen=True)
class Duty:
    """What a function is for, and what it may do."""

    description: str
    table: tuple[str, ...]
    objects: tuple[str, ...]
    """What it may do with the lake's objects."""
    metadata: tuple[str, ...] = ()
    """What it may do besides with graveler's own files, below ``_graveler/`` of any namespace."""
    tables: tuple[str, ...] = ()
    """What it may do besides with the files of Iceberg tables, below ``tables/`` of any namespace."""
    keys: KeyRights = KeyRights.NONE
    seconds: int = REQUEST_SECONDS
    buckets: tuple[str, ...] = ()
    """What it may do with the lake's buckets as a whole, besides listing their objects."""
    sealing: tuple[str, ...] = ()
    """What it may do with the key that seals the secrets in the table."""
    reads_trees: bool = True
    """Whether files of trees are worth keeping near it. Then it is in the network of the shared cache, if there is one, and
    reaches nothing but S3, DynamoDB and Step Functions."""

    runs_checks: bool = False
    """Whether it changes what branches and tags point to, and so runs the checks of their rules."""

    @property
    def writes_objects(self) -> bool:
        """Whether it may write any objects."""
        return "s3:PutObject" in (*self.objects, *self.metadata, *self.tables)


@dataclass(frozen=True)
class Needs:
    """What a function needs of its stack, besides bucket and table."""

    environment: Mapping[str, str] = field(default_factory=dict)
    statements: Sequence[iam.PolicyStatement] = ()
    layers: Sequence[lambda_.ILayerVersion] = ()
    """Besides the common one."""
    memory: int = 0
    """MiB; 0 is the setting of all."""
    scratch: int = 0
    """MiB of /tmp; 0 is the setting of all."""


@dataclass(frozen=True)
class CheckFunction:
    """What makes checks that take long: its state machine, the function, and what a check of SQL may have there."""

    machine: states.IStateMachine
    function: lambda_.IFunction
    bounds: Mapping[str, int]


class Functions(Construct):
    """A function for each of ``duties``, by their names in ``all``; ``called`` are what is to be called of them: aliases, of
    functions that start from a snapshot or are kept ready. All may read what is ingested (``landing`` and the settings'
    ``ingest_buckets``), and none of them writes there.

    Each stack has a layer of its own, made of the same file: one that stacks share could never be replaced, as the others use it.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        landing: s3.IBucket,
        duties: Mapping[str, Duty],
        needs: Mapping[str, Needs],
        sealing_key: kms.IKey | None = None,
        encryption_key: kms.IKey | None = None,
        network: NetworkStack | None = None,
        check_function: CheckFunction | None = None,
    ) -> None:
        super().__init__(scope, name)
        self._check_function = check_function
        self._sealing_key = sealing_key
        self._encryption_key = encryption_key
        self._settings = settings
        self._bucket = bucket
        self._table = table
        self._landing = landing
        self._network = network
        self._foreign = ForeignBuckets(self, "Buckets")
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
        self.all = {verb: self._function(verb, duty, needs.get(verb, Needs())) for verb, duty in duties.items()}
        self.called = {verb: self._called(verb, function) for verb, function in self.all.items()}

    def _function(self, verb: str, duty: Duty, needs: Needs) -> lambda_.Function:
        settings = self._settings
        title = verb.capitalize()
        keep = settings.removal == "retain"
        log_group = logs.LogGroup(
            self,
            f"{title}Log",
            retention=retention(settings.log_days),
            removal_policy=RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY,
        )
        role, policy = self._role(title, duty, needs, log_group)
        network = self._network if duty.reads_trees else None
        function = lambda_.Function(
            self,
            title,
            description=f"graveler: {duty.description}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=self._architecture,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(function_code(verb)), exclude=list(LEFT_OUT)),
            layers=[self._layer, *needs.layers],
            role=role.without_policy_updates(),
            memory_size=needs.memory or settings.memory,
            ephemeral_storage_size=Size.mebibytes(needs.scratch or settings.scratch),
            timeout=Duration.seconds(duty.seconds),
            log_group=log_group,
            reserved_concurrent_executions=settings.reserved_concurrency or None,
            snap_start=self._snapshots(verb, network),
            tracing=lambda_.Tracing.ACTIVE if settings.tracing else lambda_.Tracing.DISABLED,
            environment={
                **self._environment(verb, duty, network),
                **needs.environment,
                **self._sealing_environment(duty),
            },
            vpc=None if network is None else network.vpc,
            vpc_subnets=None if network is None else ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=None if network is None else [network.functions_group],
            filesystem=None
            if network is None
            else lambda_.FileSystem.from_efs_access_point(network.access_point, MOUNT),
        )
        function.node.add_dependency(policy)  # whoever starts it finds it able
        CfnOutput(Stack.of(self), f"{title}Function", value=function.function_name)
        if network is not None:
            function.node.add_dependency(network.file_system.mount_targets_available)
        acknowledge(
            function,
            "AwsSolutions-L1",
            "The layer's byte code and libraries are made for this Python; it changes with the layer.",
        )
        return function

    def _called(self, verb: str, function: lambda_.Function) -> lambda_.IFunction:
        """The function itself, or the alias of its newest version: snapshots, and processes that are kept ready, are a version's.
        Earlier versions go with the deployment that replaces them, as each one's snapshot is paid for."""
        processes = self._settings.kept_ready().get(verb)
        if processes is None and verb not in self._settings.snap_start:
            return function
        return lambda_.Alias(
            self,
            f"{verb.capitalize()}Live",
            alias_name=LIVE,
            version=function.current_version,
            provisioned_concurrent_executions=processes,
        )

    def _snapshots(self, verb: str, network: NetworkStack | None) -> lambda_.SnapStartConf | None:
        """https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html"""
        if verb not in self._settings.snap_start:
            return None
        if network is not None:
            raise SettingsError(
                f"snap_start names {verb}, which has the shared cache; Lambda takes no snapshot of a function with a file "
                "system: leave it, or shared_cache, out"
            )
        return lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS

    def _environment(self, verb: str, duty: Duty, network: NetworkStack | None) -> dict[str, str]:
        settings = self._settings
        return {
            "GRAVELER_OBJECTS": f"s3://{self._bucket.bucket_name}",
            "GRAVELER_TABLES": f"dynamodb://{self._table.table_name}",
            "GRAVELER_DATA_BUCKETS": ",".join(settings.data_buckets),
            "GRAVELER_IMPORT_BUCKETS": ",".join(settings.import_buckets),
            "GRAVELER_INGEST_BUCKETS": ",".join([self._landing.bucket_name, *settings.ingest_buckets]),
            "GRAVELER_PRESIGN_SECONDS": str(settings.presign_seconds),
            "GRAVELER_OPERATION_RECORDS": str(settings.request_records),
            "GRAVELER_STAGING_SHARDS": str(settings.staging_shards),
            "GRAVELER_READ_SECONDS": str(read_seconds(duty.seconds)),
            "GRAVELER_CACHE": "/tmp/cache",
            "GRAVELER_CACHE_BYTES": str(_cache_bytes(settings)),
            **({} if network is None else {"GRAVELER_SHARED_CACHE": MOUNT}),
            **self._checks(duty),
            "POWERTOOLS_SERVICE_NAME": verb,
            "POWERTOOLS_METRICS_NAMESPACE": settings.name,
        }

    def _checks(self, duty: Duty) -> dict[str, str]:
        """The settings of checks, and what makes those that take long."""
        document, function = self._settings.checks.document, self._check_function
        if not duty.runs_checks or not (document or function):
            return {}
        if function is None:
            return {"GRAVELER_CHECKS": json.dumps(document)}
        arns = {"machine": function.machine.state_machine_arn, "name": function.function.function_arn}
        return {"GRAVELER_CHECKS": Stack.of(self).to_json_string({**document, "function": {**arns, **function.bounds}})}

    def _check_rights(self, verb: str) -> list[iam.PolicyStatement]:
        """The rights of a function that runs checks: those that take long are made by another one, which may call what rules
        name. Who sets rules has it look at their queries."""
        checks, function = self._settings.checks, self._check_function
        if function is None:
            return check_rights(checks)
        called = [function.function.function_arn] if verb == SETS_RULES else []
        return [
            start(function.machine),
            *([iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=called)] if called else []),
            *check_rights(Checks(secrets=checks.secrets)),
        ]

    def _sealing_environment(self, duty: Duty) -> dict[str, str]:
        if not duty.sealing or self._sealing_key is None:
            return {}
        return {"GRAVELER_KMS_KEY": self._sealing_key.key_arn}

    def _role(self, title: str, duty: Duty, needs: Needs, log_group: logs.ILogGroup) -> tuple[iam.Role, iam.Policy]:
        role = iam.Role(
            self,
            f"{title}Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"graveler: {duty.description}",
            managed_policies=self._foreign_rights(duty),
        )
        bucket, landing = self._bucket.bucket_arn, self._landing.bucket_arn
        statements = [
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.log_group_arn]
            ),
            *table_rights(self._table.table_arn, duty.table, duty.keys),
        ]
        if duty.objects:
            statements += [
                iam.PolicyStatement(actions=list(duty.objects), resources=[f"{bucket}/*"]),
                iam.PolicyStatement(actions=list(READ_OBJECTS), resources=[f"{landing}/*"]),
                iam.PolicyStatement(actions=[_LIST], resources=[bucket, landing]),
            ]
        if duty.metadata:
            statements.append(iam.PolicyStatement(actions=list(duty.metadata), resources=metadata_of(bucket)))
        if duty.tables:
            statements.append(iam.PolicyStatement(actions=list(duty.tables), resources=[tables_of(bucket)]))
        if duty.objects and self._settings.kms_keys:
            statements.append(self._use_keys(duty))
        if duty.sealing and self._sealing_key is not None:
            statements.append(
                iam.PolicyStatement(
                    actions=list(duty.sealing),
                    resources=[self._sealing_key.key_arn],
                    conditions={"StringEquals": {"kms:EncryptionContext:graveler:table": self._table.table_name}},
                )
            )
        if duty.runs_checks:
            statements += self._check_rights(title.lower())
        statements += needs.statements
        statements += self._encryption_rights(duty, needs)
        if duty.buckets:
            statements.append(iam.PolicyStatement(actions=list(duty.buckets), resources=[bucket]))
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
        acknowledge_wildcards(
            policy,
            statements,
            "Keys are chosen by repositories; networks and traces have no names to grant.",
            shared=(self._bucket, self._landing),
        )
        return role, policy

    def _encryption_rights(self, duty: Duty, needs: Needs) -> list[iam.PolicyStatement]:
        """To have buckets, table and queues decrypt what they keep, and encrypt what they get. DynamoDB asks for the same to read
        and to write: items are encrypted by a key of the table, which the account's own has encrypted
        (https://docs.aws.amazon.com/kms/latest/developerguide/services-dynamodb.html)."""
        asked = {action for statement in needs.statements for action in statement.actions}
        writes = [
            *(["s3"] if duty.writes_objects else []),
            *(["sqs"] if "sqs:SendMessage" in asked else []),
        ]
        reads = ["dynamodb"]
        if duty.objects:
            reads.append("s3")
        if asked & {"sqs:SendMessage", "sqs:ReceiveMessage"}:
            reads.append("sqs")
        stack = Stack.of(self)
        present = [] if self._encryption_key is None else [self._encryption_key.key_arn]
        rights = [through(key, stack, DECRYPT, reads) for key in (*present, *former_keys(self._settings))]
        if writes:
            rights += [through(key, stack, ["kms:GenerateDataKey"], writes) for key in present]
        return rights

    def _use_keys(self, duty: Duty) -> iam.PolicyStatement:
        """To use the keys of encrypted buckets, through S3 only:
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html"""
        actions = USE_KEY if duty.writes_objects else READ_BY_KEY
        service = f"s3.*.{Stack.of(self).url_suffix}"
        return iam.PolicyStatement(
            actions=list(actions),
            resources=list(self._settings.kms_keys),
            conditions={"StringLike": {"kms:ViaService": service}},
        )

    def _foreign_rights(self, duty: Duty) -> list[iam.IManagedPolicy]:
        if not duty.objects:
            return []
        return self._foreign.policies(
            Rights(self._settings.data_buckets, duty.objects, (_LIST, *duty.buckets), duty.metadata, duty.tables),
            Rights((*self._settings.import_buckets, *self._settings.ingest_buckets), READ_OBJECTS, (_LIST,)),
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


def read_seconds(seconds: int) -> int:
    """How long a function of so many seconds waits for a byte of S3: less than half its time, so that it asks once more, or tells
    its client, before it is ended."""
    return min(_LONGEST_READ, seconds // 3)


def _cache_bytes(settings: Settings) -> int:
    """Three quarters of /tmp: the rest is for files that are being written."""
    return settings.scratch * 3 // 4 << 20


def check_rights(checks: Checks) -> list[iam.PolicyStatement]:
    """The rights to call the functions, and to read the secrets, that rules may name."""
    named = (("lambda:InvokeFunction", checks.lambdas), ("secretsmanager:GetSecretValue", checks.secrets))
    return [
        iam.PolicyStatement(actions=[action], resources=sorted(set(entries.values())))
        for action, entries in named
        if entries
    ]


def start(machine: states.IStateMachine) -> iam.PolicyStatement:
    """The right to start executions."""
    return iam.PolicyStatement(actions=["states:StartExecution"], resources=[machine.state_machine_arn])
