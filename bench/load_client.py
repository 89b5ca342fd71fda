"""Load on an HTTP server, from the clients of ``load_client.c``: what to ask, and what came of it.

The clients are one compiled process without threads, so that they take little of the machine that serves them: some 10 µs a
request. It is compiled by ``cc`` when it is first used.
"""

import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import quote, urlencode

SOURCE = Path(__file__).with_name("load_client.c")
WARM_SECONDS = 0.5
NUMBER, ADDRESS, CLIENT = "{number}", "{address}", "{client}"
"""What the client puts in: a number that no other operation has, the address of the answer before, and which client asks."""

Request = tuple[bytes, bytes]
"""Head, without ``Content-Length`` and the empty line at its end, and body."""


@dataclass(frozen=True)
class Load:
    """What clients saw in one run. Times in seconds; an operation may be several requests, one after the other."""

    operations: int
    requests: int
    errors: int
    seconds: float
    cpu: float
    p50: float
    p99: float
    worst: float
    first_error: str

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


class Requests:
    """Makes requests to a repository of a server."""

    def __init__(self, repository: str, key_id: str, secret: str) -> None:
        self._base = f"/api/v1/repositories/{repository}"
        self._authorization = f"Authorization: Basic {b64encode(f'{key_id}:{secret}'.encode()).decode()}"

    def get(self, path: str, /, **query: str) -> Request:
        return self._head("GET", path, query), b""

    def send(self, method: str, path: str, body: dict[str, object], /, **query: str) -> Request:
        return self._head(method, path, query, "Content-Type: application/json"), json.dumps(body).encode()

    def _head(self, method: str, path: str, query: dict[str, str], *more: str) -> bytes:
        target = self._base + path + ("?" + urlencode(query, safe="{}/", quote_via=quote) if query else "")
        lines = (f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", self._authorization, *more)
        return "".join(f"{line}\r\n" for line in lines).encode()


def compiled(cache: Path) -> Path:
    """The client's program; made once for each text of its source."""
    program = cache / f"load_client-{sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        temporary = program.with_suffix(".part")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(temporary), str(SOURCE)], check=True)
        temporary.rename(program)
    return program


def load(
    program: Path,
    port: int,
    clients: int,
    seconds: float,
    operations: Sequence[Sequence[Request]],
    *,
    begin: Callable[[], None],
) -> Load:
    """Have ``clients`` ask these operations in turn for so many seconds. ``begin`` is called after the warm-up."""
    with NamedTemporaryFile() as script:
        script.write(b"%d\n" % len(operations[0]))
        for operation in operations:
            for head, body in operation:
                script.write(b"%d %d\n%b%b" % (len(head), len(body), head, body))
        script.flush()
        command = [str(program), str(port), str(clients), str(WARM_SECONDS), str(seconds), script.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"bench: {program.name} ended with {process.wait()} while it warmed up")
            begin()
            said, _ = process.communicate("go\n")
    if process.returncode:
        raise SystemExit(f"bench: {program.name} ended with {process.returncode}")
    return Load(**json.loads(said))
