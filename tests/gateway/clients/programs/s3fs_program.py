"""s3fs: files, walks, moves and deletions below a place, BUCKET or BUCKET/PREFIX."""

import sys

import pandas
import s3fs


def main(place: str) -> None:
    """Write and read files."""
    folder = f"{place}/s3fs"
    files = s3fs.S3FileSystem()
    large = bytes(range(256)) * 50_000
    with files.open(f"{folder}/large", "wb", block_size=5 << 20) as file:
        for start in range(0, len(large), 1 << 20):
            file.write(large[start : start + (1 << 20)])
    with files.open(f"{folder}/large", "rb") as file:
        file.seek(-5, 2)
        assert file.read() == large[-5:]
    assert files.cat(f"{folder}/large", start=7, end=99) == large[7:99]
    for name in ("a/1.csv", "a/2.csv", "b/3.csv"):
        files.pipe(f"{folder}/tree/{name}", f"name\n{name}\n".encode())
    assert [found.removeprefix(folder) for found in files.glob(f"{folder}/tree/a/*.csv")] == [
        "/tree/a/1.csv",
        "/tree/a/2.csv",
    ]
    assert sorted(files.find(f"{folder}/tree")) == [
        f"{folder}/tree/{name}" for name in ("a/1.csv", "a/2.csv", "b/3.csv")
    ]
    assert files.isdir(f"{folder}/tree/a")
    assert files.info(f"{folder}/large")["size"] == len(large)
    files.mv(f"{folder}/tree/b/3.csv", f"{folder}/tree/a/3.csv")
    files.cp(f"{folder}/large", f"{folder}/copied")
    assert not files.exists(f"{folder}/tree/b/3.csv")
    frame = pandas.read_csv(f"s3://{folder}/tree/a/3.csv")
    assert list(frame["name"]) == ["b/3.csv"]
    frame.to_parquet(f"s3://{folder}/frame.parquet")
    assert list(pandas.read_parquet(f"s3://{folder}/frame.parquet")["name"]) == ["b/3.csv"]
    files.rm(f"{folder}/tree", recursive=True)
    assert not files.exists(f"{folder}/tree")


if __name__ == "__main__":
    main(sys.argv[1])
