"""Origins of presigned URLs, for the policy of a page that reads objects directly from their store."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from graveler.lake.lake import Lake

_S3: Final = "s3://"
_SECONDS: Final = 60
"""The lifetime of a URL that nobody gets."""


def store_origins(lake: Lake, stores: Iterable[str]) -> tuple[str, ...]:
    """Return the sources of a content security policy that match presigned URLs of these stores, such as ``s3://bucket/folder``:
    the origin, and the bucket if the URLs have it in their path. Stores that are not in S3 have none, as the server itself serves
    their objects. No request."""
    sources = []
    for bucket in dict.fromkeys(store.removeprefix(_S3).partition("/")[0] for store in stores if store.startswith(_S3)):
        url = urlsplit(lake.store_of(f"{_S3}{bucket}").presign("x", "GET", _SECONDS))
        in_path = not (url.hostname or "").startswith(f"{bucket}.")
        sources.append(f"{url.scheme}://{url.netloc}{f'/{bucket}/' if in_path else ''}")
    return tuple(sources)
