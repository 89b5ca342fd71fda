"""Lambda's runtime interface on this machine: functions started as Lambda starts them, from the built layer, by its own client.

The client asks ``/next`` for an event and posts the answer; what is measured is what Lambda bills: from the start of the process
to its first answer, and from event to answer afterwards.
"""

import json
import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

from infra.layer import build
from tests.infra.tools import PYTHON, ROOT, require_tools
from tests.support.patience import PATIENCE

FUNCTIONS: Final = ROOT / "functions"


def unpacked_layer(into: Path, architecture: str) -> Path:
    """The layer's folder of packages."""
    require_tools()
    with zipfile.ZipFile(build(architecture)) as archive:
        archive.extractall(into)
    return into / "python"


class RuntimeApi(ThreadingHTTPServer):
    """Hands out events one by one, and takes the answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: Queue[dict[str, Any] | None] = Queue()
        self.answers: Queue[dict[str, Any]] = Queue()
        self.asked = threading.Event()
        """Set when a function asks for its first event: it is initialised."""
        self.snapshot = threading.Event()
        """Set when a function with SnapStart is ready for its snapshot."""
        self.restored = threading.Event()
        """To be set when it is restored from that."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A function that is ended leaves its question open."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # head and body are two packets, and the second would wait for the first one's receipt
    )
    server: RuntimeApi

    def do_GET(self) -> None:
        if self.path.endswith("/restore/next"):
            self.server.snapshot.set()
            self.server.restored.wait()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.asked.set()
        event = self.server.events.get()
        body = json.dumps(event).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")  # without it the client dies
        self.send_header("Lambda-Runtime-Aws-Request-Id", "request")
        self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + 900) * 1000)))
        self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:f")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        said = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.answers.put({"path": self.path, "answer": json.loads(said)})

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


class Started:
    """A function that has been started."""

    def __init__(self, api: RuntimeApi, process: subprocess.Popen[bytes]) -> None:
        self._api = api
        self._process = process

    def initialised(self) -> None:
        """Wait until it asks for its first event."""
        assert self._api.asked.wait(PATIENCE)

    def ready_for_snapshot(self) -> None:
        """Wait until it has been initialised, where that is for SnapStart: it then asks for no event, but to be restored."""
        assert self._api.snapshot.wait(PATIENCE)
        assert not self._api.asked.is_set()

    def restore(self) -> None:
        """Have it go on, as a process that was started from its snapshot does."""
        self._api.restored.set()

    def send(self, event: Mapping[str, Any]) -> None:
        """Hand it an event, and wait for nothing."""
        self._api.events.put(dict(event))

    def kill(self) -> None:
        """End it as Lambda does at the end of its time: between two instructions."""
        self._process.kill()
        self._process.wait()

    def invoke(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer to an event."""
        self.send(event)
        told = self._api.answers.get(timeout=PATIENCE)
        assert told["path"].endswith("/response"), told
        answer: dict[str, Any] = told["answer"]
        return answer

    def survives(self, event: Mapping[str, Any]) -> bool:
        """Whether it answers an event; if not, it dies of it."""
        self._api.events.put(dict(event))
        while self._process.poll() is None:
            try:
                self._api.answers.get(timeout=0.02)
                return True
            except Empty:
                continue
        return False

    def cpu_seconds(self) -> float:
        """What the process has used of a core until now."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(verb: str, layer: Path, environment: Mapping[str, str], log: Path) -> Iterator[Started]:
    """A function's process, until the end of the block."""
    api = RuntimeApi()
    serving = threading.Thread(target=api.serve_forever, daemon=True)
    serving.start()
    client = next((PYTHON.parents[1] / "lib").glob("python*/site-packages"))
    own = {
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{api.server_port}",
        "AWS_LAMBDA_FUNCTION_NAME": verb,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "_HANDLER": "handler.handler",
        "LAMBDA_TASK_ROOT": str(FUNCTIONS / verb),
        "POWERTOOLS_SERVICE_NAME": verb,
        "PYTHONDONTWRITEBYTECODE": "1",
        # The layer comes first: what it lacks must not be found in the tools' environment.
        "PYTHONPATH": f"{layer}:{FUNCTIONS / verb}",
        "PATH": os.environ["PATH"],
    }
    start = f"import sys; sys.path.append({str(client)!r}); from awslambdaric.__main__ import main; main(['', 'handler.handler'])"
    with (
        log.open("ab") as said,
        subprocess.Popen(
            [PYTHON.resolve(), "-c", start],
            cwd=FUNCTIONS / verb,
            env={**own, **environment},
            stdout=said,
            stderr=said,
        ) as process,
    ):
        try:
            yield Started(api, process)
        finally:
            process.kill()
            process.wait()
            api.shutdown()
            api.server_close()
            serving.join()
