"""What AWS says of a template only when it is deployed, or never: sizes, quotas, and times that must fit each other. Each
function tells what is wrong, a sentence for each finding."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.infra.tools import resources

Template = Mapping[str, Any]
Fact = Callable[[Template], Iterator[str]]

_MOST: Final = {
    "AWS::ApiGatewayV2::Route": 300,
    "AWS::ApiGatewayV2::Integration": 300,
    "AWS::ApiGatewayV2::Stage": 10,
}
"""Of each API, unless the account has asked for more:
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html"""
_IN_A_TEMPLATE: Final = {"Resources": 500, "Outputs": 200, "Parameters": 200, "Mappings": 200}
_TEMPLATE_BYTES: Final = 1_000_000
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""
_LAYERS: Final = 5
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
_TARGETS: Final = 5
"""https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""
_ALARM_METRICS: Final = 10
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html: of PutMetricData's math"""
_ASYNC_AGE: Final = (60, 21_600)
_ASYNC_TRIES: Final = 2
"""https://docs.aws.amazon.com/lambda/latest/dg/API_PutFunctionEventInvokeConfig.html"""
_SQS: Final = {"VisibilityTimeout": (0, 43_200), "MessageRetentionPeriod": (60, 1_209_600)}
"""Seconds: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html"""


def waits(template: Template) -> Iterator[str]:
    """A message comes again after six times the time of its function, and what that waits for more:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
    queues, functions = resources(template, "AWS::SQS::Queue"), resources(template, "AWS::Lambda::Function")
    for name, mapping in resources(template, "AWS::Lambda::EventSourceMapping").items():
        told = mapping["Properties"]
        queue = queues[told["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        timeout = functions[told["FunctionName"]["Ref"]]["Properties"]["Timeout"]
        least = 6 * timeout + told.get("MaximumBatchingWindowInSeconds", 0)
        found = queue.get("VisibilityTimeout", 30)
        if found < least:
            yield f"{name}: its queue's messages come again after {found} s, and have to stay away for {least}"


def quotas(template: Template) -> Iterator[str]:
    """Of resources, routes, layers, targets and metrics."""
    for section, most in _IN_A_TEMPLATE.items():
        if (found := len(template.get(section, {}))) > most:
            yield f"{found} {section}, and a template has at most {most}"
    if (size := len(json.dumps(template, separators=(",", ":")))) > _TEMPLATE_BYTES:
        yield f"{size:,} bytes, and a template has at most {_TEMPLATE_BYTES:,}"
    for kind, most in _MOST.items():
        if (found := len(resources(template, kind))) > most:
            yield f"{found} of {kind}, and an API has at most {most}"
    for kind, key, most in (
        ("AWS::Lambda::Function", "Layers", _LAYERS),
        ("AWS::Events::Rule", "Targets", _TARGETS),
        ("AWS::CloudWatch::Alarm", "Metrics", _ALARM_METRICS),
    ):
        for name, each in resources(template, kind).items():
            if (found := len(each["Properties"].get(key, []))) > most:
                yield f"{name}: {found} {key}, and there may be {most}"


def bounds(template: Template) -> Iterator[str]:
    """Of times and numbers that a service refuses."""
    for name, queue in resources(template, "AWS::SQS::Queue").items():
        for key, (low, high) in _SQS.items():
            if not low <= queue["Properties"].get(key, low) <= high:
                yield f"{name}: {key} {queue['Properties'][key]} must be {low} to {high}"
    for name, each in resources(template, "AWS::Lambda::EventInvokeConfig").items():
        told = each["Properties"]
        low, high = _ASYNC_AGE
        if not low <= told.get("MaximumEventAgeInSeconds", low) <= high:
            yield f"{name}: MaximumEventAgeInSeconds must be {low} to {high}"
        if told.get("MaximumRetryAttempts", 0) > _ASYNC_TRIES:
            yield f"{name}: MaximumRetryAttempts must be at most {_ASYNC_TRIES}"


def given_up(template: Template) -> Iterator[str]:
    """A queue for what was given up keeps it longer than the queue that it comes from: its age counts on
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html)."""
    queues = resources(template, "AWS::SQS::Queue")
    default = 345_600
    for name, queue in queues.items():
        policy = queue["Properties"].get("RedrivePolicy")
        if policy is None:
            continue
        dead = queues[policy["deadLetterTargetArn"]["Fn::GetAtt"][0]]["Properties"]
        kept = queue["Properties"].get("MessageRetentionPeriod", default)
        if dead.get("MessageRetentionPeriod", default) <= kept:
            yield f"{name}: what it gives up is kept no longer than {kept} s, which may be over by then"
        longest = policy["maxReceiveCount"] * queue["Properties"].get("VisibilityTimeout", 30)
        if longest >= kept:
            yield f"{name}: {policy['maxReceiveCount']} tries take up to {longest} s, and it keeps messages for {kept}"


FACTS: Final[tuple[Fact, ...]] = (waits, quotas, bounds, given_up)


def findings(template: Template) -> list[str]:
    """All of them."""
    return [found for fact in FACTS for found in fact(template)]
