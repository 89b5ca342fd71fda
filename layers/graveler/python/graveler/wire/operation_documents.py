"""Documents about background operations."""

from msgspec import UNSET, Struct, UnsetType

from graveler.operations.store import OperationState
from graveler.requests.importing import ImportChanges
from graveler.wire.documents import Pagination


class OperationProgress(Struct, frozen=True):
    """The progress of an operation in parts: the planned amounts, and the finished ones (``…_done``). ``bytes`` are those of
    ranges, not of objects."""

    parts: int
    parts_done: int
    records: int
    records_done: int
    bytes: int
    bytes_done: int
    round: int


class OperationDocument(Struct, frozen=True):
    """A background operation. Times are in Unix seconds. ``attempt`` counts the messages sent to begin it; ``result`` is the ID
    of its result (the commit of a merge, commit or import; a dump), ``error`` the reason why it failed or was cancelled, and
    ``error_kind`` the kind of error (``ConflictError``, ``EmptySourceError``, …). ``changes`` are those of a completed import; a
    dry run has them, but no ``result``. ``commit_id`` is the commit of a merge, commit or import if it exists already, whatever
    the state, else empty; after a failure or a cancellation, it is the commit of a concurrent committer that took the operation's
    changes."""

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
    """A page of operations, by ID. ``damaged`` names the operations that cannot be read, and the reasons."""

    pagination: Pagination
    results: list[OperationDocument]
    damaged: list[str] = []
