"""Requests without a server, and servers in processes of their own."""

import http.client
import json
import os
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graveler.server.requests import Message, Receive, Request
from graveler.storage.objects.port import Objects
from tests.support.patience import PATIENCE

KEY_ID = "AKIAJTESTTESTTESTTQ"
SECRET = "s" * 40


def request(
    method: str = "GET", target: str = "/", body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Request:
    """The head of a request; its ``Content-Length`` is that of ``body``, unless ``headers`` say otherwise."""
    path, _, query = target.partition("?")
    said = {name.lower(): value for name, value in (headers or {}).items()}
    if "transfer-encoding" not in said and (body or method in ("PUT", "POST")):
        said.setdefault("content-length", str(len(body)))
    return Request(method, path, query, said, "127.0.0.1")


class AnyNamespace:
    """Namespaces that a test opens as it likes."""

    def __init__(self, open_store: Callable[[str], Objects]) -> None:
        self.at_hand = self.look_up = open_store


def arriving(*pieces: bytes, cut: bool = False) -> Receive:
    """A body that arrives in pieces, after which the client goes away. ``cut``: before the end of the body."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not cut:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    left = iter(messages)

    async def receive() -> Message:
        return next(left, {"type": "http.disconnect"})

    return receive


@dataclass
class Answered:
    """An answer that came over HTTP."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Running:
    """A server that accepts requests."""

    process: subprocess.Popen[str]
    url: str
    data_url: str | None
    lake: Path
    errors: Path
    s3_url: str | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def origin(self) -> str:
        """Where browsers of this machine find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def key_id(self) -> str:
        """Of an admin's key."""
        return KEY_ID

    @property
    def secret(self) -> str:
        """Of the admin's key."""
        return SECRET

    def ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        authorised: bool = True,
    ) -> Answered:
        """One request on a connection of its own. ``target`` may be a whole URL, whose host is not looked at."""
        if target.startswith("http://"):
            target = target[target.index("/", len("http://")) :]
        sent = dict(headers or {})
        if authorised:
            sent["authorization"] = basic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, answer.reason, named, answer.read())
        finally:
            connection.close()

    def ask_json(self, method: str, target: str, document: object) -> Answered:
        """One request with a JSON body."""
        return self.ask(method, target, json.dumps(document).encode(), {"content-type": "application/json"})

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)


def basic(key_id: str = KEY_ID, secret: str = SECRET) -> str:
    """The header of a key; of the server's by default."""
    return "Basic " + b64encode(f"{key_id}:{secret}".encode()).decode()


def sealing_key_file(folder: Path) -> Path:
    """A file in this folder with the key that seals the secrets of all lakes on AWS here."""
    file = folder / "sealing.key"
    file.touch(0o600)
    file.write_bytes(b64encode(bytes(range(32))))
    return file


@contextmanager
def running(folder: Path, *options: str, workers: int = 2, key: bool = True) -> Iterator[Running]:
    """A server on a new lake in ``folder``, which is stopped afterwards."""
    with started(folder, "--lake", str(folder / "lake"), *options, workers=workers, key=key) as server:
        yield server


@contextmanager
def started(folder: Path, *options: str, workers: int = 2, key: bool = True) -> Iterator[Running]:
    """A server with these options, which keeps its errors in ``folder`` and is stopped afterwards."""
    chosen = {"GRAVELER_ACCESS_KEY_ID": KEY_ID, "GRAVELER_SECRET_ACCESS_KEY": SECRET} if key else {}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRAVELER_")} | chosen
    if "--tables" in options:
        environment["GRAVELER_SEALING_KEY_FILE"] = str(sealing_key_file(folder))
    errors = folder / "stderr"
    command = [sys.executable, "-m", "graveler.cli", "serve", "--port", "0", "--json"]
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--workers", str(workers), *options],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("{"), f"the server did not start: {line}\n{errors.read_text()}"
        said = json.loads(line)
        yield Running(process, said["url"], said["data_url"], folder / "lake", errors, said["s3_url"])
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()
