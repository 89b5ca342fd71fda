"""The settings of one repository: metadata, protected branches, retention, import sources, read-only."""

from collections.abc import Iterable, Mapping

from graveler.lake.rules import etag
from graveler.lake.verbs.base import VerbsBase
from graveler.model import RetentionRules


class SettingsVerbs(VerbsBase):
    """Verbs about settings."""

    def metadata(self) -> Mapping[str, str]:
        """What the repository's owners noted of it. Cost: one table read."""
        return self._settings.read().metadata

    def set_metadata(self, metadata: Mapping[str, str], *, force: bool = False) -> Mapping[str, str]:
        """Add to the repository's metadata; a key that is there gets the new value. All of it, as it is afterwards.

        Of several who change settings at once, nobody's change is lost. Cost: one table read, one write, both again after
        losing a race. :class:`InvalidError`, :class:`ReadOnlyRepositoryError` unless ``force``, :class:`BusyError`.
        """
        return self._settings.change_metadata(metadata, (), force=force).metadata

    def delete_metadata(self, keys: Iterable[str], *, force: bool = False) -> Mapping[str, str]:
        """Remove keys from the repository's metadata; one that is not there is no error. Cost and errors as
        :meth:`set_metadata`."""
        return self._settings.change_metadata({}, frozenset(keys), force=force).metadata

    def protection(self) -> tuple[tuple[str, ...], str]:
        """The patterns of protected branches, and the etag for :meth:`set_protection`. Cost: one table read."""
        patterns = self._settings.read().protected
        return patterns, etag(patterns)

    def set_protection(self, patterns: Iterable[str], *, if_match: str | None = None, force: bool = False) -> str:
        """Protect the branches whose name one of the patterns matches (``*`` and ``?`` are wildcards), and no others. The etag.

        On a protected branch nothing is staged, reset, committed or imported; merge, revert and cherry-pick change it. With
        ``if_match``, only if the rules are still those of that etag (empty: there are none), else :class:`PreconditionError`.
        Cost: one table read, one write; with patterns, listing the branches, and for each that is protected three table reads
        and two transactions. Errors as :meth:`set_metadata`.
        """
        changed = self._settings.set_protection(tuple(dict.fromkeys(patterns)), if_match, force=force)
        self._stager.forget()
        return etag(changed.protected)

    def protect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Add patterns to those of :meth:`set_protection`; all of them, as they are afterwards. Cost and errors as there."""
        changed = self._settings.change_protection(tuple(patterns), (), force=force)
        self._stager.forget()
        return changed.protected

    def unprotect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Take patterns away from those of :meth:`set_protection`; the ones that stay. :class:`NotFoundError` for a pattern that
        is not among them. Cost and errors as there."""
        return self._settings.change_protection((), tuple(patterns), force=force).protected

    def retention(self) -> RetentionRules | None:
        """For how long commits are to be kept, if that was decided. Cost: one table read."""
        return self._settings.read().retention

    def set_retention(self, rules: RetentionRules, *, force: bool = False) -> None:
        """Decide for how long commits are to be kept. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_retention(rules, force=force)

    def delete_retention(self, *, force: bool = False) -> None:
        """Decide nothing about how long commits are kept. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_retention(None, force=force)

    def set_import_sources(self, prefixes: Iterable[str] | None, *, force: bool = False) -> None:
        """Narrow from where, of the addresses that the deployment allows, objects may be linked, staged and imported over the
        API: only from those that begin with one of ``prefixes``, each of which names a folder (none: from nowhere outside of the
        repository). None ends that. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_import_sources(None if prefixes is None else tuple(dict.fromkeys(prefixes)), force=force)

    def set_read_only(self, read_only: bool) -> None:
        """Refuse every change that is not forced, or allow changes again. What was acknowledged stays, also what is uncommitted.

        Cost: one table read, one write; if ``read_only``, what :meth:`set_protection` costs for all branches.
        """
        self._settings.set_read_only(read_only)
        self._stager.forget()
