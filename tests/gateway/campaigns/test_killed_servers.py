"""``graveler serve --s3-port`` that is killed under load: what it has acknowledged is on the branch, whole, and stays there.

``GRAVELER_SERVE_KILLS=n`` kills n servers. The seed of ``--hypothesis-seed`` decides when.
"""

import http.client
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from random import Random

import pytest
from msgspec import Struct

from graveler.access.keys import Keys
from graveler.access.permissions import Role
from graveler.gateway.control import KeyPair
from graveler.lake.clock import GRACE
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from tests.gateway.campaigns.support import Caller
from tests.server.support import started
from tests.server.test_killed_workers import children
from tests.support.campaigns import seed
from tests.support.patience import PATIENCE
from tests.support.waiting import ClockAhead

KILLS = int(os.environ.get("GRAVELER_SERVE_KILLS", "1"))
WRITERS = 3
LONGEST = 1.5
"""Seconds of writing before a kill."""


class Journal(Struct):
    """What a writer has sent by key, and which keys were acknowledged."""

    sent: dict[str, bytes]
    acknowledged: set[str]


class Writer:
    """Puts objects of any size, each under a key of its own, until its server is gone."""

    def __init__(self, caller: Caller, random: Random, name: str) -> None:
        self.caller, self.random, self.name = caller, random, name
        self.journal = Journal({}, set())

    def work(self, stop: threading.Event) -> Journal:
        number = 0
        while not stop.is_set():
            number += 1
            key = f"{self.name}/{number}"
            body = self.random.randbytes(self.random.choice((0, 10, 3_000, 200_000, 1_500_000)))
            self.journal.sent[key] = body
            try:
                assert self.caller.send("PUT", f"/sales/main/{key}", body).status == 200
                self.journal.acknowledged.add(key)
            except (OSError, http.client.HTTPException):
                return self.journal  # it was killed
        return self.journal


def kill_all(process: int) -> None:
    """Kill a server with its workers, in any order that the system likes."""
    for pid in (*children(process), process):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.ci
def test_a_killed_server_loses_nothing_that_it_has_acknowledged(tmp_path: Path) -> None:
    random = Random(seed())
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales")
        key = Keys(lake.tables, lake.keyring).create("ana", Role.WRITER, s3=True, now=0.0)
    keys = KeyPair(key.key.key_id, key.secret)
    sent: dict[str, bytes] = {}
    acknowledged: set[str] = set()
    for kill in range(KILLS):
        (tmp_path / str(kill)).mkdir()
        options = ("--lake", str(tmp_path / "lake"), "--s3-port", "0")
        stop = threading.Event()
        with started(tmp_path / str(kill), *options, workers=1) as server, ThreadPoolExecutor(WRITERS) as pool:
            assert server.s3_url is not None
            port = int(server.s3_url.rpartition(":")[2])
            writers = [Writer(Caller(port, keys), Random(random.random()), f"{kill}/{n}") for n in range(WRITERS)]
            working = [pool.submit(writer.work, stop) for writer in writers]
            while not any(writer.journal.acknowledged for writer in writers):
                time.sleep(0.05)
            time.sleep(random.uniform(0.0, LONGEST))
            kill_all(server.process.pid)
            stop.set()
            for journal in (each.result(PATIENCE) for each in working):
                sent |= journal.sent
                acknowledged |= journal.acknowledged
        with open_folder_lake(tmp_path / "lake") as lake:
            sales = lake.repository("sales")
            staged = {entry.path: entry for entry in sales.objects("main")}
            assert acknowledged <= staged.keys() <= sent.keys(), f"kill {kill}, seed {seed()}"
            for path, entry in staged.items():
                assert (entry.size, entry.checksum) == (len(sent[path]), md5(sent[path]).hexdigest())
    with open_folder_lake(tmp_path / "lake", clock=ClockAhead(3 * GRACE)) as lake:
        sales = lake.repository("sales")
        collected = Garbage(sales, Options(mode=Mode.DELETE)).run()
        for path in acknowledged:
            assert sales.read("main", path) == sent[path], f"{path}, seed {seed()}"
        assert list(lake.fsck("sales").remaining) == []
    print(f"seed {seed()}: {len(acknowledged)} of {len(sent)} acknowledged, {collected}")  # noqa: T201
    assert acknowledged
