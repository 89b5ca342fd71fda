"""The settings of a repository behind the HTTP API: what its owners note of it, and what they forbid."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from graveler.errors import BusyError, NotFoundError
from graveler.model import RetentionRules
from graveler.remote.errors import not_offered
from graveler.remote.reading import RemoteReader

_ATTEMPTS: Final = 8
"""Tries to change settings that others change at the same time."""


class RemoteSettings(RemoteReader):
    """What changes settings. The API has no way to force such a change in a read-only repository: :class:`InvalidError`."""

    def set_metadata(self, metadata: Mapping[str, str], *, force: bool = False) -> Mapping[str, str]:
        """Add to the metadata; all of it then. Cost: two requests."""
        expect_unforced("a forced change of settings", force)
        self._connection.call("POST", (*self._base, "metadata"), None, {"metadata": dict(metadata)})
        return self.metadata()

    def delete_metadata(self, keys: Iterable[str], *, force: bool = False) -> Mapping[str, str]:
        """Remove keys; what stays. Cost: two requests."""
        expect_unforced("a forced change of settings", force)
        self._connection.call("DELETE", (*self._base, "metadata"), None, {"keys": list(keys)})
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
        expect_unforced("a forced change of settings", force)
        path = (*self._base, "settings", "branch_protection")
        for _ in range(_ATTEMPTS):
            there, etag = self.protection()
            wanted = change(there)
            rules = [{"pattern": pattern} for pattern in wanted]
            answer = self._connection.call("PUT", path, None, rules, headers={"if-match": f'"{etag}"'}, passing=(412,))
            if answer.status != 412:
                return wanted
        raise BusyError(f"others go on changing the protected branches of {self._name!r}; try again")

    def set_retention(self, rules: RetentionRules, *, force: bool = False) -> None:
        """Decide for how long commits are to be kept."""
        expect_unforced("a forced change of settings", force)
        branches = [{"branch_id": name, "retention_days": days} for name, days in rules.branches.items()]
        document = {"default_retention_days": rules.default_days, "branches": branches}
        self._connection.call("PUT", (*self._base, "settings", "gc_rules"), None, document)

    def delete_retention(self, *, force: bool = False) -> None:
        """Decide nothing about that."""
        expect_unforced("a forced change of settings", force)
        self._connection.call("DELETE", (*self._base, "settings", "gc_rules"))

    def set_import_sources(self, prefixes: Iterable[str] | None, *, force: bool = False) -> None:
        """Narrow from where objects may be linked, staged and imported."""
        expect_unforced("a forced change of settings", force)
        document = {"prefixes": None if prefixes is None else list(prefixes)}
        self._connection.call("PUT", (*self._base, "settings", "import_sources"), None, document)

    def set_read_only(self, read_only: bool) -> NoReturn:
        """Not in the HTTP API: :class:`InvalidError`."""
        raise not_offered("making a repository read-only, or writable again,")


def expect_unforced(what: str, force: bool) -> None:
    """:class:`InvalidError` for what can be forced on a lake of one's own only."""
    if force:
        raise not_offered(what)
