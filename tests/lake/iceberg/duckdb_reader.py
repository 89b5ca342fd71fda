"""A program that reads tables by DuckDB: ``python duckdb_reader.py < LOCATIONS`` prints the rows of each metadata file."""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg


def main() -> None:
    """Read a location from each line, and print a line for it: its rows as JSON objects."""
    connection = duckdb.connect()
    for extension, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
        (file,) = Path(str(extension.__file__)).parent.rglob(f"{name}.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    for line in sys.stdin:
        result = connection.execute("SELECT * FROM iceberg_scan(?)", [line.strip().removeprefix("file://")])
        names = [column[0] for column in result.description or ()]
        sys.stdout.write(json.dumps([dict(zip(names, row, strict=True)) for row in result.fetchall()]) + "\n")


if __name__ == "__main__":
    main()
