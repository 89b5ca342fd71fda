"""The operation *import-listing*: a zero-copy import of the objects in a listing that a client has uploaded, as one commit.

The listing is a CSV in the format of :mod:`graveler.lake.importing.sent_listing`: sorted, with paths below the destination and
physical addresses. A client wrote it, so every line is checked.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import ForbiddenError
from graveler.lake.context import Context
from graveler.lake.importing.sent_listing import SENT_OPTIONS, addresses
from graveler.lake.repository import OpenRepository
from graveler.model import Actor
from graveler.operations.pinned_requests import UNRECORDED
from graveler.operations.store import Operations
from graveler.operations.work import Report
from graveler.requests.base import CommitInfo
from graveler.requests.importing import ImportListing
from graveler.storage.objects.plain_addresses import is_plain
from graveler.storage.spooled import SpooledFile

KIND: Final = "import-listing"


class ImportListingRequest(msgspec.Struct, frozen=True):
    """``address`` is the uploaded listing's, inside the namespace. ``sources`` are lists of folders: an object's address must lie
    in one of each list, and in none of the folders ``others``."""

    branch: str
    address: str
    destination: str
    sources: tuple[tuple[str, ...], ...] = ()
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    others: tuple[str, ...] = ()
    actor: Actor = UNRECORDED


def import_listing(repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
    """Import, on condition that the operation still runs, and return the commit's ID (nothing for a dry run). Run again, it finds
    the existing commit. The listing is on disk meanwhile.

    Cost: one object read, and as :class:`ImportListing`. :class:`ForbiddenError` for an address that is in none of the sources.
    """
    parameters = msgspec.json.decode(request, type=ImportListingRequest)
    key = parameters.address.removeprefix(f"{repository.repository.namespace}/")
    with SpooledFile("fetching the listing", "listing-") as file:
        for piece in repository.namespace.stream(key):
            file.write(piece)
            report.check()
        file.flush()
        listing = file.path
        _expect_allowed(listing, parameters.sources, parameters.others, report)
        running = Operations(repository.tables, repository.repository.uid).running(operation_id)
        imported = repository.run(
            ImportListing(
                branch=parameters.branch,
                listing=(listing,),
                options=msgspec.structs.replace(SENT_OPTIONS, destination=parameters.destination),
                info=CommitInfo(parameters.message, parameters.committer, parameters.metadata, request_id=operation_id),
                force=parameters.force,
                allow_empty=parameters.allow_empty,
                dry_run=parameters.dry_run,
                label="the uploaded listing",
            ),
            Context(by=parameters.actor.name, actor=parameters.actor, progress=report, only_while=running),
        )
    report.changes = imported.changes
    return imported.id


def _expect_allowed(
    listing: Path, sources: tuple[tuple[str, ...], ...], forbidden: tuple[str, ...], report: Report
) -> None:
    """Check that a listing names only importable objects. :class:`ForbiddenError` otherwise."""
    for number, address in enumerate(addresses(listing)):
        if not number % 10_000:
            report.check()
        if not is_plain(address) or not all(address.startswith(folders) for folders in sources):
            raise ForbiddenError(
                f"object {address!r} is outside the import sources, which `graveler serve --import-source` configures; nothing "
                "was imported"
            )
        if forbidden and address.startswith(forbidden):
            raise ForbiddenError(
                f"object {address!r} is in the storage namespace of a repository that the key may not read; nothing was "
                "imported"
            )
