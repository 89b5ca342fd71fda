"""S3's operations by method, level and sub-resource: ``GET /bucket?acl`` is ``GetBucketAcl``."""

from collections.abc import Iterable, Mapping
from typing import Final

from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument

_Table = Mapping[str, Mapping[str, str]]
"""Operations by method and by the parameter that names the sub-resource; ``""`` is the resource itself."""

_SERVICE: Final[_Table] = {"GET": {"": "ListBuckets"}}

_BUCKET: Final[_Table] = {
    "GET": {
        "": "ListObjects",
        "abac": "GetBucketAbac",
        "accelerate": "GetBucketAccelerateConfiguration",
        "acl": "GetBucketAcl",
        "analytics": "ListBucketAnalyticsConfigurations",
        "cors": "GetBucketCors",
        "encryption": "GetBucketEncryption",
        "intelligent-tiering": "ListBucketIntelligentTieringConfigurations",
        "inventory": "ListBucketInventoryConfigurations",
        "lifecycle": "GetBucketLifecycleConfiguration",
        "location": "GetBucketLocation",
        "logging": "GetBucketLogging",
        "metadataConfiguration": "GetBucketMetadataConfiguration",
        "metadataTable": "GetBucketMetadataTableConfiguration",
        "metrics": "ListBucketMetricsConfigurations",
        "notification": "GetBucketNotificationConfiguration",
        "object-lock": "GetObjectLockConfiguration",
        "ownershipControls": "GetBucketOwnershipControls",
        "policy": "GetBucketPolicy",
        "policyStatus": "GetBucketPolicyStatus",
        "publicAccessBlock": "GetPublicAccessBlock",
        "replication": "GetBucketReplication",
        "requestPayment": "GetBucketRequestPayment",
        "session": "CreateSession",
        "tagging": "GetBucketTagging",
        "uploads": "ListMultipartUploads",
        "versioning": "GetBucketVersioning",
        "versions": "ListObjectVersions",
        "website": "GetBucketWebsite",
    },
    "HEAD": {"": "HeadBucket"},
    "PUT": {
        "": "CreateBucket",
        "abac": "PutBucketAbac",
        "accelerate": "PutBucketAccelerateConfiguration",
        "acl": "PutBucketAcl",
        "analytics": "PutBucketAnalyticsConfiguration",
        "cors": "PutBucketCors",
        "encryption": "PutBucketEncryption",
        "intelligent-tiering": "PutBucketIntelligentTieringConfiguration",
        "inventory": "PutBucketInventoryConfiguration",
        "lifecycle": "PutBucketLifecycleConfiguration",
        "logging": "PutBucketLogging",
        "metadataAnnotationTable": "UpdateBucketMetadataAnnotationTableConfiguration",
        "metadataInventoryTable": "UpdateBucketMetadataInventoryTableConfiguration",
        "metadataJournalTable": "UpdateBucketMetadataJournalTableConfiguration",
        "metrics": "PutBucketMetricsConfiguration",
        "notification": "PutBucketNotificationConfiguration",
        "object-lock": "PutObjectLockConfiguration",
        "ownershipControls": "PutBucketOwnershipControls",
        "policy": "PutBucketPolicy",
        "publicAccessBlock": "PutPublicAccessBlock",
        "replication": "PutBucketReplication",
        "requestPayment": "PutBucketRequestPayment",
        "tagging": "PutBucketTagging",
        "versioning": "PutBucketVersioning",
        "website": "PutBucketWebsite",
    },
    "POST": {
        "": "PostObject",
        "delete": "DeleteObjects",
        "metadataConfiguration": "CreateBucketMetadataConfiguration",
        "metadataTable": "CreateBucketMetadataTableConfiguration",
    },
    "DELETE": {
        "": "DeleteBucket",
        "analytics": "DeleteBucketAnalyticsConfiguration",
        "cors": "DeleteBucketCors",
        "encryption": "DeleteBucketEncryption",
        "intelligent-tiering": "DeleteBucketIntelligentTieringConfiguration",
        "inventory": "DeleteBucketInventoryConfiguration",
        "lifecycle": "DeleteBucketLifecycle",
        "metadataConfiguration": "DeleteBucketMetadataConfiguration",
        "metadataTable": "DeleteBucketMetadataTableConfiguration",
        "metrics": "DeleteBucketMetricsConfiguration",
        "ownershipControls": "DeleteBucketOwnershipControls",
        "policy": "DeleteBucketPolicy",
        "publicAccessBlock": "DeletePublicAccessBlock",
        "replication": "DeleteBucketReplication",
        "tagging": "DeleteBucketTagging",
        "website": "DeleteBucketWebsite",
    },
}

