"""A program of the demo, as any user of PyIceberg writes it: appends rows to the table shop.visits on a branch.

``python -m graveler.cli.demo.append_visits main 1 2 3`` appends three rows, and makes the table if the branch has none.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

TABLE: Final = "shop.visits"


def append_visits(branch: str, numbers: Sequence[int]) -> int:
    """Append a row for each number to the table on a branch of repository ``demo``, in the lake that GRAVELER_LAKE names. Return
    the number of its rows."""
    arrow: Any = import_module("pyarrow")
    catalogs: Any = import_module("pyiceberg.catalog")
    visits = arrow.table({"id": arrow.array(numbers, arrow.int64())})
    catalog = catalogs.load_catalog(
        "demo", **{"py-catalog-impl": "graveler.iceberg.Catalog", "warehouse": f"demo@{branch}"}
    )
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table_if_not_exists(TABLE, visits.schema)
    table.append(visits)
    rows: int = table.scan().to_arrow().num_rows
    return rows


if __name__ == "__main__":
    _, branch_name, *ids = sys.argv
    sys.stdout.write(f"{TABLE} on {branch_name} has {append_visits(branch_name, list(map(int, ids)))} rows\n")
