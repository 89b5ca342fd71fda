"""Documents about repositories and their settings."""

from typing import Annotated

from msgspec import Meta, Struct

from graveler.model import RetentionRules


class RepositoryCreation(Struct, frozen=True):
    """The repository to create. ``storage_namespace``, the address under which its objects are stored, must belong to no other
    repository. With ``sample_data``, its second commit adds a table, pictures and a text to try things on, 1.1 MB in all."""

    name: str
    storage_namespace: str
    default_branch: str | None = None
    storage_id: str | None = None
    sample_data: bool | None = None
    read_only: bool | None = None
    metadata: dict[str, str] | None = None


class GCRule(Struct, frozen=True):
    """The number of days for which objects that a branch no longer shows are kept."""

    branch_id: str
    retention_days: int


class GCRules(Struct, frozen=True):
    """The retention rules: for how many days objects that no branch shows any more are kept."""

    default_retention_days: int
    branches: list[GCRule]

    def value(self) -> RetentionRules:
        """Return it as rules of the lake."""
        return RetentionRules(
            self.default_retention_days, {rule.branch_id: rule.retention_days for rule in self.branches}
        )


class ProtectionRule(Struct, frozen=True):
    """Protection for branches whose name matches ``pattern`` (wildcards ``*`` and ``?``): only merges change them."""

    pattern: Annotated[str, Meta(min_length=1)]


class ImportSources(Struct, frozen=True):
    """Prefixes of addresses, each of a folder, from which objects may be linked, staged and imported, if the deployment allows
    them. null means all that the deployment allows."""

    prefixes: list[str] | None
