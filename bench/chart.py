"""``python -m bench.chart``: cost against the size of the lake, and of the change, drawn into ``bench/chart.svg``.

On real file paths (:mod:`bench.keys`), in a lake in a folder, warm. Both axes are logarithmic, so a cost that does not grow is a
level line, and one that grows with the change is a straight slope.
"""

import argparse
import gc
import random
import time
from collections.abc import Callable
from functools import partial
from math import log10
from pathlib import Path
from shutil import rmtree
from statistics import median
from xml.sax.saxutils import escape

from bench import keys, rows
from graveler.lake.importing.importer import ImportSource
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.tree.record import RecordCodec

CHART = Path(__file__).with_name("chart.svg")
COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce")
WIDTH, HEIGHT = 440, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 90

Line = dict[int, float]
"""Seconds by size."""
Lines = dict[str, Line]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chart", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".cache/bench"), help="where lakes and keys go")
    parser.add_argument("--repeat", type=int, default=5, help="timed calls for each point (default %(default)s)")
    parser.add_argument("--most", type=int, default=2_000_000, help="objects of the largest lake, at most")
    arguments = parser.parse_args()
    paths = list(keys.read(keys.debian(arguments.folder)))[: arguments.most]
    gc.freeze()  # a collection would walk over these millions in the middle of a measured call
    folder = arguments.folder / "chart"
    by_lake: Lines = {}
    by_change: Lines = {}
    sizes = [size for size in (10_000, 100_000, 400_000) if size < len(paths)] + [len(paths)]
    for size in sizes:
        rmtree(folder, ignore_errors=True)
        chosen = paths[:: len(paths) // size][:size]
        repository = imported(folder, chosen)
        if size == sizes[-1]:
            against_change(repository, chosen, arguments.repeat, by_change)
        against_lake(repository, chosen, arguments.repeat, by_lake)
    rmtree(folder, ignore_errors=True)
    panels = [
        panel("One change, one page: by the size of the lake", "objects in the lake", by_lake, 0),
        panel(f"Spread changes in a lake of {len(paths):,}", "objects changed", by_change, WIDTH),
    ]
    CHART.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11" fill="#222"><rect width="{2 * WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        + "".join(panels)
        + "</svg>\n"
    )
    for lines in (by_lake, by_change):
        for title, line in lines.items():
            print(title, ", ".join(f"{size:,}: {seconds * 1e3:.3g} ms" for size, seconds in line.items()), sep=": ")


def imported(folder: Path, paths: list[bytes]) -> OpenRepository:
    """A lake with one commit of these paths."""
    repository = create_folder_lake(folder).create_repository(rows.REPOSITORY, rows.NAMESPACE)
    encode = RecordCodec(rows.NAMESPACE).encode
    source = ImportSource(b"", is_prefix=True, records=lambda: ((path, encode(keys.entry(path))) for path in paths))
    repository.import_sources("main", [source], "import", committer="bench")
    return repository


def seconds(call: Callable[[], object], repeat: int, prepare: Callable[[], object] = lambda: None) -> float:
    """The median time of a call; each time something is prepared before. The first is not counted."""
    spent = []
    for _ in range(repeat + 1):
        prepare()
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return median(spent[1:])


def against_lake(repository: OpenRepository, paths: list[bytes], repeat: int, lines: Lines) -> None:
    """The points of one lake."""
    chance = random.Random(3)
    version = iter(range(1, 1000))
    repository.create_branch("one", "main")
    # In the same place each time: warm means that its range was seen before.
    path = [chance.choice(paths)]

    def stage() -> None:
        rows.change(repository, "one", path, next(version))

    def measure(title: str, call: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> None:
        lines.setdefault(title, {})[len(paths)] = seconds(call, 3 * repeat, prepare)

    measure("commit of 1 change", lambda: repository.commit("one", "change", committer="bench"), stage)
    measure("diff of 1 change", lambda: repository.diff("main", "one"))
    main = repository.branch("main").commit_id
    first_half = paths[: len(paths) - len(paths) // 2]
    measure(
        "page of 1,000",
        lambda: repository.list_objects(main, after=chance.choice(first_half).decode(), amount=1000),
    )
    measure("create a branch", lambda: repository.create_branch(f"b{next(version)}", "main"))


def against_change(repository: OpenRepository, paths: list[bytes], repeat: int, lines: Lines) -> None:
    """The points of several changes."""
    chance = random.Random(4)
    version = iter(range(1, 1000))
    for size in (1, 10, 100, 1_000, 10_000, 100_000):
        if size > len(paths):
            break
        branch = f"change-{size}"
        repository.create_branch(branch, "main")
        chosen = sorted(chance.sample(paths, size))
        times = max(1, repeat // 2) if size >= 1000 else repeat

        def stage(branch: str = branch, chosen: list[bytes] = chosen) -> None:
            rows.change(repository, branch, chosen, next(version))

        commit = partial(repository.commit, branch, "change", committer="bench")
        lines.setdefault("commit", {})[size] = seconds(commit, times, stage)
        compare = partial(repository.diff, "main", branch, amount=size)
        lines.setdefault("diff, all of it", {})[size] = seconds(compare, times)


def panel(title: str, below: str, lines: Lines, shift: int) -> str:
    """One diagram, as SVG."""
    sizes = [size for line in lines.values() for size in line]
    times = [time for line in lines.values() for time in line.values()]
    low_x, high_x = log10(min(sizes)), log10(max(sizes))
    low_y, high_y = int(log10(min(times)) // 1), int(-(-log10(max(times)) // 1))

    def x(size: float) -> float:
        return LEFT + (log10(size) - low_x) / (high_x - low_x or 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (log10(value) - low_y) / (high_y - low_y or 1) * (HEIGHT - TOP - BOTTOM)

    drawn = [f'<g transform="translate({shift},0)"><text x="{LEFT}" y="22" font-size="13">{escape(title)}</text>']
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        shown = f"{10**power:g} s" if power >= 0 else f"{10 ** (power + 3):g} ms"
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        drawn.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{shown}</text>')
    drawn += [
        f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" font-size="9">{size:,}</text>'
        for size in sorted(set(sizes))
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(f'<text x="{middle}" y="{HEIGHT - BOTTOM + 32}" text-anchor="middle">{escape(below)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in sorted(line.items()))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [
            f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for size, value in line.items()
        ]
        left, top = LEFT + number % 2 * 190, HEIGHT - 34 + number // 2 * 18
        drawn.append(f'<rect x="{left}" y="{top - 9}" width="12" height="10" fill="{colour}"/>')
        drawn.append(f'<text x="{left + 18}" y="{top}">{escape(name)}</text>')
    return "".join([*drawn, "</g>"])


if __name__ == "__main__":
    main()
