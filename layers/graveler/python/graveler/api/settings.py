"""What the one who deploys the API decides."""

from typing import Final

from msgspec import Struct

DEFAULT_PRESIGN_SECONDS: Final = 900


class Settings(Struct, frozen=True, kw_only=True):
    """``namespace_prefix`` begins the storage namespace of repositories that clients create without a thought, and
    ``namespace_pattern`` (a regular expression) is what all of them must match. ``presign_seconds`` is how long a presigned URL
    lives. ``secure_cookies``: the API is reached over HTTPS only."""

    namespace_prefix: str = "local://"
    namespace_pattern: str = "^(local|s3|mem)://"
    presigned: bool = True
    presign_seconds: int = DEFAULT_PRESIGN_SECONDS
    secure_cookies: bool = False
