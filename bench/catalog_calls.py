"""The calls of an Iceberg catalog by PyIceberg, by turns in graveler and in a peer."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog

from bench.lines import Goal, Line, show

ROWS: Final = pa.table({"id": pa.array(range(100), pa.int64())})
TABLE: Final = "shop.orders"
WARM_UP: Final = 3
"""Calls of each kind that are not measured."""


@dataclass(frozen=True)
class Bounds:
    """How many times as long as the peer's each call may take."""

    load: float
    commit: float
    create: float
    append: float


def paired_calls(
    catalogs: Mapping[str, Catalog], peer: str, bounds: Bounds, repeat: int, place: str = ""
) -> list[Line]:
    """Measure the calls of ``graveler`` and of the peer, by turns, in two empty catalogs, and close them. ``place`` ends the
    names of the lines."""
    for catalog in catalogs.values():
        catalog.create_namespace("shop")
        catalog.create_table(TABLE, ROWS.schema)
    kinds: dict[str, tuple[Callable[[Catalog, int], object], float]] = {
        "load a table": (lambda catalog, _: catalog.load_table(TABLE), bounds.load),
        "commit a property": (set_property, bounds.commit),
        "create a table": (lambda catalog, number: catalog.create_table(f"shop.t{number}", ROWS.schema), bounds.create),
        "append 100 rows": (lambda catalog, _: catalog.load_table(TABLE).append(ROWS), bounds.append),
    }
    lines = []
    for kind, (call, bound) in kinds.items():
        times: dict[str, list[float]] = {name: [] for name in catalogs}
        for number in range(repeat + WARM_UP):
            for name, seconds in times.items():
                began = time.perf_counter()
                call(catalogs[name], number)
                if number >= WARM_UP:
                    seconds.append(time.perf_counter() - began)
        ours, theirs = median(times["graveler"]), median(times[peer])
        goals = (Goal(f"time ÷ {peer}'s", ours / theirs, bound),)
        lines.append(
            Line(kind + place, show(ours), rate=f"{1 / ours:,.0f}", beside=f"{peer}: {show(theirs)}", goals=goals)
        )
    for catalog in catalogs.values():
        catalog.close()
    return lines


def set_property(catalog: Catalog, number: int) -> None:
    """Commit a property of a table that is loaded anew."""
    with catalog.load_table(TABLE).transaction() as transaction:
        transaction.set_properties({"number": str(number)})
