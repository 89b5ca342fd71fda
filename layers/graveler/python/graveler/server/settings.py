"""What the one who starts the server decides."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.lake.opening.location import LakeLocation

OBJECTS_PATH: Final = "/objects"
"""Presigned URLs lie below it."""


class SecretVariables(Struct, frozen=True):
    """Environment variables whose values nobody shows."""

    values: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"SecretVariables({', '.join(self.values)})"


class ServerSettings(Struct, frozen=True, kw_only=True):
    """``threads``: how many requests a worker works on at once; ``scan_threads`` are for those that may take long;
    ``disk_threads`` read and write files besides, and ``transfers`` of presigned URLs may be under way. ``data_url`` begins the
    presigned URLs of a lake in a folder, which the server answers itself. A JSON body may have ``max_json_bytes``, an upload
    ``max_upload_bytes``, any other body ``max_small_bytes``; one beyond ``spool_bytes`` lies in a temporary file meanwhile, all
    of a worker together in ``spooled_bytes``. ``log_requests`` writes a line of JSON for each request to stderr; audit lines go
    to the file ``audit_log``, or to stderr. ``metrics`` is a folder of this run's own. ``import_sources`` are the prefixes of
    addresses outside of a repository that its objects may be linked and imported from, and presigned URLs live for
    ``presign_seconds``. The size of an object that is read is compared with what the lake noted, with ``verify_bytes`` the MD5
    of a whole one too. ``memory`` is how many bytes of its tree a worker keeps of each repository. A proxy in front tells a
    client's address as the last one of ``client_address_header`` (its name in lower case). ``secrets`` are the variables that a
    worker sets for itself, since none is started with them. With ``open_setup`` the first client makes the first access key.
    AWS principals log in if their clients sign one of the names ``aws_login``."""

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
    presign_seconds: int = 900
    verify_bytes: bool = False
    client_address_header: str = ""
    memory: int = 64 << 20
    open_setup: bool = False
    aws_login: tuple[str, ...] = ()
    secrets: SecretVariables = SecretVariables()
