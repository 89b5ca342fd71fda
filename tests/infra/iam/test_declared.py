"""The policies in the templates allow what the templates ask services to do; planted mistakes are found."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.declared import declared_calls
from tests.infra.iam.policies import Policies, Right, Statement
from tests.infra.iam.templates import Stacks
from tests.infra.test_stacks import SNAPSHOT, SNAPSHOT_OF_OTHER

Templates = dict[str, dict[str, Any]]


@pytest.fixture
def snapshot() -> Templates:
    """The reviewed templates."""
    read: Templates = json.loads(SNAPSHOT.read_text())
    return read


@pytest.fixture
def reviewed_other() -> Templates:
    """Those of a deployment with other options."""
    read: Templates = json.loads(SNAPSHOT_OF_OTHER.read_text())
    return read


def refusals(templates: Templates) -> list[str]:
    stacks = Stacks(templates)
    policies = stacks.policies()
    return [said for call in declared_calls(stacks) if (said := policies.decide(call).refusal)]


def test_services_may_do_what_the_templates_ask(snapshot: Templates, reviewed_other: Templates) -> None:
    assert refusals(snapshot) == []
    assert refusals(reviewed_other) == []


def test_services_may_do_it_in_every_variant(default: Templates, full: Templates, other: Templates) -> None:
    assert refusals(default) == []
    assert refusals(full) == []
    assert refusals(other) == []


def test_who_may_call_a_function_may_not_call_its_alias(reviewed_other: Templates) -> None:
    """A permission, or a right, of the function alone is found to be missing."""
    templates = copy.deepcopy(reviewed_other)
    for template in templates.values():
        aliases = {
            name: each["Properties"]["FunctionName"]["Ref"]
            for name, each in template["Resources"].items()
            if each["Type"] == "AWS::Lambda::Alias"
        }
        for each in template["Resources"].values():
            properties = each.get("Properties", {})
            if each["Type"] == "AWS::Lambda::Permission" and properties["FunctionName"].get("Ref") in aliases:
                function = aliases[properties["FunctionName"]["Ref"]]
                properties["FunctionName"] = {"Fn::GetAtt": [function, "Arn"]}
            if each["Type"] == "AWS::IAM::Policy":
                for granted in properties["PolicyDocument"]["Statement"]:
                    if isinstance(granted["Resource"], dict) and granted["Resource"].get("Ref") in aliases:
                        granted["Resource"] = {"Fn::GetAtt": [aliases[granted["Resource"]["Ref"]], "Arn"]}
    faults = refusals(templates)
    called = {stack for stack in ("api", "ingest", "operations") if any(f" of {stack}/" in each for each in faults)}
    assert called == {"operations"}
    for source in (
        "route $default",
        "route POST /api/v1/{proxy+}",
        "rule api/Sweep",
        "rule ingest/Clock",
        "state Plan",
    ):
        assert any(source in each for each in faults), source


def test_each_right_that_a_call_uses_is_missed_when_it_is_gone(snapshot: Templates) -> None:
    stacks = Stacks(snapshot)
    policies = stacks.policies()
    calls = list(declared_calls(stacks))
    uses: dict[Right, list[int]] = {}
    for number, call in enumerate(calls):
        for right in policies.decide(call).used:
            uses.setdefault(right, []).append(number)
    assert len(uses) > 40
    for right, numbers in uses.items():
        fewer = without(policies, right)
        others = set.intersection(*(set(policies.decide(calls[number]).used) for number in numbers)) - {right}
        if not others:
            assert any(fewer.decide(calls[number]).refusal for number in numbers), right


def without(policies: Policies, right: Right) -> Policies:
    """The policies with this right taken away."""

    def fewer(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            replace(each, actions=tuple(action for action in each.actions if action != right.action))
            if right in each.rights()
            else each
            for each in statements
        )

    return Policies(
        {arn: fewer(statements) for arn, statements in policies.roles.items()},
        {arn: fewer(statements) for arn, statements in policies.resources.items()},
    )


def of_kind(templates: Templates, kind: str, having: str = "") -> dict[str, Any]:
    """The properties of the first resource of a type that has a text in it."""
    return next(
        each["Properties"]
        for template in templates.values()
        for each in template["Resources"].values()
        if each["Type"] == kind and having in json.dumps(each)
    )


def statement(templates: Templates, kind: str, action: str) -> dict[str, Any]:
    """The first statement of such a policy that allows an action."""
    return next(
        each
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == kind
        for each in resource["Properties"]["PolicyDocument"]["Statement"]
        if action in each["Action"] and each["Effect"] == "Allow"
    )


def no_action(templates: Templates) -> None:
    statement(templates, "AWS::IAM::Policy", "sqs:DeleteMessage")["Action"].remove("sqs:DeleteMessage")


def wrong_arn(templates: Templates) -> None:
    grant = statement(templates, "AWS::IAM::Policy", "lambda:InvokeFunction")
    grant["Resource"] = "arn:aws:lambda:us-east-1:000000000000:function:another"


def wrong_source(templates: Templates) -> None:
    of_kind(templates, "AWS::Lambda::Permission", "Sweep")["SourceArn"] = {"Fn::GetAtt": ["DeadLettersBBF8BAAB", "Arn"]}


def no_principal(templates: Templates) -> None:
    del statement(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")["Principal"]


def wrong_principal(templates: Templates) -> None:
    grant = statement(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")
    grant["Principal"]["Service"] = "sns.amazonaws.com"


def wrong_account(templates: Templates) -> None:
    grant = statement(templates, "AWS::SNS::TopicPolicy", "sns:Publish")
    grant["Condition"]["StringEquals"]["aws:SourceAccount"] = "111122223333"


def untrusted(templates: Templates) -> None:
    grant = of_kind(templates, "AWS::IAM::Role", "lambda.amazonaws.com")["AssumeRolePolicyDocument"]["Statement"][0]
    grant["Principal"]["Service"] = "ec2.amazonaws.com"


def denied(templates: Templates) -> None:
    grant = of_kind(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")["PolicyDocument"]["Statement"][0]
    grant["Condition"] = {"Bool": {"aws:SecureTransport": "true"}}


def no_permission_of_the_rest(templates: Templates) -> None:
    permissions = templates["api"]["Resources"]
    for name in [name for name, each in permissions.items() if "/$default" in json.dumps(each)]:
        if permissions[name]["Type"] == "AWS::Lambda::Permission":
            del permissions[name]


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (no_action, "sqs:DeleteMessage"),
        (wrong_arn, "lambda:InvokeFunction"),
        (wrong_source, "rule api/Sweep"),
        (no_principal, "events.amazonaws.com: sqs:SendMessage"),
        (wrong_principal, "events.amazonaws.com: sqs:SendMessage"),
        (wrong_account, "sns:Publish"),
        (untrusted, "lambda.amazonaws.com: sts:AssumeRole"),
        (denied, "denied by"),
        (no_permission_of_the_rest, "route $default"),
    ],
)
def test_a_planted_fault_is_found(snapshot: Templates, plant: Callable[[Templates], None], said: str) -> None:
    before = copy.deepcopy(snapshot)
    plant(snapshot)
    assert snapshot != before
    assert any(said in refusal for refusal in refusals(snapshot))


def bounded(templates: Templates) -> None:
    of_kind(templates, "AWS::IAM::Role")["PermissionsBoundary"] = "arn:aws:iam::000000000000:policy/b"


def managed(templates: Templates) -> None:
    of_kind(templates, "AWS::IAM::Role")["ManagedPolicyArns"] = ["arn:aws:iam::aws:policy/AdministratorAccess"]


def unread(templates: Templates) -> None:
    of_kind(templates, "AWS::DynamoDB::Table")["ResourcePolicy"] = {"PolicyDocument": {}}


def element(templates: Templates) -> None:
    statement(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")["NotPrincipal"] = "*"


def operator(templates: Templates) -> None:
    statement(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")["Condition"] = {
        "IpAddress": {"aws:SourceIp": "::/0"}
    }


def condition_key(templates: Templates) -> None:
    grant = statement(templates, "AWS::SQS::QueuePolicy", "sqs:SendMessage")
    grant["Condition"] = {"StringNotEquals": {"aws:SourceVpc": "vpc-1"}}


def intrinsic(templates: Templates) -> None:
    statement(templates, "AWS::IAM::Policy", "dynamodb:GetItem")["Resource"] = {"Fn::If": ["Big", "*", "*"]}


def attribute(templates: Templates) -> None:
    statement(templates, "AWS::IAM::Policy", "dynamodb:GetItem")["Resource"] = {
        "Fn::GetAtt": ["FunctionsRead241DD847", "SnapStartResponse.ApplyOn"]
    }


def parameter(templates: Templates) -> None:
    statement(templates, "AWS::IAM::Policy", "dynamodb:GetItem")["Resource"] = {"Ref": "TableName"}


def target(templates: Templates) -> None:
    of_kind(templates, "AWS::Events::Rule")["Targets"][0]["Arn"] = "arn:aws:kinesis:us-east-1:000000000000:stream/s"


def task(templates: Templates) -> None:
    machine = of_kind(templates, "AWS::StepFunctions::StateMachine")
    machine["DefinitionString"] = json.loads(
        json.dumps(machine["DefinitionString"]).replace("lambda:invoke", "sns:publish")
    )


def notification(templates: Templates) -> None:
    of_kind(templates, "AWS::S3::Bucket")["NotificationConfiguration"] = {"QueueConfigurations": []}


def permission(templates: Templates) -> None:
    of_kind(templates, "AWS::Lambda::Permission")["FunctionUrlAuthType"] = "NONE"


@pytest.mark.parametrize(
    "plant",
    [
        bounded,
        managed,
        unread,
        element,
        operator,
        condition_key,
        intrinsic,
        attribute,
        parameter,
        target,
        task,
        notification,
        permission,
    ],
)
def test_what_is_not_known_fails(snapshot: Templates, plant: Callable[[Templates], None]) -> None:
    before = copy.deepcopy(snapshot)
    plant(snapshot)
    assert snapshot != before
    with pytest.raises(UnknownError):
        refusals(snapshot)
