"""The operation *reconcile*: compares a rule's source with its branch, and repairs it, in the background."""

from collections.abc import Callable
from typing import Final

import msgspec

from graveler.ingest.reconcile import Reconciler
from graveler.ingest.rules import RuleStore
from graveler.lake.repository import OpenRepository
from graveler.operations.report_documents import put_report

KIND: Final = "reconcile"


class ReconcileRequest(msgspec.Struct, frozen=True):
    """The rule to reconcile; with ``dry_run``, only report differences. ``exclude`` and ``ignore`` are those of
    :meth:`Reconciler.reconcile`."""

    rule: str
    dry_run: bool = False
    exclude: tuple[str, ...] = ()
    ignore: bool = True


def reconcile_rule(
    repository: OpenRepository, operation_id: str, request: bytes, report: Callable[[int, int], None]
) -> str:
    """Reconcile, store the report in the object store, and return the operation's ID. Run again, it repairs the remaining
    differences. Costs as :meth:`Reconciler.reconcile`, and one object write."""
    parameters = msgspec.json.decode(request, type=ReconcileRequest)
    rule = RuleStore(repository.tables).get(repository.repository, parameters.rule)
    reconciler = Reconciler(repository.tables, repository.clock)
    reconciled = reconciler.reconcile(
        repository,
        rule,
        dry_run=parameters.dry_run,
        exclude=parameters.exclude,
        ignore=parameters.ignore,
        progress=report,
    )
    put_report(repository, operation_id, reconciled)
    return operation_id
