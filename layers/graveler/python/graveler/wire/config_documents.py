"""Documents about the server itself."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

COMPATIBLE_VERSION: Final = "1.84.0"
"""The lakeFS version whose API this one matches. Clients parse it, and refuse versions they consider too old."""


CONDITIONAL_DELETES: Final = "conditional_deletes"
"""The feature of deleting an object only if it has an ETag. A server without it ignores the condition."""


MERGE_ISOLATION: Final = "merge_isolation"
"""The feature of servers whose merges, reverts and cherry-picks heed an isolation level for tables. Others ignore it."""
RECORDED_UPLOADS: Final = "recorded_uploads"
"""The feature of uploads in parts that any client continues by their ID, and of copies under a condition: what a gateway of S3
needs besides the operations of lakeFS."""


class VersionConfig(Struct, frozen=True):
    """The lakeFS version that this API is compatible with. Any other ``version_context`` makes lakectl warn of a commercial
    server."""

    version: str = COMPATIBLE_VERSION
    version_context: str = "lakeFS"
    latest_version: str = COMPATIBLE_VERSION
    upgrade_recommended: bool = False


class StorageConfig(Struct, frozen=True):
    """The object store. Clients append a slash and a repository's name to ``default_namespace_prefix`` to get a storage
    namespace."""

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
    """The configuration of the server for its clients. With one object store, the list of stores is empty. ``features`` names
    what this server can do beyond lakeFS, in order."""

    version_config: VersionConfig
    storage_config: StorageConfig
    storage_config_list: list[StorageConfig] = []
    ui_config: Mapping[str, str] = {}
    capabilities_config: Mapping[str, str] = {}
    features: list[str] = []


class GarbageCollectionConfig(Struct, frozen=True):
    """The settings of garbage collection. ``grace_period`` is the time in seconds for which a new object is not collected, even
    if no ref shows it."""

    grace_period: int


class UsageReport(Struct, frozen=True):
    """An empty usage report: this server reports its usage to no one."""

    installation_id: str = ""
    reports: list[str] = []
