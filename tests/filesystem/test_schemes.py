"""``lakefs://`` is read and written as ``graveler://`` is, by every library; the package lakefs-spec keeps its protocol."""

import sys
from pathlib import Path
from typing import Any

import fsspec
import pandas
import pytest
from fsspec.registry import _registry
from upath import UPath

import graveler.duckdb
import graveler.polars
from graveler.filesystem.addresses import PROTOCOLS
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.sdk.lake import create_lake
from graveler.values.addresses import SCHEMES

TABLE = "x,y\n1,2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_lake(tmp_path / "lake") as lake:
        branch = lake.repository("sales").create().branch("main")
        branch.object("t/a.csv").upload(TABLE)
        branch.commit("A table")
    return tmp_path / "lake"


@pytest.fixture
def new_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec as it is before it opens one of the filesystems."""
    for protocol in PROTOCOLS:
        monkeypatch.setitem(_registry, protocol, GravelerFileSystem)
        del _registry[protocol]


@pytest.fixture
def without_lakefs_spec(new_registry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which lakefs-spec is not installed."""
    monkeypatch.setitem(sys.modules, "lakefs_spec", None)


@pytest.mark.usefixtures("without_lakefs_spec")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_entry_point_takes_both_schemes(folder: Path, scheme: str) -> None:
    options: dict[str, Any] = {"lake": str(folder)}
    address = f"{scheme}sales/main/t/a.csv"
    with fsspec.open(f"{scheme}sales/main/t/new.csv", "w", **options) as file:
        file.write(TABLE)
    assert pandas.read_csv(address, storage_options=options).shape == (1, 2)
    fs, path = fsspec.url_to_fs(address, **options)
    assert (type(fs), path) == (GravelerFileSystem, "sales/main/t/a.csv")
    assert fs.unstrip_protocol(path) == "graveler://sales/main/t/a.csv"
    assert fs.ls(f"{scheme}sales/main/t", detail=False) == [path, "sales/main/t/new.csv"]
    assert (
        UPath(address, **options).read_text() == UPath(f"{scheme}sales/main/t/new.csv", **options).read_text() == TABLE
    )
    assert graveler.polars.read_csv(address, folder).rows() == [(1, 2)]
    assert graveler.polars.scan_csv(address, folder).collect().rows() == [(1, 2)]
    with graveler.duckdb.connect(folder) as connection:
        assert connection.sql(f"FROM '{address}'").fetchall() == [(1, 2)]
        connection.sql(f"COPY (SELECT 3 AS x) TO '{scheme}sales/main/t/copy.csv'")
    with graveler.open(folder) as lake:
        assert list(lake.sql(f"FROM read_csv('{scheme}sales/main/t/copy.csv')")) == [(3,)]
        assert list(lake.sql(f"SELECT path FROM objects('{scheme}sales/main@')")) == [("t/a.csv",)]


@pytest.mark.usefixtures("new_registry")
def test_lakefs_spec_keeps_its_protocol_where_it_is_installed() -> None:
    from lakefs_spec import LakeFSFileSystem

    assert fsspec.get_filesystem_class("lakefs") is LakeFSFileSystem
    assert fsspec.get_filesystem_class("graveler") is GravelerFileSystem
    fsspec.register_implementation("lakefs", GravelerFileSystem, clobber=True)
    assert fsspec.get_filesystem_class("lakefs") is GravelerFileSystem
