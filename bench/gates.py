"""``python -m bench.gates``: merges into a branch that rules guard, beside merges into one without rules, by turns in one
process; and ``--candidates`` candidates at once, their list and their end by the collector. A folder lake; times are of CPU."""

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.lines import Goal, Line, show, table
from graveler.errors import RuleError
from graveler.history.refs import Refs
from graveler.lake.gates.candidates import CANDIDATE_SECONDS, Candidates
from graveler.lake.gates.statuses import Statuses
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.rule_changes import replace_rules, stamp_branches
from graveler.model import ObjectEntry, RequiredStatus, Rule, Status, StatusState
from graveler.retention.ended_candidates import end_overdue_candidates

RULE = Rule(name="tested", branches=("guarded",), statuses=(RequiredStatus("test", posters=("ci",)),))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.gates", description=__doc__)
    parser.add_argument("--merges", type=int, default=200, help="of each kind (default %(default)s)")
    parser.add_argument("--candidates", type=int, default=1000, help="that are open at once (default %(default)s)")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="graveler-bench-") as folder:
        repository = create_folder_lake(Path(folder) / "lake").create_repository("bench", "local://bench")
        for name in ("free", "guarded"):
            repository.create_branch(name, "main")
        stamp_branches(repository.parts, replace_rules(repository.parts, (RULE,)), "bench")
        print(table([*merges(repository, arguments.merges), *candidates(repository, arguments.candidates)]))


def merges(repository: OpenRepository, number: int) -> list[Line]:
    """Merges of one object, whose status is there before."""
    times: dict[str, list[float]] = {"free": [], "guarded": []}
    for index in range(number + 5):
        for name, cpu in times.items():
            source = one_object(repository, name, f"{name}-{index}")
            post(repository, source)
            seconds = measured(lambda name=name, source=source: repository.merge(source, name))  # type: ignore[misc]
            if index >= 5:
                cpu.append(seconds)
    free, guarded = median(times["free"]), median(times["guarded"])
    return [
        Line("merge into a branch without rules, in a repository with rules", show(free), rate=f"{1 / free:,.0f}"),
        Line(
            "merge into a branch that rules guard, its status there",
            show(guarded),
            rate=f"{1 / guarded:,.0f}",
            beside=f"without rules: {show(free)}",
            goals=(Goal("time ÷ without rules", guarded / free, 2),),
        ),
    ]


def candidates(repository: OpenRepository, number: int) -> list[Line]:
    """Merges that lack a status, each of another source, and what becomes of their candidates."""
    sources = [one_object(repository, "guarded", f"open-{index}") for index in range(number)]

    def refuse(source: str) -> None:
        with suppress(RuleError):
            repository.merge(source, "guarded")

    times = [measured(lambda source=source: refuse(source)) for source in sources]  # type: ignore[misc]
    parts = repository.parts
    store = Candidates(parts.tables, parts.uid)
    listing = measured(lambda: list(store.all()))
    later = time.time() + CANDIDATE_SECONDS + 1
    end = measured(lambda: end_overdue_candidates(store, Refs(parts.tables, parts.uid), later, parts.leases))
    return [
        Line(
            f"merge that lacks a status: {number:,} candidates", show(median(times)), rate=f"{1 / median(times):,.0f}"
        ),
        Line(f"list of {number:,} candidates", show(listing)),
        Line(f"end of {number:,} candidates by the collector", show(end), rate=f"{number / end:,.0f}"),
    ]


def one_object(repository: OpenRepository, destination: str, name: str) -> str:
    """Make a branch with one commit more than the destination, and return its name."""
    repository.create_branch(f"{name}-source", destination)
    repository.link(f"{name}-source", ObjectEntry(name, f"s3://elsewhere/{name}", 1000, name, 0))
    repository.commit(f"{name}-source", "one object")
    return f"{name}-source"


def post(repository: OpenRepository, ref: str) -> None:
    """Post the status of a commit's tree, which is that of its merge."""
    parts = repository.parts
    status = Status("test", StatusState.SUCCESS, by="ci", principal="ci", created=int(time.time()))
    Statuses(parts.tables, parts.uid).post(repository.commit_of(ref).metarange, [status])


def measured(call: Callable[[], object]) -> float:
    """Return the seconds of CPU that a call takes."""
    before = time.process_time()
    call()
    return time.process_time() - before


if __name__ == "__main__":
    main()
