"""Queues: encrypted, by TLS only, each with a place for what was given up."""

from typing import Any, Final

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

_WORK_DAYS: Final = 10
_GIVEN_UP_DAYS: Final = 14
"""How long queues keep a message, the longest that SQS does. It counts from when the message was first sent, also in the second
queue, so that what is given up on the tenth day is kept for four more:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html"""


def dead_letters(scope: Construct, name: str, key: kms.IKey | None) -> sqs.Queue:
    """A queue for what was given up. ``key`` encrypts it; without one, SQS does by its own."""
    return sqs.Queue(
        scope,
        name,
        enforce_ssl=True,
        **_encryption(key),
        retention_period=Duration.days(_GIVEN_UP_DAYS),
    )


def work_queue(
    scope: Construct,
    name: str,
    *,
    seconds: int,
    tries: int,
    given_up: sqs.IQueue,
    window: int = 0,
    key: kms.IKey | None,
) -> sqs.Queue:
    """A queue that a function of so many ``seconds`` works on, which may wait for ``window`` seconds for more: what is not
    finished in six times of that comes again, unless the function has it come sooner, and ends in ``given_up`` after ``tries``
    times. Lambda needs the time to try again where it is throttled:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
    return sqs.Queue(
        scope,
        name,
        enforce_ssl=True,
        **_encryption(key),
        retention_period=Duration.days(_WORK_DAYS),
        visibility_timeout=Duration.seconds(6 * seconds + window),
        dead_letter_queue=sqs.DeadLetterQueue(queue=given_up, max_receive_count=tries),
    )


def _encryption(key: kms.IKey | None) -> dict[str, Any]:
    if key is None:
        return {"encryption": sqs.QueueEncryption.SQS_MANAGED}
    return {"encryption": sqs.QueueEncryption.KMS, "encryption_master_key": key}


def send(*queues: sqs.IQueue) -> iam.PolicyStatement:
    """The right to send."""
    return iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[queue.queue_arn for queue in queues])


def consume(queue: sqs.IQueue, *, postpones: bool = False) -> iam.PolicyStatement:
    """The right to work on what comes; ``postpones``: and to say when a message that failed comes again."""
    actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    return iam.PolicyStatement(
        actions=[*actions, "sqs:ChangeMessageVisibility"] if postpones else actions, resources=[queue.queue_arn]
    )
