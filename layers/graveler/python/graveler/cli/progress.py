"""Progress on stderr while long work runs; none if stderr is not a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from graveler.cli.values import human_size
from graveler.progress import ObjectProgress, no_object_progress, no_progress
from graveler.progress import Progress as PhaseProgress


@contextmanager
def counting(doing: str, total: int | None = None) -> Iterator[ObjectProgress]:
    """Show objects and bytes so far; with ``total`` (a number of objects) also a bar."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield no_object_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = [BarColumn(bar_width=30)] if total is not None else []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *bar,
        TextColumn("{task.fields[files]:,} files  {task.fields[size]}"),
        TimeElapsedColumn(),
    )
    done = [0, 0]
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(doing, total=total, files=0, size="")

        def report(objects: int, size: int) -> None:
            done[0] += objects
            done[1] += size
            progress.update(task, completed=done[0], files=done[0], size=human_size(done[1]))

        yield report


@contextmanager
def phases(doing: str) -> Iterator[PhaseProgress]:
    """Show the phase of long work, and its progress."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
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
