"""The operation *import*: take over objects from addresses, replace what lies under the destinations, commit."""

from collections.abc import Mapping
from typing import Final

import msgspec

from graveler.lake.importing.prefix_listing import ImportAddress
from graveler.lake.repository import OpenRepository
from graveler.operations.runner import Report

KIND: Final = "import"
LAST_IMPORT: Final = ".lakefs.last.import.timestamp"
"""Repository metadata: when the newest import was committed, in Unix seconds. Clients look for it."""


class ImportRequest(msgspec.Struct, frozen=True):
    """What an import is asked for."""

    branch: str
    sources: tuple[ImportAddress, ...]
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    force: bool = False


def import_objects(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Do an import, and return its commit's ID. Run again, it finds the commit that it made (promise C4). Cost: as
    :meth:`OpenRepository.import_folder`, one table read and one write more."""
    asked = msgspec.json.decode(request, type=ImportRequest)
    commit = repository.import_addresses(
        asked.branch,
        asked.sources,
        message=asked.message,
        committer=asked.committer,
        metadata=asked.metadata,
        force=asked.force,
        request_id=operation_id,
        progress=report,
    )
    repository.set_metadata({LAST_IMPORT: str(commit.created)}, force=asked.force)
    return commit.id
