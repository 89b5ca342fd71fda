"""A run of the collector as one document, for display: in a terminal, a program, the HTTP API."""

from collections.abc import Mapping

from msgspec import Struct

from graveler.retention.forecast import Outlook
from graveler.retention.runs import Plan, Summary, Tally


class RunDescription(Struct, frozen=True):
    """The results of a run. Times are in Unix seconds; ``ended`` is null while the run is not over. ``found`` counts files by
    kind, ``outcomes`` by kind and outcome. ``expired`` and ``revived`` count the commits that were marked, or whose mark was
    removed, ``forgotten`` and ``rows`` the removed commits and table rows. ``unknown`` files are not graveler's and stay;
    ``unlisted`` names what could not be listed. ``report`` is the address of a Parquet table of all files, null if none was
    written. ``transactions`` counts the ended transactions whose hidden branch was deleted; ``ownerless`` counts hidden branches
    that belong to no transaction, and stay; some are named. ``outlook`` tells what later runs can free, only in
    a dry run."""

    run: str
    mode: str
    began: float
    ended: float | None
    commits: int
    kept: int
    expired: int
    revived: int
    forgotten: int
    rows: int
    ranges: int
    ranges_read: int
    found: Mapping[str, Tally]
    outcomes: Mapping[str, Mapping[str, Tally]]
    unknown: Tally
    unknown_examples: tuple[str, ...]
    unlisted: tuple[str, ...]
    report: str | None
    transactions: int = 0
    ownerless: int = 0
    ownerless_examples: tuple[str, ...] = ()
    outlook: Outlook | None = None


def describe(run: Plan | Summary, report: str) -> RunDescription:
    """Describe a run; ``report`` is the address of its table, if one exists."""
    summary = run if isinstance(run, Summary) else None
    plan = run.plan if isinstance(run, Summary) else run
    return RunDescription(
        plan.run,
        plan.mode.value,
        plan.began,
        None if summary is None else summary.ended,
        plan.commits,
        plan.kept,
        plan.expired,
        plan.revived,
        0 if summary is None else summary.forgotten,
        0 if summary is None else summary.rows,
        plan.ranges,
        plan.ranges_read,
        plan.found,
        {} if summary is None else summary.outcomes,
        plan.unknown,
        plan.unknown_examples,
        plan.unlisted,
        report if summary is None or summary.parquet else None,
        0 if summary is None else summary.transactions,
        plan.ownerless,
        plan.ownerless_examples,
        plan.outlook,
    )
