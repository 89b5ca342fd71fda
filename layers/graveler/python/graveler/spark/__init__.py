"""The data pipeline: import, export, datasets on branches, differences and garbage collection on Spark.

Needs the extra ``graveler[spark]``; nothing else in the package imports it. Importing this module imports no Spark: each name
below is loaded on first use. ::

    import graveler.spark

    events = graveler.spark.read(spark, "lakefs://sales/main/tables/events")
    with graveler.spark.transaction(repository, "main", message="Events of today") as tx:
        tx.write(frame, "tables/events", partition_by=["day"], mode="append")
    changes = graveler.spark.diff(spark, "sales", "main~1", "main")
"""

TYPE_CHECKING = False  # type checkers assume True by its name
if TYPE_CHECKING:
    from graveler.requests.importing import ListingOptions
    from graveler.spark.batches import each_batch
    from graveler.spark.datasets import read
    from graveler.spark.difference_frames import diff
    from graveler.spark.exports import export
    from graveler.spark.frames import branches, commits, objects, ranges, tags
    from graveler.spark.importing import ImportReport, import_listing
    from graveler.spark.landing import begin, land
    from graveler.spark.listing_sources import list_prefix, read_inventory, read_tables
    from graveler.spark.manifests import manifest
    from graveler.spark.registration import register
    from graveler.spark.transactions import Transaction, transaction

__all__ = [
    "ImportReport",
    "ListingOptions",
    "Transaction",
    "begin",
    "branches",
    "commits",
    "diff",
    "each_batch",
    "export",
    "import_listing",
    "land",
    "list_prefix",
    "manifest",
    "objects",
    "ranges",
    "read",
    "read_inventory",
    "read_tables",
    "register",
    "tags",
    "transaction",
]

_MODULES = {
    "ImportReport": "importing",
    "ListingOptions": "listing_frames",
    "Transaction": "transactions",
    "begin": "landing",
    "branches": "frames",
    "commits": "frames",
    "diff": "difference_frames",
    "each_batch": "batches",
    "export": "exports",
    "import_listing": "importing",
    "land": "landing",
    "list_prefix": "listing_sources",
    "manifest": "manifests",
    "objects": "frames",
    "ranges": "frames",
    "read": "datasets",
    "read_inventory": "listing_sources",
    "read_tables": "listing_sources",
    "register": "registration",
    "tags": "frames",
    "transaction": "transactions",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'graveler.spark' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(f"graveler.spark.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        from graveler.errors import UnavailableError
        from graveler.system.extras import not_installed

        raise UnavailableError(not_installed("graveler.spark", error.name, "spark")) from None
    attribute: object = getattr(module, name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
