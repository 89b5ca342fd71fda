"""Opening a lake behind the HTTP API."""

from typing import TYPE_CHECKING

from graveler.errors import UnavailableError
from graveler.places import ServedLake

if TYPE_CHECKING:
    from graveler.remote.connection import Connection
    from graveler.remote.lake import RemoteLake
    from graveler.remote.upkeep import RemoteUpkeep


def open_served(place: ServedLake) -> "RemoteLake":
    """The lake behind a server. No request. :class:`InvalidError` for a URL that is none; :class:`UnavailableError` where the
    library for HTTP is not installed."""
    connection = _connected(place)
    from graveler.remote.lake import RemoteLake

    return RemoteLake(connection)


def open_upkeep(place: ServedLake, repository: str) -> "RemoteUpkeep":
    """What the server has for the upkeep of a repository. No request. Errors as :func:`open_served`."""
    connection = _connected(place)
    from graveler.remote.upkeep import RemoteUpkeep

    return RemoteUpkeep(connection, repository)


def _connected(place: ServedLake) -> "Connection":
    try:
        from graveler.remote.connection import Connection  # urllib3: not for a lake of one's own
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"a lake behind a server needs the package {error.name!r}, which is not installed; pip install 'graveler[remote]'"
        ) from None
    return Connection(place.url, place.key_id, place.secret, host=place.host)
