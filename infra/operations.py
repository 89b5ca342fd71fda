"""Long operations: the state machine, and the function that takes its steps."""

from typing import Final

from aws_cdk import ArnFormat, CfnOutput, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.acknowledged import acknowledge, acknowledge_wildcards
from infra.encryption import key_in
from infra.execution_log import execution_log, log_rights, trace_rights
from infra.functions import PUT_OBJECTS, READ_OBJECTS, CheckFunction, Duty, Functions, Needs
from infra.network import NetworkStack
from infra.settings import Settings
from infra.state_machine import STEP_SECONDS, definition
from infra.stateful import lake_table
from infra.table_rights import WRITE_TABLE

DUTY: Final = Duty(
    "steps of long operations",
    WRITE_TABLE,
    READ_OBJECTS,
    PUT_OBJECTS,
    PUT_OBJECTS,  # a merge writes the metadata of merged tables
    seconds=STEP_SECONDS,
    runs_checks=True,
)


class OperationsStack(Stack):
    """State machine and function. Holds nothing: the operations themselves are in the table."""

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
        network: NetworkStack | None = None,
        check_function: CheckFunction | None = None,
    ) -> None:
        super().__init__(scope, name, description="graveler: long operations")
        table = lake_table(self, settings, table)
        functions = Functions(
            self,
            "Functions",
            settings,
            bucket=bucket,
            table=table,
            landing=landing,
            duties={"operate": DUTY},
            needs={"operate": Needs({"GRAVELER_PART_RECORDS": str(settings.part_records)})},
            encryption_key=key_in(self, encryption_key),
            network=network,
            check_function=check_function,
        )
        self.function = functions.all["operate"]
        called = functions.called["operate"].function_arn
        role = iam.Role(
            self,
            "MachineRole",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            description="graveler: runs the steps of long operations",
        )
        rights = [
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[called]),
            log_rights(),
            *trace_rights(settings),
        ]
        steps = iam.Policy(self, "Steps", roles=[role], statements=rights)
        acknowledge_wildcards(steps, rights, "Traces and deliveries of logs have no names to grant.")
        self.machine = states.StateMachine(
            self,
            "Machine",
            definition_body=states.DefinitionBody.from_string(
                self.to_json_string(definition(called, at_once=settings.parts_at_once, partition=self.partition))
            ),
            role=role.without_policy_updates(),
            logs=execution_log(self, "MachineLog", settings),
            tracing_enabled=settings.tracing,
            comment="graveler: long operations",
        )
        self.machine.node.add_dependency(steps)
        self._parts_apart(role)
        acknowledge(self.machine, "AwsSolutions-SF2", "By setting: tracing costs for each step.")
        CfnOutput(self, "OperationsMachine", value=self.machine.state_machine_arn)

    def _parts_apart(self, role: iam.Role) -> None:
        """A map whose parts have executions of their own starts its own state machine: a policy that knows it, made after it."""
        executions = self.format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.machine.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        rights = [
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.machine.state_machine_arn]),
            iam.PolicyStatement(actions=["states:DescribeExecution", "states:StopExecution"], resources=[executions]),
        ]
        policy = iam.Policy(self, "PartsApart", roles=[role], statements=rights)
        acknowledge_wildcards(policy, rights, "Executions have names of their own.")
