"""import --listing: objects that a table names."""

from hashlib import md5
from pathlib import Path

import pytest

from tests.cli.support import done, put, run, write_tree

TEXTS = {"x/a": "one", "x/b": "three", "y/c": ""}


def rows(base: Path, *names: str) -> str:
    """A listing with addresses."""
    lines = ["path,physical_address,Size,ETag"]
    for name in names:
        data = TEXTS[name].encode()
        lines.append(f"{name},{(base / name).as_uri()},{len(data)},{md5(data).hexdigest()}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def data(working_folder: Path) -> Path:
    """The listed files, and their listing beside them."""
    folder = write_tree(working_folder / "data", TEXTS)
    (working_folder / "list.csv").write_text(rows(folder, *TEXTS))
    return folder


def test_a_listing_is_imported_as_one_commit(lake: Path, data: Path) -> None:
    put("main", "d/old", "x")
    done("commit", "lakefs://lake/main", "-m", "Old")
    out = done("import", "--listing", "list.csv", "lakefs://lake/main/d/", "-m", "Listed").out
    assert out.startswith("imported 3 objects, 8 B, into lakefs://lake/main/d/: ")
    assert out.splitlines()[0].endswith(" Listed")
    assert out.splitlines()[1:] == ["  + 3 objects added, 8 B", "  - 1 object removed, 1 B"]
    assert done("ls", "-r", "lakefs://lake/main/").out == "d/x/a\nd/x/b\nd/y/c\n"
    assert done("cat", "lakefs://lake/main/d/x/b").out == "three"
    document = done("import", "--listing", "list.csv", "lakefs://lake/main/", "--meta", "k=v", "--json").json
    assert set(document) == {"commit", "objects", "bytes", "skipped_links", "special_files", "left_out", "changes"}
    assert {name: number for name, number in document["changes"].items() if number} == {
        "added": 3,
        "added_bytes": 8,
        "removed": 3,
        "removed_bytes": 8,
    }
    assert (document["objects"], document["bytes"], document["commit"]["metadata"]) == (3, 8, {"k": "v"})
    assert document["commit"]["committer"] == "tester"


def test_several_listings_and_a_source(lake: Path, data: Path) -> None:
    Path("one.csv").write_text(rows(data, "x/b", "y/c"))
    Path("two.csv").write_text(rows(data, "x/a"))
    done("import", "--listing", "--source", "x/", "one.csv", "two.csv", "lakefs://lake/main/")
    assert done("ls", "-r", "lakefs://lake/main/").out == "a\nb\n"


def test_columns_base_and_encoded_keys(lake: Path, data: Path) -> None:
    Path("bare.csv").write_text("x%2Fa,3,e\nx%2Fb,5,f\n")
    options = ("--columns", "Key, Size,ETag", "--base", data.as_uri() + "/")
    done("import", "--listing", "bare.csv", *options, "--url-encoded", "lakefs://lake/main/")
    assert done("ls", "-r", "lakefs://lake/main/").out == "x/a\nx/b\n"
    assert done("cat", "lakefs://lake/main/x/a").out == "one"
    done("import", "--listing", "bare.csv", *options, "--no-url-encoded", "lakefs://lake/main/")
    assert done("ls", "-r", "lakefs://lake/main/").out == "x%2Fa\nx%2Fb\n"


def test_folders_and_the_last_row(lake: Path, data: Path) -> None:
    Path("l.csv").write_text("Key,Size,ETag\nf/,0,e\nx/a,3,e\nx/a,4,f\n")
    options = ("--base", "s3://bucket/", "lakefs://lake/main/")
    assert run("import", "--listing", "l.csv", *options).code == 2
    done("import", "--listing", "--last-wins", "l.csv", *options)
    assert [(e["path"], e["size"]) for e in done("ls", "-r", "lakefs://lake/main/", "--json").lines] == [("x/a", 4)]
    done("import", "--listing", "--last-wins", "--folders", "l.csv", *options)
    assert len(done("ls", "-r", "lakefs://lake/main/", "--json").lines) == 2


def test_a_bad_listing_is_refused(lake: Path, data: Path) -> None:
    Path("bad.csv").write_text("path,physical_address,Size,ETag\na,file:///a,many,e\n")
    result = run("import", "--listing", "bad.csv", "lakefs://lake/main/")
    assert result.code == 2
    assert "'bad.csv', row 2, column 'Size'" in result.err
    assert run("import", "--listing", "none.csv", "lakefs://lake/main/").code == 3
    assert run("import", "--listing", "list.csv", "lakefs://lake/nowhere/").code == 3
    assert run("import", "--listing", "list.csv", "lakefs://lake/main/d").code == 2
    assert run("import", "--listing", "lakefs://lake/main/").code == 2
    assert len(done("log", "lakefs://lake/main", "--json").lines) == 1
    put("main", "x", "1")
    assert run("import", "--listing", "list.csv", "lakefs://lake/main/").code == 5


@pytest.mark.parametrize(
    "option",
    [
        ("--source", "x"),
        ("--base", "s3://b/"),
        ("--columns", "a"),
        ("--no-url-encoded",),
        ("--last-wins",),
    ],
)
def test_options_of_listings_are_not_for_folders(lake: Path, data: Path, option: tuple[str, ...]) -> None:
    result = run("import", "data", "lakefs://lake/main/", *option)
    assert (result.code, "works only with --listing" in result.err) == (2, True)


def test_files_have_no_folder_markers(lake: Path, data: Path) -> None:
    result = run("import", "data", "lakefs://lake/main/", "--folders")
    assert (result.code, "files have no folder markers" in result.err) == (2, True)


def test_folders_are_imported_one_by_one(lake: Path, data: Path) -> None:
    result = run("import", "data/x", "data/y", "lakefs://lake/main/")
    assert (result.code, "one by one" in result.err) == (2, True)


@pytest.mark.parametrize("option", ["--source", "--base"])
def test_options_that_are_not_utf_8_are_refused(lake: Path, data: Path, option: str) -> None:
    result = run("import", "--listing", option, "\udcff", "list.csv", "lakefs://lake/main/")
    assert (result.code, "cannot be written as UTF-8" in result.err) == (2, True)


def test_a_mistyped_source_empties_no_folder(lake: Path, data: Path) -> None:
    done("import", "data", "lakefs://lake/main/raw/")
    Path("none").mkdir()
    Path("none.csv").write_text("path,physical_address,Size,ETag\n")
    for arguments in (("none",), (f"{Path('none').absolute().as_uri()}/",), ("--listing", "none.csv")):
        for option in ((), ("--dry-run",)):
            result = run("import", *arguments, *option, "lakefs://lake/main/raw/")
            assert (result.code, result.out) == (2, ""), result
            assert "lists no objects for 'raw/'" in result.err
            assert "--allow-empty" in result.err
    assert len(done("ls", "-r", "lakefs://lake/main/").out.splitlines()) == 3
    out = done("import", "none", "lakefs://lake/main/raw/", "--allow-empty", "--dry-run").out
    assert out == (
        "would import 0 files, 0 B, into lakefs://lake/main/raw/; nothing was changed\n  - 3 objects would be removed, 8 B\n"
    )
    assert len(done("ls", "-r", "lakefs://lake/main/").out.splitlines()) == 3
    assert done("import", "none", "lakefs://lake/main/raw/", "--allow-empty").out.endswith(
        "  - 3 objects removed, 8 B\n"
    )
    assert done("ls", "-r", "lakefs://lake/main/").out == ""


def test_a_source_that_is_empty_the_next_time_is_refused(lake: Path, data: Path) -> None:
    done("import", "data", "lakefs://lake/main/raw/")
    for name in TEXTS:
        (data / name).unlink()
    assert run("import", "data", "lakefs://lake/main/raw/").code == 2
    assert len(done("ls", "-r", "lakefs://lake/main/").out.splitlines()) == 3


@pytest.mark.parametrize("source", [("data",), ("--listing", "list.csv")])
def test_a_dry_run_says_what_the_import_says(lake: Path, data: Path, source: tuple[str, ...]) -> None:
    done("import", *source, "lakefs://lake/main/raw/")
    (data / "x/b").write_text("seven..")
    (data / "new").write_text("n")
    (data / "x/a").unlink()
    listed = {"path": "x/b", "physical_address": (data / "x/b").as_uri()}
    Path("list.csv").write_text(
        "path,physical_address,Size,ETag\n"
        f"{listed['path']},{listed['physical_address']},7,{md5(b'seven..').hexdigest()}\n"
        f"new,{(data / 'new').as_uri()},1,{md5(b'n').hexdigest()}\n"
        f"y/c,{(data / 'y/c').as_uri()},0,{md5(b'').hexdigest()}\n"
    )
    head = done("log", "lakefs://lake/main", "--json").lines
    planned = done("import", *source, "lakefs://lake/main/raw/", "--dry-run", "--json").json
    assert done("log", "lakefs://lake/main", "--json").lines == head
    text = done("import", *source, "lakefs://lake/main/raw/", "--dry-run").out
    made = done("import", *source, "lakefs://lake/main/raw/", "--json").json
    assert planned == {**made, "commit": None}
    assert made["changes"] == {
        "added": 1,
        "added_bytes": 1,
        "replaced": 1,
        "replaced_bytes_before": 5,
        "replaced_bytes_after": 7,
        "removed": 1,
        "removed_bytes": 3,
        "unchanged": 1,
        "unchanged_bytes": 0,
        "excluded": 0,
        "left_out": 0,
    }
    assert text.splitlines()[1:] == [
        "  + 1 object would be added, 1 B",
        "  ~ 1 object would be replaced, 5 B → 7 B",
        "  - 1 object would be removed, 3 B",
        "    1 object would be unchanged, 0 B",
    ]


def test_copied_files_may_change_and_files_in_place_come_with_a_warning(lake: Path, data: Path) -> None:
    in_place = run("import", "data", "lakefs://lake/main/in/")
    assert (in_place.code, in_place.err.startswith("warning: the files stay where they are: ")) == (0, True)
    copied = run("import", "data", "lakefs://lake/main/copy/", "--copy")
    assert (copied.code, copied.err) == (0, "")
    for file in data.rglob("*"):
        if file.is_file():
            file.write_text("changed")
    assert run("get", "-r", "lakefs://lake/main/in/", "out").code == 8
    assert done("get", "-r", "lakefs://lake/main/copy/", "out").code == 0
    refused = run("import", "s3://bucket/x/", "lakefs://lake/main/", "--copy")
    assert (refused.code, "objects of a store stay where they are" in refused.err) == (2, True)
