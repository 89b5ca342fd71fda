"""Inner parts of the package ``lakefs`` that its public names do not offer."""

from typing import Any


def drop_connections(client: Any) -> None:
    """Close the connections of a client, which a test would otherwise leave open."""
    client.sdk_client._api.rest_client.pool_manager.clear()


def client_of(handle: Any) -> Any:
    """Return the client of a handle."""
    return handle._client
