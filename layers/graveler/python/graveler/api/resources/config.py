"""What clients ask before they begin: versions, the kind of store, health."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from graveler.api.call import Call
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.api.settings import Settings
from graveler.lake.clock import GRACE
from graveler.requests.base import Permission
from graveler.wire.errors import Error

routes = Routes("config")

COMPATIBLE_VERSION: Final = "1.84.0"
"""The lakeFS whose API this one is. Clients parse it, and refuse what they take for too old."""

_IMPORTABLE: Final = "^(file|s3)://"


class VersionConfig(Struct, frozen=True):
    """Which lakeFS this API is like. Any other ``version_context`` makes lakectl warn of a commercial server."""

    version: str = COMPATIBLE_VERSION
    version_context: str = "lakeFS"
    latest_version: str = COMPATIBLE_VERSION
    upgrade_recommended: bool = False


class StorageConfig(Struct, frozen=True):
    """The store. ``default_namespace_prefix`` is what clients put a slash and a repository's name behind."""

    blockstore_type: str
    blockstore_namespace_example: str
    default_namespace_prefix: str
    pre_sign_support: bool
    pre_sign_support_ui: bool
    import_support: bool
    import_validity_regex: str
    pre_sign_multipart_upload: bool
    blockstore_namespace_pattern: str = field(name="blockstore_namespace_ValidityRegex")
    blockstore_id: str = ""
    blockstore_description: str = ""


class Config(Struct, frozen=True):
    """Everything that clients may want to know. One store, so the list of stores is empty."""

    version_config: VersionConfig
    storage_config: StorageConfig
    storage_config_list: list[StorageConfig] = []
    ui_config: Mapping[str, str] = {}
    capabilities_config: Mapping[str, str] = {}


class GarbageCollectionConfig(Struct, frozen=True):
    """``grace_period``: seconds for which a new object is not collected, whatever shows it."""

    grace_period: int


class UsageReport(Struct, frozen=True):
    """Nothing is reported to anybody."""

    installation_id: str = ""
    reports: list[str] = []


@routes.get("/config", "getConfig", Permission.READ, answers={200: Config, 401: Error})
def get_config(call: Call) -> Response:
    """Describe the server: its version and its store."""
    return json_response(Config(VersionConfig(), storage_config(call.settings)))


@routes.get("/config/version", "getLakeFSVersion", Permission.READ, answers={200: VersionConfig, 401: Error})
def get_version(call: Call) -> Response:
    """Say which version this is."""
    return json_response(VersionConfig())


@routes.get("/config/storage", "getStorageConfig", Permission.READ, answers={200: StorageConfig, 401: Error})
def get_storage(call: Call) -> Response:
    """Describe the store."""
    return json_response(storage_config(call.settings))


@routes.get(
    "/config/garbage-collection",
    "getGarbageCollectionConfig",
    Permission.READ,
    answers={200: GarbageCollectionConfig, 401: Error},
)
def get_garbage_collection(call: Call) -> Response:
    """Say for how long new objects are safe."""
    return json_response(GarbageCollectionConfig(int(GRACE)))


@routes.get("/healthcheck", "healthCheck", None, answers={204: None})
def health_check(call: Call) -> Response:
    """Say that requests are answered."""
    return no_content()


@routes.post("/statistics", "postStatsEvents", Permission.READ, answers={204: None, 401: Error})
def post_statistics(call: Call) -> Response:
    """Take what a client says of its own use, and forget it."""
    return no_content()


@routes.get("/usage-report/summary", "getUsageReportSummary", Permission.READ, answers={200: UsageReport, 401: Error})
def get_usage(call: Call) -> Response:
    """Report no usage: none is collected."""
    return json_response(UsageReport())


def storage_config(settings: Settings) -> StorageConfig:
    """What clients may know of the store.

    The type is ``s3`` where bytes are in S3: the Hadoop file system in its simple mode reads them there by itself, and takes no
    other type. Everywhere else it is the scheme, ``local``, and clients use presigned URLs.
    """
    prefix = settings.namespace_prefix
    return StorageConfig(
        blockstore_type=prefix.partition("://")[0],
        blockstore_namespace_example=f"{prefix}example-repository",
        default_namespace_prefix=prefix.removesuffix("/"),
        pre_sign_support=settings.presigned,
        pre_sign_support_ui=settings.presigned,
        import_support=True,
        import_validity_regex=_IMPORTABLE,
        pre_sign_multipart_upload=settings.presigned,
        blockstore_namespace_pattern=settings.namespace_pattern,
    )
