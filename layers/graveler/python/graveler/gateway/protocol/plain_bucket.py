"""Answers of a plain bucket of S3 about what a lake has not: no versions, tags, policies or rules, and nothing public."""

from collections.abc import Mapping
from typing import Final

from graveler.gateway.protocol.documents import acl_document
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.xml_text import document

_NO_MORE: Final = "<IsTruncated>false</IsTruncated>"
_BLOCKED: Final = "".join(
    f"<{name}>true</{name}>"
    for name in ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
)

_DOCUMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "GetBucketAbac": ("AbacStatus", "<Status>Disabled</Status>"),
    "GetBucketAccelerateConfiguration": ("AccelerateConfiguration", ""),
    "GetBucketLogging": ("BucketLoggingStatus", ""),
    "GetBucketNotificationConfiguration": ("NotificationConfiguration", ""),
    "GetBucketOwnershipControls": (
        "OwnershipControls",
        "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>",
    ),
    "GetBucketRequestPayment": ("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>"),
    "GetBucketVersioning": ("VersioningConfiguration", ""),
    "GetObjectTagging": ("Tagging", "<TagSet></TagSet>"),
    "GetPublicAccessBlock": ("PublicAccessBlockConfiguration", _BLOCKED),
    "ListBucketAnalyticsConfigurations": ("ListBucketAnalyticsConfigurationResult", _NO_MORE),
    "ListBucketIntelligentTieringConfigurations": ("ListBucketIntelligentTieringConfigurationsOutput", _NO_MORE),
    "ListBucketInventoryConfigurations": ("ListInventoryConfigurationsResult", _NO_MORE),
    "ListBucketMetricsConfigurations": ("ListMetricsConfigurationsResult", _NO_MORE),
}
"""Root and content of the documents by operation."""

_NO_CONFIGURATION: Final = ("NoSuchConfiguration", "The specified configuration does not exist.")
_NO_POLICY: Final = ("NoSuchBucketPolicy", "The bucket policy does not exist")
_NO_LOCK: Final = ("InvalidRequest", "Bucket is missing Object Lock Configuration")

_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "GetBucketAnalyticsConfiguration": _NO_CONFIGURATION,
    "GetBucketCors": ("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
    "GetBucketEncryption": (
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found",
    ),
    "GetBucketIntelligentTieringConfiguration": _NO_CONFIGURATION,
    "GetBucketInventoryConfiguration": _NO_CONFIGURATION,
    "GetBucketLifecycleConfiguration": (
        "NoSuchLifecycleConfiguration",
        "The lifecycle configuration does not exist",
    ),
    "GetBucketMetricsConfiguration": _NO_CONFIGURATION,
    "GetBucketPolicy": _NO_POLICY,
    "GetBucketPolicyStatus": _NO_POLICY,
    "GetBucketReplication": (
        "ReplicationConfigurationNotFoundError",
        "The replication configuration was not found",
    ),
    "GetBucketTagging": ("NoSuchTagSet", "The TagSet does not exist"),
    "GetBucketWebsite": (
        "NoSuchWebsiteConfiguration",
        "The specified bucket does not have a website configuration",
    ),
    "GetObjectLegalHold": _NO_LOCK,
    "GetObjectLockConfiguration": (
        "ObjectLockConfigurationNotFoundError",
        "Object Lock configuration does not exist for this bucket",
    ),
    "GetObjectRetention": _NO_LOCK,
}
"""Code and message of the errors by operation."""


def plain_bucket_answer(operation: str, bucket: str, owner: str) -> bytes:
    """Return the document that a plain bucket, or an object in it, answers an operation with. :class:`S3Error` if that answer is
    an error, and ``NotImplemented`` for any other operation, writes among them."""
    if operation in ("GetBucketAcl", "GetObjectAcl"):
        return acl_document(owner)
    if operation in _DOCUMENTS:
        return document(*_DOCUMENTS[operation])
    if operation in _ERRORS:
        code, message = _ERRORS[operation]
        raise S3Error(code, message, {"BucketName": bucket})
    raise S3Error("NotImplemented", f"This server does not implement {operation}", {"BucketName": bucket})
