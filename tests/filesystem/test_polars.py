"""Polars' own readers over a lake, compared with the same readers over plain files."""

import operator
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import graveler.polars
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.sdk.lake import create_lake
from graveler.storage.objects.s3 import S3Objects, S3Settings
from tests.filesystem.conftest import new_repository

FRAME = polars.DataFrame({"n": range(1000), "s": [f"text {n % 7}" for n in range(1000)]})

KINDS = [("parquet", "write_parquet"), ("csv", "write_csv"), ("ndjson", "write_ndjson"), ("ipc", "write_ipc")]
"""Kinds of files, and what writes them."""


def where(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a reader that say where the lake is."""
    given = dict(options)
    return {"lake": given.pop("lake"), "storage_options": given}


def write(fs: GravelerFileSystem, path: str, frame: polars.DataFrame, how: str = "write_parquet") -> None:
    with fs.open(path, "wb") as file:
        getattr(frame, how)(file)


@pytest.mark.parametrize(("kind", "how"), KINDS)
def test_each_reader_reads_branches_and_commits(
    fs: GravelerFileSystem, branch: str, storage_options: dict[str, Any], kind: str, how: str
) -> None:
    repository, _ = branch.split("/")
    write(fs, f"{branch}/t/a.{kind}", FRAME, how)
    fs.opened.repository(repository).branch("main").commit("A")
    write(fs, f"{branch}/t/b.{kind}", FRAME, how)
    scan, read = (getattr(graveler.polars, f"{verb}_{kind}") for verb in ("scan", "read"))
    here = where(storage_options)
    both = polars.concat([FRAME, FRAME])
    assert_frame_equal(scan(f"graveler://{branch}/t/*.{kind}", **here).collect(), both)
    assert_frame_equal(read(f"graveler://{branch}/t", **here), both)
    assert_frame_equal(read(f"graveler://{branch}@/t/*", **here), FRAME)
    assert_frame_equal(read(f"graveler://{branch}/t/b.{kind}", **here, n_rows=3), FRAME.head(3))
    found = read([f"{branch}/t/b.{kind}", f"{branch}@/t/a.{kind}"], **here, include_file_paths="from")
    assert found["from"].unique(maintain_order=True).to_list() == [
        f"graveler://{branch}/t/b.{kind}",
        f"graveler://{branch}@/t/a.{kind}",
    ]
    assert_frame_equal(found.drop("from"), both)


@pytest.fixture(scope="module")
def folder(folder_options: dict[str, Any]) -> GravelerFileSystem:
    return GravelerFileSystem(**folder_options, user="ada")


@pytest.fixture(scope="module")
def tables(folder_options: dict[str, Any]) -> str:
    return f"{new_repository({**folder_options, 'user': 'ada'})}/main"


VALUES = st.lists(
    st.sampled_from(["1", "007", "-3", "2.5", "x", "true", "", "2026-01-01", "a%20b", "c,d", 'e"f', "NULL"])
    | st.just("__HIVE_DEFAULT_PARTITION__"),
    min_size=1,
    max_size=4,
    unique=True,
)
CONDITIONS: list[polars.Expr] = [
    polars.col("k").cast(polars.String) == "1",
    polars.col("k").is_null(),
    polars.col("day") > polars.date(2026, 1, 1),
    polars.col("n") % 2 == 0,
    (polars.col("n") > 1) | (polars.col("day") == polars.date(2026, 1, 1)),
]


@given(
    keys=VALUES,
    in_files=st.booleans(),
    scan=st.fixed_dictionaries(
        {},
        optional={
            "n_rows": st.integers(0, 9),
            "row_index_name": st.just("row"),
            "try_parse_hive_dates": st.booleans(),
            "include_file_paths": st.just("from"),
        },
    ),
    conditions=st.lists(st.sampled_from(range(len(CONDITIONS))), max_size=3),
    head=st.none() | st.integers(0, 5),
    columns=st.none() | st.just(["n"]) | st.just(["k", "n"]),
)
def test_partitions_are_those_of_plain_folders(
    folder: GravelerFileSystem,
    tables: str,
    folder_options: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[str],
    in_files: bool,
    scan: dict[str, Any],
    conditions: list[int],
    head: int | None,
    columns: list[str] | None,
) -> None:
    plain = tmp_path_factory.mktemp("plain")
    below = f"{tables}/{plain.name}"
    for number, key in enumerate(keys):
        for day in ("2026-01-01", "2026-01-02"):
            frame = polars.DataFrame(
                {"n": [number, number + 1], "k": ["file", "file"]} if in_files else {"n": [number]}
            )
            path = f"k={key}/day={day}/a.parquet"
            (plain / path).parent.mkdir(parents=True)
            frame.write_parquet(plain / path)
            write(folder, f"{below}/{path}", frame)
    chosen = [CONDITIONS[at] for at in conditions]
    if not scan.get("try_parse_hive_dates", True):
        chosen = [CONDITIONS[at] for at in conditions if at in (0, 1, 3)]

    def found(frame: polars.LazyFrame) -> polars.DataFrame:
        if chosen:
            frame = frame.filter(reduce(operator.and_, chosen))
        if head is not None:
            frame = frame.head(head)
        return (frame if columns is None else frame.select(columns)).collect()

    ours = found(graveler.polars.scan_parquet(f"graveler://{below}", **where(folder_options), **scan))
    theirs = found(polars.scan_parquet(plain, **scan))
    if "from" in theirs.columns:
        theirs = theirs.with_columns(polars.col("from").str.replace(str(plain), f"graveler://{below}", literal=True))
    assert_frame_equal(ours, theirs)


def test_a_filter_on_partitions_opens_no_other_file(
    folder: GravelerFileSystem, tables: str, folder_options: dict[str, Any]
) -> None:
    tables += "/pruned"
    for number in range(1, 4):
        write(folder, f"{tables}/t/day=2026-01-0{number}/a.parquet", FRAME.with_columns(d=polars.lit(number)))
    scanned = graveler.polars.scan_parquet(f"graveler://{tables}/t", **where(folder_options))
    Path(folder.places(f"{tables}/t/day=2026-01-03/a.parquet")[0][1]).unlink()
    day = polars.col("day")
    left = scanned.filter((day < polars.date(2026, 1, 3)) & (polars.col("n") == 5)).collect()
    assert left["d"].to_list() == [1, 2]
    assert scanned.filter(day > polars.date(2027, 1, 1)).collect().is_empty()
    with pytest.raises(FileNotFoundError):
        scanned.collect()


def test_copies_have_their_own_names_and_partitions(
    folder: GravelerFileSystem, tables: str, folder_options: dict[str, Any]
) -> None:
    tables += "/copies"
    write(folder, f"{tables}/t/k=1/a.parquet", FRAME.head(2))
    for copy in ("t/k=1/b.parquet", "t/k=2/a.parquet"):
        folder.cp_file(f"{tables}/t/k=1/a.parquet", f"{tables}/{copy}")
    here = where(folder_options)
    options: dict[str, Any] = {
        "row_index_name": "row",
        "row_index_offset": 5,
        "n_rows": 5,
        "include_file_paths": "from",
    }
    found = graveler.polars.read_parquet(f"graveler://{tables}/t", **here, **options)
    assert found["row"].to_list() == [5, 6, 7, 8, 9]
    assert found["k"].to_list() == [1, 1, 1, 1, 2]
    names = [f"graveler://{tables}/t/k={key}.parquet" for key in ("1/a", "1/b", "2/a")]
    assert found["from"].to_list() == [names[0]] * 2 + [names[1]] * 2 + names[2:]
    plain = graveler.polars.read_parquet(f"graveler://{tables}/t/*/*", **here, **options)
    assert_frame_equal(plain, found.drop("k"))


def test_what_is_in_a_folder(folder: GravelerFileSystem, tables: str, folder_options: dict[str, Any]) -> None:
    tables += "/hidden"
    write(folder, f"{tables}/t/a[1].parquet", FRAME)
    folder.pipe({f"{tables}/t/_SUCCESS": b"", f"{tables}/t/_log/1.json": b"{}", f"{tables}/only/.x": b""})
    here = where(folder_options)
    assert graveler.polars.read_parquet(f"{tables}/t", **here).height == 1000
    assert graveler.polars.read_parquet(f"{tables}/t/a[1].parquet", **here, glob=False, columns=["s"]).width == 1
    assert graveler.polars.read_parquet(Path(f"{tables}/t"), **here, columns=[0]).columns == ["n"]
    with pytest.raises(polars.exceptions.PolarsError):
        graveler.polars.read_parquet(f"{tables}/t", **here, hidden_file_prefix=())
    with pytest.raises(FileNotFoundError, match=r"begin with one of \['_', '\.'\]"):
        graveler.polars.scan_parquet(f"{tables}/only", **here)
    with pytest.raises(FileNotFoundError, match="only files without bytes are here"):
        graveler.polars.scan_parquet(f"{tables}/only/*", **here)
    write(folder, f"{tables}/t/_b.parquet", FRAME)
    for hidden, height in ((None, 2000), (["_", "."], 1000), ("a", 1000)):
        found = graveler.polars.read_parquet(f"{tables}/t/*.parquet", **here, hidden_file_prefix=hidden)
        assert found.height == height


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        (lambda path, **here: graveler.polars.scan_parquet(f"{path}/none.parquet", **here), FileNotFoundError, "none"),
        (lambda path, **here: graveler.polars.scan_csv(f"{path}/*.csv", **here), FileNotFoundError, r"\*\.csv"),
        (lambda path, **here: graveler.polars.scan_csv(f"{path}x/a", **here), FileNotFoundError, "mainx"),
        (lambda path, **here: graveler.polars.scan_csv(f"no-{path}/a", **here), FileNotFoundError, "no-fs"),
        (lambda path, **here: graveler.polars.read_ipc(f"{path}/p", **here), ValueError, r"\['k'\].*\['z'\]"),
        (
            lambda path, **here: graveler.polars.scan_parquet(f"{path}/p/k=1", **here, hive_schema={"x": polars.Int8}),
            ValueError,
            "hive_schema",
        ),
        (lambda path, **here: graveler.polars.scan_parquet(f"{path}/p/k=1", **here, colour=1), TypeError, "colour"),
    ],
)
def test_bad_calls_say_what_is_wrong(
    folder: GravelerFileSystem,
    tables: str,
    folder_options: dict[str, Any],
    act: Callable[..., object],
    error: type[Exception],
    says: str,
) -> None:
    folder.pipe({f"{tables}/p/k=1/a": b"x", f"{tables}/p/z=1/a": b"x"})
    with pytest.raises(error, match=says):
        act(tables, **where(folder_options))


def test_what_others_write_later_does_not_show(
    folder: GravelerFileSystem, tables: str, folder_options: dict[str, Any]
) -> None:
    tables += "/later"
    write(folder, f"{tables}/a.parquet", FRAME)
    scanned = graveler.polars.scan_parquet(f"{tables}/*.parquet", **where(folder_options))
    write(folder, f"{tables}/a.parquet", FRAME.head(1))
    write(folder, f"{tables}/b.parquet", FRAME.head(1))
    assert_frame_equal(scanned.collect(), FRAME)


def test_lazy_frames_are_written(folder: GravelerFileSystem, tables: str, folder_options: dict[str, Any]) -> None:
    tables += "/sunk"
    write(folder, f"{tables}/a.parquet", FRAME)
    scanned = graveler.polars.scan_parquet(f"{tables}/a.parquet", **where(folder_options))
    with folder.open(f"{tables}/b.parquet", "wb") as file:
        scanned.filter(polars.col("n") < 10).sink_parquet(file)
    assert graveler.polars.read_parquet(f"{tables}/b.parquet", **where(folder_options)).height == 10


@pytest.mark.parametrize(("kind", "how"), KINDS)
@pytest.mark.parametrize("lake", ["folder", "aws"])
def test_a_place_is_no_pattern_whatever_is_in_it(
    request: pytest.FixtureRequest, tmp_path: Path, lake: str, kind: str, how: str
) -> None:
    if lake == "folder":
        options: dict[str, Any] = {"lake": str(tmp_path / "l[ai]ke*")}
        create_lake(tmp_path / "l[ai]ke*").close()
    else:
        options = request.getfixturevalue("aws_options")
    fs = GravelerFileSystem(**options, skip_instance_cache=True)
    branch = f"{new_repository(options)}/main"
    names = [f"{branch}/{name}.{kind}" for name in ("[ab]", "a", "x*", "x1")]
    for at, name in enumerate(names):
        write(fs, name, FRAME.head(at + 1), how)
    scan, read = (getattr(graveler.polars, f"{verb}_{kind}") for verb in ("scan", "read"))
    for at, name in enumerate(names):
        assert_frame_equal(scan(name, **where(options), glob=False).collect(), FRAME.head(at + 1))
        assert_frame_equal(read([name], **where(options), glob=False), FRAME.head(at + 1))
    fs.opened.close()


@pytest.mark.parametrize("lake", ["folder", "aws"])
def test_an_object_that_was_imported_in_place_is_no_pattern(
    request: pytest.FixtureRequest, tmp_path: Path, lake: str
) -> None:
    """Its place has the name that its owner gave it."""
    options: dict[str, Any] = request.getfixturevalue(f"{lake}_options")
    fs = GravelerFileSystem(**options, skip_instance_cache=True)
    repository = new_repository(options)
    names = ["[ab].ndjson", "a.ndjson", "x*.ndjson", "x1.ndjson", "q?.ndjson", "qq.ndjson"]
    if lake == "folder":
        source = tmp_path.as_uri() + "/"
        for name in names:
            (tmp_path / name).write_text(f'{{"n": "{name}"}}\n')
    else:
        bucket = options["objects"].removeprefix("s3://").partition("/")[0]
        store, prefix = S3Objects(bucket, "elsewhere", S3Settings(options["region"], options["s3_endpoint_url"])), ""
        source = f"s3://{bucket}/elsewhere/"
        for name in names:
            store.put(prefix + name, f'{{"n": "{name}"}}\n'.encode())
    branch = fs.opened.repository(repository).branch("main")
    branch.import_data("In place").prefix(source, "in/").run()
    for name in names:
        for read in (graveler.polars.read_ndjson, lambda *a, **o: graveler.polars.scan_ndjson(*a, **o).collect()):
            at = f"{repository}/main/in/{name}"
            assert read(at, **where(options), glob=False)["n"].to_list() == [name]
            found = read([at], **where(options), glob=False, include_file_paths="from")
            assert found.rows() == [(name, f"graveler://{at}")]
    fs.opened.close()
