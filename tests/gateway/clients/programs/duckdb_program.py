"""DuckDB's httpfs: COPY TO and globs below a place, BUCKET or BUCKET/PREFIX."""

import os
import sys
from pathlib import Path

import duckdb
import duckdb_extension_httpfs


def main(place: str) -> None:
    """Write and query Parquet and CSV."""
    folder = f"s3://{place}/duckdb"
    (extension,) = Path(*duckdb_extension_httpfs.__path__).glob("extensions/*/httpfs.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    if authority := os.environ.get("SSL_CERT_FILE"):
        connection.execute(f"SET ca_cert_file = '{authority}'")
    numbers = "SELECT i AS number, i % 3 AS day FROM range(100000) AS numbers(i)"
    connection.execute(f"COPY ({numbers}) TO '{folder}/days' (FORMAT parquet, PARTITION_BY (day))")
    connection.execute(f"COPY ({numbers}) TO '{folder}/one é.csv'")
    connection.execute(f"COPY (SELECT random() AS x FROM range(3000000)) TO '{folder}/large.parquet'")
    rows = connection.execute(
        f"SELECT day, count(*) FROM read_parquet('{folder}/days/*/*.parquet', hive_partitioning=true) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert rows == [(0, 33334), (1, 33333), (2, 33333)], rows
    assert connection.execute(f"SELECT sum(number) FROM '{folder}/one é.csv'").fetchone() == (sum(range(100_000)),)
    assert connection.execute(f"SELECT count(*) FROM '{folder}/large.parquet'").fetchone() == (3_000_000,)


if __name__ == "__main__":
    main(sys.argv[1])
