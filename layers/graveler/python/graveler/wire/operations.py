"""Documents about background operations."""

from msgspec import UNSET, Struct, UnsetType

from graveler.operations.store import OperationState
from graveler.requests.importing import ImportChanges
from graveler.wire.documents import Pagination


class OperationProgress(Struct, frozen=True):
    """How far an operation in parts is: what was planned, and what of it is done. ``bytes`` are of ranges, not of objects."""

    parts: int
    parts_done: int
    records: int
    records_done: int
    bytes: int
    bytes_done: int
    round: int


class OperationDocument(Struct, frozen=True):
    """A background operation. Times are Unix seconds; ``attempt`` counts how often word was sent to begin; ``result`` is what it
    made (of a merge, commit or import the commit; of a dump its ID), ``error`` why it ended, and ``error_kind`` what kind of
    error that was (``ConflictError``, ``EmptySourceError``, …). ``changes`` are those of an import that is completed; a dry run
    has these, and no ``result``. ``commit_id`` is the commit of a merge, commit or import if it is there now, else empty,
    whatever the state; of one that failed or was cancelled, the commit of somebody else that took its changes."""

    id: str
    kind: str
    state: OperationState
    created: int
    updated: int
    objects: int
    commit_id: str
    result: str
    error: str
    branch: str = ""
    attempt: int = 0
    error_kind: str = ""
    progress: OperationProgress | UnsetType = UNSET
    changes: ImportChanges | UnsetType = UNSET


class OperationList(Struct, frozen=True, omit_defaults=True):
    """A page of operations, by ID. ``damaged`` says of those that cannot be read which they are, and why."""

    pagination: Pagination
    results: list[OperationDocument]
    damaged: list[str] = []
