"""The state machine of checks, in Amazon's States Language: a check by a task token, and then its verdict is kept.

A check whose process dies ends the task: Lambda says so, or its signs of life stay away. Nothing but overload is tried again:
the check is an error with its reason then, and who asks again begins another run. graveler.functions.check_entry takes the
steps.

https://docs.aws.amazon.com/step-functions/latest/dg/connect-to-resource.html#connect-wait-token
"""

from typing import Any, Final

RUN_SECONDS: Final = 900
"""Of the function: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
SILENT_SECONDS: Final = 60
"""Without a sign of life, of which there is one each graveler.functions.check_entry.BEAT seconds."""
SECONDS: Final = 1_500
"""Of an execution: less than graveler.lake.gates.checks.outcomes.RUN_SECONDS."""

_OF_RUN: Final = ("repository", "key", "run", "lasting")
_OF_CHECK: Final = ("repository", "candidate", "base", "name", "definition")


def definition(function: str, *, seconds: int = RUN_SECONDS + 20, partition: str = "aws") -> dict[str, Any]:
    """The definition; ``function`` is the ARN of what takes the steps, ``seconds`` how long a check may take."""
    invoke = f"arn:{partition}:states:::lambda:invoke"

    def keep(**more: Any) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": invoke,
            "Parameters": {"FunctionName": function, "Payload": {"step": "keep", **_of(_OF_RUN), **more}},
            "TimeoutSeconds": 120,
            "Retry": [_retry("States.ALL", times=6)],
            "End": True,
        }

    return {
        "Comment": "A check of graveler",
        "StartAt": "Check",
        "TimeoutSeconds": SECONDS,
        "States": {
            "Check": {
                "Type": "Task",
                "Resource": f"{invoke}.waitForTaskToken",
                "Parameters": {
                    "FunctionName": function,
                    "Payload": {"step": "run", "token.$": "$$.Task.Token", **_of(_OF_CHECK)},
                },
                "TimeoutSeconds": seconds,
                "HeartbeatSeconds": min(SILENT_SECONDS, seconds - 1),
                "Retry": [_retry("Lambda.TooManyRequestsException", times=5)],
                "ResultPath": "$.verdict",
                "Catch": [
                    {"ErrorEquals": [names], "ResultPath": "$.error", "Next": "KeepFailure"}
                    for names in ("States.DataLimitExceeded", "States.ALL")
                ],
                "Next": "KeepVerdict",
            },
            "KeepVerdict": keep(**{"verdict.$": "$.verdict"}),
            "KeepFailure": keep(**{"error.$": "$.error"}),
        },
    }


def _of(names: tuple[str, ...]) -> dict[str, str]:
    return {f"{name}.$": f"$.{name}" for name in names}


def _retry(error: str, *, times: int) -> dict[str, Any]:
    return {
        "ErrorEquals": [error],
        "IntervalSeconds": 1,
        "BackoffRate": 2,
        "MaxDelaySeconds": 30,
        "MaxAttempts": times,
        "JitterStrategy": "FULL",
    }
