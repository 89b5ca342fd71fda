"""A branch, a tag or a commit as a catalog of PyIceberg, without a server.

Needs ``pip install 'graveler[iceberg]'``. ::

    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(**{"py-catalog-impl": "graveler.iceberg.Catalog", "warehouse": "sales@main"})
    catalog.load_table("shop.orders").scan().to_arrow()
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graveler.iceberg.embedded_catalog import Catalog

__all__ = ["Catalog"]


def __getattr__(name: str) -> object:
    """Load PyIceberg's part when it is first named."""
    if name != "Catalog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graveler.iceberg.embedded_catalog import Catalog

    return Catalog
