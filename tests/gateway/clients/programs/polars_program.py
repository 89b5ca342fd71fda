"""Polars: Parquet and CSV below a place, BUCKET or BUCKET/PREFIX."""

import sys

import polars


def main(place: str) -> None:
    """Write and scan frames."""
    folder = f"s3://{place}/polars"
    frame = polars.DataFrame({"day": [1, 1, 2], "value": [1.5, 2.5, 3.5]})
    frame.write_parquet(f"{folder}/one.parquet")
    frame.write_csv(f"{folder}/one.csv")
    frame.lazy().sink_parquet(f"{folder}/sunk/two.parquet")
    frame.lazy().sink_parquet(polars.PartitionBy(f"{folder}/days", key="day"), mkdir=True)
    days = polars.scan_parquet(f"{folder}/days/**/*.parquet", hive_partitioning=True)
    assert days.filter(polars.col("day") == 1).select("value").collect()["value"].to_list() == [1.5, 2.5]
    assert polars.read_parquet(f"{folder}/sunk/*.parquet").equals(frame)
    assert polars.scan_csv(f"{folder}/one.csv").collect().equals(frame)
    large = polars.DataFrame({"number": polars.arange(0, 4_000_000, eager=True).shuffle(seed=1)})
    large.write_parquet(f"{folder}/large.parquet", compression="uncompressed")
    assert polars.scan_parquet(f"{folder}/large.parquet").select(polars.col("number").sum()).collect().item() == sum(
        range(4_000_000)
    )


if __name__ == "__main__":
    main(sys.argv[1])
