"""Runs verbs on SQLite and folders, in processes whose writes and syncs fail, and compares their answers with the lake's
state.

A program for :func:`tests.support.brittle.run`; its one argument is a :class:`Campaign` in JSON. It prints a :class:`Outcome` in
JSON for each run. The process that ran the verb ends without closing anything, as one that is killed: whoever opens the table
next recovers what the log holds.
"""

import errno
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from shutil import rmtree
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import AnswerLostError, GravelerError
from tests.lake.faults import CASES, Case, FolderScene, client, start
from tests.lake.faults.experiment import Start
from tests.lake.faults.model import public, seen, texts
from tests.lake.faults.story import main_of
from tests.lake.support import NAME
from tests.support import brittle
from tests.support.children import end_process

FOREVER: Final = 1 << 30


class Campaign(Struct):
    """``kind`` as :class:`brittle.Kind`; ``named`` is in the paths of the files; ``lasting``: the disk stays broken. ``every``:
    one in so many calls fails."""

    folder: str
    cases: list[str]
    kind: int
    named: str
    lasting: bool
    every: int = 1


class Outcome(Struct):
    """``told``: done, unknown, nothing, or a traceback. ``found``: before, after, between (of verbs that work piece by piece), or
    what else there is."""

    case: str
    call: int
    told: str
    found: str
    message: str = ""

    @property
    def is_true(self) -> bool:
        """Whether what was said holds."""
        allowed = {"done": ("after",), "unknown": ("before", "after", "between"), "nothing": ("before", "between")}
        return self.found in allowed.get(self.told, ())


def main(campaign: Campaign) -> None:
    """Every case, every call."""
    for case in CASES:
        if case.name in campaign.cases:
            _try(case, campaign)


def _try(case: Case, campaign: Campaign) -> None:
    folder = Path(campaign.folder, case.name.replace("/", " "))
    begin = start(case, FolderScene(folder / "start"))
    begin.scene.close()
    calls = _run(case, begin, folder / "count", campaign, FOREVER).call
    for number in range(0, calls, campaign.every):
        outcome = _run(case, begin, folder / str(number), campaign, number)
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        rmtree(folder / str(number))
    sys.stdout.flush()


def _run(case: Case, begin: Start, folder: Path, campaign: Campaign, number: int) -> Outcome:
    folder.mkdir(parents=True)
    said = folder / "said"
    child = os.fork()
    if child == 0:
        try:
            said.write_bytes(msgspec.json.encode(_told(case, begin, folder / "lake", campaign, number)))
        finally:
            end_process(0)
    os.waitpid(child, 0)
    outcome = msgspec.json.decode(said.read_bytes(), type=Outcome)
    after = deepcopy(begin.model)
    case.effect(after)
    scene = FolderScene(folder / "lake")
    scene.clock.time = begin.scene.clock.time + 1
    found = seen(client(scene))
    if found == public(after) and outcome.told != "nothing":
        outcome.found = "after"
    elif found == public(begin.model):
        outcome.found = "before"
    elif found == public(after):
        outcome.found = "after"
    elif case.pieces and _is_between(case, begin, scene):
        outcome.found = "between"
    else:
        outcome.found = repr(found)
    scene.close()
    return outcome


def _told(case: Case, begin: Start, folder: Path, campaign: Campaign, number: int) -> Outcome:
    """Run the verb with a fault; :data:`FOREVER`: with none, to count the calls."""
    scene = begin.scene.copy(folder)
    lake = client(scene)
    if campaign.kind == brittle.Kind.SYNC:
        # As another process would have it open: the last connection that closes after a failed COMMIT removes the log, and the
        # change with it, so that its fate would be known.
        beside = sqlite3.connect(folder / "tables.sqlite")
        beside.execute("SELECT count(*) FROM items").fetchone()
    last = FOREVER if campaign.lasting else number
    brittle.begin(brittle.Kind(campaign.kind), campaign.named, number, last, errno.EIO)
    told, message = "done", ""
    try:
        case.run(lake, scene)
    except AnswerLostError as error:
        told, message = "unknown", str(error)
    except GravelerError as error:
        told, message = "nothing", f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - this is what is looked for
        told, message = "bug", traceback.format_exc()
    calls = brittle.seen() if number == FOREVER else number
    brittle.begin(brittle.Kind(0), "", 0, 0, 0)
    return Outcome(case.name, calls, told, "", message)


def _is_between(case: Case, begin: Start, scene: FolderScene) -> bool:
    """Whether each piece is as before or as after, and all else as before."""
    after, between = deepcopy(begin.model), deepcopy(begin.model)
    case.effect(after)
    now = texts(client(scene).repository(NAME), "main")
    for path in case.pieces:
        if now.get(path) == main_of(after).current.get(path):
            main_of(between).staged[path] = main_of(after).current.get(path)
    return seen(client(scene)) == public(between)


if __name__ == "__main__":
    run: Callable[[Campaign], None] = main
    run(msgspec.json.decode(sys.argv[1], type=Campaign))
