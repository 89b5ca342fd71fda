"""AWS on this machine: ministack, which takes the templates that AWS takes and runs functions from their own layers."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import urllib3

from tests.infra.tools import CDK, PYTHON, ROOT, environment, require_tools

_START_SECONDS: Final = 60


class Emulator(msgspec.Struct, frozen=True):
    """A running one."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What makes AWS's tools and libraries ask it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def deploy(self, assembly: Path) -> str:
        """Bootstrap, then ``cdk deploy --all`` of an assembly, as its user does. The address of the API."""
        outputs = assembly.parent / "outputs.json"
        for command in (
            ["bootstrap", "aws://000000000000/us-east-1"],
            ["deploy", "--all", "--require-approval", "never", "--outputs-file", str(outputs)],
        ):
            done = subprocess.run(
                [CDK, *command, "--app", assembly],
                cwd=ROOT,
                env=environment(**self.environment),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        told = msgspec.json.decode(outputs.read_bytes(), type=dict[str, dict[str, str]])
        return told["graveler-api"]["Endpoint"]


@contextmanager
def emulating(folder: Path) -> Iterator[Emulator]:
    """An emulator on a port of its own, which keeps its files in ``folder``, until the end of the block."""
    require_tools()
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "S3_DATA_DIR": str(folder / "s3"),
        "STATE_DIR": str(folder / "state"),
        "MINISTACK_REGION": "us-east-1",
    }
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [PYTHON.with_name("ministack")],
            env=environment(**own),
            cwd=folder,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process, log)
            yield Emulator(url)
        finally:
            # The processes of its functions are of its group.
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with urllib3.PoolManager(retries=False, timeout=5) as http:
        while time.monotonic() < deadline:
            assert process.poll() is None, log.read_text()
            try:
                http.request("GET", f"{url}/_ministack/health")
                return
            except urllib3.exceptions.HTTPError:
                time.sleep(0.05)  # it opens its port when it is ready
    raise AssertionError(f"the emulator did not start in {_START_SECONDS} s: {log.read_text()}")
