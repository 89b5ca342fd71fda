"""Requests that change a repository's settings. Concurrent changes are never lost.

Cost of each, unless it says otherwise: one table read, one write, both again after losing a race. Errors:
:class:`InvalidError`, :class:`ReadOnlyRepositoryError` unless ``force``, :class:`BusyError`.
"""

from collections.abc import Mapping
from typing import ClassVar

from graveler.model import RetentionRules, Rule, Rules
from graveler.requests.base import Endpoint, Permission, Request


class SetMetadata(Request[Mapping[str, str]], frozen=True, kw_only=True):
    """Add to the repository's metadata; an existing key gets the new value. Returns all of the metadata afterwards."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:set_metadata"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/metadata",
        "setRepositoryMetadata",
        body="MetadataSet",
        meaning="The keys and values to set.",
        query=("force",),
    )

    metadata: Mapping[str, str]
    force: bool = False


class DeleteMetadata(Request[Mapping[str, str]], frozen=True, kw_only=True):
    """Remove keys from the repository's metadata; a missing one is not an error. Returns the remaining metadata."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:delete_metadata"
    endpoint: ClassVar = Endpoint(
        "DELETE",
        "/repositories/{repository}/metadata",
        "deleteRepositoryMetadata",
        body="MetadataKeys",
        meaning="The keys to remove.",
        query=("force",),
    )

    keys: tuple[str, ...]
    force: bool = False


class SetProtection(Request[str], frozen=True, kw_only=True):
    """Protect the branches whose name matches one of the patterns (``*`` and ``?`` are wildcards), and no others. Returns the
    etag.

    A protected branch refuses staging, reset, commit and import; merge, revert and cherry-pick change it. With
    ``if_match``, only if the rules still have that etag (empty: there are none), else :class:`PreconditionError`.
    Additional cost: with patterns, listing the branches, and for each protected one three table reads and two transactions.
    """

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:set_protection"

    patterns: tuple[str, ...]
    if_match: str | None = None
    force: bool = False


class Protect(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """Add patterns to those of :class:`SetProtection`. Returns all patterns afterwards. Cost and errors as there."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:protect"

    patterns: tuple[str, ...]
    force: bool = False


class Unprotect(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """Remove patterns from those of :class:`SetProtection`. Returns the remaining ones. :class:`NotFoundError` for a pattern
    that is not among them."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:unprotect"

    patterns: tuple[str, ...]
    force: bool = False


class SetRetention(Request[None], frozen=True, kw_only=True):
    """Set the rules for how long commits are kept."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:set_retention"

    rules: RetentionRules
    force: bool = False


class DeleteRetention(Request[None], frozen=True, kw_only=True):
    """Remove the rules for how long commits are kept."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:delete_retention"
    endpoint: ClassVar = Endpoint("DELETE", "/repositories/{repository}/settings/gc_rules", "deleteGCRules")

    force: bool = False


class SetImportSources(Request[None], frozen=True, kw_only=True):
    """Restrict the addresses, of those that the deployment allows, from which the API may link, stage and import objects: only
    those that begin with one of ``prefixes``, each of which names a folder (none: nothing outside of the
    repository). None removes the restriction."""

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:set_import_sources"

    prefixes: tuple[str, ...] | None
    force: bool = False


class SetReadOnly(Request[None], frozen=True, kw_only=True):
    """Refuse every change that is not forced, or allow changes again. Acknowledged changes stay, including uncommitted ones.

    Additional cost: if ``read_only``, what :class:`SetProtection` costs for all branches.
    """

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.change:set_read_only"
    endpoint: ClassVar = Endpoint(
        "PUT",
        "/repositories/{repository}/settings/read_only",
        "setReadOnly",
        body="ReadOnly",
        meaning="The read-only setting of a repository: if true, only forced changes are accepted.",
    )

    read_only: bool


class SetRules(Request[Rules], frozen=True, kw_only=True):
    """Replace the repository's rules, and return them with those of the lake, which stay. With ``if_match``, only if they still
    have this version (0: the repository never had any), else :class:`PreconditionError`.

    The rules are in force when the call returns: a change that is judged by the earlier ones fails, and is judged again. The
    first rule raises the repository's format version, so that earlier versions of graveler refuse to open it.

    Cost: one table read and one write, both again after losing a race; listing the branches, and for each that a rule matches
    one transaction. A check of SQL starts a process. :class:`InvalidError` for a rule that nobody could
    fulfil; :class:`BusyError`.
    """

    permission: ClassVar = Permission.ADMIN
    implementation: ClassVar = "settings.rule_changes:set_rules"

    rules: tuple[Rule, ...]
    if_match: int | None = None
