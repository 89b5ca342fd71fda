"""Wildcards, variables and operators, by the examples of AWS's documentation."""

import pytest

from tests.infra.iam.conditions import Context, UnknownError, holds, like, like_arn, like_resource

USER = "arn:aws:iam::123456789012:user"


@pytest.mark.parametrize(
    ("pattern", "resource", "matches"),
    [
        # reference_policies_elements_resource.html
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket/1/test/object.jpg", True),
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket/1/2/test/3/object.jpg", True),
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket/1///test///object.jpg", True),
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket//test/object.jpg", True),
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket/1-test/object.jpg", False),
        ("arn:aws:s3:::bucket/*/test/*", "arn:aws:s3:::bucket/test/object.jpg", False),
        (f"{USER}/accounting/*", f"{USER}/accounting/bob", True),
        (f"{USER}/accounting/*", f"{USER}/Accounting/bob", False),
        ("arn:aws:sqs:us-east-1:1:queue?", "arn:aws:sqs:us-east-1:1:queue1", True),
        ("arn:aws:sqs:us-east-1:1:queue?", "arn:aws:sqs:us-east-1:1:queue", False),
        # A bucket is none of its objects, and none of them is the bucket.
        ("arn:aws:s3:::bucket", "arn:aws:s3:::bucket/key", False),
        ("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket", False),
        # The end of a segment goes on beyond colons, its middle does not.
        ("arn:aws:logs:us-east-1:1:log-group:g:*", "arn:aws:logs:us-east-1:1:log-group:g:log-stream:s", True),
        ("arn:aws:states:*:1:execution:m:*", "arn:aws:states:us-east-1:1:execution:m:run", True),
        ("arn:aws:sqs:us-east-1:1:a*b", "arn:aws:sqs:us-east-1:1:a:b", False),
        ("*", "arn:aws:s3:::bucket/key", True),
        # Nothing else is special, as it is in regular expressions.
        ("arn:aws:s3:::my.bucket/*", "arn:aws:s3:::my-bucket/key", False),
    ],
)
def test_wildcards_of_resources(pattern: str, resource: str, matches: bool) -> None:
    assert like_resource(pattern, resource, {}, widely=False) is matches


def test_a_denial_takes_a_wildcard_to_go_beyond_colons() -> None:
    assert like_resource("arn:aws:sqs:us-east-1:1:a*b", "arn:aws:sqs:us-east-1:1:a:b", {}, widely=True)


def test_policy_variables() -> None:
    context: Context = {"aws:principalaccount": "1*"}
    assert like("home/${aws:PrincipalAccount}/*", "home/1*/x", context)
    assert not like("home/${aws:PrincipalAccount}/*", "home/12/x", context)  # its value is no pattern
    assert not like("home/${aws:SourceAccount}/*", "home//x", context)  # which this request lacks
    assert like("home/${aws:SourceAccount, 'nobody'}/*", "home/nobody/x", context)
    assert like("a${*}b", "a*b", {})
    assert not like("a${*}b", "axb", {})
    assert like("a${?}${$}b", "a?$b", {})


def test_each_part_of_an_arn_by_itself() -> None:
    given = "arn:aws:execute-api:us-east-1:1:api/$default/GET/a"
    assert like_arn("arn:aws:execute-api:us-east-1:1:api/*/*", given, {})
    assert not like_arn("arn:aws:execute-api:*:api/*", given, {})
    assert not like_arn("*", given, {})


KEYS: Context = {
    "aws:sourceaccount": "1",
    "aws:sourcearn": "arn:aws:events:us-east-1:1:rule/r",
    "aws:securetransport": "true",
    "s3:tlsversion": "1.2",
    "dynamodb:leadingkeys": ("a", "b"),
    "s3:prefix": "Home/x",
}


