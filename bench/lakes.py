"""The lake that measurements begin with: an import of all keys, made once and kept, of which each run gets a copy."""

import os
from pathlib import Path
from shutil import copytree

from bench import keys, rows
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake


def keys_of(name: str, folder: Path) -> Path:
    """The file of keys that the argument names."""
    if name.startswith("hive:"):
        return keys.hive(folder, int(name.removeprefix("hive:")))
    return keys.debian(folder, "all" if name == "debian-all" else "amd64")


def prepare(base: Path, keys_file: Path) -> str:
    """Make the lake that rows begin with, unless it is there, and say what it is."""
    if not base.exists():
        repository = create_folder_lake(base).create_repository(rows.REPOSITORY, rows.NAMESPACE)
        rows.import_all(repository, keys_file)
    tree = open_folder_lake(base).repository(rows.REPOSITORY).tree("main")
    count = tree.count()
    size = rows.bytes_per_record(base, count)
    return f"{count:,} objects in {rows.tree_shape(tree)}; {size:.1f} bytes a record on disk, metarange included"


def lake_copy(base: Path, folder: Path) -> None:
    """A copy of a lake. Data files never change, so links will do; tables change in place."""
    copytree(base, folder, copy_function=os.link)
    for file in base.glob("tables.sqlite*"):
        (folder / file.name).unlink()
        (folder / file.name).write_bytes(file.read_bytes())
