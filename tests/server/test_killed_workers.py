"""Workers of two servers that are killed under load, while other processes of the same lake write by themselves: acknowledged
writes exist, and refused ones do not.

``GRAVELER_SOAK_SECONDS=n`` lets them work for n seconds.
"""

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import Struct, field

from graveler.errors import NoChangesError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.server.support import Running, basic, running, started
from tests.support.patience import PATIENCE

SECONDS = float(os.environ.get("GRAVELER_SOAK_SECONDS", "6"))
CLIENTS = 16
GROWN = 8.0
"""Seconds after which a worker that replaced another one may be killed: of one that dies sooner several times in a row, the
server takes it that it always will, and ends."""
KEYS = 6
"""Paths of each client, which nobody else writes."""
API = "/api/v1/repositories/rep"
LIBRARY = """
import sys, time
from pathlib import Path
from graveler.errors import BusyError
from graveler.lake.opening.folder import open_folder_lake
from graveler.model import ObjectEntry
repository, number, end = open_folder_lake(Path(sys.argv[1])).repository("rep"), 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    number += 1
    path = f"library/{number % 6}"
    repository.link("main", ObjectEntry(path, f"mem://o/{number}", number, f"{number:032x}", 0))
    print(path, number, flush=True)
"""


class Journal(Struct):
    """What one client asked for and was told. ``values``: by path, the number that was acknowledged last, and those tried
    since."""

    values: dict[str, tuple[int, set[int]]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    acknowledged: int = 0
    lost: int = 0
    wrong: list[str] = field(default_factory=list)

    def tried(self, path: str, number: int) -> None:
        self.values.setdefault(path, (0, set()))[1].add(number)


class Client:
    """Asks one server after the other, on connections that stay open while they live."""

    def __init__(self, servers: list[Running], raw: str, number: int) -> None:
        self.raw = raw
        self.servers, self.name, self.random = servers, f"client{number:02}", Random(number)
        self.journal = Journal()
        self.numbers = count(1)
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, target: str, document: object = None) -> tuple[int, dict[str, Any]] | None:
        """Status and answer; None if there was none, so that nobody knows."""
        if self._connection is None:
            port = self.random.choice(self.servers).port
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        body = None if document is None else json.dumps(document)
        try:
            self._connection.request(method, f"{API}{target}", body, {"authorization": basic()})
            answer = self._connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            self.journal.lost += 1
            time.sleep(0.02)  # the next worker may be about to come
            return None
        return answer.status, json.loads(said) if said.startswith(b"{") else {"": said.decode()}

    def work(self, stop: threading.Event) -> Journal:
        """Until it is to stop."""
        actions: list[Callable[[], None]] = [self.stage, self.stage, self.link, self.branch, self.commit, self.refused]
        while not stop.is_set():
            self.random.choice(actions)()
        if self._connection is not None:
            self._connection.close()
        return self.journal

    def stage(self) -> None:
        number, path = next(self.numbers), f"{self.name}/{self.random.randrange(KEYS)}"
        self.journal.tried(path, number)
        staged = {"physical_address": f"{self.raw}/{number}", "checksum": f"{number:032x}", "size_bytes": number}
        self._staged(path, number, self.ask("PUT", f"/branches/main/objects?path={path}", staged))

    def link(self) -> None:
        number, path = next(self.numbers), f"{self.name}/{self.random.randrange(KEYS)}"
        place = self.ask("GET", f"/branches/main/staging/backing?path={path}")
        if place is None:
            return
        self.journal.tried(path, number)
        document = {"staging": place[1], "checksum": f"{number:032x}", "size_bytes": number}
        self._staged(path, number, self.ask("PUT", f"/branches/main/staging/backing?path={path}", document))

    def _staged(self, path: str, number: int, answer: tuple[int, dict[str, Any]] | None) -> None:
        if answer is None:
            return
        if answer[0] not in (200, 201):
            self.journal.wrong.append(f"{path} {number}: {answer}")
            return
        self.journal.values[path] = number, set()
        self.journal.acknowledged += 1
        # Whoever asks now, at whichever server, finds it.
        found = self.ask("GET", f"/refs/main/objects/stat?path={path}")
        if found is not None and (found[0] != 200 or found[1]["size_bytes"] != number):
            self.journal.wrong.append(f"{path} {number} is acknowledged, and then {found}")

    def branch(self) -> None:
        name = f"{self.name}-{next(self.numbers)}"
        answer = self.ask("POST", "/branches", {"name": name, "source": "main"})
        if answer is None:
            return
        if answer[0] != 201:
            self.journal.wrong.append(f"branch {name}: {answer}")
            return
        self.journal.branches[name] = answer[1][""].strip('"')
        self.journal.acknowledged += 1

    def commit(self) -> None:
        if self.random.random() > 0.2:
            return
        answer = self.ask("POST", "/branches/main/commits", {"message": f"{self.name}-{next(self.numbers)}"})
        if answer is None:
            return
        if answer[0] == 201:
            self.journal.commits.append(answer[1]["id"])
        elif not (answer[0] == 400 and "no changes" in answer[1]["message"]) and answer[0] not in (409, 503):
            self.journal.wrong.append(f"commit: {answer}")

    def refused(self) -> None:
        path = f"{self.name}/refused {next(self.numbers)}"
        staged = {"physical_address": f"{self.raw}/1", "checksum": "1" * 32, "size_bytes": 1}
        answer = self.ask("PUT", f"/branches/protected/objects?path={path.replace(' ', '%20')}", staged)
        if answer is not None and answer[0] != 403:
            self.journal.wrong.append(f"{path}: {answer}")
        self.journal.refused.append(path)


