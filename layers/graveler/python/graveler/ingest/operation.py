"""The operation *reconcile*: a rule's source compared with its branch, and repaired, in the background."""

from collections.abc import Callable
from typing import Final

import msgspec

from graveler.errors import CorruptError, NotFoundError
from graveler.ingest.reconcile import Reconciled, Reconciler
from graveler.ingest.rules import RuleStore
from graveler.lake.in_parts.files import OPERATIONS
from graveler.lake.repository import OpenRepository
from graveler.storage.objects import ObjectMissingError

KIND: Final = "reconcile"


class ReconcileRequest(msgspec.Struct, frozen=True):
    """Which rule; with ``dry_run``, only what differs."""

    rule: str
    dry_run: bool = False


def reconcile_rule(
    repository: OpenRepository, operation_id: str, request: bytes, report: Callable[[int, int], None]
) -> str:
    """Reconcile, keep the report in the object store, and return the operation's ID. Run again, it repairs what is left.
    Costs as :meth:`Reconciler.reconcile`, and one object write."""
    asked = msgspec.json.decode(request, type=ReconcileRequest)
    rule = RuleStore(repository.tables).get(repository.repository, asked.rule)
    reconciler = Reconciler(repository.tables, repository.clock)
    made = reconciler.reconcile(repository, rule, dry_run=asked.dry_run, progress=report)
    repository.namespace.put(_key(operation_id), msgspec.json.encode(made))
    return operation_id


def read_report(repository: OpenRepository, operation_id: str) -> Reconciled:
    """What came of it. One object read. :class:`NotFoundError` if the report was collected as garbage."""
    try:
        return msgspec.json.decode(repository.namespace.get(_key(operation_id)), type=Reconciled)
    except ObjectMissingError:
        raise NotFoundError(
            f"the report of operation {operation_id!r} was collected as garbage; reconcile again, with dry_run to look only"
        ) from None
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{_key(operation_id)} cannot be read ({error}); reconcile again") from None


def _key(operation_id: str) -> str:
    return f"{OPERATIONS}/{operation_id}/reconciled"
