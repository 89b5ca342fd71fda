"""Bucket and key of a request, by its path (``localhost/bucket/key``) or by its host (``bucket.localhost/key``)."""

import re
from collections.abc import Collection
from typing import Final

from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error

_IPV4: Final = re.compile(r"[0-9.]+")


def bucket_and_key(head: Head, domains: Collection[str]) -> tuple[str, str]:
    """Return the bucket and the key that a request names; empty texts for none.

    ``domains`` are the names of the server whose subdomains are buckets, in lower case. Any other host, and an IP address, leaves
    the bucket to the path. ``InvalidURI`` for a path without a bucket before its key, as ``//key``.
    """
    path = head.path[1:]
    host = _host_name(head.host)
    if not host.startswith("[") and not _IPV4.fullmatch(host):
        for domain in sorted(domains, key=len, reverse=True):
            if host == domain:
                break
            if host.endswith(f".{domain}"):
                return host[: -len(domain) - 1], path
    bucket, _, key = path.partition("/")
    if not bucket and path:
        raise S3Error("InvalidURI", f"Couldn't parse the specified URI: the path {head.path[:1024]!r} names no bucket")
    return bucket, key


def _host_name(host: str) -> str:
    """Return the name in a header ``Host``, in lower case and without a port. An IPv6 address keeps its brackets."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
