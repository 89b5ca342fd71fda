"""5: ``/proc`` shows no secret of a server or of graveler's other processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from unittest.mock import patch

import pytest

from graveler.runtime.crew import Crew
from graveler.storage.objects.s3 import S3Settings
from graveler.system.secret_variables import DESCRIPTOR, handed_on, is_secret
from tests.cli.support import done
from tests.cli.test_terminal import on_terminal
from tests.security.processes import shown
from tests.server.support import SECRET, Running, running, started
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, SECRET_KEY, dynamodb_local, s3proxy
from tests.support.shell import Shell

OTHERS = {
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "1akect1-secret",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "c0ntainer-token",
    "SOME_PASSWORD": "some-passw0rd",
    "ftp_proxy": "http://me:proxy-passw0rd@proxy.example:3128",
}
WORDS = [word.encode() for word in (SECRET, SECRET_KEY, "proxy-passw0rd", *list(OTHERS.values())[:-1])]


def told(process: int) -> list[tuple[int, bytes]]:
    """Which processes show which secrets."""
    return [(each, word) for each, text in shown(process).items() for word in WORDS if word in text]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    name = f"environment-{token_hex(6)}"
    folder = tmp_path_factory.mktemp("environment")
    places = ["--objects", f"s3://{name}/lake", "--tables", f"dynamodb://{name}", "--region", REGION]
    places += ["--s3-endpoint-url", s3proxy(), "--dynamodb-endpoint-url", dynamodb_local(), "--create-table"]
    with patch.dict(os.environ, CREDENTIALS | OTHERS):
        make_bucket(name, S3Settings(REGION, s3proxy()))
        with started(folder, *places, "--cache", str(folder / "cache")) as made:
            repository = {"name": "sales", "storage_namespace": f"s3://{name}/lake/sales"}
            assert made.ask_json("POST", "/api/v1/repositories", repository).status == 201
            yield made


def works_on_aws(server: Running, path: str) -> bool:
    """Does the server find its credentials, for the table and for S3?"""
    put = server.ask(
        "POST",
        f"/api/v1/repositories/sales/branches/main/objects?path={path}",
        b"bytes",
        {"content-type": "application/octet-stream"},
    )
    return put.status == 201


def test_no_process_of_a_server_shows_a_secret_also_when_workers_are_started_again(server: Running) -> None:
    assert works_on_aws(server, "first")
    before = shown(server.process.pid)
    assert len(before) >= 3, "the one that was started, two workers and whom they need"
    assert told(server.process.pid) == []
    workers = {each for each, text in before.items() if b"spawn_main" in text}
    assert len(workers) == 2
    killed = min(workers)
    os.kill(killed, signal.SIGKILL)
    while len(new := {each for each, text in shown(server.process.pid).items() if b"spawn_main" in text} - workers) < 1:
        assert server.process.poll() is None
    os.kill(max(workers), signal.SIGKILL)  # so that the new ones answer
    while len(new := {each for each, text in shown(server.process.pid).items() if b"spawn_main" in text} - workers) < 2:
        assert server.process.poll() is None
    while True:
        try:
            assert works_on_aws(server, "second")
            break
        except OSError:  # none listens yet
            assert server.process.poll() is None
    assert told(server.process.pid) == []
    assert new <= shown(server.process.pid).keys()


def test_a_server_of_a_folder_keeps_the_process_that_was_started(tmp_path: Path) -> None:
    with patch.dict(os.environ, OTHERS), running(tmp_path, workers=1) as server:
        assert server.ask("GET", "/api/v1/user").status == 200
        assert told(server.process.pid) == []
        assert b"serve" in shown(server.process.pid)[server.process.pid]


def environment_of(name: str) -> tuple[int, str | None]:
    """Who asks, and what it finds."""
    return os.getpid(), os.environ.get(name)


def test_processes_that_share_work_find_secrets_and_do_not_show_them() -> None:
    with patch.dict(os.environ, {"AWS_SECRET_ACCESS_KEY": SECRET_KEY}):
        crew = Crew(1)
        try:
            (found,) = crew.run(environment_of, [("AWS_SECRET_ACCESS_KEY",)])
            assert found[1] == SECRET_KEY
            assert SECRET_KEY.encode() not in shown(found[0])[found[0]]
        finally:
            crew.end()


def test_a_pager_gets_no_secrets(tmp_path: Path, shell: Shell) -> None:
    shell.cd(tmp_path)
    done("init")
    done("repo", "create", "lake")
    log = ("log", "lakefs://lake/main")
    code, screen = on_terminal(*log, GRAVELER_PAGER="sh -c 'cat > /dev/null; env'", AWS_SECRET_ACCESS_KEY=SECRET_KEY)
    assert code == 0
    assert "GRAVELER_PAGER" in screen
    assert SECRET_KEY not in screen


CHILD = """
import json, os
from graveler.system.secret_variables import take_over
took = take_over()
print(json.dumps([took, dict(os.environ), os.path.exists(f"/proc/self/fd/{os.sys.argv[1]}")]))
"""


def test_what_is_handed_on_is_read_once_and_closed() -> None:
    large = "x" * 300_000  # more than a pipe holds
    with handed_on({**os.environ, "A_TOKEN": large, "B_TOKEN": large}) as (environment, descriptors):
        assert "A_TOKEN" not in environment
        command = [sys.executable, "-c", CHILD, environment[DESCRIPTOR]]
        answer = subprocess.run(command, env=environment, pass_fds=descriptors, capture_output=True, check=True)
    took, seen, still_open = json.loads(answer.stdout)
    assert (took, seen["A_TOKEN"], DESCRIPTOR in seen, still_open) == (True, large, False, False)


@pytest.mark.parametrize("value", ["none", "99", "-1", "0"])
def test_a_descriptor_of_somebody_else_is_refused_with_a_sentence(value: str) -> None:
    command = [sys.executable, "-m", "graveler.cli", "--version"]
    environment = {**os.environ, DESCRIPTOR: value}
    answer = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert answer.returncode != 0
    assert answer.stderr.startswith(f"error: {DESCRIPTOR} is '{value}'")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GRAVELER_SECRET_ACCESS_KEY", "x", True),
        ("AWS_SESSION_TOKEN", "x", True),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token", False),
        ("AWS_SHARED_CREDENTIALS_FILE", "/home/me/.aws/credentials", False),
        ("HTTPS_PROXY", "http://proxy.example:3128", False),
        ("HTTPS_PROXY", "http://me:word@proxy.example:3128", True),
        ("PATH", "/usr/bin:/bin", False),
        ("LESSKEY", "/etc/less", False),
    ],
)
def test_what_counts_as_a_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret
