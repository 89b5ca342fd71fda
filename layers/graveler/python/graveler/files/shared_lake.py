"""The lake that handles share, and how it is opened again in another process.

A pickled handle holds the lake's address: a folder, a table with its place in S3, or a server's URL, with the name of the profile
that had the key for it. It holds no key, token or proxy, which the other process takes from its own configuration file or
environment. The lake is opened there when the first verb needs it: an error
while a worker unpickles its task would end the worker, and its message would be lost. A process opens each lake once, however
many handles reach it.
"""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.opening.location import AwsLake, FolderLake, open_at
from graveler.location.configuration import profile_names
from graveler.location.environment import Named, ServedLake, find_lake
from graveler.remote.any_repository import AnyLake
from graveler.remote.opening import open_served
from graveler.system.forks import new_lock

_OPEN_LAKES: Final = 8
"""The number of lakes that stay open for further handles."""


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """The address of a server, without what opens it."""

    url: str
    host: str | None
    name: str | None
    by_aws: bool
    profile: str | None = None

    def __str__(self) -> str:
        return self.url

    def with_credentials(self) -> ServedLake:
        """Return the server with this process's credentials: those of the profile, if this machine has one of its name.
        :class:`ForbiddenError` if there are none."""
        login = "aws" if self.by_aws else None
        profile = self.profile if self.profile in profile_names() else None
        try:
            server = find_lake(Named(endpoint=self.url, login=login, profile=profile))
        except ForbiddenError as error:
            raise ForbiddenError(
                f"a handle on the lake at {self.url!r} came from another process, and handles carry no credentials: {error}"
            ) from None
        assert isinstance(server, ServedLake)
        return replace(server, host=self.host or server.host, name=self.name or server.name)


Address: TypeAlias = FolderLake | AwsLake | ServerAddress


def address_of(location: FolderLake | AwsLake | ServedLake) -> Address | None:
    """Return the address to reopen the lake by; None if it contains a password."""
    if isinstance(location, FolderLake):
        return FolderLake(location.folder.absolute())
    if isinstance(location, AwsLake):
        urls = (location.s3_endpoint_url, location.dynamodb_endpoint_url)
        return None if any(url is not None and has_secret(url) for url in urls) else location
    if has_secret(location.url):
        return None
    return ServerAddress(
        url=location.url, host=location.host, name=location.name, by_aws=location.by_aws, profile=location.profile
    )


def has_secret(url: str) -> bool:
    """Return whether a URL contains a password, or anything else that may be one."""
    parts = urlsplit(url)
    return "@" in parts.netloc or bool(parts.query)


class SharedLake:
    """A lake that several handles use, opened when it is first needed. Pickles as its ``address``; a copy is the same lake."""

    def __init__(self, lake: "AnyLake | None", address: Address | None) -> None:
        self._lake = lake
        self._address = address

    @property
    def lake(self) -> AnyLake:
        """The opened lake. The first use may open it, and raises the errors of that."""
        if self._lake is None:
            assert self._address is not None
            self._lake = _opened(self._address)
        return self._lake

    @property
    def address(self) -> Address | None:
        """The address to open the lake by again; None if it contains a password."""
        return self._address

    @property
    def location(self) -> FolderLake | AwsLake | ServedLake:
        """The location, with this process's credentials, for a process that this one starts. :class:`InvalidError` if the address
        has a password."""
        if self._address is None:
            raise InvalidError(
                f"another process cannot open {self._lake!r}, whose address has a password; open it by an address without one"
            )
        return self._address.with_credentials() if isinstance(self._address, ServerAddress) else self._address

    def close(self) -> None:
        """Release files and connections, if the lake was opened."""
        if self._lake is not None:
            self._lake.close()

    def __repr__(self) -> str:
        return repr(str(self._address)) if self._lake is None else repr(self._lake)

    def __copy__(self) -> "SharedLake":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "SharedLake":
        return self

    def __reduce__(self) -> "tuple[Callable[[Address], SharedLake], tuple[Address]]":
        if self._address is None:
            raise TypeError(
                f"a handle on {self._lake!r} cannot be pickled: another process could not open that lake by an address without "
                "a password; open it there, or open a lake by its folder, table or URL with graveler.open"
            )
        return reopened, (self._address,)


def opened_at(location: FolderLake | AwsLake | ServedLake, *, stacklevel: int = 4) -> AnyLake:
    """Open the lake; warn the caller at ``stacklevel`` if it can only be read."""
    if isinstance(location, ServedLake):
        return open_served(location)
    lake = open_at(location)
    if lake.notice:
        warnings.warn(lake.notice, stacklevel=stacklevel)
    return lake


def reopened(address: Address) -> SharedLake:
    """Return the lake of an unpickled handle. Opens nothing yet."""
    return SharedLake(None, address)


_open: "Final[OrderedDict[tuple[Address, tuple[object, ...]], AnyLake]]" = OrderedDict()
"""The lakes that handles from other processes opened here, most recently used last."""
_lock: Final = new_lock()


def _opened(address: Address) -> AnyLake:
    location = address.with_credentials() if isinstance(address, ServerAddress) else address
    key = address, _identity(location)
    with _lock:
        lake = _open.get(key)
        if lake is None:
            lake = _open[key] = opened_at(location)
            while len(_open) > _OPEN_LAKES:
                _open.popitem(last=False)  # handles that use it keep it
        _open.move_to_end(key)
        return lake


def _identity(location: FolderLake | AwsLake | ServedLake) -> tuple[object, ...]:
    """Return what tells a lake from another one at its address: for a folder its inode, for a server the credentials."""
    if isinstance(location, ServedLake):
        return location.key_id, location.secret, location.token
    if isinstance(location, FolderLake):
        try:
            status = location.folder.stat()
        except OSError:
            return ()  # opening it says why
        return status.st_dev, status.st_ino
    return ()
