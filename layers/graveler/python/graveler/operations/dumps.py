"""The operation *dump*: refs, settings and uncommitted changes into the repository's object store."""

from typing import Final

from graveler.lake.repository import OpenRepository
from graveler.operations.work import Report

KIND: Final = "dump"


def dump_repository(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Make a dump, and return its ID. A repeated run makes another dump; what a killed run has written is garbage.
    Cost: as :meth:`OpenRepository.dump`."""
    del operation_id, request  # the request has no parameters
    done = 0

    def progress(phase: str, so_far: int, total: int) -> None:
        nonlocal done
        del phase, total
        report(max(0, so_far - done), 0)
        done = max(done, so_far)

    return repository.dump(progress=progress).id
