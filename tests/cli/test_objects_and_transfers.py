"""put, get, cat, ls, stat, rm: their effects, JSON and errors."""

import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path

import pytest

from graveler.cli import terminal
from graveler.errors import InvalidError
from graveler.sdk.lake import open_lake
from graveler.values import globs
from tests.cli.support import commit, done, put, run, write_tree

ENTRY_FIELDS = {"path", "size", "checksum", "mtime", "content_type", "metadata", "address"}


def test_put_and_read_back(lake: Path) -> None:
    Path("report.csv").write_text("a,b\n")
    assert (
        done("put", "report.csv", "lakefs://lake/main/reports/").out
        == "uploaded 4 B to lakefs://lake/main/reports/report.csv\n"
    )
    assert done("cat", "lakefs://lake/main/reports/report.csv").out == "a,b\n"
    entry = done(
        "put", "report.csv", "lakefs://lake/main/r", "--content-type", "text/csv", "--meta", "a=b=c", "--json"
    ).json
    assert set(entry) == ENTRY_FIELDS
    assert (entry["path"], entry["size"], entry["content_type"], entry["metadata"]) == (
        "r",
        4,
        "text/csv",
        {"a": "b=c"},
    )
    assert entry["checksum"] == md5(b"a,b\n").hexdigest()
    assert done("stat", "lakefs://lake/main/r", "--json").json == entry
    assert "meta a:        b=c" in done("stat", "lakefs://lake/main/r").out


def test_put_reads_stdin_as_bytes(lake: Path) -> None:
    done("put", "-", "lakefs://lake/main/raw", stdin=b"\x00\xff\r\n")
    done("get", "lakefs://lake/main/raw")
    assert Path("raw").read_bytes() == b"\x00\xff\r\n"


