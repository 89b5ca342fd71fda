"""The settings of an API deployment."""

from typing import Final

from msgspec import Struct

from graveler.access.sources import ImportSources

DEFAULT_PRESIGN_SECONDS: Final = 900
DEFAULT_MAX_BODY: Final = 4 << 20
"""Lambda responds with at most 6 MB, which are 4.5 MB of bytes as base64."""

DEFAULT_OPERATION_RECORDS: Final = 2_000_000
"""Some seconds' work for one processor."""

DEFAULT_REQUEST_SECONDS: Final = 20.0
"""API Gateway's limit is 29."""

NOWHERE: Final = ImportSources(())


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of the API. ``namespace_prefix`` starts the default storage namespace of repositories that clients create, and
    ``namespace_pattern`` (a regular expression) must match all of them. ``presign_seconds`` is the lifetime of a presigned URL.
    Without ``presigned_for_pages`` a page reads bytes from the API, since the store's URLs are of an origin that it may not read.
    ``secure_cookies``: the API is reached over HTTPS only. ``import_sources`` are the addresses outside a repository that may be
    linked, staged and imported, ``ingest_sources`` (None: the same) those for ingest rules. Objects of more than
    ``max_body_bytes`` are answered with a redirect to their bytes. For others the number of bytes is compared with the recorded
    one, with ``verify_bytes`` their MD5 too. Commits, merges and the like that have to read more than ``operation_records``
    records, as far as that is known in advance, or that take longer than half of ``request_seconds``, run as operations, for
    which a request waits the other half; unless ``hands_over`` is off. With ``decoded_paths``, a gateway has decoded the paths of
    requests, so a slash of a ref's name in them looks like any other. With ``open_setup`` the first client creates the first
    access key of a lake that never had one. The web page lies below ``base_path``, which begins and ends with a slash, and loads
    objects directly from those of ``page_stores`` (addresses of namespaces) that are in S3. Sessions of ``table_role`` (the ARN
    of a role of AWS) are the credentials by which clients reach the files of Iceberg tables; empty: they have their own."""

    namespace_prefix: str = "local://"
    namespace_pattern: str = "^(local|s3|mem)://"
    presigned: bool = True
    presigned_for_pages: bool = True
    presign_seconds: int = DEFAULT_PRESIGN_SECONDS
    secure_cookies: bool = False
    import_sources: ImportSources = NOWHERE
    ingest_sources: ImportSources | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY
    verify_bytes: bool = False
    operation_records: int = DEFAULT_OPERATION_RECORDS
    request_seconds: float = DEFAULT_REQUEST_SECONDS
    hands_over: bool = True
    decoded_paths: bool = False
    open_setup: bool = False
    base_path: str = "/"
    page_stores: tuple[str, ...] = ()
    table_role: str = ""