def children(process: int) -> list[int]:
    """Its child processes."""
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def workers(server: Running) -> list[int]:
    """The processes that answer requests: multiprocessing's tracker of resources is none."""
    found = []
    for child in children(server.process.pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in command:
            found.append(child)
    return found


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Running]]:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("rep", "local://rep")
        repository.create_branch("protected", "main")
        repository.protect(["protected"])
    (tmp_path / "raw").mkdir()
    with ExitStack() as servers:
        opened = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            options = ("--lake", str(tmp_path / "lake"), "--import-source", f"file://{tmp_path}/raw")
            opened.append(servers.enter_context(started(tmp_path / name, *options, workers=2)))
        yield opened


def test_what_killed_workers_acknowledged_is_there_and_what_they_refused_is_not(
    servers: list[Running], tmp_path: Path
) -> None:
    random, stop, kills = Random(1), threading.Event(), 0
    beside = [sys.executable, "-c", LIBRARY, str(tmp_path / "lake"), str(SECONDS)]
    clients = [Client(servers, f"file://{tmp_path}/raw", number) for number in range(CLIENTS)]
    end = time.monotonic() + SECONDS
    born = {worker: -GROWN for server in servers for worker in workers(server)}
    assert len(born) == 4
    with (
        subprocess.Popen(beside, stdout=subprocess.PIPE, text=True) as library,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        working = [pool.submit(client.work, stop) for client in clients]
        try:
            while time.monotonic() < end or kills < 2:
                time.sleep(random.uniform(0.2, 0.8))
                now = time.monotonic()
                for server in servers:
                    there = workers(server)
                    grown = [worker for worker in there if now - born.setdefault(worker, now) > GROWN]
                    if len(grown) == 2 and random.random() < 0.5:  # somebody goes on listening
                        os.kill(random.choice(grown), signal.SIGKILL)
                        kills += 1
                assert all(server.process.poll() is None for server in servers)
        finally:
            stop.set()
        journals = [each.result(PATIENCE) for each in working]
        said, _ = library.communicate(timeout=PATIENCE)
    assert library.returncode == 0
    assert [wrong for journal in journals for wrong in journal.wrong] == []
    counts = sum(journal.acknowledged for journal in journals), sum(journal.lost for journal in journals), kills
    print("acknowledged, without an answer, kills:", *counts)  # noqa: T201
    assert min(counts[0], kills) > 0
    with open_folder_lake(tmp_path / "lake") as lake:
        repository = lake.repository("rep")
        found = {item.path: item.size for item in repository.objects("main")}
        for journal in journals:
            for path, (number, later) in journal.values.items():
                assert found.get(path, 0) in {number} | later, path
            for branch, commit in journal.branches.items():
                assert repository.branch(branch).commit_id == commit
            assert not found.keys() & set(journal.refused)
        assert list(repository.objects("protected")) == []
        assert found.keys() >= {line.split()[0] for line in said.splitlines()}
        for path, last in dict(line.split() for line in said.splitlines()).items():
            assert found[path] == int(last)
        with suppress(NoChangesError):
            repository.commit("main", "the end")
        assert {item.path: item.size for item in repository.objects("main@")} == found
        history = {commit.id for commit in repository.log("main", amount=100_000).results}
        assert {commit for journal in journals for commit in journal.commits} <= history
        linked = [finding for finding in lake.fsck("rep").remaining if f"file://{tmp_path}/raw/" in finding.what]
        assert {finding.kind for finding in linked} <= {FindingKind.OBJECT_MISSING}, "they name files that never were"
        assert [finding for finding in lake.fsck("rep").remaining if finding not in linked] == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_stop_finishes_the_writes_that_wait_for_the_table(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "raw").mkdir()
    with running(tmp_path, "--import-source", f"file://{tmp_path}/raw", workers=1) as server, ExitStack() as opened:
        made = server.ask_json("POST", "/api/v1/repositories", {"name": "rep", "storage_namespace": "local://rep"})
        assert made.status == 201, made.body
        body = json.dumps({"physical_address": f"file://{tmp_path}/raw/1", "checksum": "1" * 32, "size_bytes": 1})
        for _ in range(2):  # so that what follows is answered in the loop
            assert server.ask("PUT", f"{API}/branches/main/objects?path=warm", body.encode()).status == 201
        table = opened.enter_context(closing(sqlite3.connect(server.lake / "tables.sqlite", isolation_level=None)))
        table.execute("BEGIN IMMEDIATE")
        connections = [opened.enter_context(server.connect()) for _ in range(6)]
        for number, connection in enumerate(connections):
            head = (
                f"PUT {API}/branches/main/objects?path=w/{number} HTTP/1.1\r\nHost: h\r\nAuthorization: {basic()}\r\n"
                f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 100")  # it reads the body now
            connection.sendall(body.encode())
        server.process.send_signal(how)
        table.execute("COMMIT")
        for connection in connections:
            assert connection.recv(1000).startswith(b"HTTP/1.1 201")
        assert server.process.wait(PATIENCE) == 0
    with open_folder_lake(tmp_path / "lake") as lake:
        found = {item.path for item in lake.repository("rep").objects("main", "w/")}
    assert found == {f"w/{number}" for number in range(6)}
