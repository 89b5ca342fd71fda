"""The lake that the stories are about. Its clock and its contents are fixed; its IDs are not: objects get random addresses."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Final

import pyarrow
import pyarrow.parquet

from graveler.lake.clock import SystemClock
from graveler.lake.opening.folder import create_folder_lake
from graveler.sdk.branch import Branch
from graveler.sdk.lake import Lake

NOW: Final = 1_793_710_800
"""The time of the pictures in the documentation: 3 November 2026, 13:00 UTC."""

HOUR: Final = 3600
DAY: Final = 24 * HOUR
STRANGE_NAMES: Final = (
    "100%/a#b?c.txt",
    "a//b.txt",
    "a",
    "a/c.txt",
    'quote\'s "file".txt',
    "<script>alert(1)</script>.txt",
    "line\nbreak.txt",
    "\u202egnp.exe",
    "עברית.txt",
    "dots/../up.txt",
    "long/" + "x" * 900 + ".txt",
)
"""Paths that a page has to show, link and fetch as they are."""

README: Final = """# Events

One folder a day, one Parquet file an hour. Times are **UTC**.

| column | means |
|---|---|
| id | number of the order |
| amount | euros |

<script>document.title = "taken over"</script>
[a link that runs code](javascript:alert(1))
"""


class StoryClock:
    """A clock that stands still until it is set."""

    def __init__(self, time: float) -> None:
        self.time = time
        self._system = SystemClock()

    def now(self) -> float:
        """Return the time that was set."""
        return self.time

    def monotonic(self) -> float:
        """Return the machine's time: waiting is real."""
        return self._system.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._system.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait for an event."""
        return self._system.wait(event, seconds)

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        """Repeat work."""
        return self._system.repeating(seconds, work)


def orders(day: int, hour: int, rows: int = 1000) -> bytes:
    """Return a Parquet file of orders; the same for the same day and hour."""
    numbers = range(rows)
    table = pyarrow.table(
        {
            "id": pyarrow.array((day * 100_000 + hour * 1000 + number for number in numbers), pyarrow.int64()),
            "amount": pyarrow.array((((number * 37 + hour) % 99_120) / 100 for number in numbers), pyarrow.float64()),
            "city": pyarrow.array([("Graz", "Wien", "Linz", None)[number % 4] for number in numbers]),
            "at": pyarrow.array(
                [(NOW - DAY + hour * HOUR + number) * 1_000_000 for number in numbers], pyarrow.timestamp("us", "UTC")
            ),
        }
    )
    buffer = BytesIO()
    pyarrow.parquet.write_table(table, buffer, compression="snappy", row_group_size=500)
    return buffer.getvalue()


def picture() -> bytes:
    """Return a picture in SVG, with a script that must not run."""
    return (
        b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 32"><script>alert(1)</script>'
        b'<rect width="64" height="32" fill="#1f5fbf"/><circle cx="32" cy="16" r="10" fill="#ffffff"/></svg>'
    )


class _Story:
    def __init__(self, lake: Lake, clock: StoryClock) -> None:
        self.lake = lake
        self.clock = clock

    def commit(self, branch: Branch, author: str, message: str, time: float, files: Mapping[str, str | bytes]) -> str:
        self.clock.time = time
        self.lake.user = author
        handle = self.lake.repository(branch.repo_id).branch(branch.id)
        for path, contents in files.items():
            handle.object(path).upload(contents)
        return handle.commit(message).id


def create_story_lake(folder: Path, now: int = NOW) -> None:
    """Create the lake as it is at the Unix time ``now``: ``sales`` with a history, a conflict and uncommitted changes,
    ``strange`` with names and messages that are hard to show, and ``sensors``, which is empty. Cost: two seconds."""
    clock = StoryClock(now - 30 * DAY)
    with Lake(create_folder_lake(folder, clock=clock), "ana") as lake:
        story = _Story(lake, clock)
        _create_sales(story, now)
        _create_strange(story, now)
        clock.time = now - DAY
        lake.repository("sensors").create(metadata={"team": "plant 4"})


def _create_sales(story: _Story, now: int) -> None:
    repository = story.lake.repository("sales").create(metadata={"team": "orders"})
    main = repository.branch("main")
    story.commit(
        main,
        "ana",
        "Describe the events",
        now - 20 * DAY,
        {
            "README.md": README,
            "events/_schema.json": '{"id": "int64", "amount": "double", "city": "string"}\n',
            "prices.csv": "id,price\n1,100\n2,200\n3,300\n",
            "pictures/logo.svg": picture(),
        },
    )
    for hour in range(18):
        story.commit(
            main,
            "etl",
            f"Load hour {hour}",
            now - DAY + hour * HOUR,
            {f"events/day=2026-11-0{2 + hour // 12}/part-{hour % 12:04}.parquet": orders(2 + hour // 12, hour)},
        )
    repository.tag("v1").create("main~6")
    fix = repository.branch("fix").create("main")
    story.commit(fix, "ana", "Correct Graz", now - 2 * HOUR, {"prices.csv": "id,price\n1,100\n2,250\n3,300\n"})
    story.commit(fix, "ana", "Correct the schema", now - HOUR, {"events/_schema.json": '{"id": "int64"}\n'})
    story.commit(main, "etl", "Load prices", now - 720, {"prices.csv": "id,price\n1,100\n2,220\n3,300\n4,400\n"})
    story.clock.time = now - 600
    story.lake.user = "ana"
    draft = story.lake.repository("sales").branch("draft").create("main")
    draft.object("notes.txt").upload("to be checked\n")
    draft.object("prices.csv").upload("id,price\n1,100\n")
    merged = story.lake.repository("sales").branch("merged").create("main~3")
    assert merged.id == "merged"
    story.lake.repository("sales").protect("release-*")
    story.lake.repository("sales").branch("release-1").create("main~3")


def _create_strange(story: _Story, now: int) -> None:
    repository = story.lake.repository("strange").create()
    main = repository.branch("main")
    story.commit(
        main,
        "ana",
        "<img src=x onerror=alert(1)>\n\n" + "long " * 1000,
        now - DAY,
        {name: name for name in STRANGE_NAMES},
    )
