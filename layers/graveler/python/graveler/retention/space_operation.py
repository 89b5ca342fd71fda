"""The operation *measure-space*: determines in the background which holders use a repository's space."""

from typing import Final

from graveler.lake.repository import OpenRepository
from graveler.operations.report_documents import put_report
from graveler.operations.work import Report

KIND: Final = "measure-space"


def measure_space(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Measure, store the result (a :class:`graveler.retention.space.Space`), and return the operation's ID. Run again, it
    measures again. Costs as :func:`graveler.retention.space.space`, and one object write."""
    from graveler.retention.space import space  # not on the path of a cold start

    del request  # it is empty

    def progress(_phase: str, _done: int, _total: int) -> None:
        report.check()

    put_report(repository, operation_id, space(repository, progress))
    return operation_id
