"""Runs whose program, gateway or runner is killed at any moment: committed whole or not at all, and no branch stays.

``GRAVELER_RUN_KILLS=n`` kills n runs. The seed of ``--hypothesis-seed`` decides who is killed, and when.
"""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from graveler.lake.opening.folder import open_folder_lake
from graveler.retention.garbage import Garbage
from tests.gateway.run.support import Place, Run, is_alive
from tests.support.campaigns import seed
from tests.support.waiting import ClockAhead

KILLS = int(os.environ.get("GRAVELER_RUN_KILLS", "1"))
OBJECTS = 8
PUBLICATION = 0.4
"""Seconds for which runs publish, more or less."""
VICTIMS = ("program", "gateway", "runner", "program and gateway", "runner and gateway", "runner and program")
PROGRAM = """
for number in $(seq "$2"); do
    curl -sf -X PUT --data-binary "$1" --aws-sigv4 "aws:amz:$AWS_REGION:s3" -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" \\
        --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$AWS_ENDPOINT_URL_S3/sales/$1/$number" || exit 9
    sleep 0.1
done
"""


def start(place: Place, number: int) -> Run:
    return place.start("sales/main", "--", "sh", "-c", PROGRAM, "sh", str(number), str(OBJECTS))


def processes(runner: int) -> dict[str, int]:
    """The processes of a run, as far as there are any at this moment."""
    alive = {"runner": runner}
    with suppress(FileNotFoundError):  # it has ended
        for child in map(int, Path(f"/proc/{runner}/task/{runner}/children").read_text().split()):
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            alive["gateway" if b"graveler.gateway" in command else "program"] = child
    return alive


def await_publication(run: Run) -> None:
    """Wait until the program of a run has ended, or the run."""
    for is_running in (False, True):
        while run.process.poll() is None and ("program" in processes(run.process.pid)) == is_running:
            time.sleep(0.005)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.kill(pid, signal.SIGKILL)


@pytest.mark.ci
def test_a_killed_run_is_published_whole_or_not_at_all(place: Place) -> None:
    random = Random(seed())
    began = time.monotonic()
    end = start(place, 0).end()
    assert end.code == 0, end.err
    duration = time.monotonic() - began
    outcomes: Counter[str] = Counter()
    for number in range(1, KILLS + 1):
        victims, moment = random.choice(VICTIMS), random.uniform(0.1, 0.9) * duration
        run = start(place, number)
        if "program" not in victims and random.random() < 0.5:
            moment = random.uniform(0.0, PUBLICATION)
            await_publication(run)
        time.sleep(moment)
        alive, killed = processes(run.process.pid), set[str]()
        while run.process.poll() is None and not (killed := set(victims.split(" and ")) & alive.keys()):
            time.sleep(0.01)  # it has not started yet
            alive = processes(run.process.pid)
        for name in killed:
            kill(alive[name])
        end = run.end()
        label = f"kill {number} of {victims} after {moment:.2f} s, seed {seed()}: {end.code} {end.err[-500:]}"
        for pid in alive.values():
            deadline = time.monotonic() + 30
            while is_alive(pid):
                assert time.monotonic() < deadline, f"process {pid} stays; {label}"
                time.sleep(0.05)
        with open_folder_lake(Path(place.folder)) as lake:
            sales = lake.repository("sales")
            objects = sales.list_objects("main", prefix=f"{number}/").results
            texts = {sales.read("main", entry.path) for entry in objects}
            assert not sales.uncommitted("main").results, label
        assert (len(objects), texts) in ((0, set()), (OBJECTS, {str(number).encode()})), label
        if "runner" not in killed:
            assert (end.code == 0) == bool(objects), label
        outcomes["published" if objects else "nothing"] += 1
        outcomes[f"killed {' and '.join(sorted(killed)) or 'nobody: it had ended'}"] += 1
    with open_folder_lake(Path(place.folder), clock=ClockAhead()) as lake:
        sales = lake.repository("sales")
        leases = {lease.branch for lease in sales.parts.branches.owners.all()}
        hidden = {branch.name for branch in sales.branches(show_hidden=True).results} - {"main"}
        assert hidden == leases
        collected = Garbage(sales).run()
        assert collected.transactions == len(hidden)
        assert [branch.name for branch in sales.branches(show_hidden=True).results] == ["main"]
    print(f"seed {seed()}, a run of {duration:.1f} s: {dict(outcomes)}, {len(hidden)} branches collected")  # noqa: T201
