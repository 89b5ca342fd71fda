"""``python -m bench.operations_paper``: what a long merge takes that is too large for this machine: parts, payloads, history,
requests, minutes and dollars.

Time and requests of a record and of a range are those that ``python -m bench.operations`` measured (``bench/RESULTS.md``);
payloads are made by the state machine's own types; events of a history are counted along its definition; prices are those of
``infra/prices.py``.
"""

import argparse
from math import ceil
from typing import Any, Final, NamedTuple

import msgspec

from graveler.operations.claims import BEAT
from graveler.operations.machine import Next, PartDone, Planned
from graveler.operations.parts.division import Sizes
from infra import prices
from infra.state_machine import INLINE, definition

RANGE_RECORDS: Final = 7_000_000 / 621
"""Records of a range, of real paths by the default parameters: 88,714 ranges of a billion."""
RECORD_SECONDS: Final = 3.19e-6
"""Of one processor, for a record that a part reads; a function with 1,769 MB has one."""
GETS: Final = 1_903 / 1_863
PUTS: Final = 629 / 1_863
"""Requests of all parts for each range that they read: 8 parts of a merge of 3 × 621 ranges."""
PLAN_SECONDS: Final = 0.02 / 621
PUBLISH_SECONDS: Final = 0.01 / 621
"""For each range of the destination: descriptions only are looked at."""
RANGE_BYTES: Final = 350
"""What the description of a range takes in memory, about."""
RESULT_BYTES: Final = 0.11e6 / 621
"""Of a part's result in the object store, for each range."""
PART_MEMORY_MB: Final = 163
"""Peak of a part besides metaranges, which do not grow with the lake's size: a part holds some ranges."""
STEP_TABLE_READS: Final = 3
STEP_TABLE_WRITES: Final = 2
"""Of each step, at most: the operation's item is looked at and claimed, and progress is noted."""
PART_TABLE_WRITES: Final = 2
"""Of each part besides, and one for each beat: it is claimed and freed."""

FUNCTION_GB: Final = 1_769 / 1_024
FUNCTION_SECONDS: Final = 900
MAX_EVENTS: Final = 25_000
MAX_PAYLOAD: Final = 256 * 1_024

_TASK: Final = 5
"""Events of a task that succeeds: entered, scheduled, started, succeeded, exited."""
_CHOICE: Final = 2
_MAP: Final = 4
"""Entered, started, succeeded, exited."""
_ITERATION: Final = 2 + _TASK
_RUN: Final = 2
"""A map whose parts have executions of their own: its run started and ended; the parts' events are in their own histories."""
_AGAIN: Final = 3
"""A try more: failed, scheduled, started."""


class Paper(NamedTuple):
    """What a merge takes. ``events`` are of the execution's history, ``part_events`` of a part's own (0: it has none);
    ``gets`` and ``puts`` are object requests of all steps; ``seconds`` with ``at_once`` parts at the same time."""

    parts: int
    part_records: int
    part_seconds: float
    part_memory_mb: float
    payload: int
    events: int
    part_events: int
    gets: int
    puts: int
    table_units: int
    seconds: float
    dollars: float


def events(parts: int, rounds: int = 1, failures: int = 0) -> int:
    """Events in the history of an execution whose branch makes it plan so often, and in which so many tries of its own tasks
    failed. Counted along the states of :func:`infra.state_machine.definition`."""
    states = definition("arn", at_once=INLINE)["States"]
    apart = parts > INLINE
    each = 0
    name = "Plan"
    while name != "Ended":
        state: dict[str, Any] = states[name]
        if state["Type"] == "Task":
            each += _TASK
        elif state["Type"] == "Choice":
            each += _CHOICE
        else:
            each += _MAP + (_RUN if apart else parts * _ITERATION)
        if name == "HowManyParts":
            name = "PartsApart" if apart else "Parts"
        elif name == "AnotherRound":
            name = "Ended"
        else:
            name = state["Next"]
    return 2 + rounds * each + 2 + failures * _AGAIN  # started and succeeded; the state Ended entered and exited


