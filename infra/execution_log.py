"""The log of a state machine: every event of every execution, without what went in and came out."""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.settings import Settings
from infra.vended_logs import vended_log

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
    """A log for a state machine of this scope's stack, whose role needs :func:`log_rights`."""
    group = vended_log(scope, name, settings, "states")
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
