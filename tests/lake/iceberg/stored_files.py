"""Files of tables by their locations, in a folder or on the local S3 server."""

from pathlib import Path
from urllib.parse import urlparse

from graveler.storage.objects.s3 import S3Objects, S3Settings
from tests.support.servers import REGION, s3proxy


def read_location(location: str) -> bytes:
    """Return the bytes of a file."""
    if location.startswith("s3://"):
        bucket, key = _bucket_and_key(location)
        return bucket.get(key)
    return _path_of(location).read_bytes()


def write_location(location: str, data: bytes) -> None:
    """Write a file, in folders that are made as needed."""
    if location.startswith("s3://"):
        bucket, key = _bucket_and_key(location)
        bucket.put(key, data)
        return
    path = _path_of(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _path_of(location: str) -> Path:
    return Path(urlparse(location).path)


def _bucket_and_key(location: str) -> tuple[S3Objects, str]:
    parts = urlparse(location)
    return S3Objects(parts.netloc, "", S3Settings(REGION, s3proxy())), parts.path.removeprefix("/")
