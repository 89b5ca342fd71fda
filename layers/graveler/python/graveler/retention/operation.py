"""The operation *collect garbage*: a run of the collector, in the background."""

from collections.abc import Mapping
from typing import Final

import msgspec

from graveler.ingest import operation as reconciling
from graveler.lake.repository import OpenRepository
from graveler.operations.kinds import KINDS
from graveler.operations.work import Report, Work
from graveler.retention import space_operation
from graveler.retention.runs import OPERATION, Mode

KIND: Final = OPERATION


class CollectRequest(msgspec.Struct, frozen=True):
    """The request of a run. ``mode`` None: quarantine for the first run of a repository, then deletion."""

    mode: Mode | None = None


def collect_garbage(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:  # noqa: ARG001
    """Collect, and return the run's name. Run again, it finishes the run that died. Without pyarrow, as in a function, no Parquet
    report is written. Costs as :meth:`Collector.run`."""
    from graveler.retention.collector import Options  # not on the path of a cold start
    from graveler.retention.garbage import Garbage
    from graveler.retention.report import is_possible

    parameters = msgspec.json.decode(request, type=CollectRequest)
    garbage = Garbage(
        repository,
        Options(parameters.mode, repository.grace, repository.skew, repository.table_grace, parquet=is_possible()),
    )

    def progress(_phase: str, _done: int, _total: int) -> None:
        report.check()

    outcome = garbage.plan(progress) if parameters.mode is Mode.DRY_RUN else garbage.run(progress)
    for tally in outcome.plan.found.values():
        report(tally.files, tally.bytes)
    return outcome.plan.run


ALL_KINDS: Final[Mapping[str, Work]] = {
    **KINDS,
    KIND: collect_garbage,
    space_operation.KIND: space_operation.measure_space,
    reconciling.KIND: reconciling.reconcile_rule,
}
"""The kinds of operations of a deployment, this one included."""