def test_put_takes_more_from_stdin_than_it_keeps_in_memory(lake: Path) -> None:
    many = bytes(range(256)) * (40 << 10)
    assert done("put", "-", "lakefs://lake/main/many", "--json", stdin=many).json["checksum"] == md5(many).hexdigest()
    done("get", "lakefs://lake/main/many")
    assert Path("many").read_bytes() == many


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("put", "nothing", "lakefs://lake/main/x"), 3, "does not exist"),
        (("put", "folder", "lakefs://lake/main/x"), 2, "use -r to upload it"),
        (("put", "-r", "file", "lakefs://lake/main/x"), 2, "is not a folder"),
        (("put", "-r", "nothing", "lakefs://lake/main/x"), 3, "does not exist"),
        (("put", "-", "lakefs://lake/main/"), 2, "a path is missing"),
        (("put", "file", "lakefs://lake/nowhere/x"), 3, "no branch has this name"),
        (("put", "file", "lakefs://lake/main/x", "--meta", "a"), 2, "KEY=VALUE"),
        (("put", "file", "lakefs://lake/main/x", "--meta", "a=1", "--meta", "a=2"), 2, "twice"),
        (("put", "-r", ".", "lakefs://lake/main/x"), 2, "contains the lake itself"),
        (("get", "lakefs://lake/main/nothing"), 3, "does not exist"),
        (("get", "lakefs://lake/main/there", "file/x"), 9, "cannot write"),
        (("get", "-r", "lakefs://lake/main/there"), 2, "does not end with '/'"),
        (("get", "-r", "lakefs://lake/main/nothing/"), 3, "starts with"),
        (("get", "lakefs://lake/main/folder/"), 2, "name a file"),
        (("cat", "lakefs://lake/main/nothing"), 3, "does not exist"),
        (("stat", "lakefs://lake/main/nothing"), 3, "does not exist"),
        (("rm", "lakefs://lake/main/nothing"), 3, "does not exist"),
        (("rm", "-r", "lakefs://lake/main/the"), 2, "does not end with '/'"),
        (("rm", "lakefs://lake/main~1/there"), 2, "'main~1' is no branch: `graveler branch create"),
        (("ls", "lakefs://lake/nowhere/"), 3, "no branch, tag or commit"),
        (("ls", "main"), 2, "does not start with lakefs://"),
    ],
)
def test_what_goes_wrong_is_told(lake: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    write_tree(Path(), {"file": "x", "folder/file": "y"})
    put("main", "there", "1")
    put("main", "folder/", "a name that ends with a slash")
    result = run(*arguments)
    assert result.code == code
    assert result.err.startswith("error: ")
    assert says in result.err
    assert result.out == ""


def test_a_folder_goes_in_and_comes_out(lake: Path) -> None:
    files: dict[str, str | bytes] = {f"d{n % 3}/file {n}": f"text {n}" for n in range(40)}
    write_tree(Path("in"), files | {"ü": "umlaut", "empty": ""})
    assert (
        done("put", "-r", "in", "lakefs://lake/main/deep/er").out
        == "uploaded 42 files, 276 B, to lakefs://lake/main/deep/er\n"
    )
    listed = [line["path"] for line in done("ls", "-r", "lakefs://lake/main/", "--json").lines]
    assert len(listed) == 42
    assert all(path.startswith("deep/er/") for path in listed)
    got = done("get", "-r", "lakefs://lake/main/deep/er/", "out", "--json").lines
    assert set(got[0]) == {"path", "file", "size", "checksum"}
    assert {p.relative_to("out").as_posix(): p.read_text() for p in Path("out").rglob("*") if p.is_file()} == {
        **files,
        "ü": "umlaut",
        "empty": "",
    }


def test_recursive_put_prints_a_line_for_each_in_json(lake: Path) -> None:
    write_tree(Path("in"), {"b": "1", "a": "2"})
    lines = done("put", "-r", "in", "lakefs://lake/main/", "--json").lines
    assert [line["path"] for line in lines] == ["a", "b"]
    assert set(lines[0]) == ENTRY_FIELDS


def test_get_names_the_file(lake: Path) -> None:
    put("main", "a/b.txt", "text")
    Path("folder").mkdir()
    assert done("get", "lakefs://lake/main/a/b.txt").out == "downloaded 4 B to b.txt\n"
    done("get", "lakefs://lake/main/a/b.txt", "folder")
    fields = done("get", "lakefs://lake/main/a/b.txt", "new/name", "--json").json
    assert fields == {"path": "a/b.txt", "file": "new/name", "size": 4, "checksum": md5(b"text").hexdigest()}
    assert [Path(p).read_text() for p in ("b.txt", "folder/b.txt", "new/name")] == ["text"] * 3
    assert stat.S_IMODE(Path("b.txt").stat().st_mode) & stat.S_IRUSR
    assert done("get", "lakefs://lake/main/a/b.txt", "-").out == "text"


def test_a_slash_at_the_end_of_a_target_means_a_folder(lake: Path) -> None:
    for name in ("a.csv", "b.csv"):
        put("main", f"raw/{name}", name)
        assert done("get", f"lakefs://lake/main/raw/{name}", "out/").out == f"downloaded 5 B to out/{name}\n"
        done("get", f"lakefs://lake/main/raw/{name}", "deep/er/")
    for folder in ("out", "deep/er"):
        assert {path.name: path.read_text() for path in Path(folder).iterdir()} == {
            "a.csv": "a.csv",
            "b.csv": "b.csv",
        }
    Path("file").write_text("mine")
    for options in (("lakefs://lake/main/raw/a.csv",), ("-r", "lakefs://lake/main/raw/")):
        result = run("get", *options, "file/")
        assert (result.code, "'file' is not a folder" in result.err) == (2, True)
    result = run("export", "lakefs://lake/main/raw/", "file/")
    assert (result.code, "file' is not a folder" in result.err) == (4, True)
    for arguments in (("sql", "SELECT 1", "-o", "file/"), ("serve", "--audit-log", "file/")):
        result = run(*arguments)
        assert (result.code, "'file/' is the name of a folder" in result.err) == (2, True)
    assert Path("file").read_text() == "mine"
    done("put", "file", "lakefs://lake/main/new/")
    result = run("put", "-", "lakefs://lake/main/new/", stdin=b"1")
    assert (result.code, "has no name" in result.err) == (2, True)
    put("main", "raw/marker/", "1")
    done("cp", "lakefs://lake/main/raw/marker/", "lakefs://lake/main/new/")
    assert done("ls", "-r", "lakefs://lake/main/new/").out == "new/file\nnew/marker/\n"


def test_what_is_no_file_is_named_and_left_out(lake: Path) -> None:
    write_tree(Path("in"), {"a": "1", "d/b": "2"})
    os.mkfifo("in/d/pipe")
    Path("in/link").symlink_to("d/pipe")
    Path("in/nowhere").symlink_to("nothing")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("in/d/socket")
        links = "warning: 1 symbolic link was not followed, leading out of the folder, in circles, or nowhere: "
        document = run("import", "in", "lakefs://lake/main/in/", "--json").json
        assert [Path(path).name for path in document["special_files"]] == ["pipe", "socket", "link"]
        with open_lake(".graveler") as opened:
            adding = opened.repository("lake").branch("main").import_data().prefix(Path("in").absolute(), "again/")
            with pytest.raises(InvalidError, match="3 pipes, sockets or devices"):
                adding.run()
        for verb in (("import",), ("put", "-r")):
            result = run(*verb, "in", f"lakefs://lake/main/{verb[0]}/")
            warnings = result.err.replace(f"{Path().absolute()}/", "").splitlines()
            assert result.code == 0
            assert f"{links}'in/nowhere'" in warnings
            assert (
                "warning: left out 3 pipes, sockets or devices ('in/d/pipe', 'in/d/socket', 'in/link'), which no object can be"
                in warnings
            )
        result = run("put", "in/a", "in/d/pipe", "lakefs://lake/main/two/")
        assert (result.code, "'in/d/pipe' is a named pipe, not a file" in result.err) == (2, True)
    assert {path.split("/")[0] for path in done("ls", "-r", "lakefs://lake/main/").out.split()} == {
        "in",
        "import",
        "put",
    }


def test_a_named_pipe_is_uploaded_as_stdin_is(lake: Path) -> None:
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(Path("pipe").write_text, "through the pipe")
        done("put", "pipe", "lakefs://lake/main/new/")
        assert writing.result() == len("through the pipe")
    assert done("cat", "lakefs://lake/main/new/pipe").out == "through the pipe"


@pytest.mark.parametrize("path", ["x/../../evil", "x//y", "x/./y", "x/"])
def test_no_object_leaves_the_folder_that_it_is_got_into(lake: Path, path: str) -> None:
    put("main", f"p/{path}", "evil")
    result = run("get", "-r", "lakefs://lake/main/p/", "out")
    assert (result.code, "cannot be a file, and is left out" in result.err) == (2, True)
    assert not any(p.is_file() for p in Path("out").rglob("*"))


def test_a_changed_import_is_noticed_and_leaves_no_file(lake: Path) -> None:
    write_tree(Path("data"), {"a": "first", "b": "first"})
    done("import", "data", "lakefs://lake/main/")
    Path("data/a").write_text("other")
    Path("a").write_text("what was here")
    result = run("get", "lakefs://lake/main/a", "a")
    assert (result.code, "restore them" in result.err) == (8, True)
    assert run("cat", "lakefs://lake/main/a").code == 8
    assert Path("a").read_text() == "what was here"
    assert sorted(p.name for p in Path().iterdir()) == [".graveler", "a", "data"]
    Path("data/a").unlink()
    assert run("cat", "lakefs://lake/main/a").code == 3


def test_an_import_that_trusts_sizes_and_times_says_so_and_notices_others(lake: Path) -> None:
    folder = write_tree(Path("data"), {"a": "first", "b": "first"})
    for path in folder.iterdir():
        os.utime(path, ns=(10**18, 10**18))
    trusting = ("import", "--trust-mtime", "data", "lakefs://lake/main/")
    assert "2 objects added" in done(*trusting).out
    assert done("stat", "lakefs://lake/main/a", "--json").json["checksum"] == f"mtime:{10**18}"
    assert f"mtime:{10**18} (not of the bytes" in done("stat", "lakefs://lake/main/a").out
    assert done("cat", "lakefs://lake/main/a").out == "first"
    assert "2 objects would be unchanged" in done(*trusting, "--dry-run").out
    (folder / "a").write_text("other")  # of the same size, and newer
    result = run("get", "lakefs://lake/main/a", "a")
    assert (result.code, "modified since" in result.err, Path("a").exists()) == (8, True, False)
    found = run("fsck", "lakefs://lake", "--all-objects", "--outside")
    assert (found.code, "was modified after" in found.out) == (8, True)
    assert "1 object replaced" in done(*trusting).out
    assert done("cat", "lakefs://lake/main/a").out == "other"


@pytest.mark.parametrize("source", [("--listing", "list.csv"), ("s3://bucket/",)])
def test_times_are_trusted_of_files_alone(lake: Path, source: tuple[str, ...]) -> None:
    Path("list.csv").write_text("Key,Size,ETag\n")
    result = run("import", "--trust-mtime", *source, "lakefs://lake/main/")
    assert (result.code, "only to files" in result.err) == (2, True)


def test_ls_rolls_up_what_is_behind_the_next_slash(lake: Path) -> None:
    for path in ("a/1", "a/2", "b", "ab/3"):
        put("main", path, "12345")
    assert done("ls", "lakefs://lake/main/").out == "a/\nab/\nb\n"
    assert done("ls", "lakefs://lake/main").out == "a/\nab/\nb\n"
    assert done("ls", "lakefs://lake/main/a").out == "a/\nab/\n"
    assert done("ls", "-r", "lakefs://lake/main/a").out == "a/1\na/2\nab/3\n"
    assert done("ls", "--delimiter", "b", "lakefs://lake/main/a").out == "a/1\na/2\nab\n"
    long = done("ls", "-l", "lakefs://lake/main/").out.splitlines()
    assert long[0].strip() == "a/"
    assert long[2].endswith("       5 B  b")
    lines = done("ls", "lakefs://lake/main/", "--json").lines
    assert lines[0] == {"type": "prefix", "path": "a/"}
    assert (lines[2]["type"], set(lines[2])) == ("object", ENTRY_FIELDS | {"type"})
    missing = run("ls", "lakefs://lake/main/zzz")
    assert (missing.code, missing.out) == (3, "")
    assert (
        missing.err
        == "error: no path in 'main' starts with 'zzz'. `graveler ls lakefs://lake/main/` lists what there is\n"
    )
    done("branch", "create", "lakefs://lake/empty")
    for arguments in (("ls",), ("ls", "-r"), ("rm", "-r")):
        assert "starts" not in done(*arguments, "lakefs://lake/empty/").out
        assert run(*arguments, "lakefs://lake/empty/a/").code == 3
    assert run("rm", "-r", "lakefs://lake/main/zzz/", "--dry-run").code == 3


def test_ls_goes_on_through_all_pages(lake: Path) -> None:
    write_tree(Path("data"), {f"{n:05}": "" for n in range(2300)})
    done("import", "data", "lakefs://lake/main/")
    assert done("ls", "lakefs://lake/main/").out.split() == [f"{n:05}" for n in range(2300)]


def test_control_characters_do_not_reach_the_screen(lake: Path) -> None:
    put("main", "bad\x1b[2J\nname", "x")
    assert done("ls", "lakefs://lake/main/").out == "bad\\x1b[2J\\nname\n"
    assert done("ls", "lakefs://lake/main/", "--json").lines[0]["path"] == "bad\x1b[2J\nname"


def test_a_branch_shows_uncommitted_changes_and_with_at_none(lake: Path) -> None:
    put("main", "a", "1")
    commit("main", "One")
    put("main", "b", "2")
    assert done("ls", "lakefs://lake/main/").out == "a\nb\n"
    assert done("ls", "lakefs://lake/main@/").out == "a\n"


def test_rm_of_one_and_of_a_folder(lake: Path) -> None:
    for path in ("a", "d/1", "d/2", "dd"):
        put("main", path, "x")
    assert done("rm", "lakefs://lake/main/a").out == "removed a\n"
    assert done("rm", "-r", "--dry-run", "lakefs://lake/main/d/").out == (
        "would remove d/1\nwould remove d/2\nwould remove 2 objects\n"
    )
    assert done("ls", "-r", "lakefs://lake/main/").out == "d/1\nd/2\ndd\n"
    assert done("rm", "-r", "lakefs://lake/main/d/", "--json").lines == [
        {"path": "d/1", "removed": True},
        {"path": "d/2", "removed": True},
    ]
    assert done("rm", "--dry-run", "lakefs://lake/main/dd", "--json").json == {"path": "dd", "removed": False}
    assert done("rm", "-r", "lakefs://lake/main/").out == "removed 1 object\n"
    assert done("ls", "lakefs://lake/main/").out == ""


def test_put_r_follows_links_inside_the_folder_and_tells_of_others(lake: Path, working_folder: Path) -> None:
    write_tree(Path("data"), {"a/x": "1", "b/y": "2"})
    Path("data/link").symlink_to("a")
    Path("data/file").symlink_to("b/y")
    Path("data/a/up").symlink_to("..")
    Path("data/out").symlink_to(working_folder)
    result = run("put", "-r", "data", "lakefs://lake/main/in/")
    assert (result.code, result.out.split(",")[0]) == (0, "uploaded 4 files")
    assert result.err.startswith("warning: 3 symbolic links were not followed")
    assert all(link in result.err for link in ("'data/a/up'", "'data/link/up'", "'data/out'"))
    listed = done("ls", "-r", "lakefs://lake/main/in/").out.split()
    assert listed == ["in/a/x", "in/b/y", "in/file", "in/link/x"]


def test_get_r_leaves_out_what_cannot_be_a_file(lake: Path) -> None:
    for path in ("d/", "d/a", "d/a/b", "d/c"):
        put("main", path, "" if path == "d/" else "1")
    result = run("get", "-r", "lakefs://lake/main/d/", "out")
    assert result.code == 2
    assert sorted(path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()) == [
        "a/b",
        "c",
    ]
    first, second, *rest = result.err.splitlines()
    assert first == "warning: left out 1 empty folder marker, which no file can be"
    assert second.startswith("error: 1 object cannot be a file, and is left out: 'd/a' is also a folder")
    assert rest == ["  d/a  is also a folder of another object"]
    put("main", "e/", "")
    put("main", "e/x", "1")
    result = run("get", "-r", "lakefs://lake/main/e/", "out2")
    assert (result.code, result.out[:17]) == (0, "downloaded 1 file")
    assert result.err == "warning: left out 1 empty folder marker, which no file can be\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.csv", "text/csv"),
        ("a.csv.gz", "application/gzip"),
        ("x.tar.gz", "application/gzip"),
        ("t.parquet", "application/vnd.apache.parquet"),
        ("data:x.json", "application/json"),
        ("plain", "application/octet-stream"),
        ("a.b/plain", "application/octet-stream"),
    ],
)
def test_the_content_type_is_guessed_only_on_request_and_shown(lake: Path, path: str, kind: str) -> None:
    Path("file.html").write_text("1")
    target = f"lakefs://lake/main/{path}"
    for options, expected in (
        ((), "application/octet-stream"),
        (("--content-type", "x/y"), "x/y"),
        (("--guess-type",), kind),
    ):
        assert done("put", "file.html", target, *options, "--json").json["content_type"] == expected
    assert done("put", "file.html", target, "--guess-type").out == f"uploaded 1 B to {target}; guessed type: {kind}\n"
    assert run("put", "file.html", target, "--guess-type", "--content-type", "x/y").code == 2


