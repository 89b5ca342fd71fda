"""What stands between the browser and the emulator, as AWS does: TLS with the API's own name, and the CORS rules of the bucket.

The emulator speaks no TLS, and answers each origin with ``*``, whatever rules the bucket has. So a page would work whose bucket
refuses it on AWS. The front of the store removes these answers, and gives those of the bucket's own rules, as the deployment set
them (https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors.html). Bytes, and all else, are the emulator's.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.patience import PATIENCE

_HOP: Final = ("connection", "keep-alive", "transfer-encoding", "content-length")
_PIECE: Final = 1 << 16

Rule: TypeAlias = Mapping[str, Any]


def cors_headers(
    rules: Sequence[Rule], origin: str, method: str, requested: Sequence[str] = ()
) -> dict[str, str] | None:
    """Return the headers of S3's answer to a request of a page, by the first rule that matches its origin, its method and all
    ``requested`` headers; None if no rule does. Rules are as ``GetBucketCors`` returns them."""
    for rule in rules:
        allowed = [name.lower() for name in rule.get("AllowedHeaders", ())]
        if (
            method in rule["AllowedMethods"]
            and any(fnmatchcase(origin, pattern) for pattern in rule["AllowedOrigins"])
            and all(any(fnmatchcase(name.lower(), pattern) for pattern in allowed) for name in requested)
        ):
            return {
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": ", ".join(rule["AllowedMethods"]),
                "Access-Control-Allow-Headers": ", ".join(requested),
                "Access-Control-Expose-Headers": ", ".join(rule.get("ExposeHeaders", ())),
                "Access-Control-Allow-Credentials": "true",
                "Vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
            }
    return None


class StoreFront(ThreadingHTTPServer):
    """Hands requests on to the store at ``address``, and answers for CORS by ``rules``."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], rules: Sequence[Rule]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = address
        self.rules = rules
        self.requests: list[tuple[str, str, str]] = []
        """Of pages: method, the header ``Range``, path with query."""
        self.expired = 0
        """Of so many reads to come, the signature was made long ago."""
        Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server: StoreFront
    protocol_version = "HTTP/1.1"

    def _preflight(self) -> None:
        requested = self.headers.get("Access-Control-Request-Headers", "")
        answer = cors_headers(
            self.server.rules,
            self.headers.get("Origin", ""),
            self.headers.get("Access-Control-Request-Method", ""),
            [name.strip() for name in requested.split(",") if name.strip()],
        )
        self._send(403 if answer is None else 200, answer or {}, b"")

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.headers.get("Range", ""), self.path))
        connection = HTTPConnection(*self.server.address, timeout=PATIENCE)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            connection.request(self.command, self._target(), body or None, headers)
            answer = connection.getresponse()
            contents = answer.read()
            kept = {
                name: value
                for name, value in answer.getheaders()
                if name.lower() not in _HOP and not name.lower().startswith("access-control-")
            }
        finally:
            connection.close()
        origin = self.headers.get("Origin")
        cors = cors_headers(self.server.rules, origin, self.command) if origin else None
        self._send(answer.status, {**kept, **(cors or {})}, contents)

    def _target(self) -> str:
        if self.command != "GET" or not self.server.expired:
            return self.path
        self.server.expired -= 1
        return re.sub(r"(?<=X-Amz-Date=)\d{4}", "2020", self.path)

    do_OPTIONS = _preflight  # noqa: N815 - names of http.server
    do_GET = do_HEAD = do_PUT = _pass_on  # noqa: N815

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in http.server
        """Say nothing."""


class TlsFront:
    """Decrypts connections with ``name``, and hands their bytes on to ``address``."""

    def __init__(self, name: str, address: tuple[str, int], folder: Path) -> None:
        self._address = address
        self._context = _certified(name, folder)
        self._loop = asyncio.new_event_loop()
        Thread(target=self._loop.run_forever, daemon=True).start()
        server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE)
        self.port: int = server.sockets[0].getsockname()[1]

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._connect, "127.0.0.1", 0, ssl=self._context)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._address)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # the browser closes connections as it likes
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()


def _certified(name: str, folder: Path) -> ssl.SSLContext:
    """Return a context with a certificate of this name that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "graveler")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
