"""A worker process: opens the lake and builds the gateway that handles requests."""

import gc
import os
import re
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from typing import Final

from msgspec import Struct

from graveler.access.authentication import Access
from graveler.access.local_session import LocalAccess, LocalSession
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.all_verbs import load_verbs
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import ServedFolders, url_signer
from graveler.lake.opening.location import AwsLake, FolderLake, open_at
from graveler.operations.parts import work_of_request  # noqa: F401 - so that the first operation need not load it
from graveler.operations.sweeper import Sweeper
from graveler.server.configuration import OBJECTS_PATH, ServerSettings
from graveler.server.data_plane import DataPlane
from graveler.server.gateway import Gateway
from graveler.server.local_requests import LocalApplication
from graveler.server.metrics import Metrics
from graveler.server.namespaces import ServedNamespaces
from graveler.server.request_log import open_audit_log
from graveler.server.threads import Threads
from graveler.storage.file_modes import PRIVATE
from graveler.storage.objects.presigned import UrlSigner
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system import pauses

_WITHIN: Final = "^local://"
_COLLECT_EVERY: Final = 20_000
"""Net new objects after which Python looks for cycles: a page of a listing has thousands, none of them in a cycle."""


def api_settings(settings: ServerSettings) -> Settings:
    """Return the API's limits for clients. Outside the lake they may read only the import sources, and cannot create repositories
    there either: everything below a repository's namespace is its own."""
    sources = ImportSources(settings.import_sources)
    if isinstance(settings.lake, FolderLake):
        return Settings(
            namespace_pattern=_WITHIN,
            presign_seconds=settings.presign_seconds,
            import_sources=sources,
            verify_bytes=settings.verify_bytes,
            open_setup=settings.open_setup,
            base_path=settings.base_path,
            page_stores=settings.import_sources,
        )
    prefix = f"{settings.lake.objects.rstrip('/')}/"
    return Settings(
        namespace_prefix=prefix,
        namespace_pattern=f"^{re.escape(prefix)}.",
        presign_seconds=settings.presign_seconds,
        presigned_for_pages=settings.presigned_for_pages,
        import_sources=sources,
        verify_bytes=settings.verify_bytes,
        open_setup=settings.open_setup,
        base_path=settings.base_path,
        page_stores=(settings.lake.objects, *settings.import_sources),
        table_role=settings.table_role,
    )


class WorkerParts(Struct, frozen=True):
    """The lake of a worker and its threads, ``handlers`` and ``disk``, for another server in its event loop. With ``in_loop``
    short requests may run in the loop."""

    lake: Lake
    handlers: Threads
    disk: Threads
    in_loop: bool


Companion = Callable[[WorkerParts], None]
"""Starts another server in the event loop of a worker. It is sent to the worker's process."""


def build_gateway(
    settings: ServerSettings, session: LocalSession | None = None, companion: Companion | None = None
) -> Gateway:
    """Return the gateway of this process. Everything it opens is closed when the process ends. With a ``session`` nobody else has
    access. ``companion`` starts another server in its event loop."""
    os.environ.update(settings.secrets.values)  # AWS's libraries read them there; /proc does not show it
    open_audit_log(settings.audit_log)
    load_verbs()
    base_url = settings.data_url.rstrip("/") + OBJECTS_PATH
    url_secret = None if session is None else session.url_secret
    sources = (*settings.import_sources, *settings.read_sources)
    lake = open_at(settings.lake, base_url=base_url, memory=settings.memory, sources=sources, url_secret=url_secret)
    access = _access(settings, lake) if session is None else LocalAccess(lake.tables, lake.keyring, session)
    application = Application(lake, access, api_settings(settings))
    application.pages.load()
    sweeper = Sweeper(lake, application.operator)
    metrics = Metrics(settings.metrics)
    handlers, scanners = Threads("handler", settings.threads), Threads("scanner", settings.scan_threads)
    disk = Threads("disk", settings.disk_threads)
    data_plane = _data_plane(settings, lake, url_signer(lake.keyring, base_url, url_secret), sources, disk)

    def close() -> None:
        pauses.install_waiter(None)  # this thread's loop has ended: from now on it waits by itself
        handlers.close()
        scanners.close()
        disk.close()
        metrics.close()
        sweeper.close()
        application.close()
        lake.close()

    Finalize(None, close, exitpriority=1)
    gc.collect()
    gc.freeze()  # existing objects stay, and need not be scanned again
    gc.set_threshold(_COLLECT_EVERY)
    in_loop = isinstance(settings.lake, FolderLake)
    if isinstance(lake.tables, SqliteTables):
        lake.tables.write_together()
    if companion is not None:
        companion(WorkerParts(lake, handlers, disk, in_loop))
    served = application if session is None else LocalApplication(application, session)
    return Gateway(served, data_plane, metrics, settings, os.getpid(), handlers, scanners, disk, in_loop=in_loop)


def _access(settings: ServerSettings, lake: Lake) -> Access:
    aws = None
    if settings.aws_login:
        from graveler.access.aws_login import AwsLogin  # with what TLS needs

        aws = AwsLogin(settings.aws_login)
    return Access(lake.tables, lake.keyring, aws=aws)


def _data_plane(
    settings: ServerSettings, lake: Lake, signer: UrlSigner, sources: Sequence[str], disk: Threads
) -> DataPlane | None:
    """Return the handler of the lake's presigned URLs; None if S3 serves them."""
    if isinstance(settings.lake, AwsLake):
        return None
    folder = settings.lake.folder
    modes = PRIVATE if lake.folder_permissions is None else lake.folder_permissions.modes
    return DataPlane(
        signer,
        ServedNamespaces(ServedFolders(folder, sources, None, modes), lake.tables),
        settings.transfers,
        disk,
        verify_bytes=settings.verify_bytes,
    )