_OBJECT: Final[_Table] = {
    "GET": {
        "": "GetObject",
        "acl": "GetObjectAcl",
        "annotation": "ListObjectAnnotations",
        "attributes": "GetObjectAttributes",
        "legal-hold": "GetObjectLegalHold",
        "retention": "GetObjectRetention",
        "tagging": "GetObjectTagging",
        "torrent": "GetObjectTorrent",
        "uploadId": "ListParts",
    },
    "HEAD": {"": "HeadObject"},
    "PUT": {
        "": "PutObject",
        "acl": "PutObjectAcl",
        "annotation": "PutObjectAnnotation",
        "encryption": "UpdateObjectEncryption",
        "legal-hold": "PutObjectLegalHold",
        "renameObject": "RenameObject",
        "retention": "PutObjectRetention",
        "tagging": "PutObjectTagging",
        "uploadId": "UploadPart",
    },
    "POST": {
        "restore": "RestoreObject",
        "select": "SelectObjectContent",
        "uploadId": "CompleteMultipartUpload",
        "uploads": "CreateMultipartUpload",
    },
    "DELETE": {
        "": "DeleteObject",
        "annotation": "DeleteObjectAnnotation",
        "tagging": "DeleteObjectTagging",
        "uploadId": "AbortMultipartUpload",
    },
}

_OF_ONE: Final = {
    "ListBucketAnalyticsConfigurations": ("id", "GetBucketAnalyticsConfiguration"),
    "ListBucketIntelligentTieringConfigurations": ("id", "GetBucketIntelligentTieringConfiguration"),
    "ListBucketInventoryConfigurations": ("id", "GetBucketInventoryConfiguration"),
    "ListBucketMetricsConfigurations": ("id", "GetBucketMetricsConfiguration"),
    "ListObjectAnnotations": ("annotationName", "GetObjectAnnotation"),
}
"""Lists whose path with the name of an element, in a parameter, is another operation."""

_COPIES: Final = {"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}
"""What an operation is with the header ``x-amz-copy-source``."""

OPERATIONS: Final = frozenset(
    {operation for table in (_SERVICE, _BUCKET, _OBJECT) for names in table.values() for operation in names.values()}
    | {operation for _, operation in _OF_ONE.values()}
    | set(_COPIES.values())
    | {"ListObjectsV2"}
)
"""All operations that :func:`operation_of` returns."""


def operation_of(method: str, bucket: str, key: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Return the name of the operation that a request asks for, as in S3's API reference.

    ``MethodNotAllowed`` for a method that the resource has not; ``AccessForbidden`` for a browser's preflight request, as of a
    bucket without CORS. Parameters that S3 does not know are ignored, as S3 does. But a write with an unknown one that has no
    value is refused (``NotImplemented``): it may name a sub-resource that is newer than this table, and must not fall on the
    object itself.
    """
    table, level = (_OBJECT, "OBJECT") if key else (_BUCKET, "BUCKET") if bucket else (_SERVICE, "SERVICE")
    operations = table.get(method)
    if operations is None:
        raise _not_allowed(method, level, table)
    operation = next((operations[name] for name in parameters if name in operations), None)
    if operation is None:
        if method not in ("GET", "HEAD"):
            _expect_no_unknown(parameters)
        if method == "PUT" and key and "partNumber" in parameters:
            raise invalid_argument(
                "This operation does not accept partNumber without uploadId", "partNumber", parameters["partNumber"]
            )
        if "" not in operations:
            raise _not_allowed(method, level, table)
        operation = operations[""]
    if operation in _OF_ONE:
        name, of_one = _OF_ONE[operation]
        return of_one if parameters.get(name) else operation
    if operation in _COPIES:
        return _COPIES[operation] if "x-amz-copy-source" in headers else operation
    return "ListObjectsV2" if operation == "ListObjects" and parameters.get("list-type") == "2" else operation


def _not_allowed(method: str, level: str, methods: Iterable[str]) -> S3Error:
    fields = {"Method": method[:32], "ResourceType": level}
    if method == "OPTIONS":
        return S3Error("AccessForbidden", "CORSResponse: CORS is not enabled for this bucket.", fields)
    return S3Error(
        "MethodNotAllowed",
        "The specified method is not allowed against this resource.",
        fields,
        {"allow": ", ".join(methods)},
    )


def _expect_no_unknown(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        if not value:
            raise S3Error("NotImplemented", f"This server does not implement the sub-resource ?{name[:100]}")
