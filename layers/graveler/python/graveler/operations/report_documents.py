"""Reports of operations whose result is more than an ID: a document in the object store, beside the operation's other files.

    _graveler/operations/<operation>/report

Like those files it is garbage a grace period after the operation has ended.
"""

from typing import TypeVar

import msgspec

from graveler.errors import UNREADABLE, CorruptError, NotFoundError
from graveler.lake.repository import OpenRepository
from graveler.operations.parts.part_files import OPERATIONS
from graveler.storage.objects.port import ObjectMissingError

T = TypeVar("T")


def put_report(repository: OpenRepository, operation_id: str, report: object) -> None:
    """Store the report of an operation. One object write."""
    repository.namespace.put(_key(operation_id), msgspec.json.encode(report))


def read_report(repository: OpenRepository, operation_id: str, kind: type[T]) -> T:
    """Return the report of an operation. One object read. :class:`NotFoundError` if it was collected as garbage."""
    try:
        return msgspec.json.decode(repository.namespace.get(_key(operation_id)), type=kind)
    except ObjectMissingError:
        raise NotFoundError(
            f"the report of operation {operation_id!r} was garbage-collected; start the operation again"
        ) from None
    except UNREADABLE as error:
        raise CorruptError(f"{_key(operation_id)} cannot be read ({error}); start the operation again") from None


def _key(operation_id: str) -> str:
    return f"{OPERATIONS}/{operation_id}/report"