def test_the_guessed_types_of_many_files_are_counted(lake: Path) -> None:
    for name in ("a.csv", "b.csv", "c.txt"):
        Path(name).write_text("1")
    out = done("put", "a.csv", "b.csv", "c.txt", "lakefs://lake/main/t/", "--guess-type").out
    assert out == "uploaded 3 files, 3 B, to lakefs://lake/main/t/; guessed types: 2 text/csv, 1 text/plain\n"


def test_put_takes_several_files(lake: Path) -> None:
    write_tree(Path(), {"a.csv": "1", "x/b.csv": "22", "x/a.csv": "333"})
    assert done("put", "a.csv", "x/b.csv", "lakefs://lake/main/raw/").out == (
        "uploaded 2 files, 3 B, to lakefs://lake/main/raw/\n"
    )
    assert done("ls", "-r", "lakefs://lake/main/").out == "raw/a.csv\nraw/b.csv\n"
    lines = done("put", "a.csv", "x/b.csv", "lakefs://lake/main", "--json").lines
    assert [line["path"] for line in lines] == ["a.csv", "b.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ("x/b.csv", "a.csv", "x/a.csv", "lakefs://lake/main/raw/"),
            2,
            "'a.csv' and 'x/a.csv' would both be 'raw/a.csv'",
        ),
        (("x/b.csv", "a.csv", "lakefs://lake/main/raw"), 2, "2 files need a folder, but 'raw' does not end with '/'"),
        (("x/b.csv", "-", "lakefs://lake/main/raw/"), 2, "stdin"),
        (("x/b.csv", "nothing", "lakefs://lake/main/raw/"), 3, "'nothing' does not exist"),
        (("a.csv", "x", "lakefs://lake/main/raw/"), 2, "'x' is a folder"),
        (("-r", "x", "y", "lakefs://lake/main/raw/"), 2, "-r uploads one folder, but 2 are named"),
        (("x/b.csv", "a.csv", "lakefs://lake/nowhere/raw/"), 3, "nowhere"),
    ],
)
def test_several_files_are_refused_before_any_is_sent(
    lake: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    write_tree(Path(), {"a.csv": "1", "x/b.csv": "22", "x/a.csv": "333", "y/c": "1"})
    result = run("put", *arguments)
    assert (result.code, result.out) == (code, "")
    assert says in result.err
    assert done("ls", "lakefs://lake/main/").out == ""


@pytest.fixture
def some(lake: Path) -> None:
    for path in ("raw/2026-01.csv", "raw/2026-02.csv", "raw/2026-02.txt", "raw/old/2026-03.csv", "raw/2026-*.csv"):
        put("main", path, "22")


@pytest.mark.usefixtures("some")
def test_rm_of_a_pattern_asks_with_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    done("rm", "lakefs://lake/main/raw/2026-*.csv")
    refused = run("rm", "lakefs://lake/main/raw/2026-*.csv")
    assert (refused.code, refused.out) == (5, "")
    assert refused.err == (
        "error: 'raw/2026-*.csv' matches 2 objects, 4 B: use --yes; nothing was removed. --dry-run lists them\n"
    )
    answers = [False, True]
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr(terminal, "confirm", confirm)
    assert run("rm", "lakefs://lake/main/raw/2026-*.csv").code == 5
    assert done("rm", "lakefs://lake/main/raw/2026-*.csv", "--dry-run").out.splitlines() == [
        "would remove raw/2026-01.csv",
        "would remove raw/2026-02.csv",
        "would remove 2 objects",
    ]
    assert done("rm", "lakefs://lake/main/raw/2026-*.csv").out == "removed 2 objects\n"
    assert asked == ["Remove 2 objects, 4 B, from branch 'main'?"] * 2
    assert done("rm", "lakefs://lake/main/raw/*.t?t").out == "removed raw/2026-02.txt\n"
    assert done("rm", "lakefs://lake/main/raw/**/*.csv", "--json").lines == [
        {"path": "raw/old/2026-03.csv", "removed": True}
    ]
    missing = run("rm", "lakefs://lake/main/raw/2026-*.csv")
    assert missing.code == 3
    assert missing.err == (
        "error: no path in 'main' matches 'raw/2026-*.csv'; `graveler ls lakefs://lake/main/raw/` lists what there is\n"
    )


@pytest.mark.usefixtures("some")
def test_a_path_that_holds_an_asterisk_is_removed_itself() -> None:
    assert done("rm", "lakefs://lake/main/raw/2026-*.csv").out == "removed raw/2026-*.csv\n"
    assert done("ls", "lakefs://lake/main/raw/2026-").out == "raw/2026-01.csv\nraw/2026-02.csv\nraw/2026-02.txt\n"


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a/*.csv", "a/b.csv", True),
        ("a/*.csv", "a/b/c.csv", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/x/y/c", True),
        ("a/**/c", "a/x/y/d", False),
        ("**", "a/b", True),
        ("**/**/x", "x", True),
        ("a/[bc]?", "a/b1", True),
        ("a/[bc]?", "a/d1", False),
        ("*", "A", True),
        ("a*", "A", False),
        ("a/*", "a/", True),
        ("a/*", "a", False),
    ],
)
def test_patterns_are_those_of_a_shell(pattern: str, path: str, fits: bool) -> None:
    assert globs.matches(pattern, path) is fits
    assert path.startswith(globs.beginning(pattern)) or not fits
