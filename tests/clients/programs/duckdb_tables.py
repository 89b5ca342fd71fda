"""DuckDB's extension for Iceberg at a branch, a tag, a commit: reads, and writes of its own tables."""

import os
from importlib import import_module
from pathlib import Path

import duckdb

URI, KEY_ID, SECRET, REPOSITORY = (os.environ[f"CATALOG_{name}"] for name in ("URI", "KEY_ID", "SECRET", "REPOSITORY"))
REFS = {
    "lake": ("main", [1, 2, 3]),
    "dev": ("dev", [1, 2]),
    "tagged": ("v1", [1, 2]),
    "old": ("main~1", [1, 2]),
}
FORMATS = {"orders2": "2", "orders3": "3"}


def main() -> None:
    """Read the prepared table at each ref; create, insert, update, delete and merge."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        package = import_module(f"duckdb_extension_{name}")
        (extension,) = Path(*package.__path__).glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")

    def attach(name: str, ref: str) -> None:
        connection.execute(
            f"ATTACH '{REPOSITORY}@{ref}' AS {name} (TYPE iceberg, ENDPOINT '{URI}', CLIENT_ID '{KEY_ID}', "
            f"CLIENT_SECRET '{SECRET}', OAUTH2_SERVER_URI '{URI}/v1/oauth/tokens')"
        )

    def rows(query: str) -> list[tuple[object, ...]]:
        return connection.execute(query).fetchall()

    for name, (ref, ids) in REFS.items():
        attach(name, ref)
        assert [row[0] for row in rows(f"SELECT id FROM {name}.shop.orders ORDER BY id")] == ids, ref
    connection.execute("CREATE SCHEMA lake.duck")
    for table, version in FORMATS.items():
        table = f"lake.duck.{table}"
        connection.execute(f"CREATE TABLE {table} (id BIGINT, day VARCHAR) WITH ('format-version' = '{version}')")
        connection.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        connection.execute(f"UPDATE {table} SET day = 'x' WHERE id = 2")
        connection.execute(f"DELETE FROM {table} WHERE id = 1")
        connection.execute(f"ALTER TABLE {table} ADD COLUMN note VARCHAR")
        connection.execute(
            f"MERGE INTO {table} o USING (SELECT 3 AS id UNION ALL SELECT 9) s ON o.id = s.id "
            "WHEN MATCHED THEN UPDATE SET day = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', 'new')"
        )
        assert rows(f"FROM {table} ORDER BY id") == [(2, "x", None), (3, "m", None), (9, "n", "new")], table
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE lake.duck.counted AS SELECT count(*) AS rows FROM lake.duck.orders2")
    connection.execute("INSERT INTO lake.duck.orders2 VALUES (10, 'q', 'r')")
    connection.execute("COMMIT")
    assert rows("FROM lake.duck.counted") == [(3,)]
    refusal = ""
    try:
        connection.execute("INSERT INTO tagged.shop.orders VALUES (4, 'd')")
    except duckdb.Error as error:
        refusal = str(error)
    assert "NotFound_404" in refusal, refusal


if __name__ == "__main__":
    main()
