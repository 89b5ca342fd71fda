"""Documents about repositories and their settings."""

from typing import Annotated

from msgspec import Meta, Struct

from graveler.model import RetentionRules


class RepositoryCreation(Struct, frozen=True):
    """A repository to be. Its namespace, an address where its objects will lie, must belong to no other. With ``sample_data`` it
    begins with a table, pictures and a text to try things on, 1.1 MB in all, as its second commit."""

    name: str
    storage_namespace: str
    default_branch: str | None = None
    storage_id: str | None = None
    sample_data: bool | None = None
    read_only: bool | None = None
    metadata: dict[str, str] | None = None


class MetadataSet(Struct, frozen=True):
    """Keys and values to set."""

    metadata: dict[str, str]


class MetadataKeys(Struct, frozen=True):
    """Keys to remove."""

    keys: list[str]


class GCRule(Struct, frozen=True):
    """How long what a branch does not show any more is kept."""

    branch_id: str
    retention_days: int


class GCRules(Struct, frozen=True):
    """How long objects are kept that no branch shows any more."""

    default_retention_days: int
    branches: list[GCRule]

    def value(self) -> RetentionRules:
        """Return it as rules of the lake."""
        return RetentionRules(
            self.default_retention_days, {rule.branch_id: rule.retention_days for rule in self.branches}
        )


class ProtectionRule(Struct, frozen=True):
    """Branches whose name matches ``pattern`` (wildcards ``*`` and ``?``) change by merges only."""

    pattern: Annotated[str, Meta(min_length=1)]


class ImportSources(Struct, frozen=True):
    """Prefixes of addresses, each of a folder, from which objects may be linked, staged and imported, of those that the
    deployment allows. null: all of those."""

    prefixes: list[str] | None


class ReadOnly(Struct, frozen=True):
    """Whether changes are refused that are not forced."""

    read_only: bool
