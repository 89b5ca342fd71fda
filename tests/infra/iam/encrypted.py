"""Requests of services to KMS for a bucket, table or queue that a key of the account encrypts. They ask on behalf of their
callers, who need the right to it; no emulator checks that.

Sources: for S3 https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html, and for uploads in parts
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuAndPermissions.html; for DynamoDB
https://docs.aws.amazon.com/kms/latest/developerguide/services-dynamodb.html; for SQS
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.infra.iam.conditions import UnknownError
from tests.infra.iam.policies import Policies, Principal, Request
from tests.infra.iam.templates import ACCOUNT, REGION, Stacks

_DECRYPT: Final = ("kms:Decrypt",)
_ENCRYPT: Final = ("kms:GenerateDataKey", "kms:Decrypt")
_NOTHING: Final = ()

_ASKED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("s3:GetObject", "s3:ListMultipartUploadParts"), _DECRYPT),
    "s3:PutObject": _ENCRYPT,
    **dict.fromkeys(("s3:DeleteObject", "s3:AbortMultipartUpload"), _NOTHING),
    **dict.fromkeys(("s3:ListBucket", "s3:ListBucketMultipartUploads"), _NOTHING),
    # Items are encrypted by a key of the table, which KMS encrypted when the table was made.
    **dict.fromkeys(
        (
            *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:DeleteItem"),
            *("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem"),
        ),
        _DECRYPT,
    ),
    "sqs:SendMessage": _ENCRYPT,
    "sqs:ReceiveMessage": _DECRYPT,
    **dict.fromkeys(
        ("sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"), _NOTHING
    ),
}
"""Of KMS, by what the service is asked for."""


def keys(stacks: Stacks) -> dict[str, str]:
    """The ARNs of keys, by those of the buckets, tables and queues that they encrypt."""
    found = {}
    for stack, logical, properties in stacks.each("AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue"):
        key = _key_of(stacks.kind(stack, logical), properties)
        if key is not None:
            if not key.startswith("arn:"):
                raise UnknownError(f"{stack}/{logical}: a key by another name than its ARN, {key}")
            found[stacks.arn(stack, logical)] = key
    return found


def _key_of(kind: str, properties: Mapping[str, Any]) -> str | None:
    if kind == "AWS::S3::Bucket":
        (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        default = rule["ServerSideEncryptionByDefault"]
        return str(default["KMSMasterKeyID"]) if default["SSEAlgorithm"] == "aws:kms" else None
    key = properties.get("SSESpecification", {}).get("KMSMasterKeyId") or properties.get("KmsMasterKeyId")
    return None if key is None else str(key)


def asked_of_keys(request: Request, encrypted: Mapping[str, str]) -> Iterator[Request]:
    """What KMS is asked for by the service that gets a request. :class:`UnknownError` for an action on what is ``encrypted``
    that is not known."""
    resource = request.resource.partition("/")[0] if ":s3:" in request.resource else request.resource
    key = encrypted.get(resource)
    if key is None:
        return
    if request.action not in _ASKED:
        raise UnknownError(f"what {request.action} asks of a key")
    for action in _ASKED[request.action]:
        context = dict(request.context)
        if not request.principal.is_service:
            service = request.action.partition(":")[0]
            context |= {"kms:viaservice": f"{service}.{REGION}.amazonaws.com", "kms:calleraccount": ACCOUNT}
        yield Request(request.principal, action, key, context, f"{request.action} on {resource}")


def rights_as_requests(policies: Policies, encrypted: Mapping[str, str]) -> Iterator[Request]:
    """A request for each right that a role has to something that is encrypted."""
    for role, statements in policies.roles.items():
        for statement in statements:
            for right in statement.rights():
                resource = right.resource.partition("/")[0] if ":s3:" in right.resource else right.resource
                if resource in encrypted:
                    asked = right.resource.replace("*", "key")
                    yield Request(
                        Principal(role), right.action, asked, {"aws:securetransport": "true"}, "has the right"
                    )
