"""pyarrow: its S3FileSystem, Parquet files and data sets below a place, BUCKET or BUCKET/PREFIX."""

import sys

import pyarrow
from pyarrow import dataset, fs, parquet


def main(place: str) -> None:
    """Write and read files and data sets."""
    files, folder = fs.FileSystem.from_uri(f"s3://{place}/pyarrow")
    large = bytes(range(256)) * 80_000
    with files.open_output_stream(f"{folder}/large", metadata={"Content-Type": "text/x-large"}) as stream:
        for start in range(0, len(large), 1 << 20):
            stream.write(large[start : start + (1 << 20)])
    with files.open_input_file(f"{folder}/large") as file:
        assert file.read_at(1000, 5_000_000) == large[5_000_000:5_001_000]
        assert file.size() == len(large)
    table = pyarrow.table({"day": [1, 1, 2, 3], "value": [1.5, 2.5, 3.5, 4.5]})
    parquet.write_table(table, f"{folder}/one.parquet", filesystem=files)
    assert parquet.read_table(f"s3://{place}/pyarrow/one.parquet").equals(table)
    days = dataset.partitioning(pyarrow.schema([("day", pyarrow.int64())]), flavor="hive")
    dataset.write_dataset(table, f"{folder}/days", filesystem=files, format="parquet", partitioning=days)
    found = dataset.dataset(f"{folder}/days", filesystem=files, partitioning=days)
    assert found.to_table(filter=dataset.field("day") == 1)["value"].to_pylist() == [1.5, 2.5]
    assert len(found.files) == 3
    files.copy_file(f"{folder}/one.parquet", f"{folder}/copied.parquet")
    files.move(f"{folder}/copied.parquet", f"{folder}/moved.parquet")
    missing, there = files.get_file_info([f"{folder}/copied.parquet", f"{folder}/moved.parquet"])
    assert (missing.type, there.type) == (fs.FileType.NotFound, fs.FileType.File)
    files.create_dir(f"{folder}/empty")
    assert files.get_file_info(f"{folder}/empty").type == fs.FileType.Directory
    files.delete_dir(f"{folder}/empty")
    names = [info.base_name for info in files.get_file_info(fs.FileSelector(folder))]
    assert sorted(names) == ["days", "large", "moved.parquet", "one.parquet"]


if __name__ == "__main__":
    main(sys.argv[1])
