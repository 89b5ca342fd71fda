"""The settings of a server process."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.opening.location import LakeLocation

OBJECTS_PATH: Final = "/objects"
"""The path below which presigned URLs lie."""


_BASE_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]+", re.ASCII)
_OWN_PATHS: Final = frozenset(
    ("api", "assets", "auth", "docs", "healthcheck", "metrics", "objects", "openapi.json", "repositories", "setup")
)
"""First segments of the server's own paths."""


def parse_base_path(text: str) -> str:
    """Return a path such as ``/lake`` as ``/lake/``; that of an empty text is ``/``. :class:`InvalidError` for what is no plain
    path, and for one in which a path of the server could be meant."""
    path = text.rstrip("/")
    if not path:
        return "/"
    segments = path.split("/")[1:]
    if not _BASE_PATH.fullmatch(path) or not {"", ".", ".."}.isdisjoint(segments):
        raise InvalidError(
            f"base path {text!r} is not a plain path; write it as /lake, of letters, digits and '.', '_', '~', '-'"
        )
    if segments[0] in _OWN_PATHS:
        raise InvalidError(f"base path {text!r} begins with a path of the server's own, /{segments[0]}; choose another")
    return f"{path}/"


class SecretVariables(Struct, frozen=True):
    """Environment variables whose values are never displayed."""

    values: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"SecretVariables({', '.join(self.values)})"


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The settings of ``graveler serve``. ``threads``: requests that a worker handles at once; ``scan_threads`` are for those
    that may take long; ``disk_threads`` read and write files besides, and ``transfers`` of presigned URLs may run at once.
    ``data_url`` starts the presigned URLs of a lake in a folder, which the server serves itself. A JSON body may have
    ``max_json_bytes``, an upload ``max_upload_bytes``, any other body ``max_small_bytes``; one beyond ``spool_bytes`` is spooled
    to a temporary file, all of a worker within ``spooled_bytes``. ``log_requests`` writes a line of JSON per request to stderr;
    audit lines go to the file ``audit_log``, or to stderr. ``metrics`` is a folder for this run only. ``import_sources`` are the
    address prefixes outside a repository from which objects may be linked and imported, ``read_sources`` those of further
    objects that are only read, and presigned URLs live for ``presign_seconds``; without ``presigned_for_pages`` they are not for
    pages. Reads compare an object's size with the recorded one, with ``verify_bytes`` also the MD5 of a whole one.
    ``memory`` is the bytes of each repository's tree that a worker caches. A proxy in front appends the client's address as the
    last one of ``client_address_header`` (its name in lower case). ``secrets`` are variables that a worker sets for itself, since
    no worker is started with them. With ``open_setup`` the first client creates the first access key. AWS principals log in if
    their clients sign one of the names ``aws_login``. Pages of ``cors_origins`` may use the server
    (:mod:`graveler.server.cors`). The server also answers below ``base_path``, which begins and ends with a slash. ``table_role``
    as for :class:`graveler.api.settings.Settings`."""

    lake: LakeLocation
    metrics: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 2
    threads: int = 64
    scan_threads: int = 4
    disk_threads: int = 8
    transfers: int = 256
    data_url: str = "http://localhost:8000"
    max_small_bytes: int = 16 << 10
    max_json_bytes: int = 16 << 20
    max_upload_bytes: int = 5 << 30
    spool_bytes: int = 256 << 10
    spooled_bytes: int = 32 << 30
    log_requests: bool = False
    audit_log: Path | None = None
    import_sources: tuple[str, ...] = ()
    read_sources: tuple[str, ...] = ()
    presign_seconds: int = 900
    presigned_for_pages: bool = True
    verify_bytes: bool = False
    client_address_header: str = ""
    memory: int = 64 << 20
    open_setup: bool = False
    aws_login: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    base_path: str = "/"
    table_role: str = ""
    secrets: SecretVariables = SecretVariables()
