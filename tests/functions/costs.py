"""``python -m tests.functions.costs --write`` puts the table of costs into docs/deploy.md again: requests as they are counted
here, at the prices of infra/prices.py."""

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from infra import prices
from tests.infra.tools import ROOT
from tests.lake.support import Counted, World

DOCUMENT: Final = ROOT / "docs" / "deploy.md"
BEGIN: Final = "<!-- costs: made by `python -m tests.functions.costs --write` -->\n"
END: Final = "<!-- end of costs -->\n"

_OBJECTS: Final = 50_000
_MEMORY_GB: Final = 1769 / 1024
_LOG_BYTES: Final = 1500
"""Of a request: its line of the gateway's log, its figures, and what Lambda writes about it."""

_ITEM_BYTES: Final = 250
"""Of a staged change in the table."""


class Used(msgspec.Struct, frozen=True):
    """What one verb uses: DynamoDB's units, requests to S3, seconds of a function (0: of none)."""

    read_units: float
    write_units: float
    gets: int
    puts: int
    seconds: float

    @property
    def dollars(self) -> float:
        """What it costs, the gateway and the log included."""
        served = (
            prices.HTTP_REQUEST
            + prices.INVOCATION
            + self.seconds * _MEMORY_GB * prices.GB_SECOND
            + _LOG_BYTES / 1e9 * prices.LOG_GB
        )
        return (
            self.read_units * prices.READ_UNIT
            + self.write_units * prices.WRITE_UNIT
            + self.gets * prices.S3_GET
            + self.puts * prices.S3_PUT
            + served
        )


def table() -> str:
    """The table, in Markdown."""
    world = World(SplitParameters())
    world.main.link_many("main", [_entry(number) for number in range(_OBJECTS)])
    world.main.commit("main", "all")
    stat = _used(world, lambda r: r.stat("main", _path(7)), 0.02, warm=True)
    cold = _used(world, lambda r: r.stat("main", _path(7)), 0.05)
    listing = _used(world, lambda r: r.list_objects("main", amount=1000), 0.1, warm=True)
    link = _used(world, lambda r: r.link("main", _entry(1, "linked")), 0.02, warm=True)
    commits = []
    for amount in (1, 1000):
        world.main.link_many("main", [_entry(number, f"changed {amount}") for number in range(amount)])
        commits.append(_used(world, lambda r: r.commit("main", "changes"), 0.2 if amount == 1 else 1.0))
    one, thousand = commits
    world.main.create_branch("dev", "main")
    world.main.link("dev", _entry(3, "on dev"))
    world.main.commit("dev", "on dev")
    merge = _used(world, lambda r: r.merge("dev", "main", message="merged"), 0.3)
    touched = 1_000_000 // (_OBJECTS // len(world.main.tree("main")))
    million = Used(
        round(one.read_units + 1e6 * _ITEM_BYTES / 4096), one.write_units, 1 + touched, 2 + touched, seconds=60
    )
    rows = [
        ("1,000,000 × stat, tree in the cache", stat, 1e6),
        ("1,000,000 × stat, nothing in the cache", cold, 1e6),
        ("1,000,000 × list, a page of 1,000", listing, 1e6),
        ("1,000,000 × link of an object", link, 1e6),
        ("commit of 1 change", one, 1),
        ("commit of 1,000 changes", thousand, 1),
        ("commit of 1,000,000 neighbours (estimate)", million, 1),
        ("merge of a branch with 1 change", merge, 1),
    ]
    lines = ["| what | read units | write units | S3 reads | S3 writes | US dollars |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {what} | {used.read_units:g} | {used.write_units:g} | {used.gets} | {used.puts} | {_money(used.dollars * times)} |"
        for what, used, times in rows
    ]
    clean = Used(1_000_000 * _ITEM_BYTES / 4096, 1_000_000, 0, 0, 0).dollars
    each = _bytes_per_object(world)
    lines += [
        "",
        f"Units and requests are those of one verb. The clean-up of 1,000,000 staged changes: {_money(clean)}.",
        "",
    ]
    lines += ["| at rest | in ranges | US dollars a month |", "|---|---|---|"]
    for amount in (1_000_000, 1_000_000_000):
        gigabytes = amount * each / 1e9
        lines.append(f"| {amount:,} objects | {gigabytes:.2f} GB | {_money(gigabytes * prices.S3_GB_MONTH)} |")
    return "\n".join(lines) + "\n"


def _used(world: World, verb: Callable[[OpenRepository], object], seconds: float, *, warm: bool = False) -> Used:
    counted: Counted = world.counted()
    if warm:
        verb(counted.repository)
    counted.reset()
    verb(counted.repository)
    items, calls, objects = counted.tables.items, counted.tables.calls, counted.objects.calls
    queried = max(calls["query"], items["query"] * _ITEM_BYTES / 4096)
    return Used(
        1 + round(items["get"] + items["get_many"] + queried),  # one finds the repository
        items["put"] + items["delete"] + items["write_many"] + 2 * items["transact"],
        objects["get"] + objects["get_range"] + objects["stream"] + objects["head"],
        objects["put"] + objects["list"],
        seconds,
    )


def _bytes_per_object(world: World) -> float:
    return sum(stored.size for stored in world.objects().list("_graveler/ranges/")) / _OBJECTS


def _path(number: int) -> str:
    return f"events/day={number % 365:03}/part-{number:08}.parquet"


def _entry(number: int, version: str = "1") -> ObjectEntry:
    return ObjectEntry(_path(number), f"mem://o/{version}/{number:032}", 1 << 20, f"{number:032x}", 1_700_000_000)


def _money(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars >= 0.1 else f"{dollars:.2g}" if dollars >= 1e-4 else f"{dollars:.6f}"


if __name__ == "__main__":
    made = table()
    if "--write" in sys.argv[1:]:
        text = DOCUMENT.read_text()
        head, rest = text.split(BEGIN)
        DOCUMENT.write_text(head + BEGIN + made + END + rest.split(END)[1])
    else:
        sys.stdout.write(made)
