"""Claims to tables whose creation is staged. Nothing of such a table is stored, so a client that asks for access to it again
brings a claim, which proves that the repository staged this table, for which caller, and when.

A claim is valid until the table is committed on any branch: from then on, the table's entry decides who may read its files.
"""

import hmac
from typing import Final

from msgspec import Struct

from graveler.errors import ForbiddenError
from graveler.lake.iceberg.table_folders import METADATA_END, TableFolder, folder_for
from graveler.lake.parts import RepositoryParts
from graveler.requests.iceberg import Identifier

_CLAIM_FIELDS: Final = 3


class Staging(Struct, frozen=True):
    """The creation of a table that a caller has staged on a branch. ``caller`` is whatever tells callers apart."""

    branch: str
    table: Identifier
    caller: tuple[str, ...]


def claim_to(repository: RepositoryParts, staging: Staging, uuid: str) -> str:
    """Return the claim to the table that is staged now with a UUID. No request."""
    time = f"{repository.clock.now():.0f}"
    return f"{time}.{uuid}.{_proof(repository, staging, uuid, time)}"


def claimed_table(repository: RepositoryParts, staging: Staging, claim: str) -> tuple[str, TableFolder] | None:
    """Return the UUID and the folder of a staged table that a claim proves; None if it has been committed. One listing of its
    metadata. :class:`ForbiddenError` for a claim to another table or of another caller, and for one that is older than the files
    that a commit accepts."""
    parts = claim.split(".")
    if len(parts) != _CLAIM_FIELDS:
        raise _not_staged(staging)
    time, uuid, proof = parts
    if not hmac.compare_digest(_proof(repository, staging, uuid, time).encode(), proof.encode()):
        raise _not_staged(staging)
    hours = repository.table_grace / 2 / 3600
    if repository.clock.now() - float(time) > hours * 3600:
        raise ForbiddenError(
            f"the creation of table {staging.table} was staged more than {hours:.0f} hours ago, and a commit takes no files "
            "that are so old; stage it again"
        )
    folder = folder_for(repository, uuid)
    is_committed = any(
        stored.key.endswith(METADATA_END) for stored in repository.objects.list(f"{folder.key}/metadata/")
    )
    return None if is_committed else (uuid, folder)


def _proof(repository: RepositoryParts, staging: Staging, uuid: str, time: str) -> str:
    levels = (*staging.table.namespace, staging.table.name)
    fields = (staging.branch, time, uuid, str(len(levels)), *levels, *staging.caller)
    return repository.names.proof_of_staging(*fields)


def _not_staged(staging: Staging) -> ForbiddenError:
    return ForbiddenError(
        f"the creation of table {staging.table} was not staged for this caller on {staging.branch!r}; stage it again"
    )
