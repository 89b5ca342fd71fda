"""The lines of the web page's "Use it", and a lake with what they name."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet

import graveler

ROOT = Path(__file__).resolve().parents[2]
LINES = json.loads((ROOT / "web/tests/use-it.json").read_text(encoding="utf-8"))
"""Places, each with its recipes, and the lines that fill a folder. A test of the page's says that they are those of the page."""
ROWS = [{"id": 1, "name": "Graz"}, {"id": 2, "name": "Linz"}]


def contents(path: str) -> bytes:
    """Return two rows in the format that a path's ending names."""
    table, file = pyarrow.Table.from_pylist(ROWS), io.BytesIO()
    match path.rpartition(".")[2]:
        case "parquet":
            pyarrow.parquet.write_table(table, file)
        case "arrow":
            pyarrow.feather.write_feather(table, file)
        case "csv" | "tsv" as ending:
            delimiter = "\t" if ending == "tsv" else ","
            pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(delimiter=delimiter))
        case "ndjson":
            return "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
        case "json":
            return json.dumps(ROWS).encode()
        case _:
            return b"two\nrows\n"
    return file.getvalue()


def make_lake(folder: Path) -> None:
    """Create a lake with every object and folder that the lines name, and a tag for every other ref."""
    places: list[dict[str, Any]] = LINES["places"]
    with graveler.create(folder, user="ada") as lake:
        repository = lake.repository("sales").create()
        main = repository.branch("main")
        for place in places:
            if place["kind"] == "object":
                main.object(place["path"]).upload(contents(place["path"]))
            elif place["kind"] == "folder":
                main.object(f"{place['path']}day=1/part.parquet").upload(contents("part.parquet"))
        main.commit("Two rows in every format")
        repository.tag("release/1%").create(main)
