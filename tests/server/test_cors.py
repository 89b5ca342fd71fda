"""Browsers hear that pages of named sites may use the server, and nothing of others."""

import asyncio
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from graveler.errors import InvalidError
from graveler.lake.opening.location import FolderLake
from graveler.server.configuration import ServerSettings
from graveler.server.cors import CrossOrigin
from graveler.server.gateway import HEALTH, Gateway
from graveler.server.metrics import Metrics
from graveler.server.requests import Message
from graveler.server.threads import Threads
from tests.server.support import arriving
from tests.server.test_gateway import Nobody

PAGE = ("origin", "https://example.org")
ASKS = ("access-control-request-method", "PUT")


def answer(folder: Path, allowed: Iterable[str], method: str, *headers: tuple[str, str]) -> tuple[int, dict[str, str]]:
    """Status and headers of the response to such a request."""
    settings = ServerSettings(lake=FolderLake(folder), metrics=folder, cors_origins=tuple(allowed))
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    with closing(Metrics(folder)) as metrics, closing(Threads("handler", 1)) as threads:
        gateway = Gateway(Nobody(), None, metrics, settings, 1, threads, threads, threads)
        scope = {
            "method": method,
            "raw_path": HEALTH[0].encode(),
            "query_string": b"",
            "headers": tuple((name.encode(), value.encode()) for name, value in headers),
            "client": ("127.0.0.1", "1"),
            "http_version": "1.1",
        }
        asyncio.run(gateway(scope, arriving(), send))
    named = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return messages[0]["status"], {name: value for name, value in named.items() if name.startswith(("access-", "vary"))}


@pytest.mark.parametrize(
    "allowed",
    [["https://example.org"], ["*"], ["https://other.org", "https://EXAMPLE.org"], ["https://example.org:443"]],
)
def test_a_page_of_a_named_site_may_send_and_read_all_headers(tmp_path: Path, allowed: list[str]) -> None:
    headers = {"access-control-allow-origin": PAGE[1], "access-control-expose-headers": "*", "vary": "Origin"}
    assert answer(tmp_path, allowed, "GET", PAGE) == (204, headers)
    assert answer(tmp_path, allowed, "OPTIONS", PAGE, ASKS) == (
        204,
        {
            **headers,
            "access-control-allow-methods": "*",
            "access-control-allow-headers": "authorization, *",
            "access-control-max-age": "3600",
        },
    )


@pytest.mark.parametrize("origin", ["https://other.org", "http://example.org", "https://example.org:8443", "null", ""])
def test_a_page_of_another_site_may_not(tmp_path: Path, origin: str) -> None:
    assert answer(tmp_path, ["https://example.org"], "GET", ("origin", origin)) == (204, {"vary": "Origin"})
    # Not answered as a preflight: the application gets it, as any other request.
    with pytest.raises(AssertionError):
        answer(tmp_path, ["https://example.org"], "OPTIONS", ("origin", origin), ASKS)


def test_without_a_named_site_nothing_is_said(tmp_path: Path) -> None:
    assert answer(tmp_path, [], "GET", PAGE) == (204, {})


@pytest.mark.parametrize(
    "origin",
    [
        "example.org",
        "https://example.org/",
        "https://a b",
        "ftp://example.org",
        "",
        "https://*.example.org",
        "null",
        "https://exämple.org",
    ],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(InvalidError, match="is not that of a web page; write https://HOST, or \\* for all"):
        CrossOrigin([origin])
