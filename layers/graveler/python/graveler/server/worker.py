"""A worker process: opens the lake and builds what answers requests."""

import os
from multiprocessing.util import Finalize
from typing import Final

from graveler.access.authentication import Access
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.folder import folder_store, open_folder_lake, url_signer
from graveler.server.data_plane import DataPlane
from graveler.server.gateway import Gateway
from graveler.server.metrics import Metrics
from graveler.server.request_log import open_audit_log
from graveler.server.settings import OBJECTS_PATH, ServerSettings
from graveler.server.threads import Threads

ANYWHERE: Final = "^(local|file|s3)://"
WITHIN: Final = "^local://"


def api_settings(settings: ServerSettings) -> Settings:
    """What the API may do for its clients. Who may read only some addresses outside of the lake can make no repository there
    either: all below a repository's namespace is its own."""
    return Settings(
        namespace_pattern=ANYWHERE if settings.import_sources is None else WITHIN,
        presign_seconds=settings.presign_seconds,
        import_sources=ImportSources(settings.import_sources),
    )


def build_gateway(settings: ServerSettings) -> Gateway:
    """What answers the requests of this process. What it opens is closed when the process ends."""
    open_audit_log(settings.audit_log)
    base_url = settings.data_url.rstrip("/") + OBJECTS_PATH
    lake = open_folder_lake(settings.lake, base_url=base_url, memory=settings.memory)
    signer = url_signer(lake.tables, base_url)
    application = Application(lake, Access(lake.tables), api_settings(settings))
    metrics = Metrics(settings.metrics)
    handlers, disk = Threads("handler", settings.threads), Threads("disk", settings.disk_threads)
    data_plane = DataPlane(signer, lambda namespace: folder_store(settings.lake, namespace), settings.transfers, disk)

    def close() -> None:
        handlers.close()
        disk.close()
        metrics.close()
        application.close()
        lake.close()

    Finalize(None, close, exitpriority=1)
    return Gateway(application, data_plane, metrics, settings, os.getpid(), handlers, disk)
