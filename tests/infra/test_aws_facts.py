"""Facts about the templates that AWS checks and emulators do not: who may call whom, existing metrics, maximum lengths."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from tests.infra.conftest import LONG_NAMES, RESTORED
from tests.infra.facts import findings
from tests.infra.tools import policies, resources, templates

pytestmark = pytest.mark.ci

Templates = dict[str, dict[str, Any]]

POLICY_CHARS: Final = {"AWS::IAM::Policy": 10_240, "AWS::IAM::ManagedPolicy": 6_144}
"""Of all policies in a role together, and of a managed one, without spaces:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
ATTACHED: Final = 10
ENVIRONMENT_BYTES: Final = 4_096
"""https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

PSEUDO: Final = {"AWS::Partition": "aws-us-gov", "AWS::Region": "ap-southeast-1", "AWS::AccountId": "123456789012"}

METRICS: Final = {
    # https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-metrics.html
    "AWS/ApiGateway": ({"5xx", "Count", "Latency"}, {"ApiId"}),
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html
    "AWS/DynamoDB": (
        {"ReadThrottleEvents", "WriteThrottleEvents", "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"},
        {"TableName"},
    ),
    # https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
    "AWS/Lambda": ({"Errors", "Throttles", "Invocations", "Duration"}, {"FunctionName"}),
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    "AWS/SQS": ({"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}, {"QueueName"}),
    # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    "AWS/States": ({"ExecutionsFailed", "ExecutionsTimedOut"}, {"StateMachineArn"}),
}
"""Metrics that there are, and the dimensions with which."""


@pytest.fixture(
    scope="module",
    params=["default_assembly", "full_assembly", "crowded_assembly", "other_assembly", "adopted_assembly"],
)
def variant(request: pytest.FixtureRequest) -> Templates:
    """Templates of each variant of the deployment."""
    assembly: Path = request.getfixturevalue(request.param)
    return templates(assembly)


def rendered(value: Any) -> str:
    """What a value of a template may become, as long as it gets."""
    if isinstance(value, str):
        return value
    ((how, what),) = value.items()
    if how == "Fn::Join":
        return str(what[0]).join(map(rendered, what[1]))
    if how == "Ref" and what in PSEUDO:
        return PSEUDO[what]
    name = str(what[0] if isinstance(what, list) else what)
    return f"<{name}>".ljust(110, "-")


def plain(value: Any) -> Any:
    """A document with what the deployment makes of its values."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return rendered(value)
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def statements(template: dict[str, Any], *kinds: str) -> Iterator[dict[str, Any]]:
    for kind in kinds:
        for found in resources(template, kind).values():
            yield from plain(found["Properties"]["PolicyDocument"]["Statement"])


def several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_each_route_may_invoke_its_function(variant: Templates) -> None:
    """A route's ARN is ``<api>/<stage>/<method>/<path>``, that of the catch-all ``<api>/<stage>/$default``; a star of a
    permission takes slashes too (https://docs.aws.amazon.com/lambda/latest/api/API_AddPermission.html)."""
    api = variant["api"]
    functions = {
        name: rendered(found["Properties"]["IntegrationUri"])
        for name, found in resources(api, "AWS::ApiGatewayV2::Integration").items()
    }
    allowed = [
        (rendered(found["FunctionName"]), rendered(found["SourceArn"]))
        for found in (each["Properties"] for each in resources(api, "AWS::Lambda::Permission").values())
        if found["Principal"] == "apigateway.amazonaws.com"
    ]
    (gateway,) = resources(api, "AWS::ApiGatewayV2::Api")
    keys = set()
    for route in resources(api, "AWS::ApiGatewayV2::Route").values():
        key = route["Properties"]["RouteKey"]
        keys.add(key)
        function = functions[route["Properties"]["Target"]["Fn::Join"][1][1]["Ref"]]
        called = f"{rendered({'Ref': gateway})}/$default/{key.replace(' ', '')}"
        arn = f"arn:aws-us-gov:execute-api:ap-southeast-1:123456789012:{called}"
        assert any(to == function and fnmatchcase(arn, source) for to, source in allowed), key
    assert "$default" in keys


