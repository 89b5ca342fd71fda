"""Shapes of updates: the changes of a table's or a view's metadata that a commit names."""

from typing import Annotated

from msgspec import Meta, Struct

from graveler.table_format.document_shapes import (
    MAX_NAMES,
    MAX_SNAPSHOTS,
    EncryptionKeyShape,
    Int,
    Long,
    PartitionStatisticsShape,
    RefShape,
    SchemaShape,
    SnapshotShape,
    SortOrderShape,
    SpecShape,
    StatisticsShape,
    Text,
    Texts,
    Uuid,
    ViewVersionShape,
)

Ids = Annotated[list[Long], Meta(max_length=MAX_SNAPSHOTS)]
Names = Annotated[list[str], Meta(max_length=MAX_NAMES)]


class AssignUuid(Struct, rename="kebab"):
    """``assign-uuid``"""

    uuid: Uuid


class UpgradeFormatVersion(Struct, rename="kebab"):
    """``upgrade-format-version``"""

    format_version: Int


class AddSchema(Struct, rename="kebab"):
    """``add-schema``"""

    schema: SchemaShape
    last_column_id: Int | None = None


class SetCurrentSchema(Struct, rename="kebab"):
    """``set-current-schema``"""

    schema_id: Int


class AddSpec(Struct, rename="kebab"):
    """``add-spec``"""

    spec: SpecShape


class SetDefaultSpec(Struct, rename="kebab"):
    """``set-default-spec``"""

    spec_id: Int


class AddSortOrder(Struct, rename="kebab"):
    """``add-sort-order``"""

    sort_order: SortOrderShape


class SetDefaultSortOrder(Struct, rename="kebab"):
    """``set-default-sort-order``"""

    sort_order_id: Int


class AddSnapshot(Struct, rename="kebab"):
    """``add-snapshot``"""

    snapshot: SnapshotShape


class SetSnapshotRef(RefShape, rename="kebab", kw_only=True):
    """``set-snapshot-ref``"""

    ref_name: Text


class RemoveSnapshots(Struct, rename="kebab"):
    """``remove-snapshots``"""

    snapshot_ids: Ids


class RemoveSnapshotRef(Struct, rename="kebab"):
    """``remove-snapshot-ref``"""

    ref_name: str


class SetLocation(Struct, rename="kebab"):
    """``set-location``"""

    location: Text


class SetProperties(Struct, rename="kebab"):
    """``set-properties``. Old clients call its field ``updated``."""

    updates: Texts | None = None
    updated: Texts | None = None


class RemoveProperties(Struct, rename="kebab"):
    """``remove-properties``. Old clients call its field ``removed``."""

    removals: Names | None = None
    removed: Names | None = None


class SetStatistics(Struct, rename="kebab"):
    """``set-statistics``. Its field ``snapshot-id`` is deprecated, and not read."""

    statistics: StatisticsShape


class SetPartitionStatistics(Struct, rename="kebab"):
    """``set-partition-statistics``"""

    partition_statistics: PartitionStatisticsShape


class RemoveStatistics(Struct, rename="kebab"):
    """``remove-statistics`` and ``remove-partition-statistics``"""

    snapshot_id: Long


class RemoveSpecs(Struct, rename="kebab"):
    """``remove-partition-specs``"""

    spec_ids: Ids


class RemoveSchemas(Struct, rename="kebab"):
    """``remove-schemas``"""

    schema_ids: Ids


class AddEncryptionKey(Struct, rename="kebab"):
    """``add-encryption-key``"""

    encryption_key: EncryptionKeyShape


class RemoveEncryptionKey(Struct, rename="kebab"):
    """``remove-encryption-key``"""

    key_id: str


class AddViewVersion(Struct, rename="kebab"):
    """``add-view-version``"""

    view_version: ViewVersionShape


class SetCurrentViewVersion(Struct, rename="kebab"):
    """``set-current-view-version``"""

    view_version_id: Int
