"""Servers of a bucket: their addresses, the proxies on the way to them, and the certificates that they must have.

All are as for AWS's SDK. The address is taken from a URL that it signs once: by which name of a host or path a bucket is reached,
and in which region, depends on a dozen settings.
"""

import os
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.session import Session
from botocore.utils import get_environ_proxies

from graveler.gateway.store.server_addresses import Origin, Proxy
from graveler.storage.objects.s3 import S3Objects

_PROBE: Final = "graveler"
"""A key in the namespace, for a URL that is taken to pieces."""


def locate(objects: S3Objects) -> tuple[Origin, str, SSLContext]:
    """Return the server of the bucket, the region to sign for, and the certificates to trust. Takes some 200 ms."""
    url = urlsplit(objects.presign(_PROBE, "GET", 60))
    region = parse_qs(url.query)["X-Amz-Credential"][0].split("/")[2]
    probe = "/" + quote(objects.key_in_bucket(_PROBE), safe="/-_.~")
    is_tls = url.scheme == "https"
    origin = Origin(url.hostname or "", url.port or (443 if is_tls else 80), is_tls, url.path.removesuffix(probe))
    return origin, region, _trust()


def redirected(origin: Origin, location: str) -> Origin | None:
    """Return where a redirect leads: the same bucket on another server. None if it leaves TLS."""
    url = urlsplit(location)
    is_tls = url.scheme == "https"
    if not url.hostname or url.scheme not in ("http", "https") or (origin.is_tls and not is_tls):
        return None
    return Origin(url.hostname, url.port or (443 if is_tls else 80), is_tls, origin.base)


def proxy_of(origin: Origin) -> Proxy | None:
    """Return the proxy on the way to a server; None: there is none."""
    configuration = ProxyConfiguration(get_environ_proxies(origin.url))
    address = configuration.proxy_url_for(origin.url)
    if not address:
        return None
    url = urlsplit(address)
    is_tls = url.scheme == "https"
    headers = configuration.proxy_headers_for(address)
    return Proxy(url.hostname or "", url.port or (443 if is_tls else 80), is_tls, headers)


def _trust() -> SSLContext:
    """Return the certificates that AWS's SDK trusts."""
    configured = Session().get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    bundle = str(configured or get_cert_path(True))
    return create_default_context(capath=bundle) if Path(bundle).is_dir() else create_default_context(cafile=bundle)