def test_whoever_notifies_may_publish(variant: Templates) -> None:
    """A topic's own policy replaces the one that let its account publish."""
    observability = variant["observability"]
    needed = {"cloudwatch.amazonaws.com"}
    if "budget" in variant:
        needed.add("budgets.amazonaws.com")
    (topic,) = resources(observability, "AWS::SNS::Topic")
    for service in needed:
        (statement,) = (
            each
            for each in statements(observability, "AWS::SNS::TopicPolicy")
            if each["Effect"] == "Allow" and service in several(each["Principal"].get("Service", []))
        )
        assert list(statement["Principal"]) == ["Service"]
        assert statement["Action"] == "sns:Publish"
        assert statement["Resource"] == rendered({"Ref": topic})
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": PSEUDO["AWS::AccountId"]}}


def watched(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of an alarm."""
    if "MetricName" in alarm:
        return [alarm]
    return [each["MetricStat"]["Metric"] for each in alarm["Metrics"] if "MetricStat" in each]


def test_alarms_watch_metrics_that_there_are(variant: Templates) -> None:
    own = {
        (change["MetricNamespace"], change["MetricName"])
        for template in variant.values()
        for found in resources(template, "AWS::Logs::MetricFilter").values()
        for change in found["Properties"]["MetricTransformations"]
    }
    for name, found in resources(variant["observability"], "AWS::CloudWatch::Alarm").items():
        for metric in watched(found["Properties"]):
            if (metric["Namespace"], metric["MetricName"]) in own:
                continue
            names, dimensions = METRICS[metric["Namespace"]]
            assert metric["MetricName"] in names, name
            assert {each["Name"] for each in metric["Dimensions"]} == dimensions, name


def test_alarms_of_requests_are_rates(variant: Templates) -> None:
    for name, found in resources(variant["observability"], "AWS::CloudWatch::Alarm").items():
        alarm = found["Properties"]
        assert alarm["TreatMissingData"] == "notBreaching", name
        if re.match(r"\w*(Errors|Throttles)", name):
            (expression,) = (each["Expression"] for each in alarm["Metrics"] if "Expression" in each)
            # What is refused is not among what was served.
            whole = r"\(counted \+ total\)" if "Throttles" in name else "total"
            assert re.fullmatch(rf"IF\(counted >= \d+, 100 \* counted / {whole}, 0\)", expression), name
            counted = {each["Id"]: each["MetricStat"]["Stat"] for each in alarm["Metrics"] if "MetricStat" in each}
            # Of an API's requests the number of samples is their count.
            assert counted == {"counted": "Sum", "total": "SampleCount" if name.startswith("Server") else "Sum"}, name


def test_alarms_are_silent_while_a_commit_waits_for_its_operation(default: Templates) -> None:
    from graveler.api.settings import DEFAULT_REQUEST_SECONDS

    (latency,) = (
        found["Properties"]
        for name, found in resources(default["observability"], "AWS::CloudWatch::Alarm").items()
        if name.startswith("Latency")
    )
    assert DEFAULT_REQUEST_SECONDS * 1000 < latency["Threshold"] < 29_000


def test_a_clean_up_that_fails_is_kept(variant: Templates) -> None:
    """The rule's own queue takes only what was not delivered."""
    api = variant["api"]
    (kept,) = resources(api, "AWS::Lambda::EventInvokeConfig").values()
    properties = kept["Properties"]
    assert "Maintain" in rendered(properties["FunctionName"])
    assert properties["MaximumRetryAttempts"] == 2
    destination = rendered(properties["DestinationConfig"]["OnFailure"]["Destination"])
    assert "DeadLetters" in destination
    (policy,) = (
        found
        for name, found in resources(api, "AWS::IAM::Policy").items()
        if name.startswith("FunctionsMaintainPolicy")
    )
    assert any(
        "sqs:SendMessage" in several(each["Action"]) and destination in several(each["Resource"])
        for each in plain(policy["Properties"]["PolicyDocument"]["Statement"])
    )


def test_a_minute_of_ingest_is_not_tried_again_in_the_next_one(default: Templates) -> None:
    (kept,) = resources(default["ingest"], "AWS::Lambda::EventInvokeConfig").values()
    assert kept["Properties"]["MaximumRetryAttempts"] == 0
    assert kept["Properties"]["MaximumEventAgeInSeconds"] == 60


def test_figures_of_deployments_are_apart(default: Templates, crowded: Templates) -> None:
    for deployed, name in ((default, "graveler"), (crowded, "c" * 20)):
        spaces = set()
        for template in deployed.values():
            for function in resources(template, "AWS::Lambda::Function").values():
                variables = function["Properties"].get("Environment", {}).get("Variables", {})
                if "GRAVELER_TABLES" in variables:
                    spaces.add(variables["POWERTOOLS_METRICS_NAMESPACE"])
            for found in resources(template, "AWS::Logs::MetricFilter").values():
                spaces |= {change["MetricNamespace"] for change in found["Properties"]["MetricTransformations"]}
        assert spaces == {name}
        drawn = json.dumps(resources(deployed["observability"], "AWS::CloudWatch::Dashboard"))
        assert f'\\"{name}\\",\\"ObjectRequests\\"' in drawn.replace("\\\\", "\\")


def test_s3_is_given_up_before_the_function_is(variant: Templates) -> None:
    seen = 0
    for template in variant.values():
        for name, function in resources(template, "AWS::Lambda::Function").items():
            variables = function["Properties"].get("Environment", {}).get("Variables", {})
            if "GRAVELER_TABLES" in variables:
                seen += 1
                assert 2 * int(variables["GRAVELER_READ_SECONDS"]) < function["Properties"]["Timeout"], name
    has_check = any(
        name.startswith("FunctionsCheck")
        for template in variant.values()
        for name in resources(template, "AWS::Lambda::Function")
    )
    assert seen == 10 + has_check


def test_only_the_bucket_of_jobs_is_emptied_with_its_stack(full: Templates) -> None:
    emptied = {stack: resources(template, "Custom::S3AutoDeleteObjects") for stack, template in full.items()}
    (one,) = emptied.pop("spark").values()
    assert not any(emptied.values())
    bucket = one["Properties"]["BucketName"]["Ref"]
    assert full["spark"]["Resources"][bucket]["DeletionPolicy"] == "Delete"


def test_the_stack_of_the_data_is_protected(
    default_assembly: Path, full_assembly: Path, crowded_assembly: Path
) -> None:
    for assembly, expected in ((default_assembly, True), (full_assembly, False), (crowded_assembly, True)):
        artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
        protected = {
            name for name, found in artifacts.items() if found.get("properties", {}).get("terminationProtection")
        }
        assert [name.endswith("-stateful") for name in protected] == [True] * expected


def test_state_machines_write_logs_without_data(variant: Templates) -> None:
    for stack in {"operations", "spark"} & set(variant):
        template = variant[stack]
        (machine,) = resources(template, "AWS::StepFunctions::StateMachine").values()
        logging = machine["Properties"]["LoggingConfiguration"]
        assert (logging["Level"], logging.get("IncludeExecutionData", False)) == ("ALL", False)
        group = logging["Destinations"][0]["CloudWatchLogsLogGroup"]["LogGroupArn"]["Fn::GetAtt"][0]
        named = template["Resources"][group]["Properties"]
        assert rendered(named["LogGroupName"]).startswith("/aws/vendedlogs/states/")
        assert named["RetentionInDays"] == 30
        delivers = [
            each
            for each in statements(template, "AWS::IAM::Policy")
            if "logs:CreateLogDelivery" in several(each["Action"])
        ]
        assert [each["Resource"] for each in delivers] == ["*"]
        assert "logs:PutResourcePolicy" in delivers[0]["Action"]


def test_functions_are_outputs(variant: Templates) -> None:
    for stack in {"api", "operations", "ingest"} & set(variant):
        functions = resources(variant[stack], "AWS::Lambda::Function")
        told = {
            name.removesuffix("Function").lower(): output["Value"]["Ref"]
            for name, output in variant[stack]["Outputs"].items()
            if name.endswith("Function")
        }
        assert set(told.values()) == set(functions)
        for verb, function in told.items():
            assert function.lower().startswith(f"functions{verb}")


def test_traces_are_off_by_default(default: Templates) -> None:
    assert "xray" not in json.dumps(default)
    for template in default.values():
        for function in resources(template, "AWS::Lambda::Function").values():
            assert "TracingConfig" not in function["Properties"]
        for machine in resources(template, "AWS::StepFunctions::StateMachine").values():
            assert not machine["Properties"].get("TracingConfiguration", {}).get("Enabled")


def test_whoever_traces_may(full: Templates) -> None:
    roles = set()
    for stack, template in full.items():
        for function in resources(template, "AWS::Lambda::Function").values():
            if "GRAVELER_TABLES" in function["Properties"].get("Environment", {}).get("Variables", {}):
                assert function["Properties"]["TracingConfig"] == {"Mode": "Active"}
                roles.add((stack, function["Properties"]["Role"]["Fn::GetAtt"][0]))
        for machine in resources(template, "AWS::StepFunctions::StateMachine").values():
            assert machine["Properties"]["TracingConfiguration"] == {"Enabled": True}
            roles.add((stack, machine["Properties"]["RoleArn"]["Fn::GetAtt"][0]))
    assert len(roles) == 12
    for stack, role in roles:
        allowed = {
            action
            for found in resources(full[stack], "AWS::IAM::Policy").values()
            if {"Ref": role} in found["Properties"]["Roles"]
            for each in found["Properties"]["PolicyDocument"]["Statement"]
            for action in several(each["Action"])
        }
        assert {"xray:PutTraceSegments", "xray:PutTelemetryRecords"} <= allowed, role


def test_policies_and_environments_fit(variant: Templates) -> None:
    for template in variant.values():
        inside: dict[str, int] = {}
        for kind, most in POLICY_CHARS.items():
            for name, found in resources(template, kind).items():
                chars = len(json.dumps(plain(found["Properties"]["PolicyDocument"]), separators=(",", ":")))
                assert chars <= most, name
                for role in found["Properties"].get("Roles", []) if kind == "AWS::IAM::Policy" else []:
                    inside[role["Ref"]] = inside.get(role["Ref"], 0) + chars
        assert all(chars <= POLICY_CHARS["AWS::IAM::Policy"] for chars in inside.values()), inside
        for name, role in resources(template, "AWS::IAM::Role").items():
            assert len(role["Properties"].get("ManagedPolicyArns", [])) <= ATTACHED, name
        for name, function in resources(template, "AWS::Lambda::Function").items():
            variables = function["Properties"].get("Environment", {}).get("Variables", {})
            assert sum(len(each) + len(rendered(value)) for each, value in variables.items()) <= ENVIRONMENT_BYTES, name


def test_a_restored_table_takes_over(crowded: Templates) -> None:
    """The functions, their rights, Spark jobs and alarms; the old table stays, and stays exported."""
    (own,) = resources(crowded["stateful"], "AWS::DynamoDB::Table")
    for stack in ("api", "operations", "ingest", "spark", "observability"):
        text = json.dumps(crowded[stack])
        assert own not in text, "nothing asks for the old table"
        assert RESTORED in text, stack
        told = [
            function["Properties"]["Environment"]["Variables"].get("GRAVELER_TABLES")
            for function in resources(crowded[stack], "AWS::Lambda::Function").values()
            if "Environment" in function["Properties"]
        ]
        assert set(told) <= {f"dynamodb://{RESTORED}", None}
        for policy in policies(crowded[stack]):
            for each in policy["Properties"]["PolicyDocument"]["Statement"]:
                if any(action.startswith("dynamodb:") for action in several(each["Action"])):
                    assert f":table/{RESTORED}" in json.dumps(each["Resource"])
    assert json.dumps(crowded["stateful"]["Outputs"]).count(own) >= 2


def test_each_of_many_buckets_may_be_used(crowded: Templates) -> None:
    assert len(LONG_NAMES) > 35
    for stack in ("api", "operations", "ingest", "spark"):
        for what in ("", "/*"):
            named = {
                resource.rpartition(":::")[2]
                for policy in policies(crowded[stack])
                for each in plain(policy["Properties"]["PolicyDocument"]["Statement"])
                for resource in several(each["Resource"])
            }
            assert {name + what for name in LONG_NAMES} <= named
    for stack in ("api", "operations", "ingest"):
        for function in resources(crowded[stack], "AWS::Lambda::Function").values():
            if "GRAVELER_TABLES" in function["Properties"]["Environment"]["Variables"]:
                told = function["Properties"]["Environment"]["Variables"]["GRAVELER_DATA_BUCKETS"]
                assert told.split(",") == list(LONG_NAMES)


def test_more_buckets_than_a_function_may_be_told_are_refused() -> None:
    from infra.settings import SettingsError
    from infra.settings_files import read_settings

    names = ",".join([*LONG_NAMES, "one-more-" + "x" * 40])
    with pytest.raises(SettingsError, match="have 2,418 characters together; 2,400 fit"):
        read_settings({"graveler:data_buckets": names}.get)
    assert read_settings({"graveler:data_buckets": ",".join(LONG_NAMES)}.get).data_buckets == LONG_NAMES
    login = {"graveler:data_buckets": names[:2300].rpartition(",")[0], "graveler:aws_login": "x" * 256}
    with pytest.raises(
        SettingsError, match=r"ingest_buckets, checks and aws_login have 2,\d+ characters together; 2,400 fit"
    ):
        read_settings(login.get)


def test_nothing_is_too_large_too_many_or_too_short(variant: Templates) -> None:
    assert {name: found for name, template in variant.items() if (found := findings(template))} == {}


Template = dict[str, Any]


def _properties(template: Template, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(resources(template, kind).values()))["Properties"]
    return found


def _sooner(template: Template) -> None:
    for queue in resources(template, "AWS::SQS::Queue").values():
        queue["Properties"]["VisibilityTimeout"] = 960


def _with_a_window(template: Template) -> None:
    _properties(template, "AWS::Lambda::EventSourceMapping")["MaximumBatchingWindowInSeconds"] = 1


def _many(template: Template) -> None:
    template["Resources"].update({f"More{n}": {"Type": "AWS::SNS::Topic", "Properties": {}} for n in range(500)})


def _more_routes(template: Template) -> None:
    route = next(iter(resources(template, "AWS::ApiGatewayV2::Route").values()))
    template["Resources"].update({f"More{n}": route for n in range(300)})


def _more_layers(template: Template) -> None:
    _properties(template, "AWS::Lambda::Function")["Layers"] *= 6


def _more_targets(template: Template) -> None:
    _properties(template, "AWS::Events::Rule")["Targets"] *= 6


def _older_events(template: Template) -> None:
    _properties(template, "AWS::Lambda::EventInvokeConfig")["MaximumEventAgeInSeconds"] = 21_601


def _too_often(template: Template) -> None:
    _properties(template, "AWS::Lambda::EventInvokeConfig")["MaximumRetryAttempts"] = 3


def _too_long(template: Template) -> None:
    for queue in resources(template, "AWS::SQS::Queue").values():
        queue["Properties"]["MessageRetentionPeriod"] = 1_209_601


def _gone_before_it_is_given_up(template: Template) -> None:
    for queue in resources(template, "AWS::SQS::Queue").values():
        queue["Properties"]["MessageRetentionPeriod"] = 20_000


def _fewer_copies(template: Template) -> None:
    _of_function(template, "Maintain")["ReservedConcurrentExecutions"] = 1


def _long_pattern(template: Template) -> None:
    _properties(template, "AWS::Events::Rule")["EventPattern"] = {"detail": {"bucket": {"name": list(LONG_NAMES)}}}


def _in_a_group_without_a_name(template: Template) -> None:
    del _properties_of(template, "AccessLog")["LogGroupName"]


def _in_a_group_of_another_folder(template: Template) -> None:
    _properties_of(template, "AccessLog")["LogGroupName"] = "/aws/apigateway/graveler"


def _properties_of(template: Template, prefix: str) -> dict[str, Any]:
    (properties,) = (each["Properties"] for name, each in template["Resources"].items() if name.startswith(prefix))
    assert isinstance(properties, dict)
    return properties


def _huge(template: Template) -> None:
    template["Description"] = "x" * 1_000_000


def _of_function(template: Template, verb: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each["Properties"]
        for name, each in resources(template, "AWS::Lambda::Function").items()
        if name.startswith(f"Functions{verb}")
    )
    return found


def _kept_ready_too(template: Template) -> None:
    for name, alias in resources(template, "AWS::Lambda::Alias").items():
        if name.startswith("FunctionsRead"):
            alias["Properties"]["ProvisionedConcurrencyConfig"] = {"ProvisionedConcurrentExecutions": 1}


def _fewer_reserved(template: Template) -> None:
    _of_function(template, "Maintain")["ReservedConcurrentExecutions"] = 0


def _without_an_alias(template: Template) -> None:
    """Everybody calls the function itself."""
    (name,) = (name for name in resources(template, "AWS::Lambda::Alias") if name.startswith("FunctionsRead"))
    function = template["Resources"].pop(name)["Properties"]["FunctionName"]["Ref"]
    template["Resources"] = json.loads(json.dumps(template["Resources"]).replace(name, function))


def _with_a_file_system(template: Template) -> None:
    _of_function(template, "Read")["FileSystemConfigs"] = [{"Arn": "arn", "LocalMountPath": "/mnt/cache"}]


def _more_scratch(template: Template) -> None:
    _of_function(template, "Read")["EphemeralStorage"] = {"Size": 513}


def _older_python(template: Template) -> None:
    _of_function(template, "Read")["Runtime"] = "python3.11"


def _slower(template: Template) -> None:
    _of_function(template, "Read")["Timeout"] = 30


def _less_patient(seconds: int) -> Callable[[Template], None]:
    def spoil(template: Template) -> None:
        told = _properties(template, "AWS::CloudFront::Distribution")["DistributionConfig"]
        told["Origins"][0]["CustomOriginConfig"]["OriginReadTimeout"] = seconds

    return spoil


def _another_version(template: Template) -> None:
    versions = resources(template, "AWS::Lambda::Version")
    found = next(each["Properties"] for name, each in versions.items() if name.startswith("FunctionsRead"))
    found["FunctionName"] = {"Ref": "FunctionsWrite922666AA"}


def _around_the_alias(kind: str, key: str) -> Callable[[Template], None]:
    def spoil(template: Template) -> None:
        aliases = resources(template, "AWS::Lambda::Alias")
        for each in resources(template, kind).values():
            text = json.dumps(each["Properties"][key])
            for name, alias in aliases.items():
                text = text.replace(name, alias["Properties"]["FunctionName"]["Ref"])
            each["Properties"][key] = json.loads(text)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_kept_ready_too, "SnapStart and provisioned concurrency exclude each other"),
        (_fewer_reserved, "1 processes are to be kept ready, and fewer are reserved"),
        (_without_an_alias, "SnapStart is of versions, and nothing names one"),
        (_with_a_file_system, "SnapStart and a file system exclude each other"),
        (_more_scratch, "SnapStart takes no /tmp of more than 512 MB"),
        (_older_python, "SnapStart does not know python3.11"),
        (_another_version, "its version is of another function"),
        (_slower, "its function takes up to 30 s, and the gateway gives up after 30"),
        (_less_patient(30), "it gives up after 30 s, no later than the gateway"),
        (_less_patient(61), "may be waited for 1 to 60 s, and not 61"),
        *(
            (_around_the_alias(kind, key), "and not the alias")
            for kind, key in (
                ("AWS::ApiGatewayV2::Integration", "IntegrationUri"),
                ("AWS::Events::Rule", "Targets"),
                ("AWS::Lambda::EventInvokeConfig", "Qualifier"),
                ("AWS::Lambda::EventSourceMapping", "FunctionName"),
                ("AWS::Lambda::Permission", "FunctionName"),
            )
        ),
    ],
)
def test_a_fault_of_starts_and_ends_that_was_planted_is_found(
    other: Templates, spoil: Callable[[Template], None], said: str
) -> None:
    template = deepcopy(other["api"])
    assert findings(template) == []
    spoil(template)
    assert any(said in found for found in findings(template)), findings(template)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_sooner, "come again after 960 s, and have to stay away for 5400"),
        (_with_a_window, "have to stay away for 5401"),
        (_many, "Resources, and a template has at most 500"),
        (_more_routes, "AWS::ApiGatewayV2::Route, and an API has at most 300"),
        (_more_layers, "6 Layers, and there may be 5"),
        (_more_targets, "6 Targets, and there may be 5"),
        (_older_events, "MaximumEventAgeInSeconds must be 60 to 21600"),
        (_too_often, "MaximumRetryAttempts must be at most 2"),
        (_too_long, "MessageRetentionPeriod 1209601 must be 60 to 1209600"),
        (_gone_before_it_is_given_up, "tries take up to 27000 s, and it keeps messages for 20000"),
        (_fewer_copies, "it starts 2 copies, and 1 are reserved for its function"),
        (_long_pattern, "characters, and there may be 2,048"),
        (_in_a_group_without_a_name, "does not begin with /aws/vendedlogs/"),
        (_in_a_group_of_another_folder, "does not begin with /aws/vendedlogs/"),
        (_huge, "bytes, and a template has at most 1,000,000"),
    ],
)
def test_a_fault_that_was_planted_is_found(default: Templates, spoil: Callable[[Template], None], said: str) -> None:
    template = deepcopy(default["api"])
    spoil(template)
    assert any(said in found for found in findings(template)), findings(template)
