"""Connections to servers, direct or through a proxy, as :class:`graveler.location.environment.Network` says."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # typeshed leaves it out

import urllib3
from urllib3.util import Timeout, make_headers

from graveler.errors import InvalidError
from graveler.location.environment import Network

_CONNECTIONS: Final = 32
_TIMEOUT: Final = Timeout(connect=10, read=120)


class Pools:
    """Connection pools that send requests and keep connections open, 32 per host. Shared by threads. :class:`InvalidError` for a
    proxy that is no URL, or a missing certificate file."""

    def __init__(self, network: Network) -> None:
        if network.certificates and not Path(network.certificates).is_file():
            raise InvalidError(
                f"{network.certificates!r}, which should contain CA certificates, is not a file; check AWS_CA_BUNDLE, "
                "REQUESTS_CA_BUNDLE and SSL_CERT_FILE"
            )
        self._options: dict[str, Any] = {
            "maxsize": _CONNECTIONS,
            "retries": False,
            "timeout": _TIMEOUT,
            "block": True,
            "ca_certs": network.certificates or None,
        }
        self._straight = urllib3.PoolManager(**self._options)
        self._network = network
        self._by_scheme = {scheme: self._through(url) for scheme, url in network.proxies.items()}

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send a request; options and errors as :meth:`urllib3.PoolManager.request`."""
        return self._pool(url).request(method, url, **options)

    def clear(self) -> None:
        """Close the connections."""
        for pool in (self._straight, *self._by_scheme.values()):
            pool.clear()

    def _pool(self, url: str) -> urllib3.PoolManager:
        scheme = urlsplit(url).scheme
        return self._by_scheme[scheme] if proxy_of(self._network, url) else self._straight

    def _through(self, url: str) -> urllib3.PoolManager:
        where, headers = proxy_address(url)
        return urllib3.ProxyManager(where.geturl(), proxy_headers=headers or None, **self._options)


def proxy_of(network: Network, url: str) -> str:
    """Return the URL of the proxy on the way to a URL; empty if there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxy = network.proxies.get(parts.scheme)
    if proxy is None or _is_loopback(host):
        return ""
    named = host if parts.port is None else f"{host}:{parts.port}"
    return "" if proxy_bypass_environment(named, {"no": network.no_proxy}) else proxy


def proxy_address(url: str) -> tuple[SplitResult, dict[str, str]]:
    """Return the URL of a proxy, in parts and without the credentials in it, and the headers with these. :class:`InvalidError`
    for what is no URL."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"proxy {url!r} is not a URL; set HTTPS_PROXY and HTTP_PROXY to http://HOST:PORT")
    headers = {}
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = dict(make_headers(proxy_basic_auth=credentials))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]), headers


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which no proxy can reach for the client."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a host name
        return False
