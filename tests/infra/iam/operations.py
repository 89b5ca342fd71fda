"""Which actions on which resources a call of an AWS client needs, and with which condition keys.

Sources: https://docs.aws.amazon.com/service-authorization/latest/reference/ (``list_amazons3.html``,
``list_amazondynamodb.html``, ``list_amazonsqs.html``, ``list_awsstepfunctions.html``, ``list_awssecretsmanager.html``,
``list_awskeymanagementservice.html``); for S3 https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html;
for transactions https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis-iam.html.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from tests.infra.iam.conditions import ENCRYPTION_CONTEXT, UnknownError
from tests.infra.iam.templates import ACCOUNT, REGION

Parameters = Mapping[str, Any]
Need = tuple[str, str, dict[str, str | tuple[str, ...]]]
"""Action, resource, and the condition keys that only this call has."""


def needs(service: str, operation: str, parameters: Parameters) -> Iterator[Need]:
    """What a call needs; nothing, if anybody may do it. :class:`UnknownError` for an operation that is not known."""
    found = _OPERATIONS.get((service, operation))
    if found is None:
        raise UnknownError(f"which rights {service}'s {operation} needs")
    return found(parameters)


Find = Callable[[Parameters], Iterator[Need]]


def _bucket(parameters: Parameters) -> str:
    return f"arn:aws:s3:::{parameters['Bucket']}"


def _object(parameters: Parameters) -> str:
    return f"{_bucket(parameters)}/{parameters['Key']}"


def _unversioned(parameters: Parameters) -> None:
    versioned = {"ACL", "ExpectedBucketOwner", "RequestPayer", "Tagging", "VersionId"} & set(parameters)
    if versioned:
        raise UnknownError(f"which rights S3 wants for {', '.join(sorted(versioned))}")


def _on_object(*actions: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        _unversioned(parameters)
        for action in actions:
            yield f"s3:{action}", _object(parameters), {}

    return find


def _read_object(parameters: Parameters) -> Iterator[Need]:
    """An object that is not there is a 404 only for who may list its bucket, and a 403 otherwise:
    https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html."""
    _unversioned(parameters)
    yield "s3:GetObject", _object(parameters), {}
    yield "s3:ListBucket", _bucket(parameters), {}


def _copy(parameters: Parameters) -> Iterator[Need]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html."""
    source = parameters["CopySource"]
    if isinstance(source, str):
        bucket, _, key = unquote(source).lstrip("/").partition("/")
        source = {"Bucket": bucket, "Key": key}
    yield from _read_object(source)
    yield from _on_object("PutObject")(parameters)


def _delete_objects(parameters: Parameters) -> Iterator[Need]:
    for each in parameters["Delete"]["Objects"]:
        yield from _on_object("DeleteObject")({"Bucket": parameters["Bucket"], **each})


