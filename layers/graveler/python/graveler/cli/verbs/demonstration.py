"""The verb that plays the demo: demo."""

import shlex
import shutil
import sys
import sysconfig
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.exits import InterruptedVerbError, ReaderGoneError
from graveler.cli.local_files import check_folder
from graveler.cli.locations import LAKE, working_folder
from graveler.cli.options import AsJson
from graveler.cli.running import run_line
from graveler.cli.terminal import has_colours, output
from graveler.cli.values import count

if TYPE_CHECKING:
    from rich.console import Console

    from graveler.cli.demo.stage import Stage
    from graveler.cli.demo.story import Plan


def demo(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Files to import. [default: this Python's site-packages]"),
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option(
            "--lake", metavar="FOLDER", help="Folder for the lake; an earlier demo's is replaced. [default: demo-lake]"
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Keep the lake afterwards, to look around in it.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Show the whole workflow on real files, in a lake of its own.

    Import, tables, branch, a load that is wrong, queries, a merge with a conflict, blame, time travel. Every step prints its
    command lines, checks that they worked, and reports how long they took and which files they wrote. The tables need
    pip install 'graveler[sql]'; without that, or with --from, the story is one of files. With 'graveler[sql,iceberg]' two
    branches also append to one Iceberg table, and are merged.

    \b
    Examples:
      graveler demo
      graveler demo --from ~/photos --lake /tmp/demo-lake

    \b
    JSON: a line {step, title, commands, seconds, written} for each step;
      commands are {command, exit_code, output}, written counts files by kind;
      then a line {lake, next}.
    """
    from graveler.cli.demo import demo_folder
    from graveler.cli.demo.stage import Stage
    from graveler.cli.demo.story import REPOSITORY, make_plan, play, try_next
    from graveler.cli.demo.tables import can_query, next_with_tables, play_tables

    sys.dont_write_bytecode = True  # or compiled files would appear among those imported
    named = lake or Path("demo-lake")
    folder = working_folder() / named
    files = source or Path(sysconfig.get_path("purelib"))
    check_folder(files)
    demo_folder.prepare(folder, files)
    plan = make_plan(files)
    console = None if as_json else _console()
    stage = Stage(folder, REPOSITORY, partial(run_line, context.find_root().command), console)
    if console:
        _open_scene(console, plan, named)
    began = time.perf_counter()
    try:
        with_tables = source is None and can_query()
        (play_tables if with_tables else play)(stage, plan, folder, str(named))
    except KeyboardInterrupt:
        raise InterruptedVerbError(
            f"the demo's lake in {str(named)!r} is incomplete; the next run replaces it"
        ) from None
    if not keep:
        demo_folder.remove(folder)
    next_steps: Sequence[str] = () if not keep else next_with_tables() if with_tables else try_next(plan)
    if console:
        _close_scene(console, stage, time.perf_counter() - began, named if keep else None, next_steps)
        return
    screen = output()
    for step in stage.steps:
        screen.json(
            {
                "step": step.number,
                "title": step.title,
                "commands": [{"command": r.command, "exit_code": r.exit_code, "output": r.text} for r in step.ran],
                "seconds": round(step.seconds, 3),
                "written": dict(step.written),
            }
        )
    screen.json({"lake": str(folder) if keep else None, "next": list(next_steps)})


def _console() -> "Console":
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:  # rich would end the process
            raise ReaderGoneError

    plain = not has_colours(sys.stdout)
    width = min(shutil.get_terminal_size().columns, 110) if sys.stdout.isatty() else 100
    return Screen(file=sys.stdout, width=width, no_color=plain, highlight=False, emoji=False)


def _open_scene(console: "Console", plan: "Plan", lake: Path) -> None:
    console.print("[bold]graveler demo[/]: Git for a data lake, without a server")
    console.print()
    for name, value in {
        "files": f"{plan.source} ({count(len(plan.files), 'file')})",
        "lake": str(lake),
    }.items():
        console.print(f"    {name:<6} {value}", style="dim", markup=False, soft_wrap=True)


def _close_scene(
    console: "Console", stage: "Stage", seconds: float, lake: Path | None, next_steps: "Sequence[str]"
) -> None:
    from graveler.cli.demo.stage import show_command
    from graveler.cli.demo.story import REPOSITORY

    commands = sum(len(step.ran) for step in stage.steps)
    console.print()
    console.print(f"[bold green]All {len(stage.steps)} steps worked[/]: {commands} commands in {seconds:.1f} s.")
    if lake is None:
        return
    console.print()
    console.print("Look around in the lake:")
    for line in (f"export {LAKE}={shlex.quote(str(lake))}", *next_steps):
        show_command(console, line)
    console.print("Or look at it in a browser:")
    show_command(console, f"graveler ui lakefs://{REPOSITORY}/main/")
