"""Requests through a proxy, around it, and whose certificates are believed."""

import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from graveler.errors import InvalidError, UnavailableError
from graveler.location.environment import Network
from graveler.remote.connection import Connection, ServerRetries
from tests.remote.conftest import QUICK
from tests.remote.proxied import Proxy, proxying
from tests.remote.scripted import Reply, Scripted, scripted

OK = Reply(200, b"{}")
NAMED = "http://lake.test"


@pytest.fixture
def proxy(script: Scripted) -> Iterator[Proxy]:
    with proxying(urlsplit(script.url).port or 0) as made:
        yield made


def ask(url: str, network: Network, retries: ServerRetries = QUICK) -> None:
    connection = Connection(url, "key", "secret", retries=retries, network=network)
    try:
        connection.call("GET", ("config",))
    finally:
        connection.close()


def test_requests_go_through_the_proxy_of_their_scheme(script: Scripted, proxy: Proxy) -> None:
    script.will(OK)
    ask(NAMED, Network(proxies={"http": proxy.url}))
    assert proxy.asked == [f"GET {NAMED}/api/v1/config"]
    assert script.asked[0].headers["host"] == "lake.test"
    assert proxy.credentials == [""]


def test_a_proxy_gets_its_own_credentials_and_no_others(script: Scripted, proxy: Proxy) -> None:
    script.will(OK)
    ask(NAMED, Network(proxies={"http": proxy.url.replace("://", "://me:p%40ss@")}))
    assert proxy.credentials == [f"Basic {b64encode(b'me:p@ss').decode()}"]
    assert script.asked[0].headers["authorization"] == f"Basic {b64encode(b'key:secret').decode()}"


def test_bytes_of_objects_go_through_it_too(script: Scripted, proxy: Proxy) -> None:
    script.will(Reply(200, b"bytes"))
    connection = Connection("http://127.0.0.1:9", "key", "secret", network=Network(proxies={"http": proxy.url}))
    assert b"".join(connection.bytes_at("http://bucket.test/key?signed", 0, None)) == b"bytes"
    assert proxy.asked == ["GET http://bucket.test/key?signed"]
    assert "authorization" not in script.asked[0].headers
    connection.close()


@pytest.mark.parametrize("no_proxy", ["*", "lake.test", "other,.test", "test", "lake.test:80,x"])
def test_whom_no_proxy_lists_is_asked_straight(proxy: Proxy, no_proxy: str) -> None:
    with pytest.raises(UnavailableError):  # there is no such host
        ask(f"{NAMED}:80", Network(proxies={"http": proxy.url}, no_proxy=no_proxy), ServerRetries(attempts=1))
    assert proxy.asked == []


@pytest.mark.parametrize("no_proxy", ["", "ake.test", "lake.test:81", "lake", "lake.test.org"])
def test_whom_it_does_not_list_is_not(script: Scripted, proxy: Proxy, no_proxy: str) -> None:
    script.will(OK)
    ask(f"{NAMED}:80", Network(proxies={"http": proxy.url}, no_proxy=no_proxy))
    assert len(proxy.asked) == 1


def test_this_machine_is_asked_straight(script: Scripted, proxy: Proxy) -> None:
    script.will(OK, OK)
    network = Network(proxies={"http": proxy.url})
    ask(script.url, network)
    ask(script.url.replace("127.0.0.1", "localhost"), network)
    assert (proxy.asked, len(script.asked)) == ([], 2)


def test_a_proxy_that_is_not_there_is_told_and_nothing_was_changed() -> None:
    with pytest.raises(UnavailableError, match="nothing was changed"):
        ask(NAMED, Network(proxies={"http": "http://127.0.0.1:9"}))


def test_words_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="proxy 'socks5://x:1' is not a URL"):
        ask(NAMED, Network(proxies={"http": "socks5://x:1"}))
    with pytest.raises(InvalidError, match="SSL_CERT_FILE"):
        ask(NAMED, Network(certificates=str(tmp_path / "none.pem")))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for lake.test that it has signed itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lake.test"]
    extension = ["-addext", "subjectAltName=DNS:lake.test", "-keyout", str(key), "-out", str(made)]
    subprocess.run([*command, *extension], check=True, capture_output=True)
    return made, key


@pytest.fixture
def secured(certificate: tuple[Path, Path]) -> Iterator[Scripted]:
    """A scripted server that speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def secure(server: ThreadingHTTPServer) -> None:
        server.socket = context.wrap_socket(server.socket, server_side=True)

    with scripted(secure) as made:
        yield made


def test_tls_goes_through_a_tunnel_and_believes_the_named_authorities(
    secured: Scripted, certificate: tuple[Path, Path]
) -> None:
    secured.will(OK)
    with proxying(urlsplit(secured.url).port or 0) as proxy:
        believed = Network(proxies={"https": proxy.url}, certificates=str(certificate[0]))
        ask("https://lake.test", believed)
        assert proxy.asked == ["CONNECT lake.test:443"]
        assert secured.asked[0].headers["host"] == "lake.test"
        with pytest.raises(UnavailableError, match=r"(?i)certificate.*nothing was changed"):
            ask("https://lake.test", Network(proxies={"https": proxy.url}))
        assert len(secured.asked) == 1
