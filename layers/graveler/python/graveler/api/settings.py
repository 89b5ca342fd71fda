"""What the one who deploys the API decides."""

from typing import Final

from msgspec import Struct

from graveler.access.sources import ImportSources

DEFAULT_PRESIGN_SECONDS: Final = 900
DEFAULT_MAX_BODY: Final = 4 << 20
"""Lambda answers with 6 MB at most, which are 4.5 MB of bytes as base64."""

DEFAULT_OPERATION_RECORDS: Final = 2_000_000
"""Some seconds' work for one processor."""

DEFAULT_REQUEST_SECONDS: Final = 20.0
"""API Gateway answers within 29."""

NOWHERE: Final = ImportSources(())


class Settings(Struct, frozen=True, kw_only=True):
    """``namespace_prefix`` begins the storage namespace of repositories that clients create without a thought, and
    ``namespace_pattern`` (a regular expression) is what all of them must match. ``presign_seconds`` is how long a presigned URL
    lives. ``secure_cookies``: the API is reached over HTTPS only. ``import_sources`` are the addresses outside of a repository
    that may be linked, staged and imported, ``ingest_sources`` (None: the same) those that rules of ingest may be about.
    Objects of more than ``max_body_bytes`` are answered with a redirect to their bytes. Of others the number of bytes is compared
    with what was noted, with ``verify_bytes`` their MD5 too. Commits, merges and the like for which
    more than ``operation_records`` records have to be read, as far as that is seen before, or which take longer than half of
    ``request_seconds``, are worked on as operations, for which a request waits the other half; unless nobody ``hands_over`` to
    anybody. With ``open_setup`` whoever comes first makes the first access key of a lake that never had one."""

    namespace_prefix: str = "local://"
    namespace_pattern: str = "^(local|s3|mem)://"
    presigned: bool = True
    presign_seconds: int = DEFAULT_PRESIGN_SECONDS
    secure_cookies: bool = False
    import_sources: ImportSources = NOWHERE
    ingest_sources: ImportSources | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY
    verify_bytes: bool = False
    operation_records: int = DEFAULT_OPERATION_RECORDS
    request_seconds: float = DEFAULT_REQUEST_SECONDS
    hands_over: bool = True
    open_setup: bool = False
