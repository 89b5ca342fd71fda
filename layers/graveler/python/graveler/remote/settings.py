"""The settings of a repository behind the HTTP API: what its owners note of it, and what they forbid."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from graveler.errors import BusyError, NotFoundError
from graveler.model import RetentionRules
from graveler.remote.reading import RemoteReader

_ATTEMPTS: Final = 8
"""Tries to change settings that others change at the same time."""


class RemoteSettings(RemoteReader):
    """What changes settings."""

    def set_metadata(self, metadata: Mapping[str, str], *, force: bool = False) -> Mapping[str, str]:
        """Add to the metadata; all of it then. Cost: two requests."""
        self._connection.call("POST", (*self._base, "metadata"), {"force": force}, {"metadata": dict(metadata)})
        return self.metadata()

    def delete_metadata(self, keys: Iterable[str], *, force: bool = False) -> Mapping[str, str]:
        """Remove keys; what stays. Cost: two requests."""
        self._connection.call("DELETE", (*self._base, "metadata"), {"force": force}, {"keys": list(keys)})
        return self.metadata()

    def protect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Protect branches; all patterns then. Cost: two requests, again after losing a race."""
        added = tuple(patterns)
        return self._change_protection(lambda there: tuple(dict.fromkeys((*there, *added))), force=force)

    def unprotect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Take patterns away; the ones that stay. Cost: as :meth:`protect`."""
        gone = tuple(patterns)

        def without(there: tuple[str, ...]) -> tuple[str, ...]:
            for pattern in gone:
                if pattern not in there:
                    raise NotFoundError(f"no rule protects {pattern!r}; list the ones there are")
            return tuple(pattern for pattern in there if pattern not in gone)

        return self._change_protection(without, force=force)

    def _change_protection(
        self, change: Callable[[tuple[str, ...]], tuple[str, ...]], *, force: bool
    ) -> tuple[str, ...]:
        path = (*self._base, "settings", "branch_protection")
        for _ in range(_ATTEMPTS):
            there, etag = self.protection()
            wanted = change(there)
            rules = [{"pattern": pattern} for pattern in wanted]
            condition = {"if-match": f'"{etag}"'}
            answer = self._connection.call("PUT", path, {"force": force}, rules, headers=condition, passing=(412,))
            if answer.status != 412:
                return wanted
        raise BusyError(f"others go on changing the protected branches of {self._name!r}; try again")

    def set_retention(self, rules: RetentionRules, *, force: bool = False) -> None:
        """Decide for how long commits are to be kept."""
        path = (*self._base, "settings", "gc_rules")
        self._connection.call("PUT", path, {"force": force}, rules_document(rules))

    def delete_retention(self, *, force: bool = False) -> None:
        """Decide nothing about that."""
        self._connection.call("DELETE", (*self._base, "settings", "gc_rules"), {"force": force})

    def set_import_sources(self, prefixes: Iterable[str] | None, *, force: bool = False) -> None:
        """Narrow from where objects may be linked, staged and imported."""
        document = {"prefixes": None if prefixes is None else list(prefixes)}
        self._connection.call("PUT", (*self._base, "settings", "import_sources"), {"force": force}, document)

    def set_read_only(self, read_only: bool) -> None:
        """Refuse every change that is not forced, or allow changes again."""
        self._connection.call("PUT", (*self._base, "settings", "read_only"), None, {"read_only": read_only})


def rules_document(rules: RetentionRules) -> dict[str, object]:
    """Retention rules as the API has them."""
    branches = [{"branch_id": name, "retention_days": days} for name, days in rules.branches.items()]
    return {"default_retention_days": rules.default_days, "branches": branches}
