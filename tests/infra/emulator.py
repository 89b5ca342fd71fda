"""AWS on this machine: ministack, which takes the templates that AWS takes and runs functions from their own layers."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from unittest.mock import patch
from uuid import uuid4

import boto3
import msgspec
import urllib3

from tests.infra.tools import CDK, PYTHON, ROOT, environment, require_tools
from tests.support.patience import PATIENCE

_STOP_SECONDS: Final = 10
_COMMAND: Final = Path(__file__).with_name("ministack_command.py")


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

    def names(self, stacks: Iterable[str]) -> dict[str, dict[str, str]]:
        """How the resources of these stacks are called, by stack and logical ID."""
        with patch.dict(os.environ, self.environment), closing(boto3.client("cloudformation")) as formation:
            return {
                stack: {
                    resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "")
                    for page in formation.get_paginator("list_stack_resources").paginate(StackName=f"graveler-{stack}")
                    for resource in page["StackResourceSummaries"]
                }
                for stack in stacks
            }

    def role_of(self, function: str) -> str:
        """The ARN of a function's role."""
        with patch.dict(os.environ, self.environment), closing(boto3.client("lambda")) as functions:
            role: str = functions.get_function_configuration(FunctionName=function)["Role"]
        return role

    def deploy(self, assembly: Path, stack: str = "--all") -> dict[str, str]:
        """Bootstrap, then ``cdk deploy`` of an assembly, as its user does: of all stacks, or of one and those that it needs.
        Returns their outputs."""
        outputs = assembly.parent / f"outputs-{uuid4().hex}.json"
        self.bootstrap(assembly.parent)
        self.cdk(
            *("deploy", stack, "--require-approval", "never", "--outputs-file", str(outputs)),
            *("--app", str(assembly)),
        )
        return _outputs(outputs)

    def bootstrap(self, folder: Path) -> None:
        """``cdk bootstrap``, in a folder without an app."""
        self.cdk("bootstrap", "aws://000000000000/us-east-1", folder=folder)

    def run_step(self, script: str, folder: Path, **variables: str) -> dict[str, str]:
        """Run a step of a GitHub workflow that deploys, with ``folder`` for its temporary files, and these variables.
        The outputs of the stacks."""
        folder.mkdir()
        named = {"RUNNER_TEMP": str(folder), "CDK_OUTPUT": str(folder / "assembly"), **variables}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=ROOT,
            env=environment(**self.environment, **named),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return _outputs(folder / "outputs.json")

    def cdk(self, *words: str, check: bool = True, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        """Run the CDK's command."""
        done = subprocess.run(
            [CDK, *words],
            cwd=folder,
            env=environment(**self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout[-3000:] + done.stderr[-3000:]
        return done


def _outputs(file: Path) -> dict[str, str]:
    outputs = msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, str]])
    return {name: value for each in outputs.values() for name, value in each.items()}


@contextmanager
def emulating(folder: Path) -> Iterator[Emulator]:
    """An emulator on a port of its own, which keeps its files in ``folder``, until the end of the block."""
    emulator, process = launch(folder)
    try:
        yield emulator
    finally:
        terminate(process)


def launch(folder: Path, **more: str) -> tuple[Emulator, int]:
    """An emulator on a port of its own, which keeps its files in ``folder``, and its process, which is nobody's child: whoever is
    the last one to use it may :func:`terminate` it. Its environment, which is also that of functions, has ``more`` in it."""
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
        "SFN_WAIT_SCALE": "0.01",  # state machines wait a hundredth of their time before they try again
        **more,
    }
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    done = subprocess.run(
        ["/bin/sh", "-c", 'setsid "$0" -P "$1" > "$2" 2>&1 < /dev/null & echo $!', PYTHON, _COMMAND, log],
        env=environment(**own),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    process = int(done.stdout)
    emulator = Emulator(f"http://127.0.0.1:{port}")
    try:
        _wait(emulator.url, process, log)
    except BaseException:
        terminate(process)
        raise
    return emulator, process


def terminate(process: int) -> None:
    """End an emulator, and the processes of its functions, which are of its group."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process, how)
        deadline = time.monotonic() + _STOP_SECONDS
        while _is_running(process) and time.monotonic() < deadline:
            time.sleep(0.02)


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait(url: str, process: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    with urllib3.PoolManager(retries=False, timeout=5) as http:
        while time.monotonic() < deadline:
            assert _is_running(process), log.read_text()
            try:
                http.request("GET", f"{url}/_ministack/health")
                return
            except urllib3.exceptions.HTTPError:
                time.sleep(0.05)  # it opens its port when it is ready
    raise AssertionError(f"the emulator did not start in {PATIENCE} s: {log.read_text()}")
