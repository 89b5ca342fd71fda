"""The operation *collect garbage*: a run of the collector, in the background."""

from typing import Final

import msgspec

from graveler.lake.repository import OpenRepository
from graveler.operations.work import Report
from graveler.retention.runs import OPERATION, Mode

KIND: Final = OPERATION


class CollectRequest(msgspec.Struct, frozen=True):
    """What a run is asked for. ``mode`` None: quarantine for the first run of a repository, then deletion."""

    mode: Mode | None = None


def collect_garbage(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:  # noqa: ARG001
    """Collect, and return the run's name. Run again, it finishes the run that died. Costs as :meth:`Collector.run`."""
    from graveler.retention.collector import Options  # not on the path of a cold start
    from graveler.retention.garbage import Garbage

    asked = msgspec.json.decode(request, type=CollectRequest)
    garbage = Garbage(repository, Options(asked.mode, repository.grace, repository.skew))

    def progress(_phase: str, _done: int, _total: int) -> None:
        report.check()

    made = garbage.plan(progress) if asked.mode is Mode.DRY_RUN else garbage.run(progress)
    for tally in made.plan.found.values():
        report(tally.files, tally.bytes)
    return made.plan.run
