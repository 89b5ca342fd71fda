"""Rights of a deployment that no call of :mod:`tests.infra.iam.test_rights` may use, each with the reason to keep it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.infra.iam.policies import Right


@dataclass(frozen=True)
class Stays:
    """``actions`` of policies whose name has ``policy`` in it, on resources that have ``resource`` in their ARN; both are regular
    expressions."""

    policy: str
    actions: tuple[str, ...]
    resource: str
    reason: str

    def covers(self, right: Right) -> bool:
        """Whether a right is one of these."""
        return (
            right.action in self.actions
            and re.search(self.policy, right.policy) is not None
            and re.search(self.resource, right.resource, re.IGNORECASE) is not None
        )


_ELSEWHERE: Final = "landing|:::graveler-data"
_OWN: Final = "objects"
_WRITERS: Final = "Functions(Write|Commit|Merge|Catalog|Maintain|Ingest|Operate)"

_CHECKS: Final = (
    "The story has no rule with a check; tests/infra/test_check_function.py runs checks, with its calls judged."
)

STAY: Final = (
    Stays(
        "TableCredentials",
        ("sts:AssumeRole",),
        ":role/",
        "The role itself names the function, which is enough in one account; people look for it on both sides.",
    ),
    Stays(
        "TableCredentials",
        ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:ListBucket"),
        f"{_OWN}|:::graveler-data",
        "Clients of tables use them, and their calls are no function's.",
    ),
    Stays(
        "FunctionsCheck",
        ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"),
        ":table/",
        _CHECKS,
    ),
    Stays(
        "FunctionsCheck",
        ("states:SendTaskFailure", "states:SendTaskHeartbeat", "states:SendTaskSuccess"),
        r"^\*$",
        _CHECKS,
    ),
    Stays("FunctionsCheck", ("lambda:InvokeFunction",), ":function:", _CHECKS),
    Stays(_WRITERS, ("lambda:InvokeFunction",), "FunctionsCheck", _CHECKS),
    Stays(_WRITERS, ("states:StartExecution",), "graveler-checks-Machine", _CHECKS),
    Stays(
        f"{_WRITERS}|Functions(Read|Diff)",
        ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"),
        ":table/",
        "The table's adapter chooses among them by how many items are asked for; so whoever reads has all.",
    ),
    Stays(
        _WRITERS,
        ("dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem"),
        ":table/",
        "The table's adapter chooses among them by how many items are written, and on which conditions.",
    ),
    Stays(
        "FunctionsMaintain",
        ("sqs:ChangeMessageVisibility",),
        "Operations",
        "An operation that has not ended in the time of a run is to go on soon; those of the tests end.",
    ),
    Stays(
        "FunctionsSetup",
        ("dynamodb:GetItem",),
        ":table/",
        "Where secrets are sealed already, the sealing key's record is read alone.",
    ),
    Stays(
        "Functions",
        ("s3:GetObject", "s3:ListBucket"),
        _ELSEWHERE,
        "Entries link to objects there, and repositories may have their trees there.",
    ),
    Stays(
        "Functions",
        ("s3:GetObject", "s3:ListBucket"),
        _OWN,
        "Trees are read from there when the function does not have them in its cache, as after a cold start.",
    ),
    Stays(
        "Functions",
        ("s3:PutObject",),
        f"{_OWN}|:::graveler-data",
        "Repositories may have their namespace in a data bucket; and not every commit makes a new tree.",
    ),
    Stays(
        "Functions",
        ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListBucketMultipartUploads"),
        f"{_OWN}|:::graveler-data",
        "Purges of deleted repositories, and collections of garbage, remove objects and unfinished uploads.",
    ),
    Stays(
        "Functions(Write|Buckets)",
        ("s3:ListMultipartUploadParts",),
        f"{_OWN}|:::graveler-data",
        "A gateway behind the deployment lists the parts of an upload, if its client does.",
    ),
    Stays(
        "Functions(Write|Maintain)",
        ("sqs:SendMessage",),
        "Operations",
        "Collections and dumps are handed to the queue, which the clock's clean-up does again where a worker died.",
    ),
    Stays(
        "Functions(Write|Commit|Merge|Maintain|Ingest)",
        ("states:StartExecution",),
        ":stateMachine:",
        "What is too long for one call is handed over, and begun again where a worker died.",
    ),
    Stays(
        "FunctionsIngest",
        ("sqs:ChangeMessageVisibility",),
        "Events",
        "A message that failed is shown again sooner than the queue would show it.",
    ),
    Stays(
        "ingest/FunctionsIngest",
        ("sqs:SendMessage",),
        "DeadLetters",
        "Messages that can never succeed are put there with the reason.",
    ),
    Stays(
        "ingest/EventsPolicy",
        ("sqs:GetQueueAttributes", "sqs:GetQueueUrl"),
        "Events",
        "The CDK's target of a rule grants them to the rule's service, together with SendMessage.",
    ),
    Stays(
        "Functions",
        ("kms:Decrypt",),
        ":key/",
        "The key that sealed the secrets is unwrapped by whoever comes to a token or a sealed secret.",
    ),
    Stays(
        "stateful/SealingKey",
        ("kms:*",),
        ":key/",
        "The account keeps control of its key; roles still need a right of their own.",
    ),
)


def unexplained(rights: Iterable[Right], used: Iterable[Right]) -> list[Right]:
    """Rights that nothing uses, and that have no reason to stay."""
    return sorted(
        (right for right in set(rights) - set(used) if not any(entry.covers(right) for entry in STAY)), key=str
    )


def obsolete(rights: Iterable[Right]) -> list[Stays]:
    """Entries above that speak of no right at all."""
    found = list(rights)
    return [entry for entry in STAY if not any(entry.covers(right) for right in found)]
