"""The S3 gateway for others, which ``graveler serve --s3-port`` adds to each of its workers: a bucket for each repository, for
the access keys of the lake that were made for S3."""

import asyncio

from msgspec import Struct

from graveler.access.keys import Keys
from graveler.gateway.application import DOMAINS as DOMAINS
from graveler.gateway.application import GatewayApplication
from graveler.gateway.authorization import LakeSigners
from graveler.gateway.calls import LakeCalls
from graveler.gateway.control import REGION
from graveler.gateway.http_server import HttpServer
from graveler.gateway.listener import Listener
from graveler.gateway.mounts import LakeMounts
from graveler.gateway.service import Service
from graveler.gateway.store.stores import ByteStores
from graveler.server.worker import WorkerParts


class ServedGateway(Struct, frozen=True, kw_only=True):
    """The gateway in a worker of ``graveler serve``. Calling it starts it in the event loop of that worker, whose lake and
    threads it shares. Buckets are also subdomains of ``domains``."""

    listener: Listener
    domains: tuple[str, ...]

    def __call__(self, parts: WorkerParts) -> None:
        """Start to serve the lake of a worker."""
        service = Service(
            parts.lake,
            LakeMounts(parts.lake),
            LakeCalls(parts.handlers, in_loop=parts.in_loop),
            ByteStores(parts.disk),
            parts.disk,
            REGION,
        )
        application = GatewayApplication(
            service, LakeSigners(Keys(parts.lake.tables, parts.lake.keyring)), domains=self.domains
        )
        server = HttpServer(application, self.listener)
        asyncio.get_event_loop().create_task(server.serve())