def payload(parts: int) -> int:
    """Bytes of the largest input or output of a state: the numbers of all parts, with a word for each that is done."""
    planned = msgspec.to_builtins(Planned(Next.PARTS, "r" * 63, "0" * 32, 1, 0, tuple(range(parts))))
    done = [msgspec.to_builtins(PartDone(Next.PUBLISH))["state"]] * parts
    return len(msgspec.json.encode({**planned, "done": done}))


def paper(objects: int, changes: int, at_once: int = 40, sizes: Sizes | None = None) -> Paper:
    """A merge of so many changes on each side, spread evenly over so many objects: each range that both sides changed is read
    three times, of base, source and destination."""
    sizes = sizes or Sizes()
    ranges = objects / RANGE_RECORDS
    touched = min(1.0, changes / ranges)  # of all ranges, by each side
    read = 3 * ranges * touched * touched
    records = round(read * RANGE_RECORDS)
    parts = max(1, min(sizes.parts, ceil(records / sizes.records)))
    part_seconds = records * RECORD_SECONDS / parts
    ends = (PLAN_SECONDS + PUBLISH_SECONDS) * ranges
    steps = parts + 2
    gets = ceil(read * GETS) + 3 * steps + parts
    puts = ceil(read * PUTS) + steps + 2
    writes = steps * STEP_TABLE_WRITES + parts * (PART_TABLE_WRITES + int(part_seconds / BEAT))
    table = steps * STEP_TABLE_READS + writes
    apart = parts > INLINE
    # Of a standard execution each state that is entered is a transition; of parts apart each has a start, a state and an end.
    transitions = 8 + parts * (3 if apart else 1)
    dollars = (
        gets * prices.S3_GET
        + puts * prices.S3_PUT
        + steps * STEP_TABLE_READS * prices.READ_UNIT
        + writes * prices.WRITE_UNIT
        + transitions * prices.TRANSITION
        + steps * prices.INVOCATION
        + (records * RECORD_SECONDS + ends) * FUNCTION_GB * prices.GB_SECOND
    )
    return Paper(
        parts,
        round(records / parts),
        part_seconds,
        PART_MEMORY_MB + 3 * ranges * RANGE_BYTES / 1e6,
        payload(parts),
        events(parts),
        2 + _TASK if apart else 0,
        gets,
        puts,
        table,
        ceil(parts / at_once) * part_seconds + ends,
        dollars,
    )


def table(objects: int, changes: int, at_once: int) -> str:
    """The same in Markdown."""
    one = paper(objects, changes, at_once)
    apart = f", {one.part_events} of each part's own" if one.part_events else ""
    rows = [
        ("parts", f"{one.parts:,}, of {one.part_records:,} records"),
        ("a part", f"{one.part_seconds:,.1f} s of one processor, of {FUNCTION_SECONDS} s"),
        ("memory of a step", f"{one.part_memory_mb:,.0f} MB of 1,769"),
        ("largest payload", f"{one.payload:,} B of {MAX_PAYLOAD:,}"),
        ("events of the execution's history", f"{one.events:,} of {MAX_EVENTS:,}{apart}"),
        ("requests of S3", f"{one.gets:,} get, {one.puts:,} put"),
        ("requests of DynamoDB", f"{one.table_units:,}"),
        (f"time, {at_once} parts at once", f"{one.seconds / 60:,.1f} min"),
        ("price", f"${one.dollars:,.2f}"),
    ]
    lines = [
        f"A merge of {changes:,} changes on each side over {objects:,} objects.",
        "",
        "| what | figure |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {what} | {figure} |" for what, figure in rows)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000_000)
    parser.add_argument("--changes", type=int, default=100_000_000, help="on each side")
    parser.add_argument("--at-once", type=int, default=40, help="parts that are worked on at the same time")
    arguments = parser.parse_args()
    print(table(arguments.objects, arguments.changes, arguments.at_once))


if __name__ == "__main__":
    main()
