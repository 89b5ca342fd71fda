"""From the stores of a lake to the same ones for the event loop."""

from typing import TYPE_CHECKING

from graveler.errors import UnavailableError
from graveler.gateway.store.folder_bytes import FolderBytes
from graveler.gateway.store.port import Bytes, UrlObjects
from graveler.server.threads import Threads
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects

if TYPE_CHECKING:
    from graveler.gateway.store.s3_client import S3Client
    from graveler.gateway.store.url_client import UrlClient
    from graveler.location.environment import Network
    from graveler.storage.objects.s3 import S3Settings


class ByteStores:
    """The stores of a gateway: folders, which the threads ``disk`` read and write, buckets, with a client for each, and what a
    server signs URLs for, reached as ``network`` says. Made in an event loop, and used in it alone."""

    def __init__(self, disk: Threads, network: "Network | None" = None) -> None:
        self._disk = disk
        self._network = network
        self._url_client: UrlClient | None = None
        self._clients: dict[tuple[str, S3Settings], S3Client] = {}

    def of(self, objects: Objects | UrlObjects) -> Bytes:
        """Return a lake's store for the event loop. No request; 5 µs. :class:`UnavailableError` for a store that has no such
        form."""
        if isinstance(objects, FolderObjects):
            return FolderBytes(objects, self._disk)
        if isinstance(objects, UrlObjects):
            return self._behind_urls(objects)
        from graveler.storage.objects.s3 import S3Objects  # botocore: 100 ms

        if not isinstance(objects, S3Objects):
            raise UnavailableError(
                f"{objects.namespace} cannot be streamed by a gateway: it is neither a folder nor a bucket"
            )
        from graveler.gateway.store.s3_bytes import S3Bytes
        from graveler.gateway.store.s3_client import S3Client

        place = objects.bucket, objects.settings
        client = self._clients.get(place)
        if client is None:
            client = self._clients[place] = S3Client(objects)
        return S3Bytes(objects, client)

    def _behind_urls(self, objects: UrlObjects) -> Bytes:
        from graveler.gateway.store.url_bytes import UrlBytes  # urllib3: not for a lake of one's own
        from graveler.gateway.store.url_client import UrlClient
        from graveler.location.environment import Network

        if self._url_client is None:
            self._url_client = UrlClient(self._network or Network())
        return UrlBytes(objects, self._url_client)

    def close(self) -> None:
        """Close the connections that are idle."""
        if self._url_client is not None:
            self._url_client.close()
        for client in self._clients.values():
            client.close()
