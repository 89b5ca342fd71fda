"""The settings of one repository: metadata, protected branches, retention, import sources, read-only."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.lake.context import Context
from graveler.lake.rules import etag
from graveler.lake.verbs.base import VerbsBase
from graveler.model import RetentionRules
from graveler.requests import settings
from graveler.requests.base import Request


class SettingsVerbs(VerbsBase):
    """Reads settings, and does what requests about them ask for."""

    def metadata(self) -> Mapping[str, str]:
        """What the repository's owners noted of it. Cost: one table read."""
        return self._settings.read().metadata

    def protection(self) -> tuple[tuple[str, ...], str]:
        """The patterns of protected branches, and the etag for :class:`graveler.requests.settings.SetProtection`. Cost: one table
        read."""
        patterns = self._settings.read().protected
        return patterns, etag(patterns)

    def retention(self) -> RetentionRules | None:
        """For how long commits are to be kept, if that was decided. Cost: one table read."""
        return self._settings.read().retention

    def _set_metadata(self, request: settings.SetMetadata, _: Context) -> Mapping[str, str]:
        return self._settings.change_metadata(request.metadata, (), force=request.force).metadata

    def _delete_metadata(self, request: settings.DeleteMetadata, _: Context) -> Mapping[str, str]:
        return self._settings.change_metadata({}, frozenset(request.keys), force=request.force).metadata

    def _set_protection(self, request: settings.SetProtection, _: Context) -> str:
        patterns = tuple(dict.fromkeys(request.patterns))
        changed = self._settings.set_protection(patterns, request.if_match, force=request.force)
        self._stager.forget()
        return etag(changed.protected)

    def _protect(self, request: settings.Protect, _: Context) -> tuple[str, ...]:
        changed = self._settings.change_protection(request.patterns, (), force=request.force)
        self._stager.forget()
        return changed.protected

    def _unprotect(self, request: settings.Unprotect, _: Context) -> tuple[str, ...]:
        return self._settings.change_protection((), request.patterns, force=request.force).protected

    def _set_retention(self, request: settings.SetRetention, _: Context) -> None:
        self._settings.set_retention(request.rules, force=request.force)

    def _delete_retention(self, request: settings.DeleteRetention, _: Context) -> None:
        self._settings.set_retention(None, force=request.force)

    def _set_import_sources(self, request: settings.SetImportSources, _: Context) -> None:
        prefixes = None if request.prefixes is None else tuple(dict.fromkeys(request.prefixes))
        self._settings.set_import_sources(prefixes, force=request.force)

    def _set_read_only(self, request: settings.SetReadOnly, _: Context) -> None:
        self._settings.set_read_only(request.read_only)
        self._stager.forget()


SETTINGS_RUNS: Final[Mapping[type[Request[Any]], Callable[[SettingsVerbs, Any, Context], Any]]] = {
    settings.SetMetadata: SettingsVerbs._set_metadata,
    settings.DeleteMetadata: SettingsVerbs._delete_metadata,
    settings.SetProtection: SettingsVerbs._set_protection,
    settings.Protect: SettingsVerbs._protect,
    settings.Unprotect: SettingsVerbs._unprotect,
    settings.SetRetention: SettingsVerbs._set_retention,
    settings.DeleteRetention: SettingsVerbs._delete_retention,
    settings.SetImportSources: SettingsVerbs._set_import_sources,
    settings.SetReadOnly: SettingsVerbs._set_read_only,
}
