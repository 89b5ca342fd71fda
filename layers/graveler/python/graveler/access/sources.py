"""The places from which objects may be imported, staged or linked: graveler gives no caller access to data that was not given to
them.

A deployment has a list of address prefixes, empty by default (in AWS the same list is the role's policy), which a repository can
narrow. Prefixes and addresses are compared as the plain text that they are: nothing is decoded or cleaned first, so an address
spelled differently from the list is refused. Addresses that could mean another place to a reader that does decode or clean them
are refused whatever the list says. The target of a symbolic link in an allowed folder is allowed with it.
"""

from collections.abc import Sequence

from graveler.access.refusals import SourceNotAllowedError
from graveler.errors import InvalidError
from graveler.storage.objects.plain_addresses import is_plain


class ImportSources:
    """Prefixes of allowed addresses, such as ``s3://bucket/raw/``; each names a folder, with or without its slash.
    :class:`InvalidError` for a prefix that is not an address."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._levels: tuple[tuple[str, ...], ...] = (_folders(prefixes),)

    def narrowed(self, prefixes: Sequence[str]) -> "ImportSources":
        """Return what both this and ``prefixes`` allow; no list of a repository can widen its deployment's."""
        narrow = ImportSources(prefixes)
        narrow._levels = (*self._levels, *narrow._levels)
        return narrow

    @property
    def folders(self) -> tuple[tuple[str, ...], ...]:
        """Lists of folders: an allowed address lies in one of each list."""
        return self._levels

    def allows(self, address: str) -> bool:
        """Return whether the object, or the folder (its address ends with a slash), lies below an allowed prefix."""
        if not is_plain(address):
            return False
        return all(any(address.startswith(folder) for folder in level) for level in self._levels)

    def require(self, address: str) -> None:
        """Raise :class:`SourceNotAllowedError` unless :meth:`allows`."""
        if not self.allows(address):
            raise SourceNotAllowedError(address)


def _folders(prefixes: Sequence[str]) -> tuple[str, ...]:
    for prefix in prefixes:
        if not is_plain(prefix):
            raise InvalidError(
                f"import source {prefix!r} is not a plain address; write it as s3://bucket/folder/ or file:///folder/"
            )
    return tuple(prefix if prefix.endswith("/") else prefix + "/" for prefix in prefixes)
