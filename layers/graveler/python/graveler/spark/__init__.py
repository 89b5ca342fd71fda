"""The data pipeline: import, export, datasets on branches, differences and garbage collection on Spark.

Needs the extra ``graveler[spark]``; nothing else in the package imports it. Importing this module imports no Spark: each name
below is looked up when it is first used. ::

    import graveler.spark

    events = graveler.spark.read(spark, "lakefs://sales/main/tables/events")
    with graveler.spark.transaction(repository, "main", message="Events of today") as tx:
        tx.write(frame, "tables/events", partition_by=["day"], mode="append")
    changes = graveler.spark.diff(spark, "sales", "main~1", "main")
"""

TYPE_CHECKING = False  # type checkers take it for True by its name
if TYPE_CHECKING:
    from graveler.spark.datasets import read
    from graveler.spark.differences import diff
    from graveler.spark.exports import export
    from graveler.spark.frames import branches, commits, objects, ranges, tags
    from graveler.spark.manifests import manifest
    from graveler.spark.source import register
    from graveler.spark.transactions import Transaction, transaction

__all__ = [
    "Transaction",
    "branches",
    "commits",
    "diff",
    "export",
    "manifest",
    "objects",
    "ranges",
    "read",
    "register",
    "tags",
    "transaction",
]

_MODULES = {
    "Transaction": "transactions",
    "branches": "frames",
    "commits": "frames",
    "diff": "differences",
    "export": "exports",
    "manifest": "manifests",
    "objects": "frames",
    "ranges": "frames",
    "read": "datasets",
    "register": "source",
    "tags": "frames",
    "transaction": "transactions",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'graveler.spark' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"graveler.spark.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
