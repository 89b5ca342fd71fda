"""Decisions, by the rules of AWS's documentation."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.iam.conditions import Context, UnknownError
from tests.infra.iam.policies import Policies, Principal, Request, Right, parse

ROLE = "arn:aws:iam::111122223333:role/worker"
OTHER = "arn:aws:iam::111122223333:role/other"
ROOT = "arn:aws:iam::111122223333:root"
BUCKET = "arn:aws:s3:::bucket"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1"
QUEUE = "arn:aws:sqs:us-east-1:111122223333:queue"
RULE = "arn:aws:events:us-east-1:111122223333:rule/clock"


def allow(actions: object, resources: object = "*", **more: object) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def deny(actions: object, resources: object = "*", **more: object) -> dict[str, Any]:
    return {**allow(actions, resources, **more), "Effect": "Deny"}


def policies(*own: Mapping[str, Any], **of_resources: Mapping[str, Any]) -> Policies:
    """Of ``ROLE``, and of bucket, queue and key."""
    arns = {"bucket": BUCKET, "key": KEY, "queue": QUEUE, "role": ROLE}
    return Policies(
        {ROLE: parse(document(*own), "own"), OTHER: ()},
        {arns[name]: parse(document(statement), name) for name, statement in of_resources.items()},
    )


def document(*statements: Mapping[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def is_allowed(found: Policies, action: str, resource: str, who: str = ROLE, **keys: str) -> bool:
    context: Context = {name.replace("__", ":"): value for name, value in keys.items()}
    return not found.decide(Request(Principal(who), action, resource, context)).refusal


def test_what_nobody_allows_is_denied() -> None:
    assert not is_allowed(policies(), "s3:GetObject", f"{BUCKET}/a")
    assert not is_allowed(policies(allow("s3:GetObject", f"{BUCKET}/*")), "s3:PutObject", f"{BUCKET}/a")
    assert not is_allowed(policies(allow("s3:GetObject", f"{BUCKET}/*")), "s3:GetObject", "arn:aws:s3:::other/a")
    assert not is_allowed(policies(allow("s3:*")), "s3:GetObject", f"{BUCKET}/a", OTHER)


def test_actions_have_wildcards_and_no_case() -> None:
    assert is_allowed(policies(allow("S3:get*")), "s3:GetObject", f"{BUCKET}/a")
    assert is_allowed(policies(allow(["sqs:*", "s3:?etObject"])), "s3:GetObject", f"{BUCKET}/a")
    assert not is_allowed(policies(allow("s3:Get")), "s3:GetObject", f"{BUCKET}/a")


def test_all_but_some() -> None:
    but_action = {"Effect": "Allow", "NotAction": "s3:Delete*", "Resource": "*"}
    assert is_allowed(policies(but_action), "s3:GetObject", f"{BUCKET}/a")
    assert not is_allowed(policies(but_action), "s3:DeleteObject", f"{BUCKET}/a")
    but_resource = {"Effect": "Deny", "Action": "s3:*", "NotResource": [BUCKET, f"{BUCKET}/*"]}
    both = policies(allow("s3:*"), but_resource)
    assert is_allowed(both, "s3:GetObject", f"{BUCKET}/a")
    assert not is_allowed(both, "s3:GetObject", "arn:aws:s3:::other/a")


def test_a_denial_wins_wherever_it_stands() -> None:
    assert not is_allowed(policies(allow("s3:*"), deny("s3:GetObject")), "s3:GetObject", f"{BUCKET}/a")
    of_bucket = deny(
        "s3:*", f"{BUCKET}/*", Principal={"AWS": "*"}, Condition={"Bool": {"aws:SecureTransport": "false"}}
    )
    found = policies(allow("s3:*"), bucket=of_bucket)
    assert not is_allowed(found, "s3:GetObject", f"{BUCKET}/a", aws__securetransport="false")
    assert is_allowed(found, "s3:GetObject", f"{BUCKET}/a", aws__securetransport="true")
    by_account = policies(allow("s3:*"), bucket=deny("s3:*", f"{BUCKET}/*", Principal={"AWS": "111122223333"}))
    assert not is_allowed(by_account, "s3:GetObject", f"{BUCKET}/a")
    assert is_allowed(
        policies(allow("s3:*"), bucket=deny("s3:*", f"{BUCKET}/*", Principal={"AWS": OTHER})),
        "s3:GetObject",
        f"{BUCKET}/a",
    )


def test_the_resources_policy_may_allow_a_role_that_it_names() -> None:
    assert is_allowed(
        policies(bucket=allow("s3:*", f"{BUCKET}/*", Principal={"AWS": ROLE})), "s3:GetObject", f"{BUCKET}/a"
    )
    assert not is_allowed(
        policies(bucket=allow("s3:*", f"{BUCKET}/*", Principal={"AWS": ROOT})), "s3:GetObject", f"{BUCKET}/a"
    )


def test_a_service_is_allowed_by_the_resources_policy_only() -> None:
    statement = allow(
        "sqs:SendMessage",
        QUEUE,
        Principal={"Service": "events.amazonaws.com"},
        Condition={"ArnEquals": {"aws:SourceArn": RULE}},
    )
    found = policies(allow("sqs:*"), queue=statement)
    assert is_allowed(found, "sqs:SendMessage", QUEUE, "events.amazonaws.com", aws__sourcearn=RULE)
    assert not is_allowed(found, "sqs:SendMessage", QUEUE, "events.amazonaws.com", aws__sourcearn=f"{RULE}2")
    assert not is_allowed(found, "sqs:SendMessage", QUEUE, "events.amazonaws.com")
    assert not is_allowed(found, "sqs:SendMessage", QUEUE, "sns.amazonaws.com", aws__sourcearn=RULE)


def test_a_keys_own_policy_decides_who_else_may() -> None:
    """https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html"""
    own = allow("kms:Decrypt", KEY)
    assert is_allowed(policies(own, key=allow("kms:*", KEY, Principal={"AWS": ROOT})), "kms:Decrypt", KEY)
    assert not is_allowed(policies(key=allow("kms:*", KEY, Principal={"AWS": ROOT})), "kms:Decrypt", KEY)
    assert is_allowed(policies(key=allow("kms:Decrypt", KEY, Principal={"AWS": ROLE})), "kms:Decrypt", KEY)
    assert not is_allowed(policies(own, key=allow("kms:*", KEY, Principal={"AWS": OTHER})), "kms:Decrypt", KEY)


def test_a_role_is_assumed_by_whom_it_trusts() -> None:
    found = policies(allow("*"), role=allow("sts:AssumeRole", ROLE, Principal={"Service": ["lambda.amazonaws.com"]}))
    assert is_allowed(found, "sts:AssumeRole", ROLE, "lambda.amazonaws.com")
    assert not is_allowed(found, "sts:AssumeRole", ROLE, "events.amazonaws.com")
    assert not is_allowed(found, "sts:AssumeRole", ROLE, ROLE)


def test_the_rights_that_allowed_it_are_told() -> None:
    found = policies(allow(["s3:GetObject", "s3:PutObject"], [f"{BUCKET}/*", "arn:aws:s3:::other/*"]))
    decision = found.decide(Request(Principal(ROLE), "s3:GetObject", f"{BUCKET}/a"))
    assert decision.used == {Right("own", "s3:GetObject", f"{BUCKET}/*")}
    assert len(found.rights()) == 4


@pytest.mark.parametrize(
    "document",
    [
        {"Version": "2008-10-17", "Statement": []},
        {"Statement": []},
        {"Version": "2012-10-17", "Statement": [], "Default": "Allow"},
        document({**allow("s3:GetObject"), "NotPrincipal": "*"}),
        document({**allow("s3:GetObject"), "Principle": "*"}),
        document({**allow("s3:GetObject"), "Effect": "allow"}),
        document({**allow("s3:GetObject"), "NotAction": "s3:*"}),
        document(allow("s3")),
        document(allow("s*:GetObject")),
        document(allow("s3:GetObject", Condition={"StringLikes": {"s3:prefix": "a"}})),
        document(allow("s3:GetObject", Condition={"StringLike": {"s3:prefixes": "a"}})),
        document(allow("s3:GetObject", Principal={"Federated": "example.org"})),
        document(allow("s3:GetObject", Principal={"AWS": f"{ROLE}*"})),
        document(allow("s3:GetObject", Principal={"Service": "*"})),
    ],
)
def test_what_is_not_known_is_no_policy(document: dict[str, Any]) -> None:
    with pytest.raises(UnknownError):
        parse(document, "own")


def test_a_role_that_is_not_known_is_no_role() -> None:
    with pytest.raises(UnknownError):
        is_allowed(policies(), "s3:GetObject", f"{BUCKET}/a", f"{ROLE}2")
