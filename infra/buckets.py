"""Buckets: private, encrypted, by TLS only."""

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.acknowledged import acknowledge


def private_bucket(
    scope: Construct,
    name: str,
    *,
    removal: RemovalPolicy,
    keep_deleted: Duration,
    expire: Mapping[str, Duration] | None = None,
    cors: Sequence[s3.CorsRule] | None = None,
    emptied: bool = False,
    key: kms.IKey | None = None,
) -> s3.Bucket:
    """A bucket that keeps what was deleted or replaced for a while, and no half uploads; what lies below the prefixes of
    ``expire`` goes by itself after so long. ``emptied``: before it is deleted with its stack, a function of the CDK's own deletes
    all versions of all objects, since only an empty bucket can be deleted
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/delete-bucket.html). ``key`` encrypts it; without one, S3 does by keys
    of its own."""
    bucket = s3.Bucket(
        scope,
        name,
        encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
        encryption_key=key,
        bucket_key_enabled=None if key is None else True,  # one request to KMS for many objects
        enforce_ssl=True,
        minimum_tls_version=1.2,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        versioned=True,
        lifecycle_rules=[
            s3.LifecycleRule(id="unfinished-uploads", abort_incomplete_multipart_upload_after=Duration.days(7)),
            s3.LifecycleRule(
                id="deleted-objects", noncurrent_version_expiration=keep_deleted, expired_object_delete_marker=True
            ),
            *(
                s3.LifecycleRule(id=f"old-{prefix.strip('/')}", prefix=prefix, expiration=after)
                for prefix, after in (expire or {}).items()
            ),
        ],
        cors=None if cors is None else list(cors),
        removal_policy=removal,
        auto_delete_objects=emptied,
    )
    acknowledge(
        bucket,
        "AwsSolutions-S1",
        "The audit log has a line for each presigned URL and each change; access logs would cost more than that tells.",
    )
    return bucket
