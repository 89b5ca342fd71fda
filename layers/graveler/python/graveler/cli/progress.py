"""Progress on stderr while long work runs; none if stderr is not a terminal, or with ``--quiet``."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Final

from graveler.cli.values import human_size
from graveler.system.progress import ObjectProgress, no_object_progress, no_progress
from graveler.system.progress import Progress as PhaseProgress

LARGE: Final = 8 << 20
"""The size (bytes) from which the transfer of a single file shows progress: loading the display takes a tenth of a second."""

MANY: Final = 1000
"""The number of objects from which a commit or merge shows progress."""


def shows_progress(*, quiet: bool = False) -> bool:
    """Return whether somebody sees progress."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def counting(
    doing: str,
    total: int | None = None,
    *,
    noun: str = "files",
    moves: bool = True,
    least: int = 0,
    quiet: bool = False,
) -> Iterator[ObjectProgress]:
    """Show objects (``noun``) and bytes so far, and how many bytes come in a second; with the ``total`` of bytes also a bar, and
    the time left. If no bytes move, as in a commit, ``total`` is a number of objects. The display begins with the first report
    after ``least`` objects.
    """
    if not shows_progress(quiet=quiet):
        yield no_object_progress
        return
    with ExitStack() as stack:
        display: ObjectProgress | None = None
        waiting = [0, 0]
        lock = Lock()

        def report(objects: int, size: int) -> None:
            nonlocal display
            with lock:
                waiting[0] += objects
                waiting[1] += size
                if display is None and waiting[0] >= least:
                    display = stack.enter_context(_bar(doing, total, noun, moves=moves))
                if display is not None:
                    display(*waiting)
                    waiting[:] = 0, 0

        yield report


@contextmanager
def _bar(doing: str, total: int | None, noun: str, *, moves: bool) -> Iterator[ObjectProgress]:
    # Rich takes a tenth of a second to load.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Bytes or objects per second."""

        def render(self, task: Task) -> Text:
            return Text(rate(task.finished_speed or task.speed, moves=moves))

    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns.append(BarColumn(bar_width=30))
    columns += [TextColumn(f"{{task.fields[objects]:,}} {noun}  {{task.fields[size]}}"), Rate()]
    columns.append(TimeElapsedColumn() if total is None else TimeRemainingColumn())
    of = f" of {human_size(total)}" if total is not None and moves else ""
    done = [0, 0]
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(doing, total=total, objects=0, size="")

        def report(objects: int, size: int) -> None:
            done[0] += objects
            done[1] += size
            shown = f"{human_size(done[1])}{of}"
            progress.update(task, completed=done[1] if moves else done[0], objects=done[0], size=shown)

        yield report


def rate(speed: float | None, *, moves: bool) -> str:
    """Return how many bytes (``moves``) or objects come in a second; "" if that is unknown."""
    if speed is None:
        return ""
    return f"{human_size(int(speed))}/s" if moves else f"{speed:,.0f}/s"


@contextmanager
def phases(doing: str) -> Iterator[PhaseProgress]:
    """Show the phase of long work, and its progress."""
    if not shows_progress():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:,.0f} of {task.fields[of]:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(doing, total=None, of=0)

        def report(phase: str, done: int, total: int) -> None:
            progress.update(task, description=f"{doing} {phase}", completed=done, total=total, of=total)

        yield report