def _on_bucket(action: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        _unversioned(parameters)
        yield f"s3:{action}", _bucket(parameters), {}

    return find


def _list(parameters: Parameters) -> Iterator[Need]:
    yield "s3:ListBucket", _bucket(parameters), {"s3:prefix": parameters.get("Prefix", "")}


def _table(name: str) -> str:
    return name if name.startswith("arn:") else f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _leading(*places: Parameters | None) -> dict[str, str | tuple[str, ...]]:
    """The condition key with the partitions of items, keys, or the values of a query."""
    partitions = {place["P" if "P" in place else ":p"]["S"] for place in places if place is not None}
    return {"dynamodb:leadingkeys": tuple(sorted(partitions))}


def _of_item(parameters: Parameters) -> dict[str, str | tuple[str, ...]]:
    return _leading(parameters.get("Item", parameters.get("Key")))


def _on_item(action: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        yield f"dynamodb:{action}", _table(parameters["TableName"]), _of_item(parameters)

    return find


def _on_table(action: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        yield f"dynamodb:{action}", _table(parameters["TableName"]), {}

    return find


def _query(parameters: Parameters) -> Iterator[Need]:
    index = f"/index/{parameters['IndexName']}" if "IndexName" in parameters else ""
    keys = {} if index else _leading(parameters["ExpressionAttributeValues"])
    yield "dynamodb:Query", _table(parameters["TableName"]) + index, keys


def _batch_get(parameters: Parameters) -> Iterator[Need]:
    for name, table_request in parameters["RequestItems"].items():
        yield "dynamodb:BatchGetItem", _table(name), _leading(*table_request["Keys"])


def _batch_write(parameters: Parameters) -> Iterator[Need]:
    for name, writes in parameters["RequestItems"].items():
        requests = [request for write in writes for request in write.values()]
        yield (
            "dynamodb:BatchWriteItem",
            _table(name),
            _leading(*(request.get("Item", request.get("Key")) for request in requests)),
        )


_MEMBERS: Final = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}


def _transaction(parameters: Parameters) -> Iterator[Need]:
    for member in parameters["TransactItems"]:
        ((kind, what),) = member.items()
        yield f"dynamodb:{_MEMBERS[kind]}", _table(what["TableName"]), _of_item(what)


def _on_queue(action: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        account, name = parameters["QueueUrl"].split("/")[-2:]
        yield f"sqs:{action}", f"arn:aws:sqs:{REGION}:{account}:{name}", {}

    return find


def _on_arn(action: str, parameter: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        arn = parameters.get(parameter, "")
        if not arn.startswith("arn:"):
            raise UnknownError(f"the ARN of {parameter} {arn!r} of {action}")
        yield action, arn, {}

    return find


def _on_task(what: str) -> Find:
    """Tokens of tasks that call a function belong to no resource."""

    def find(parameters: Parameters) -> Iterator[Need]:
        yield f"states:SendTask{what}", "*", {}

    return find


def _on_secret(action: str) -> Find:
    def find(parameters: Parameters) -> Iterator[Need]:
        secret = parameters["SecretId"]  # the ARN in AWS, where an emulator's templates refer to the name
        arn = secret if secret.startswith("arn:") else f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{secret}"
        yield f"secretsmanager:{action}", arn, {}

    return find


def _on_key(action: str) -> Find:
    find_key = _on_arn(f"kms:{action}", "KeyId")

    def find(parameters: Parameters) -> Iterator[Need]:
        pairs = parameters.get("EncryptionContext", {})
        context = {f"{ENCRYPTION_CONTEXT}{name.casefold()}": value for name, value in pairs.items()}
        for needed, arn, _ in find_key(parameters):
            yield needed, arn, context

    return find


def _anybody(parameters: Parameters) -> Iterator[Need]:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html."""
    yield from ()


_OPERATIONS: Final[dict[tuple[str, str], Find]] = {
    ("s3", "GetObject"): _read_object,
    ("s3", "HeadObject"): _read_object,
    ("s3", "PutObject"): _on_object("PutObject"),
    ("s3", "CopyObject"): _copy,
    ("s3", "DeleteObject"): _on_object("DeleteObject"),
    ("s3", "DeleteObjects"): _delete_objects,
    ("s3", "CreateMultipartUpload"): _on_object("PutObject"),
    ("s3", "UploadPart"): _on_object("PutObject"),
    ("s3", "UploadPartCopy"): _copy,
    ("s3", "CompleteMultipartUpload"): _on_object("PutObject"),
    ("s3", "AbortMultipartUpload"): _on_object("AbortMultipartUpload"),
    ("s3", "ListParts"): _on_object("ListMultipartUploadParts"),
    ("s3", "ListMultipartUploads"): _on_bucket("ListBucketMultipartUploads"),
    ("s3", "ListObjectsV2"): _list,
    ("s3", "HeadBucket"): _on_bucket("ListBucket"),
    **{("dynamodb", name): _on_item(name) for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem")},
    **{("dynamodb", name): _on_table(name) for name in ("Scan", "DescribeTable")},
    ("dynamodb", "Query"): _query,
    ("dynamodb", "BatchGetItem"): _batch_get,
    ("dynamodb", "BatchWriteItem"): _batch_write,
    ("dynamodb", "TransactWriteItems"): _transaction,
    ("dynamodb", "TransactGetItems"): _transaction,
    ("sqs", "SendMessage"): _on_queue("SendMessage"),
    ("sqs", "SendMessageBatch"): _on_queue("SendMessage"),
    ("sqs", "ReceiveMessage"): _on_queue("ReceiveMessage"),
    ("sqs", "DeleteMessage"): _on_queue("DeleteMessage"),
    ("sqs", "DeleteMessageBatch"): _on_queue("DeleteMessage"),
    ("sqs", "ChangeMessageVisibility"): _on_queue("ChangeMessageVisibility"),
    ("sqs", "ChangeMessageVisibilityBatch"): _on_queue("ChangeMessageVisibility"),
    ("sqs", "GetQueueAttributes"): _on_queue("GetQueueAttributes"),
    ("stepfunctions", "StartExecution"): _on_arn("states:StartExecution", "stateMachineArn"),
    **{("stepfunctions", f"SendTask{what}"): _on_task(what) for what in ("Success", "Failure", "Heartbeat")},
    ("lambda", "Invoke"): _on_arn("lambda:InvokeFunction", "FunctionName"),
    ("secretsmanager", "GetSecretValue"): _on_secret("GetSecretValue"),
    ("secretsmanager", "PutSecretValue"): _on_secret("PutSecretValue"),
    **{("kms", name): _on_key(name) for name in ("Decrypt", "Encrypt", "GenerateDataKey")},
    ("sts", "GetCallerIdentity"): _anybody,
    ("sts", "AssumeRole"): _on_arn("sts:AssumeRole", "RoleArn"),
}
