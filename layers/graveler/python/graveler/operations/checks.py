"""The operation *check*: fsck of a repository, in the background."""

from typing import Final

import msgspec

from graveler.lake.repository import OpenRepository
from graveler.operations.report_documents import put_report
from graveler.operations.work import Report

KIND: Final = "check"


class CheckRequest(msgspec.Struct, frozen=True):
    """The checks to make, and whether to repair: the arguments of :meth:`OpenRepository.fsck`."""

    repair: bool = False
    reflog: bool = True
    committed_objects: bool = False
    outside_objects: bool = False
    object_bytes: bool = False


def check_repository(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Check the repository, store the findings (a :class:`graveler.lake.fsck.findings.Report`), and return the operation's ID.
    A repeated run checks again. Costs as :meth:`OpenRepository.fsck`, and one object write."""
    parameters = msgspec.json.decode(request, type=CheckRequest)

    def progress(_phase: str, _done: int, _total: int) -> None:
        report.check()

    findings = repository.fsck(
        repair=parameters.repair,
        reflog=parameters.reflog,
        committed_objects=parameters.committed_objects,
        outside_objects=parameters.outside_objects,
        object_bytes=parameters.object_bytes,
        progress=progress,
    )
    put_report(repository, operation_id, findings)
    return operation_id