@pytest.mark.parametrize(
    ("operator", "key", "wanted", "expected"),
    [
        ("StringEquals", "aws:SourceAccount", ("2", "1"), True),
        ("StringEquals", "AWS:sourceaccount", ("1",), True),
        ("StringEquals", "s3:prefix", ("Home/*",), False),
        ("StringEquals", "s3:prefix", ("Home/${*}",), False),
        ("StringEquals", "s3:prefix", ("home/x",), False),
        ("StringEqualsIgnoreCase", "s3:prefix", ("home/X",), True),
        ("StringNotEquals", "aws:SourceAccount", ("2", "1"), False),
        ("StringNotEquals", "aws:SourceAccount", ("2",), True),
        ("StringLike", "s3:prefix", ("Home/*",), True),
        ("StringNotLike", "s3:prefix", ("Home/*",), False),
        ("ArnEquals", "aws:SourceArn", ("arn:aws:events:*:1:rule/*",), True),
        ("ArnLike", "aws:SourceArn", ("arn:aws:events:us-east-1:1:rule/s",), False),
        ("ArnNotLike", "aws:SourceArn", ("arn:aws:events:us-east-1:1:rule/s",), True),
        ("Bool", "aws:SecureTransport", ("false",), False),
        ("NumericLessThan", "s3:TlsVersion", ("1.2",), False),
        ("NumericGreaterThanEquals", "s3:TlsVersion", ("1.20",), True),
        ("NumericNotEquals", "s3:TlsVersion", ("1.3",), True),
        ("Null", "aws:SourceArn", ("false",), True),
        ("Null", "aws:PrincipalArn", ("true",), True),
        # What a request lacks: operators that negate hold, others do not, unless they ask for it.
        ("StringEquals", "aws:PrincipalArn", ("1",), False),
        ("StringNotEquals", "aws:PrincipalArn", ("1",), True),
        ("StringEqualsIfExists", "aws:PrincipalArn", ("1",), True),
        ("StringEqualsIfExists", "aws:SourceAccount", ("2",), False),
        ("BoolIfExists", "aws:SecureTransport", ("true",), True),
        # reference_policies_condition-single-vs-multi-valued-context-keys.html
        ("ForAllValues:StringEquals", "dynamodb:LeadingKeys", ("a", "b", "c"), True),
        ("ForAllValues:StringEquals", "dynamodb:LeadingKeys", ("a",), False),
        ("ForAnyValue:StringEquals", "dynamodb:LeadingKeys", ("a",), True),
        ("ForAnyValue:StringEquals", "dynamodb:LeadingKeys", ("c",), False),
        ("ForAllValues:StringLike", "aws:PrincipalArn", ("c",), True),
        ("ForAnyValue:StringLike", "aws:PrincipalArn", ("c",), False),
        ("ForAnyValue:StringNotEquals", "dynamodb:LeadingKeys", ("a",), True),
        ("ForAllValues:StringNotEquals", "dynamodb:LeadingKeys", ("a",), False),
    ],
)
def test_operators(operator: str, key: str, wanted: tuple[str, ...], expected: bool) -> None:
    assert holds(operator, key, wanted, KEYS) is expected


@pytest.mark.parametrize(
    ("operator", "key", "value"),
    [
        ("StringEqual", "aws:SourceAccount", "1"),
        ("DateGreaterThan", "aws:SourceAccount", "2026-01-01T00:00:00Z"),
        ("NullIfExists", "aws:SourceAccount", "true"),
        ("ForSomeValues:StringEquals", "dynamodb:LeadingKeys", "a"),
        ("StringEquals", "dynamodb:LeadingKeys", "a"),
        ("StringEquals", "aws:SourceVpce", "vpce-1"),
        ("StringEquals", "aws:SourceAccount", "${aws:username}"),
        ("Bool", "aws:SecureTransport", "no"),
    ],
)
def test_what_is_not_known_is_no_answer(operator: str, key: str, value: str) -> None:
    with pytest.raises(UnknownError):
        holds(operator, key, (value,), KEYS)
