"""The verb that measures a lake's speed: bench."""

import random
import time
from collections.abc import Callable
from functools import partial
from secrets import token_hex
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler import requests
from graveler.cli.locations import open_repository, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.request_options import commit_info, run_request
from graveler.cli.terminal import output
from graveler.cli.uris import parse_prefix

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_PAGE = 1000
_SCAN = 200_000


def bench(
    uri: Annotated[str, typer.Argument(metavar="URI", help="lakefs://REPOSITORY/REF/, whose objects are read")],
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="Time N calls of each kind.")
    ] = 5,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only measure reads.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this lake is, here and now.

    Reads some of REF's objects. Then creates a branch, removes one object at a time there, commits each removal, and deletes the
    branch; nothing else changes. The files of those commits stay in storage until garbage is collected.

    \b
    Examples:
      graveler bench lakefs://quickstart/main/
      graveler bench lakefs://quickstart/main/ --read-only --repeat 20

    JSON: a line {operation, calls, items, median_ms, fastest_ms, slowest_ms} for each; items counts one call's.
    """
    target = parse_prefix(uri)
    repository = open_repository(lake, target.repository)
    measured = _Measured(repeat)
    paths = _reading(measured, repository, target.ref, target.path)
    if not read_only:
        _writing(measured, repository, target.ref, paths)
    screen = output(as_json=as_json)
    screen.note(f"{'':28}{'median':>12}{'fastest':>12}{'slowest':>12}{'per second':>12}")
    for operation, (seconds, items) in measured.rows.items():
        times = {"median": median(seconds), "fastest": min(seconds), "slowest": max(seconds)}
        milliseconds = {f"{name}_ms": round(time * 1e3, 3) for name, time in times.items()}
        columns = "".join(f"{f'{time * 1e3:,.2f} ms':>12}" for time in times.values())
        screen.answer(
            {"operation": operation, "calls": len(seconds), "items": items, **milliseconds},
            f"{operation:28}{columns}{items / times['median']:>12,.0f}",
        )


class _Measured:
    """Times in seconds, and items per call, by operation, in the order of measuring."""

    def __init__(self, repeat: int) -> None:
        self.repeat = repeat
        self.rows: dict[str, tuple[list[float], int]] = {}

    def time(self, operation: str, call: Callable[[], Any], items: int = 1) -> None:
        """Call it, and record the time it took."""
        start = time.perf_counter()
        call()
        self.rows.setdefault(operation, ([], items))[0].append(time.perf_counter() - start)


def _reading(measured: _Measured, repository: "AnyRepository", ref: str, prefix: str) -> list[str]:
    """Measure reads; return some existing paths."""
    start = time.perf_counter()
    paths: list[str] = []
    for entry in repository.objects(ref, prefix):
        paths.append(entry.path)
        if len(paths) == _SCAN:
            break
    if not paths:
        return []
    measured.rows["scan"] = ([time.perf_counter() - start], len(paths))
    chosen = random.Random(0)
    for _ in range(measured.repeat):
        path = chosen.choice(paths)
        measured.time("stat of one object", lambda path=path: repository.stat(ref, path))  # type: ignore[misc]
    shown = min(_PAGE, len(paths))
    for _ in range(measured.repeat):
        after = paths[chosen.randrange(len(paths) - shown + 1)]
        measured.time(
            f"list a page of {shown:,}",
            lambda after=after: repository.list_objects(ref, prefix=prefix, after=after, amount=shown),  # type: ignore[misc]
            shown,
        )
    return paths


def _writing(measured: _Measured, repository: "AnyRepository", ref: str, paths: list[str]) -> None:
    """Measure changes, on a branch created for them."""
    chosen = random.Random(1).sample(paths, min(measured.repeat, len(paths)))
    by = user_name()
    branch = f"bench-{token_hex(6)}"
    commit = requests.committing.Commit(branch=branch, info=commit_info("graveler bench", None))
    creation = requests.refs.CreateBranch(name=branch, source=ref)
    for number in range(measured.repeat):
        if number:
            run_request(repository, requests.refs.DeleteBranch(name=branch), by=by)
        measured.time("create a branch", partial(run_request, repository, creation, by=by))
    try:
        for path in chosen:
            removal = requests.staging.Delete(branch=branch, objects=(path,))
            measured.time("stage one change", partial(repository.run, removal))
            measured.time("commit one change", partial(repository.run, commit))
        if chosen:
            measured.time("diff of those", lambda: repository.diff(ref, branch, amount=len(chosen)), len(chosen))
    finally:
        run_request(repository, requests.refs.DeleteBranch(name=branch, force=True), by=by)
