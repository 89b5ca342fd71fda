"""Requests that change a repository's settings. Of several that do so at once, nobody's change is lost.

Cost of each, unless it says otherwise: one table read, one write, both again after losing a race. Errors:
:class:`InvalidError`, :class:`ReadOnlyRepositoryError` unless ``force``, :class:`BusyError`.
"""

from collections.abc import Mapping
from typing import ClassVar

from graveler.model import RetentionRules
from graveler.requests.base import Permission, Request


class SetMetadata(Request[Mapping[str, str]], frozen=True, kw_only=True):
    """Add to the repository's metadata; a key that is there gets the new value. Returns all of it, as it is afterwards."""

    permission: ClassVar = Permission.ADMIN

    metadata: Mapping[str, str]
    force: bool = False


class DeleteMetadata(Request[Mapping[str, str]], frozen=True, kw_only=True):
    """Remove keys from the repository's metadata; a missing one is no error. Returns all that stays."""

    permission: ClassVar = Permission.ADMIN

    keys: tuple[str, ...]
    force: bool = False


class SetProtection(Request[str], frozen=True, kw_only=True):
    """Protect the branches whose name one of the patterns matches (``*`` and ``?`` are wildcards), and no others. Returns the
    etag.

    On a protected branch nothing is staged, reset, committed or imported; merge, revert and cherry-pick change it. With
    ``if_match``, only if the rules are still those of that etag (empty: there are none), else :class:`PreconditionError`.
    Cost besides: with patterns, listing the branches, and for each that is protected three table reads and two transactions.
    """

    permission: ClassVar = Permission.ADMIN

    patterns: tuple[str, ...]
    if_match: str | None = None
    force: bool = False


class Protect(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """Add patterns to those of :class:`SetProtection`. Returns all of them, as they are afterwards. Cost and errors as there."""

    permission: ClassVar = Permission.ADMIN

    patterns: tuple[str, ...]
    force: bool = False


class Unprotect(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """Take patterns away from those of :class:`SetProtection`. Returns the ones that stay. :class:`NotFoundError` for a pattern
    that is not among them."""

    permission: ClassVar = Permission.ADMIN

    patterns: tuple[str, ...]
    force: bool = False


class SetRetention(Request[None], frozen=True, kw_only=True):
    """Decide for how long commits are kept."""

    permission: ClassVar = Permission.ADMIN

    rules: RetentionRules
    force: bool = False


class DeleteRetention(Request[None], frozen=True, kw_only=True):
    """Decide nothing about how long commits are kept."""

    permission: ClassVar = Permission.ADMIN

    force: bool = False


class SetImportSources(Request[None], frozen=True, kw_only=True):
    """Narrow from where, of the addresses that the deployment allows, objects may be linked, staged and imported over the API:
    only from those that begin with one of ``prefixes``, each of which names a folder (none: from nowhere outside of the
    repository). None ends that."""

    permission: ClassVar = Permission.ADMIN

    prefixes: tuple[str, ...] | None
    force: bool = False


class SetReadOnly(Request[None], frozen=True, kw_only=True):
    """Refuse every change that is not forced, or allow changes again. What was acknowledged stays, also what is uncommitted.

    Cost besides: if ``read_only``, what :class:`SetProtection` costs for all branches.
    """

    permission: ClassVar = Permission.ADMIN

    read_only: bool
