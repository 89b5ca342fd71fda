"""The functions that open a lake behind the HTTP API."""

from typing import TYPE_CHECKING

from graveler.errors import UnavailableError
from graveler.location.environment import ServedLake
from graveler.system.extras import not_installed

if TYPE_CHECKING:
    from graveler.remote.aws_session import AwsSession
    from graveler.remote.connection import Connection, ServerRetries, Session
    from graveler.remote.lake import RemoteLake


def open_served(location: ServedLake) -> "RemoteLake":
    """Return the lake behind a server. No request. :class:`InvalidError` for an invalid URL; :class:`UnavailableError` if the
    HTTP library is not installed."""
    connection = connect(location)
    from graveler.remote.lake import RemoteLake

    return RemoteLake(connection)


def connect(location: ServedLake, retries: "ServerRetries | None" = None) -> "Connection":
    """Return a connection to a server. No request. Errors as :func:`open_served`."""
    try:
        from graveler.remote.connection import Connection, SessionToken  # urllib3: not for a lake of one's own
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("a lake behind a server", error.name, "remote")) from None
    session: Session | None = None
    if location.by_aws:
        session = log_in_with_aws(location)
    elif location.token:
        session = SessionToken(location.token)
    return Connection(
        location.url,
        location.key_id,
        location.secret,
        host=location.host,
        retries=retries,
        network=location.network,
        session=session,
    )


def log_in_with_aws(location: ServedLake) -> "AwsSession":
    """Return the session that logs in to a server with AWS's credentials. No request yet."""
    from graveler.remote.aws_session import AwsSession
    from graveler.remote.aws_signing import BotocoreSigner
    from graveler.remote.connection import Connection

    nobody = Connection(location.url, "", "", host=location.host, network=location.network)
    return AwsSession(nobody, location.signed_name, BotocoreSigner())
