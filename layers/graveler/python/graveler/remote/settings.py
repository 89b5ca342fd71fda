"""The settings of a repository behind the HTTP API: metadata, protection, retention and the like."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from graveler.errors import BusyError, NotFoundError, PreconditionError
from graveler.lake.context import Context
from graveler.model import RetentionRules
from graveler.remote.reading import RemoteReader
from graveler.requests import settings
from graveler.requests.base import Request
from graveler.wire import repositories

_ATTEMPTS: Final = 8
"""Attempts to change settings that concurrent writers change too."""


class RemoteSettings(RemoteReader):
    """The runs of settings requests, each one request to the server unless stated otherwise."""

    def _set_metadata(self, request: settings.SetMetadata, _: Context) -> Mapping[str, str]:
        """Set metadata. Two requests."""
        body = repositories.MetadataSet(dict(request.metadata))
        self._connection.call("POST", (*self._base, "metadata"), {"force": request.force}, body)
        return self.metadata()

    def _delete_metadata(self, request: settings.DeleteMetadata, _: Context) -> Mapping[str, str]:
        """Delete metadata. Two requests."""
        body = repositories.MetadataKeys(list(request.keys))
        self._connection.call("DELETE", (*self._base, "metadata"), {"force": request.force}, body)
        return self.metadata()

    def _set_protection(self, request: settings.SetProtection, _: Context) -> str:
        """Set the protection patterns. Two requests."""
        self._put_protection(request.patterns, request.if_match, force=request.force)
        return self.protection()[1]

    def _protect(self, request: settings.Protect, _: Context) -> tuple[str, ...]:
        """Add protection patterns. Two requests, repeated after losing a race."""
        return self._change_protection(lambda there: (*there, *request.patterns), force=request.force)

    def _unprotect(self, request: settings.Unprotect, _: Context) -> tuple[str, ...]:
        """Remove protection patterns. Cost as for adding."""

        def without(there: tuple[str, ...]) -> tuple[str, ...]:
            for pattern in request.patterns:
                if pattern not in there:
                    raise NotFoundError(f"no rule protects {pattern!r}; list the existing ones")
            return tuple(pattern for pattern in there if pattern not in request.patterns)

        return self._change_protection(without, force=request.force)

    def _change_protection(
        self, change: Callable[[tuple[str, ...]], tuple[str, ...]], *, force: bool
    ) -> tuple[str, ...]:
        for _ in range(_ATTEMPTS):
            there, etag = self.protection()
            wanted = tuple(dict.fromkeys(change(there)))
            try:
                self._put_protection(wanted, etag, force=force)
            except PreconditionError:
                continue
            return wanted
        raise BusyError(f"others keep changing the protected branches of {self._name!r}; try again")

    def _put_protection(self, patterns: Sequence[str], if_match: str | None, *, force: bool) -> None:
        rules = [repositories.ProtectionRule(pattern) for pattern in dict.fromkeys(patterns)]
        condition = {} if if_match is None else {"if-match": f'"{if_match}"'}
        path = (*self._base, "settings", "branch_protection")
        self._connection.call("PUT", path, {"force": force}, rules, headers=condition)

    def _set_retention(self, request: settings.SetRetention, _: Context) -> None:
        path = (*self._base, "settings", "gc_rules")
        self._connection.call("PUT", path, {"force": request.force}, rules_document(request.rules))

    def _delete_retention(self, request: settings.DeleteRetention, _: Context) -> None:
        self._connection.call("DELETE", (*self._base, "settings", "gc_rules"), {"force": request.force})

    def _set_import_sources(self, request: settings.SetImportSources, _: Context) -> None:
        body = repositories.ImportSources(None if request.prefixes is None else list(request.prefixes))
        self._connection.call("PUT", (*self._base, "settings", "import_sources"), {"force": request.force}, body)

    def _set_read_only(self, request: settings.SetReadOnly, _: Context) -> None:
        body = repositories.ReadOnly(request.read_only)
        self._connection.call("PUT", (*self._base, "settings", "read_only"), None, body)


SETTINGS_RUNS: Final[Mapping[type[Request[Any]], Callable[[RemoteSettings, Any, Context], Any]]] = {
    settings.SetMetadata: RemoteSettings._set_metadata,
    settings.DeleteMetadata: RemoteSettings._delete_metadata,
    settings.SetProtection: RemoteSettings._set_protection,
    settings.Protect: RemoteSettings._protect,
    settings.Unprotect: RemoteSettings._unprotect,
    settings.SetRetention: RemoteSettings._set_retention,
    settings.DeleteRetention: RemoteSettings._delete_retention,
    settings.SetImportSources: RemoteSettings._set_import_sources,
    settings.SetReadOnly: RemoteSettings._set_read_only,
}


def rules_document(rules: RetentionRules) -> repositories.GCRules:
    """Return the API's document for retention rules."""
    branches = [repositories.GCRule(name, days) for name, days in rules.branches.items()]
    return repositories.GCRules(rules.default_days, branches)
