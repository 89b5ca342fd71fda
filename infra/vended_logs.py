"""Log groups that a service delivers to, in its own name, and not a function through its role."""

from aws_cdk import Fn, RemovalPolicy, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.functions import retention
from infra.settings import Settings

FOLDER = "/aws/vendedlogs/"
"""A service adds each group that it delivers to to a resource policy of the account, which holds 5,120 characters; groups with
this prefix share one entry: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-CWL.html and
https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html. Without it, a deployment fails in an account whose policy is
full."""


def vended_log(scope: Construct, name: str, settings: Settings, service: str) -> logs.LogGroup:
    """Return a log group for what ``service`` delivers. Its name ends with the stack's own ID: a group that outlived an earlier
    stack of this name does not collide with it."""
    stack = Stack.of(scope)
    unique = Fn.select(2, Fn.split("/", stack.stack_id))
    return logs.LogGroup(
        scope,
        name,
        log_group_name=f"{FOLDER}{service}/{stack.stack_name}-{unique}",
        retention=retention(settings.log_days),
        removal_policy=RemovalPolicy.RETAIN if settings.removal == "retain" else RemovalPolicy.DESTROY,
    )
