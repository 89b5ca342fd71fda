"""Checks that take long: the function that makes them, with DuckDB in a layer of its own, and the state machine that calls it."""

import json
from typing import Any, Final

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.acknowledged import acknowledge, acknowledge_wildcards
from infra.check_machine import RUN_SECONDS, definition
from infra.check_settings import Checks
from infra.encryption import key_in
from infra.execution_log import execution_log, log_rights, trace_rights
from infra.functions import READ_OBJECTS, CheckFunction, Duty, Functions, Needs, check_rights
from infra.layer import build_queries
from infra.settings import Settings
from infra.stateful import lake_table
from infra.table_rights import READ_TABLE, run_rights

DUTY: Final = Duty(
    "checks that take long",
    READ_TABLE,
    READ_OBJECTS,
    seconds=RUN_SECONDS,
    reads_trees=False,  # it reads other objects
)
_KEPT_FREE: Final = 768
"""MiB of memory for the process that copies and for what DuckDB does not count, and of /tmp for files of trees."""


class ChecksStack(Stack):
    """Function and state machine. Holds nothing: verdicts are in the table. ``function`` is what calls them."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        landing: s3.IBucket,
        encryption_key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, name, description="graveler: checks that take long")
        table = lake_table(self, settings, table)
        architecture = lambda_.Architecture.ARM_64 if settings.architecture == "arm64" else lambda_.Architecture.X86_64
        queries = lambda_.LayerVersion(
            self,
            "Queries",
            code=lambda_.Code.from_asset(str(build_queries(settings.architecture))),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[architecture],
            description="DuckDB, for checks of SQL",
            removal_policy=RemovalPolicy.RETAIN,  # so that a roll back finds it
        )
        report = iam.PolicyStatement(
            # Tokens of tasks that call a function belong to no resource: who has none can report on none.
            actions=["states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"],
            resources=["*"],
        )
        called = Checks(lambdas=settings.checks.lambdas)
        functions = Functions(
            self,
            "Functions",
            settings,
            bucket=bucket,
            table=table,
            landing=landing,
            duties={"check": DUTY},
            needs={
                "check": Needs(
                    {"GRAVELER_CHECKS": json.dumps(called.document)} if called else {},
                    [report, run_rights(table.table_arn), *check_rights(called)],
                    [queries],
                    settings.check_memory,
                    settings.check_scratch,
                )
            },
            encryption_key=key_in(self, encryption_key),
        )
        made = functions.all["check"]
        self.handler = made
        role = iam.Role(
            self,
            "MachineRole",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description="graveler: runs checks",
        )
        rights = [
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[made.function_arn]),
            log_rights(),
            *trace_rights(settings),
        ]
        steps = iam.Policy(self, "Steps", roles=[role], statements=rights)
        acknowledge_wildcards(steps, rights, "Traces and deliveries of logs have no names to grant.")
        self.machine = states.StateMachine(
            self,
            "Machine",
            definition_body=states.DefinitionBody.from_string(
                self.to_json_string(definition(made.function_arn, partition=self.partition))
            ),
            role=role.without_policy_updates(),
            logs=execution_log(self, "MachineLog", settings),
            tracing_enabled=settings.tracing,
            comment="graveler: checks",
        )
        self.machine.node.add_dependency(steps)
        acknowledge(self.machine, "AwsSolutions-SF2", "By setting: tracing costs for each step.")
        self.function = CheckFunction(self.machine, made, bounds(settings))
        CfnOutput(self, "ChecksMachine", value=self.machine.state_machine_arn)


def bounds(settings: Settings) -> dict[str, Any]:
    """What a check of SQL may have of the function, in bytes: ``memory``, and ``most_bytes`` of files."""
    return {
        "memory": settings.check_memory - _KEPT_FREE << 20,
        "most_bytes": settings.check_scratch - _KEPT_FREE << 20,
    }
