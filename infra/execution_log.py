"""The log of a state machine: every event of every execution, without what went in and came out."""

from aws_cdk import Fn, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.functions import retention
from infra.settings import Settings

_DELIVERY = (
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
)
"""What Step Functions asks of the machine's role, for all resources, as these name none:
https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html"""


def execution_log(scope: Construct, name: str, settings: Settings) -> states.LogOptions:
    """A log group for a state machine of this scope's stack, whose role needs :func:`log_rights`.

    Its name begins as AWS asks, lest the account's policy for deliveries grows too long
    (https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html), and has the stack's own ID: a group that outlived an
    earlier stack is in nobody's way."""
    stack = Stack.of(scope)
    unique = Fn.select(2, Fn.split("/", stack.stack_id))
    group = logs.LogGroup(
        scope,
        name,
        log_group_name=f"/aws/vendedlogs/states/{stack.stack_name}-{unique}",
        retention=retention(settings.log_days),
        removal_policy=RemovalPolicy.RETAIN if settings.removal == "retain" else RemovalPolicy.DESTROY,
    )
    return states.LogOptions(destination=group, level=states.LogLevel.ALL, include_execution_data=False)


def log_rights() -> iam.PolicyStatement:
    """The right to have the log delivered."""
    return iam.PolicyStatement(actions=list(_DELIVERY), resources=["*"])


def trace_rights(settings: Settings) -> list[iam.PolicyStatement]:
    """The rights to trace executions, if the settings want that:
    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-xray-tracing.html"""
    if not settings.tracing:
        return []
    return [
        iam.PolicyStatement(
            actions=[
                "xray:PutTraceSegments",
                "xray:PutTelemetryRecords",
                "xray:GetSamplingRules",
                "xray:GetSamplingTargets",
            ],
            resources=["*"],
        )
    ]
