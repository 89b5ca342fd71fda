"""Batches of a table's writer in processes whose disk fails, and the answer that each of their jobs got.

A program for :func:`tests.support.brittle.run`; its one argument is a :class:`Campaign` in JSON. It prints an :class:`Outcome` in
JSON for each run. The process that wrote ends without closing anything, as one that is killed: whoever opens the table next
recovers what the log holds.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from shutil import copytree, rmtree
from threading import Event
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import AnswerLostError, GravelerError
from graveler.storage.tables.port import Absent, ConditionFailedError, Delete, Item, Key, Matches, Put
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_writer import Transaction
from tests.support import brittle
from tests.support.children import end_process
from tests.support.patience import PATIENCE

FOREVER: Final = 1 << 30
BIG: Final = bytes(5000)
"""A row with it has a page of its own."""
_ROWS: Final = 60


def key(name: str) -> Key:
    """The key of a row of these tables."""
    return Key("p", name.encode())


JOBS: Final[Sequence[tuple[Callable[[SqliteTables], object], Sequence[str]]]] = (
    (lambda tables: tables.put(key("a"), {"n": 1, "big": BIG}, Absent()), ["a 1"]),
    (lambda tables: tables.put(key("a"), {"n": 2}, Absent()), ["a 2"]),  # refused on account of the first
    (lambda tables: tables.replace_and_get(key("b"), {"n": 1, "big": BIG}, [key("a"), key("row 30")]), ["b"]),
    (lambda tables: tables.transact([Put(key(name), {"n": 1}, Absent()) for name in ("c", "d")]), ["c", "d"]),
    (
        lambda tables: tables.write_many([Put(key(f"m {at:02}"), {"n": 1, "big": BIG}) for at in range(4)]),
        [f"m {at:02}" for at in range(4)],
    ),
    (lambda tables: tables.delete(key("row 10"), Matches({"n": 10})), ["no row 10"]),
    (lambda tables: tables.put(key("row 20"), {"n": 0}, Matches({"n": 21})), []),  # refused by what was there before
)
"""Jobs of one batch, and what is to be seen of each."""  # fmt: skip


class Campaign(Struct):
    """``kind`` as :class:`brittle.Kind`; ``named`` is in the paths of the files; ``lasting``: the disk stays broken. ``every``:
    one in so many calls fails."""

    folder: str
    kind: int
    named: str
    lasting: bool
    every: int = 1


class Outcome(Struct):
    """``told``, for each job: done, refused, unknown, nothing, or a traceback; ``found``: how much is there of what it writes,
    and how much it would be. ``next``: what was told of a write after the batch; ``next_found``: whether that is there."""

    call: int
    told: list[str]
    found: list[tuple[int, int]] = []
    next: str = ""
    next_found: bool = False

    @property
    def is_true(self) -> bool:
        """Whether what was said holds, and each job has happened as a whole or not at all."""
        for told, (found, whole) in zip(self.told, self.found, strict=True):
            none, all_ = found == 0, found == whole
            if not {"done": all_, "refused": none, "unknown": none or all_, "nothing": none}.get(told, False):
                return False
        if self.told[1] == "refused" and not self.found[0][0]:
            return False  # because of what is not there
        return self.next in ("done", "unknown", "nothing") and self.next_found in {
            "done": (True,), "nothing": (False,), "unknown": (True, False)
        }[self.next]  # fmt: skip


def gathered(
    tables: SqliteTables, calls: Sequence[Callable[[], object]], ready: Callable[[], None]
) -> list["Future[object]"]:
    """The outcomes of calls that the table's writer finds in its line together, in this order; ``ready`` is called before it
    begins with the first of them."""
    writer, begun, go_on = tables.writes.group, Event(), Event()
    assert writer is not None

    def keep(transaction: Transaction) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        raise ConditionFailedError({})

    pool = ThreadPoolExecutor(len(calls) + 1)
    try:
        kept = pool.submit(writer.run, keep)
        assert begun.wait(PATIENCE)
        outcomes = []
        for number, call in enumerate(calls):
            outcomes.append(pool.submit(call))
            while len(writer._line) <= number:
                assert not outcomes[-1].done()
        ready()
        go_on.set()
        kept.exception(PATIENCE)
        for outcome in outcomes:
            outcome.exception(PATIENCE)
        return outcomes
    finally:
        go_on.set()
        pool.shutdown()


def told(call: Callable[[], object]) -> str:
    """What a call says of what it wrote."""
    try:
        call()
    except ConditionFailedError:
        return "refused"
    except AnswerLostError:
        return "unknown"
    except GravelerError:
        return "nothing"
    except Exception:  # noqa: BLE001 - this is what is looked for
        return traceback.format_exc()
    return "done"


def start(folder: Path) -> None:
    """A table as the batches find it."""
    folder.mkdir(parents=True)
    with SqliteTables(folder / "t.db") as tables:
        tables.write_many([Put(key(f"row {at:02}"), {"n": at, "big": BIG}) for at in range(_ROWS)])
        tables.write_many([Delete(key("none"))])


def seen(tables: SqliteTables) -> dict[str, Item]:
    """What is there: of ``a`` with its number, and ``no row 10`` where that is gone."""
    found = {name.decode(): item for name, item in tables.query("p").items}
    if "a" in found:
        found[f"a {found['a']['n']!r}"] = found["a"]
    return found if "row 10" in found else {**found, "no row 10": {}}


def main(campaign: Campaign) -> None:
    """Every call."""
    begin = Path(campaign.folder, "start")
    start(begin)
    calls = _run(begin, Path(campaign.folder, "count"), campaign, FOREVER).call
    for number in range(0, calls, campaign.every):
        folder = Path(campaign.folder, str(number))
        sys.stdout.buffer.write(msgspec.json.encode(_run(begin, folder, campaign, number)) + b"\n")
        rmtree(folder)
    sys.stdout.flush()


def _run(begin: Path, folder: Path, campaign: Campaign, number: int) -> Outcome:
    copytree(begin, folder)
    said = folder / "said"
    child = os.fork()
    if child == 0:
        try:
            said.write_bytes(msgspec.json.encode(_told(folder / "t.db", campaign, number)))
        except BaseException:  # noqa: BLE001 - it must not go on as the parent
            traceback.print_exc()
        finally:
            end_process(0)
    os.waitpid(child, 0)
    outcome = msgspec.json.decode(said.read_bytes(), type=Outcome)
    with SqliteTables(folder / "t.db") as tables:
        found = seen(tables)
    outcome.found = [(sum(name in found for name in names), len(names)) for _, names in JOBS]
    outcome.next_found = "next" in found
    return outcome


def _told(path: Path, campaign: Campaign, number: int) -> Outcome:
    tables = SqliteTables(path, busy_seconds=PATIENCE)
    tables.write_together()
    last = FOREVER if campaign.lasting else number
    kind = brittle.Kind(campaign.kind)
    outcomes = gathered(
        tables,
        [lambda job=job: job(tables) for job, _ in JOBS],  # type: ignore[misc]
        lambda: brittle.begin(kind, campaign.named, number, last, errno.EIO),
    )
    calls = brittle.seen() if number == FOREVER else number
    brittle.begin(brittle.Kind(0), "", 0, 0, 0)
    after = told(lambda: tables.put(key("next"), {}))
    return Outcome(calls, [told(outcome.result) for outcome in outcomes], next=after)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Campaign))
