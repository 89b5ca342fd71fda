"""The state machine of long operations, in Amazon's States Language: plan, a map over the parts, publish, and again if the branch
moved meanwhile. graveler.operations.machine says what each step does and returns.

Nothing here knows the CDK, so that tests give the same definition to an interpreter. It holds no null: the CDK would leave the
field out.
"""

from typing import Any, Final

from infra.error_names import names

INLINE: Final = 40
"""Parts up to which the execution itself works on them; each of more gets an execution of its own, which keeps this one's history
below the 25,000 events that it may have."""

INLINE_ROUNDS: Final = 10
"""Rounds up to which parts are worked on inline, for the same reason."""

STEP_SECONDS: Final = 900
"""Of the function that takes a step."""

SECONDS: Final = 12 * 3600
"""Of an execution: nothing is published later than half the grace after it began (graveler.lake.deadline)."""

_LAMBDA: Final = "arn:{partition}:states:::lambda:invoke"
_IDS: Final = ("repository", "operation", "attempt", "round")


def definition(function: str, *, at_once: int, partition: str = "aws") -> dict[str, Any]:
    """The definition; ``function`` is the ARN of what takes the steps, ``at_once`` how many parts are worked on at the same time
    (inline 40 at most)."""

    def step(payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": _LAMBDA.format(partition=partition),
            "Parameters": {"FunctionName": function, **payload},
            "TimeoutSeconds": STEP_SECONDS + 20,
            "Retry": _retries(),
            **more,
        }

    def parts(mode: dict[str, str], **more: Any) -> dict[str, Any]:
        part = step({"Payload.$": "$"}, OutputPath="$.Payload.state", End=True)
        return {
            "Type": "Map",
            "ItemsPath": "$.numbers",
            "ItemSelector": {"step": "part", **_ids(), "number.$": "$$.Map.Item.Value"},
            "MaxConcurrency": at_once,
            "ItemProcessor": {"ProcessorConfig": mode, "StartAt": "Part", "States": {"Part": part}},
            "ResultPath": "$.done",  # a word for each: what parts made is in the object store
            "Catch": _caught(),
            "Next": "Publish",
            **more,
        }

    return {
        "Comment": "A long operation of graveler",
        "StartAt": "Plan",
        "TimeoutSeconds": SECONDS,
        "States": {
            "Plan": step(
                {"Payload": {"step": "plan", **_ids()}}, OutputPath="$.Payload", Catch=_caught(), Next="HowManyParts"
            ),
            "HowManyParts": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.state", "StringEquals": "ended", "Next": "Ended"},
                    {"Variable": f"$.numbers[{INLINE}]", "IsPresent": True, "Next": "PartsApart"},
                    {"Variable": "$.round", "NumericGreaterThanEquals": INLINE_ROUNDS, "Next": "PartsApart"},
                ],
                "Default": "Parts",
            },
            "Parts": parts({"Mode": "INLINE"}),
            "PartsApart": _apart(
                parts({"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}, Label="Parts"),
                step({"Payload": {"step": "note", **_ids(), "number.$": "$.number", "error.$": "$.error"}}),
            ),
            "Publish": step(
                {"Payload": {"step": "publish", **_ids()}}, OutputPath="$.Payload", Catch=_caught(), Next="AnotherRound"
            ),
            "AnotherRound": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.state", "StringEquals": "plan", "Next": "Plan"}],
                "Default": "Ended",
            },
            "Ended": {"Type": "Succeed", "Comment": "The operation's item says how"},
            "NoteFailure": step(
                {"Payload": {"step": "fail", **_ids(), "error.$": "$.error"}}, ResultPath="$.noted", Next="GivenUp"
            ),
            "GivenUp": {
                "Type": "Fail",
                "Error": "GivenUp",
                "Cause": "A step failed again and again; its events say of what. The operation is marked as failed.",
            },
        },
    }


def _ids() -> dict[str, str]:
    return {f"{name}.$": f"$.{name}" for name in _IDS}


def _retries() -> list[dict[str, Any]]:
    """What may pass is tried again; what is for good is mostly in a step's answer, and not tried again where it is raised. The
    first rule that knows an error's name counts; the last one is for what nobody expected, as a process that was killed."""
    passing, for_good = names()
    return [
        _retry("Lambda.TooManyRequestsException", first=1, rate=2, longest=60, times=60),
        _retry(*passing, first=1, rate=2, longest=120, times=12),
        {"ErrorEquals": for_good, "MaxAttempts": 0},
        _retry("States.ALL", first=2, rate=3, longest=120, times=4),
    ]


def _retry(*errors: str, first: int, rate: int, longest: int, times: int) -> dict[str, Any]:
    return {
        "ErrorEquals": list(errors),
        "IntervalSeconds": first,
        "BackoffRate": rate,
        "MaxDelaySeconds": longest,
        "MaxAttempts": times,
        "JitterStrategy": "FULL",
    }


def _caught(by: str = "NoteFailure") -> list[dict[str, Any]]:
    """Every error, also the one that ``States.ALL`` leaves out, of a payload that is too large: it would be too large again in
    the next attempt. ``States.Runtime`` cannot be caught at all.

    https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
    """
    return [
        {"ErrorEquals": [names], "ResultPath": "$.error", "Next": by}
        for names in ("States.DataLimitExceeded", "States.ALL")
    ]


def _apart(parts: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
    """Each part in an execution of its own. Of one that fails the map tells only that there was one, so the part's execution has
    its error noted first. (Names of states are unique in a definition.)"""
    processor = parts["ItemProcessor"]
    part = processor["States"]["Part"]
    states = {
        "PartApart": {**part, "Catch": _caught("NotePart")},
        "NotePart": {**note, "ResultPath": "$.noted", "Next": "PartFailed"},
        "PartFailed": {"Type": "Fail", "ErrorPath": "$.error.Error", "CausePath": "$.error.Cause"},
    }
    return {**parts, "ItemProcessor": {**processor, "StartAt": "PartApart", "States": states}}
