"""A process that begins an import, comes to a certain point, says so, and stays there until it is killed.

``python -m tests.operations.worker LAKE REPOSITORY OPERATION REQUEST POINT LEASE``
"""

import sys
from pathlib import Path
from threading import Event

from graveler.lake.opening.folder import open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.operations.one_process import do_in_parts
from graveler.operations.pinned_requests import IMPORT
from graveler.operations.runner import Runner
from graveler.operations.work import Report

POINTS = ("objects", "published")
"""In the middle of its objects; after its commit, before anybody was told."""


def stay() -> None:
    """For as long as this process lives."""
    sys.stdout.write("there\n")
    sys.stdout.flush()
    Event().wait()


class HalfWay(Report):
    """Stays at the third object."""

    def __call__(self, objects: int, size: int) -> None:
        super().__call__(objects, size)
        if self.objects >= 3:
            stay()


def import_until(point: str, repository: OpenRepository, operation_id: str, request: bytes) -> str:
    """An import that ends nowhere."""
    do_in_parts(repository, operation_id, request, HalfWay() if point == "objects" else Report())
    stay()
    return ""


def main(lake: str, name: str, operation: str, request: str, point: str, lease: str) -> None:
    """Begin, and stay."""
    opened = open_folder_lake(Path(lake))
    runner = Runner(
        opened.tables,
        {IMPORT: lambda repository, id_, asked, _: import_until(point, repository, id_, asked)},
        heartbeat=float(lease) / 10,
        lease=float(lease),
    )
    runner.start(opened.repository(name), IMPORT, request.encode(), operation)
    Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
