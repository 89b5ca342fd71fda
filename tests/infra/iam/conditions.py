"""Wildcards, policy variables and condition operators.

Sources, all of the IAM User Guide (https://docs.aws.amazon.com/IAM/latest/UserGuide/):
``reference_policies_elements_resource.html``, ``reference_policies_variables.html``,
``reference_policies_elements_condition_operators.html`` and
``reference_policies_condition-single-vs-multi-valued-context-keys.html``.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final


class UnknownError(Exception):
    """A policy, a template or a call holds what the evaluator does not know, so it can conclude nothing."""


Context = Mapping[str, str | tuple[str, ...]]
"""Condition keys of a request, in lower case, and their values; a tuple is a key of several values."""

KNOWN_KEYS: Final = frozenset(
    (
        "aws:currenttime",
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principalisawsservice",
        "aws:requestedregion",
        "aws:resourceaccount",
        "aws:securetransport",
        "aws:sourceaccount",
        "aws:sourcearn",
        "dynamodb:leadingkeys",
        "elasticfilesystem:accessedviamounttarget",
        "elasticfilesystem:accesspointarn",
        "iam:passedtoservice",
        "kms:calleraccount",
        "kms:viaservice",
        "s3:prefix",
        "s3:tlsversion",
        "states:httpendpoint",
        "states:httpmethod",
    )
)
"""Keys that requests here have where AWS fills them in. A condition on another is an error: it would only seem to be absent."""

_TOKENS: Final = re.compile(r"(\$\{[^}]*\}|\*|\?)")


class _AbsentError(Exception):
    """A policy variable has no value, so what holds it matches nothing."""


def like(pattern: str, value: str, context: Context) -> bool:
    """Whether ``value`` has the form of ``pattern``, whose ``*`` are any characters."""
    try:
        return _compiled(_expression(pattern, context)).fullmatch(value) is not None
    except _AbsentError:
        return False


def like_resource(pattern: str, value: str, context: Context, *, widely: bool) -> bool:
    """Whether a resource has the form of a pattern. A ``*`` goes beyond a colon only where it ends a segment of the ARN. AWS says
    no more, so ``widely`` lets each go beyond, which is the careful way for a denial."""
    try:
        return _compiled(_expression(pattern, context, in_segment=not widely)).fullmatch(value) is not None
    except _AbsentError:
        return False


def like_arn(pattern: str, value: str, context: Context) -> bool:
    """Whether each of the six parts of an ARN has the form of the pattern's."""
    parts, values = pattern.split(":", 5), value.split(":", 5)
    return len(parts) == len(values) == 6 and all(
        like(part, given, context) for part, given in zip(parts, values, strict=True)
    )


def _expression(pattern: str, context: Context, *, in_segment: bool = False) -> str:
    parts = []
    tokens = _TOKENS.split(pattern)
    for index, token in enumerate(tokens):
        if token == "*":
            following = "".join(tokens[index + 1 : index + 2])
            parts.append("[^:]*" if in_segment and following[:1] not in ("", ":") else ".*")
        elif token == "?":
            parts.append("[^:]" if in_segment else ".")
        elif token.startswith("${"):
            parts.append(re.escape(_variable(token[2:-1], context)))
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _variable(name: str, context: Context) -> str:
    if name in ("*", "?", "$"):
        return name
    key, comma, default = (part.strip() for part in name.partition(","))
    value = _of(context, key)
    if isinstance(value, tuple):
        raise UnknownError(f"policy variable {name} has several values")
    if value is not None:
        return value
    if not comma:
        raise _AbsentError
    return default.strip("'")


@lru_cache(4096)
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL)


ENCRYPTION_CONTEXT: Final = "kms:encryptioncontext:"
"""Before the names of pairs of an encryption context, all of which a request to KMS tells."""


def _of(context: Context, key: str) -> str | tuple[str, ...] | None:
    if key.casefold() not in KNOWN_KEYS and not key.casefold().startswith(ENCRYPTION_CONTEXT):
        raise UnknownError(f"condition key {key}")
    return context.get(key.casefold())


Test = Callable[[str, str, Context], bool]
"""Of a value in the policy and one of the request."""


def _equals(wanted: str, given: str, context: Context) -> bool:
    # Wildcards are none here, but variables are.
    return like(re.sub(r"([*?])(?![^{]*\})", r"${\1}", wanted), given, context)


def _equals_ignoring_case(wanted: str, given: str, context: Context) -> bool:
    return _equals(wanted.casefold(), given.casefold(), context)


def _bool(wanted: str, given: str, context: Context) -> bool:
    for value in (wanted, given):
        if value.casefold() not in ("true", "false"):
            raise UnknownError(f"Bool of {value!r}")
    return wanted.casefold() == given.casefold()


def _numeric(compare: Callable[[Decimal, Decimal], bool]) -> Test:
    return lambda wanted, given, _: compare(Decimal(given), Decimal(wanted))


_TESTS: Final[dict[str, Test]] = {
    "StringEquals": _equals,
    "StringEqualsIgnoreCase": _equals_ignoring_case,
    "StringLike": like,
    "ArnEquals": like_arn,  # the same as ArnLike, says AWS
    "ArnLike": like_arn,
    "Bool": _bool,
    "DateLessThan": lambda wanted, given, _: datetime.fromisoformat(given) < datetime.fromisoformat(wanted),
    "NumericEquals": _numeric(lambda given, wanted: given == wanted),
    "NumericLessThan": _numeric(lambda given, wanted: given < wanted),
    "NumericLessThanEquals": _numeric(lambda given, wanted: given <= wanted),
    "NumericGreaterThan": _numeric(lambda given, wanted: given > wanted),
    "NumericGreaterThanEquals": _numeric(lambda given, wanted: given >= wanted),
}
_NEGATED: Final = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
}


def holds(operator: str, key: str, wanted: tuple[str, ...], context: Context) -> bool:
    """Whether a condition holds. Values in the policy are alternatives; of a negated operator, none of them may match. A key that
    the request lacks fails, except for negated operators, ``IfExists`` and ``ForAllValues``.

    :class:`UnknownError` if the operator or the key is not known."""
    given = _of(context, key)
    if operator == "Null":
        return any(_bool(value, "true" if given is None else "false", context) for value in wanted)
    quantifier, colon, name = operator.rpartition(":")
    if quantifier not in ("", "ForAllValues", "ForAnyValue"):
        raise UnknownError(f"condition operator {operator}")
    base = name.removesuffix("IfExists")
    negated = base in _NEGATED
    test = _TESTS.get(_NEGATED.get(base, base))
    if test is None:
        raise UnknownError(f"condition operator {operator}")
    if given is None:
        return quantifier == "ForAllValues" or name != base or (negated and not quantifier)
    if isinstance(given, tuple) and not colon:
        raise UnknownError(f"{operator} of {key}, which has several values")
    values = given if isinstance(given, tuple) else (given,)
    matches = [any(test(value, one, context) for value in wanted) is not negated for one in values]
    return any(matches) if quantifier == "ForAnyValue" else all(matches)
