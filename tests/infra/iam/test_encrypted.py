"""Principals that may use the deployment's buckets, table and queues may use the key that encrypts them, through those
services; nobody else may, and nobody may do more."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.conftest import ENCRYPTION_KEY
from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.declared import as_role, declared_calls
from tests.infra.iam.encrypted import asked_of_keys, keys, rights_as_requests
from tests.infra.iam.policies import Policies, Request, Right
from tests.infra.iam.templates import Stacks
from tests.infra.iam.test_declared import reviewed_other as other
from tests.infra.iam.test_declared import without

__all__ = ["other"]

Templates = dict[str, dict[str, Any]]


def asked(stacks: Stacks, policies: Policies) -> list[Request]:
    """All that KMS is asked for: by what the templates declare, and by whatever roles may do."""
    encrypted = keys(stacks)
    calls = [*declared_calls(stacks), *rights_as_requests(policies, encrypted)]
    return [request for call in calls for request in asked_of_keys(call, encrypted)]


def refusals(templates: Templates) -> list[str]:
    stacks = Stacks(templates)
    policies = stacks.policies()
    return [said for request in asked(stacks, policies) if (said := policies.decide(request).refusal)]


def key_of(stacks: Stacks) -> str:
    (key,) = set(keys(stacks).values())
    return key


def test_everything_that_keeps_data_is_encrypted_by_the_one_key(full: Templates, other: Templates) -> None:
    for templates, made in ((full, False), (other, True)):
        stacks = Stacks(templates)
        kept = {
            stacks.arn(stack, logical)
            for stack, logical, _ in stacks.each("AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue")
        }
        assert set(keys(stacks)) == kept
        assert len(kept) == 7 + (templates is full)  # the bucket of Spark jobs
        assert (key_of(stacks) != ENCRYPTION_KEY) is made


def test_by_default_aws_encrypts_by_keys_of_its_own(default: Templates) -> None:
    assert keys(Stacks(default)) == {}


def test_whoever_uses_what_is_encrypted_may_use_the_key(other: Templates) -> None:
    stacks = Stacks(other)
    requests = asked(stacks, stacks.policies())
    assert {request.action for request in requests} == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert {request.principal.name for request in requests if request.principal.is_service} == {"events.amazonaws.com"}
    assert len({request.principal for request in requests}) == 13  # eleven functions, and clients of tables
    assert refusals(other) == []


def test_so_may_roles_with_a_key_that_the_account_has_already(full: Templates) -> None:
    """That EventBridge may use it, only that key's own policy can say."""
    stacks = Stacks(full)
    policies = stacks.policies()
    requests = [request for request in asked(stacks, policies) if not request.principal.is_service]
    assert len({request.principal for request in requests}) == 12  # eleven functions, and Spark jobs
    assert [said for request in requests if (said := policies.decide(request).refusal)] == []
    assert any("events.amazonaws.com" in said for said in refusals(full))


def test_no_right_to_the_key_is_unused(full: Templates, other: Templates) -> None:
    for templates in (full, other):
        stacks = Stacks(templates)
        policies, key = stacks.policies(), key_of(stacks)
        used = {right for request in asked(stacks, policies) for right in policies.decide(request).used}
        granted = {right for right in policies.rights() if key in (right.resource, right.resource.rstrip("*"))}
        roles = {right for right in granted if right.action != "kms:*"}
        assert roles - used == set()
        assert roles


@pytest.mark.parametrize(
    ("service", "action"),
    [("s3", "kms:GenerateDataKey"), ("sqs", "kms:Decrypt"), ("sqs", "kms:GenerateDataKey"), ("", "kms:Decrypt")],
)
@pytest.mark.parametrize("name", ["Read", "Setup", "Diff"])
def test_nobody_uses_it_through_services_that_they_do_not_use(
    other: Templates, name: str, service: str, action: str
) -> None:
    stacks = Stacks(other)
    policies, key = stacks.policies(), key_of(stacks)
    (role,) = (
        stacks.arn(stack, logical)
        for stack, logical, _ in stacks.each("AWS::IAM::Role")
        if logical.startswith(f"Functions{name}Role")
    )
    through = {"kms__viaservice": f"{service}.us-east-1.amazonaws.com"} if service else {}
    assert policies.decide(as_role(role, action, key, "test", **through)).refusal


def test_each_right_to_the_key_is_missed_when_it_is_gone(other: Templates) -> None:
    stacks = Stacks(other)
    policies = stacks.policies()
    requests = asked(stacks, policies)
    uses: dict[Right, list[Request]] = {}
    for request in requests:
        for right in policies.decide(request).used:
            uses.setdefault(right, []).append(request)
    assert len(uses) > 15
    for right, some in uses.items():
        fewer = without(policies, right)
        assert any(fewer.decide(request).refusal for request in some), right


def statement_of(templates: Templates, kind: str, having: str) -> dict[str, Any]:
    return next(
        statement
        for template in templates.values()
        for each in template["Resources"].values()
        if each["Type"] == kind
        for statement in each["Properties"].get("KeyPolicy", each["Properties"].get("PolicyDocument", {}))["Statement"]
        if having in str(statement)
    )


def another_key(templates: Templates) -> None:
    statement_of(templates, "AWS::IAM::Policy", "kms:ViaService")["Resource"] = ENCRYPTION_KEY


def another_service(templates: Templates) -> None:
    through = statement_of(templates, "AWS::IAM::Policy", "kms:ViaService")
    through["Condition"]["StringLike"]["kms:ViaService"] = "ec2.us-east-1.amazonaws.com"


def no_events(templates: Templates) -> None:
    statement_of(templates, "AWS::KMS::Key", "events.amazonaws.com")["Principal"]["Service"] = "sns.amazonaws.com"


def events_of_others(templates: Templates) -> None:
    statement_of(templates, "AWS::KMS::Key", "events.amazonaws.com")["Condition"] = {
        "StringEquals": {"aws:SourceAccount": "111122223333"}
    }


def locked_out(templates: Templates) -> None:
    """The key's policy leaves nothing to the account's own."""
    for template in templates.values():
        for each in template["Resources"].values():
            if each["Type"] == "AWS::KMS::Key":
                found = each["Properties"]["KeyPolicy"]["Statement"]
                found[:] = [statement for statement in found if "AWS" not in statement["Principal"]]


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (another_key, "kms:Decrypt"),
        (another_service, "kms:Decrypt"),
        (no_events, "events.amazonaws.com: kms:"),
        (events_of_others, "events.amazonaws.com: kms:"),
        (locked_out, "kms:GenerateDataKey"),
    ],
)
def test_a_planted_fault_is_found(other: Templates, plant: Callable[[Templates], None], said: str) -> None:
    templates = copy.deepcopy(other)
    plant(templates)
    assert templates != other
    assert any(said in refusal for refusal in refusals(templates))


def test_what_is_not_known_to_ask_for_a_key_fails() -> None:
    request = as_role("arn:aws:iam::000000000000:role/r", "sqs:PurgeQueue", "arn:aws:sqs:q", "test")
    with pytest.raises(UnknownError, match=r"sqs:PurgeQueue"):
        list(asked_of_keys(request, {"arn:aws:sqs:q": "arn:aws:kms:k"}))
