"""Facts that AWS checks only when a template is deployed, or never: sizes, quotas, and times that must fit each other. Each
function returns a sentence for each finding."""

import json
import re
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
    queues = resources(template, "AWS::SQS::Queue")
    for name, mapping in resources(template, "AWS::Lambda::EventSourceMapping").items():
        told = mapping["Properties"]
        queue = queues[told["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        _, function = called(template, told["FunctionName"])
        timeout = function["Properties"]["Timeout"]
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


_PATTERN_CHARS: Final = 2_048
"""https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""
_BUCKET_CHARS: Final = 63
"""https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""


def patterns(template: Template) -> Iterator[str]:
    """The pattern of a rule is no longer than EventBridge takes, with the longest names that resources may get."""

    def longest(value: Any) -> Any:
        if isinstance(value, dict) and any(name == "Ref" or name.startswith("Fn::") for name in value):
            return "x" * _BUCKET_CHARS
        if isinstance(value, dict):
            return {name: longest(each) for name, each in value.items()}
        return [longest(each) for each in value] if isinstance(value, list) else value

    for name, rule in resources(template, "AWS::Events::Rule").items():
        if (size := len(json.dumps(longest(rule["Properties"].get("EventPattern", {}))))) > _PATTERN_CHARS:
            yield f"{name}: its pattern has {size:,} characters, and there may be {_PATTERN_CHARS:,}"


def concurrency(template: Template) -> Iterator[str]:
    """A mapping starts no more copies of a function than are reserved for it, or messages are throttled until they are given up:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""
    for name, mapping in resources(template, "AWS::Lambda::EventSourceMapping").items():
        most = mapping["Properties"]["ScalingConfig"]["MaximumConcurrency"]
        _, function = called(template, mapping["Properties"]["FunctionName"])
        reserved = function["Properties"].get("ReservedConcurrentExecutions", most)
        if reserved < most:
            yield f"{name}: it starts {most} copies, and {reserved} are reserved for its function"


def given_up(template: Template) -> Iterator[str]:
    """A queue for what was given up keeps it longer than the queue that it comes from: its age counts on
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html)."""
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


def called(template: Template, value: Any) -> tuple[str, dict[str, Any]]:
    """The logical ID of the function, or of the alias of one, that a value of a template names by its name or ARN, and the
    function."""
    text = json.dumps(value)
    functions = resources(template, "AWS::Lambda::Function")
    for kind in ("AWS::Lambda::Alias", "AWS::Lambda::Function"):
        for name, found in resources(template, kind).items():
            if f'"{name}"' in text:
                own = found["Properties"]["FunctionName"]["Ref"] if kind == "AWS::Lambda::Alias" else name
                return name, functions[own]
    raise LookupError(f"{text} names no function of the template")


_CALLS: Final[dict[str, Callable[[dict[str, Any]], list[Any]]]] = {
    "AWS::Lambda::EventSourceMapping": lambda told: [told["FunctionName"]],
    "AWS::Lambda::EventInvokeConfig": lambda told: [[told["FunctionName"], told["Qualifier"]]],
    "AWS::Lambda::Permission": lambda told: [told["FunctionName"]],
    "AWS::ApiGatewayV2::Integration": lambda told: [told["IntegrationUri"]],
    "AWS::Events::Rule": lambda told: [each["Arn"] for each in told["Targets"]],
    "AWS::StepFunctions::StateMachine": lambda told: [told["DefinitionString"]],
}
"""What names the functions that it calls, or is about calls of them, by the properties of its type."""


def starts(template: Template) -> Iterator[str]:
    """A snapshot, and processes that are kept ready, are of a version: who calls the function itself gets neither, and no
    permission of an alias. What excludes what: https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html and
    https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html"""
    functions, aliases = resources(template, "AWS::Lambda::Function"), resources(template, "AWS::Lambda::Alias")
    versions = resources(template, "AWS::Lambda::Version")
    aliased = {alias["Properties"]["FunctionName"]["Ref"]: name for name, alias in aliases.items()}
    for name, alias in aliases.items():
        told = alias["Properties"]
        function = functions[told["FunctionName"]["Ref"]]["Properties"]
        version = versions[told["FunctionVersion"]["Fn::GetAtt"][0]]["Properties"]
        if version["FunctionName"] != told["FunctionName"]:
            yield f"{name}: its version is of another function"
        snapshot = function.get("SnapStart", {}).get("ApplyOn", "None") != "None"
        ready = told.get("ProvisionedConcurrencyConfig", {}).get("ProvisionedConcurrentExecutions", 0)
        if snapshot and ready:
            yield f"{name}: SnapStart and provisioned concurrency exclude each other"
        if ready > function.get("ReservedConcurrentExecutions", ready):
            yield f"{name}: {ready} processes are to be kept ready, and fewer are reserved"
    for name, found in functions.items():
        function = found["Properties"]
        if function.get("SnapStart", {}).get("ApplyOn", "None") == "None":
            continue
        if name not in aliased:
            yield f"{name}: SnapStart is of versions, and nothing names one"
        if "FileSystemConfigs" in function:
            yield f"{name}: SnapStart and a file system exclude each other"
        if function.get("EphemeralStorage", {}).get("Size", 512) > 512:
            yield f"{name}: SnapStart takes no /tmp of more than 512 MB"
        if not _SNAPSHOTS.fullmatch(function["Runtime"]):
            yield f"{name}: SnapStart does not know {function['Runtime']}"
    for kind, of in _CALLS.items():
        for name, each in resources(template, kind).items():
            for value in of(each["Properties"]):
                text = json.dumps(value)
                passed_by = [own for own, alias in aliased.items() if f'"{own}"' in text and f'"{alias}"' not in text]
                if passed_by:
                    yield f"{name}: it calls {', '.join(passed_by)}, and not the alias"


_GATEWAY_SECONDS: Final = 30
"""That an HTTP API waits: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html"""
_ORIGIN_SECONDS: Final = (1, 60)
"""That CloudFront may be told to wait, unless AWS has been asked for more:
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/DownloadDistValuesOrigin.html"""


def ends(template: Template) -> Iterator[str]:
    """A function that clients wait for ends before the gateway gives it up, and that before CloudFront does: so whoever asked
    hears of it from the one that knows why."""
    for name, integration in resources(template, "AWS::ApiGatewayV2::Integration").items():
        _, function = called(template, integration["Properties"]["IntegrationUri"])
        if (timeout := function["Properties"].get("Timeout", 3)) >= _GATEWAY_SECONDS:
            yield f"{name}: its function takes up to {timeout} s, and the gateway gives up after {_GATEWAY_SECONDS}"
    low, high = _ORIGIN_SECONDS
    for name, distribution in resources(template, "AWS::CloudFront::Distribution").items():
        for origin in distribution["Properties"]["DistributionConfig"]["Origins"]:
            waits_for = origin["CustomOriginConfig"].get("OriginReadTimeout", _GATEWAY_SECONDS)
            if not low <= waits_for <= high:
                yield f"{name}: an origin may be waited for {low} to {high} s, and not {waits_for}"
            if waits_for <= _GATEWAY_SECONDS:
                yield f"{name}: it gives up after {waits_for} s, no later than the gateway"


_VENDED: Final = "/aws/vendedlogs/"


def delivered(template: Template) -> Iterator[str]:
    """A group that a service delivers to, which is each one but those of functions, shares an entry of the account's policy with
    all such groups, if its name begins as AWS asks: https://docs.aws.amazon.com/step-functions/latest/dg/bp-cwl.html"""
    of_functions = {
        function["Properties"].get("LoggingConfig", {}).get("LogGroup", {}).get("Ref")
        for function in resources(template, "AWS::Lambda::Function").values()
    }
    for name, group in resources(template, "AWS::Logs::LogGroup").items():
        named = group["Properties"].get("LogGroupName", "")
        beginning = named if isinstance(named, str) else named["Fn::Join"][1][0]
        if name not in of_functions and not beginning.startswith(_VENDED):
            yield f"{name}: a service delivers to it, and its name does not begin with {_VENDED}"


_SNAPSHOTS: Final = re.compile(r"python3\.(1[2-9]|[2-9]\d)")

FACTS: Final[tuple[Fact, ...]] = (waits, quotas, bounds, patterns, concurrency, given_up, starts, ends, delivered)


def findings(template: Template) -> list[str]:
    """All of them."""
    return [found for fact in FACTS for found in fact(template)]
