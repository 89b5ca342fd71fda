"""The settings of a repository behind the HTTP API: metadata, protection, retention and the like."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from graveler.errors import BusyError, NotFoundError, PreconditionError
from graveler.lake.context import Context
from graveler.model import RetentionRules, Rules
from graveler.remote.reading import RemoteReader
from graveler.remote.sending import send
from graveler.requests import setting_changes
from graveler.requests.base import Request
from graveler.wire import repository_documents, rule_documents

_ATTEMPTS: Final = 8
"""Attempts to change settings that concurrent writers change too."""


class RemoteSettings(RemoteReader):
    """The runs of settings requests, each one request to the server unless stated otherwise."""

    def _change_metadata(
        self, request: setting_changes.SetMetadata | setting_changes.DeleteMetadata, _: Context
    ) -> Mapping[str, str]:
        """Set or delete metadata. Two requests."""
        send(self._connection, self._name, request)
        return self.metadata()

    def _set_protection(self, request: setting_changes.SetProtection, _: Context) -> str:
        """Set the protection patterns. Two requests."""
        self._put_protection(request.patterns, request.if_match, force=request.force)
        return self.protection()[1]

    def _protect(self, request: setting_changes.Protect, _: Context) -> tuple[str, ...]:
        """Add protection patterns. Two requests, repeated after losing a race."""
        return self._change_protection(lambda patterns: (*patterns, *request.patterns), force=request.force)

    def _unprotect(self, request: setting_changes.Unprotect, _: Context) -> tuple[str, ...]:
        """Remove protection patterns. Cost as for adding."""

        def without(patterns: tuple[str, ...]) -> tuple[str, ...]:
            for pattern in request.patterns:
                if pattern not in patterns:
                    raise NotFoundError(f"no rule protects {pattern!r}; list the existing ones")
            return tuple(pattern for pattern in patterns if pattern not in request.patterns)

        return self._change_protection(without, force=request.force)

    def _change_protection(
        self, change: Callable[[tuple[str, ...]], tuple[str, ...]], *, force: bool
    ) -> tuple[str, ...]:
        for _ in range(_ATTEMPTS):
            current, etag = self.protection()
            patterns = tuple(dict.fromkeys(change(current)))
            try:
                self._put_protection(patterns, etag, force=force)
            except PreconditionError:
                continue
            return patterns
        raise BusyError(f"others keep changing the protected branches of {self._name!r}; try again")

    def _put_protection(self, patterns: Sequence[str], if_match: str | None, *, force: bool) -> None:
        rules = [repository_documents.ProtectionRule(pattern) for pattern in dict.fromkeys(patterns)]
        condition = {} if if_match is None else {"if-match": f'"{if_match}"'}
        path = (*self._base, "settings", "branch_protection")
        self._connection.call("PUT", path, {"force": force}, rules, headers=condition)

    def _set_retention(self, request: setting_changes.SetRetention, _: Context) -> None:
        path = (*self._base, "settings", "gc_rules")
        self._connection.call("PUT", path, {"force": request.force}, rules_document(request.rules))

    def _set_rules(self, request: setting_changes.SetRules, _: Context) -> Rules:
        document = rule_documents.RuleChange(request.rules, request.if_match)
        return self._connection.call("PUT", (*self._base, "settings", "rules"), None, document).read(Rules)

    def _set_import_sources(self, request: setting_changes.SetImportSources, _: Context) -> None:
        body = repository_documents.ImportSources(None if request.prefixes is None else list(request.prefixes))
        self._connection.call("PUT", (*self._base, "settings", "import_sources"), {"force": request.force}, body)


SETTINGS_RUNS: Final[Mapping[type[Request[Any]], Callable[[RemoteSettings, Any, Context], Any]]] = {
    setting_changes.SetMetadata: RemoteSettings._change_metadata,
    setting_changes.DeleteMetadata: RemoteSettings._change_metadata,
    setting_changes.SetProtection: RemoteSettings._set_protection,
    setting_changes.Protect: RemoteSettings._protect,
    setting_changes.Unprotect: RemoteSettings._unprotect,
    setting_changes.SetRetention: RemoteSettings._set_retention,
    setting_changes.SetImportSources: RemoteSettings._set_import_sources,
    setting_changes.SetRules: RemoteSettings._set_rules,
}


def rules_document(rules: RetentionRules) -> repository_documents.GCRules:
    """Return the API's document for retention rules."""
    branches = [repository_documents.GCRule(name, days) for name, days in rules.branches.items()]
    return repository_documents.GCRules(rules.default_days, branches)
