"""Polars, Daft and chDB over PyIceberg, at a branch, a tag, a commit: reads, and appends where they can."""

import os
import sys

import chdb
import daft
import polars as pl
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

URI, KEY_ID, SECRET, REPOSITORY = (os.environ[f"CATALOG_{name}"] for name in ("URI", "KEY_ID", "SECRET", "REPOSITORY"))
REFS = {"main": [1, 2, 3], "dev": [1, 2], "v1": [1, 2], "main~1": [1, 2]}


def catalog_at(ref: str) -> Catalog:
    """The catalog of a ref."""
    return load_catalog(
        "lake",
        type="rest",
        uri=URI,
        warehouse=f"{REPOSITORY}@{ref}",
        credential=f"{KEY_ID}:{SECRET}",
        **{"oauth2-server-uri": f"{URI}/v1/oauth/tokens"},
    )


def options_of(table: Table) -> dict[str, str]:
    """The options by which Polars reaches the files of a table on S3, with the credentials that the catalog gave PyIceberg."""
    return {name: str(text) for name, text in table.io.properties.items() if name.startswith("s3.")}


def try_polars() -> None:
    """Scan at each ref, also by the metadata's location, and append."""
    for ref, ids in REFS.items():
        table = catalog_at(ref).load_table("shop.orders")
        for source in (table, table.metadata_location):
            orders = pl.scan_iceberg(source, storage_options=options_of(table))
            assert orders.sort("id").collect()["id"].to_list() == ids, ref
    table = catalog_at("main").create_table("shop.polars", pl.DataFrame({"id": [0]}).to_arrow().schema)
    pl.DataFrame({"id": [1]}).write_iceberg(table, mode="append")
    pl.LazyFrame({"id": [2]}).sink_iceberg(table, mode="append", storage_options=options_of(table))
    table = catalog_at("main").load_table("shop.polars")
    assert pl.scan_iceberg(table, storage_options=options_of(table)).collect()["id"].sort().to_list() == [1, 2]


def try_daft() -> None:
    """Read at each ref, and create and append by its catalog."""
    for ref, ids in REFS.items():
        assert daft.read_iceberg(catalog_at(ref).load_table("shop.orders")).sort("id").to_pydict()["id"] == ids, ref
    catalog = daft.Catalog.from_iceberg(catalog_at("main"))
    catalog.create_table("shop.daft", daft.from_pydict({"id": [1]}))
    daft.from_pydict({"id": [2]}).write_iceberg(catalog_at("main").load_table("shop.daft"), mode="append")
    assert catalog.get_table("shop.daft").read().sort("id").to_pydict() == {"id": [1, 2]}


def try_chdb() -> None:
    """Query what PyIceberg reads: chDB itself wants a version in the name of a metadata file, and none has one here."""
    for ref, ids in REFS.items():
        orders = catalog_at(ref).load_table("shop.orders").scan().to_arrow()
        assert orders.num_rows == len(ids)
        counted = str(chdb.query("SELECT count(), sum(id) FROM Python(orders)", "CSV")).strip()
        assert counted == f"{len(ids)},{sum(ids)}", ref


if __name__ == "__main__":
    {"polars": try_polars, "daft": try_daft, "chdb": try_chdb}[sys.argv[1]]()
