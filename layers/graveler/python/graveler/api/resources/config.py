"""Requests that clients make first: versions, the kind of store, health."""

from typing import Final

from graveler.api.call import Call
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.api.settings import Settings
from graveler.lake.clock import GRACE
from graveler.requests.base import Permission
from graveler.wire.config_documents import (
    CONDITIONAL_DELETES,
    MERGE_ISOLATION,
    RECORDED_UPLOADS,
    Config,
    GarbageCollectionConfig,
    StorageConfig,
    UsageReport,
    VersionConfig,
)
from graveler.wire.error_documents import Error

routes = Routes("config")


_IMPORTABLE: Final = "^(file|s3)://"

FEATURES: Final = {
    "annotate": "annotateObjects",
    "blame": "blameObject",
    CONDITIONAL_DELETES: "deleteObject",
    "details": "listBranches",
    "diff_summary": "diffRefsSummary",
    MERGE_ISOLATION: "mergeIntoBranch",
    "merge_preview": "previewMerge",
    "operations": "listOperations",
    RECORDED_UPLOADS: "createUpload",
    "ref": "getRef",
    "reflog": "getReflog",
    "rename": "renameBranch",
    "undo": "undoBranch",
    "usage": "getUsage",
}
"""The features that every server of this version has, each with its operation."""


@routes.get("/config", "getConfig", Permission.READ, responses={200: Config, 401: Error})
def get_config(call: Call) -> Response:
    """Describe the server: its version, its store, and what it can do beyond lakeFS."""
    return json_response(Config(VersionConfig(), storage_config(call.settings), features=_features(call)))


def _features(call: Call) -> list[str]:
    """Return the names of what this server can do. A session of a browser may send JSON only, so it uploads bytes by presigned
    URLs; and nobody uploads to a lake that this server can only read."""
    names = list(FEATURES)
    if call.settings.presigned:
        names.append("presign")
        if call.lake.writable:
            names.append("upload")
    return sorted(names)


@routes.get("/config/version", "getLakeFSVersion", Permission.READ, responses={200: VersionConfig, 401: Error})
def get_version(call: Call) -> Response:
    """Return the version."""
    return json_response(VersionConfig())


@routes.get("/config/storage", "getStorageConfig", Permission.READ, responses={200: StorageConfig, 401: Error})
def get_storage(call: Call) -> Response:
    """Describe the store."""
    return json_response(storage_config(call.settings))


@routes.get(
    "/config/garbage-collection",
    "getGarbageCollectionConfig",
    Permission.READ,
    responses={200: GarbageCollectionConfig, 401: Error},
)
def get_garbage_collection(call: Call) -> Response:
    """Tell how long new objects are safe from garbage collection."""
    return json_response(GarbageCollectionConfig(int(GRACE)))


@routes.get("/healthcheck", "healthCheck", None, responses={204: None})
def health_check(call: Call) -> Response:
    """Confirm that the server responds to requests."""
    return no_content()


@routes.post("/statistics", "postStatsEvents", Permission.READ, function="read", responses={204: None, 401: Error})
def post_statistics(call: Call) -> Response:
    """Accept a client's usage statistics, and discard them."""
    return no_content()


@routes.get("/usage-report/summary", "getUsageReportSummary", Permission.READ, responses={200: UsageReport, 401: Error})
def get_usage(call: Call) -> Response:
    """Report no usage: none is collected."""
    return json_response(UsageReport())


def storage_config(settings: Settings) -> StorageConfig:
    """Return what clients may know about the store.

    The type is ``s3`` where bytes are in S3: the Hadoop file system in its simple mode reads them there directly, and accepts no
    other type. Everywhere else it is the scheme, ``local``, and clients use presigned URLs.
    """
    prefix = settings.namespace_prefix
    return StorageConfig(
        blockstore_type=prefix.partition("://")[0],
        blockstore_namespace_example=f"{prefix}example-repository",
        default_namespace_prefix=prefix.removesuffix("/"),
        pre_sign_support=settings.presigned,
        pre_sign_support_ui=settings.presigned and settings.presigned_for_pages,
        import_support=True,
        import_validity_regex=_IMPORTABLE,
        pre_sign_multipart_upload=settings.presigned,
        blockstore_namespace_pattern=settings.namespace_pattern,
    )
