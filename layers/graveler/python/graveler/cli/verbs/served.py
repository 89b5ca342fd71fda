"""Upkeep of a lake behind a server, as far as its HTTP API goes: what fsck, dump, restore and gc run do then."""

from typing import TYPE_CHECKING

import typer

from graveler.cli.exits import ExitCode, InterruptedVerbError
from graveler.cli.terminal import output
from graveler.cli.uris import SCHEME
from graveler.cli.values import count, human_size
from graveler.errors import InvalidError

if TYPE_CHECKING:
    from graveler.remote.upkeep import RemoteUpkeep


def refuse_options(given: dict[str, bool]) -> None:
    """:class:`InvalidError` for options that a server knows nothing of."""
    for name, is_given in given.items():
        if is_given:
            raise InvalidError(
                f"{name} is not in the HTTP API; do it where the lake is kept: in its folder, or with --tables and --objects"
            )


def fsck(upkeep: "RemoteUpkeep", *, objects: bool, as_json: bool) -> None:
    """See :func:`graveler.cli.verbs.upkeep.fsck`."""
    found = upkeep.fsck(objects=objects)
    screen = output()
    if as_json:
        from msgspec import to_builtins

        document = {"repository": upkeep.name, "clean": found.clean, "findings": found.results}
        screen.json(to_builtins({**document, "counts": found.counts, "garbage": found.garbage}))
    else:
        for one in found.results:
            screen.line(f"  {screen.paint('wrong', 'red')}: {screen.safe(f'{one.what} {one.why}')}")
            screen.line(f"      of       {screen.safe(', '.join(one.refs))}")
            screen.line(f"      to do    {screen.safe(one.remedy)}")
        checked = ", ".join(f"{number:,} {what.replace('_', ' ')}" for what, number in found.counts.items())
        screen.line(f"checked {checked}")
        wrong = screen.paint(f"wrong: {found.findings:,}", "red", "bold")
        screen.line(screen.paint("nothing is wrong", "green") if found.clean else wrong)
    if not found.clean:
        raise typer.Exit(ExitCode.CORRUPT)


def dump(upkeep: "RemoteUpkeep", namespace: str, *, as_json: bool) -> None:
    """See :func:`graveler.cli.verbs.upkeep.dump`."""
    try:
        made = upkeep.dump()
    except KeyboardInterrupt:
        raise InterruptedVerbError("the server may go on with the dump") from None
    screen = output()
    if as_json:
        screen.json({"id": made, "repository": upkeep.name, "namespace": namespace})
        return
    screen.line(f"dumped {upkeep.name} as {screen.paint(made, 'bold')}")
    screen.line(screen.paint(f"to restore: graveler restore {namespace} {made} {SCHEME}NAME", "dim"))


def restore(upkeep: "RemoteUpkeep", namespace: str, dump_id: str, *, as_json: bool) -> None:
    """See :func:`graveler.cli.verbs.upkeep.restore`."""
    upkeep.restore(namespace, dump_id)
    screen = output()
    if as_json:
        screen.json({"repository": upkeep.name, "dump_id": dump_id})
        return
    screen.line(f"restored {screen.paint(SCHEME + upkeep.name, 'bold')}")


def collect(upkeep: "RemoteUpkeep", mode: str | None, *, as_json: bool) -> None:
    """See :func:`graveler.cli.verbs.gc.run`."""
    try:
        made = upkeep.collect(mode)
    except KeyboardInterrupt:
        raise InterruptedVerbError("the server goes on with the run; `graveler gc report` there tells of it") from None
    screen = output()
    if as_json:
        from msgspec import to_builtins

        document = {"run": made.run, "expired": made.expired_commits, "outcomes": made.outcomes}
        screen.json(to_builtins({**document, "report": made.report or None}))
        return
    screen.line(f"run {made.run}")
    if made.expired_commits:
        screen.line(f"marked as expired: {made.expired_commits:,}")
    for outcome, tally in made.outcomes.items():
        screen.line(f"{outcome:<12} {count(tally.files, 'file')}, {human_size(tally.bytes)}")
    if not made.outcomes:
        screen.line("nothing is there that nobody needs")
