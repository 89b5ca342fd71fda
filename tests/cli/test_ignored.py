"""Files that import, put -r and ingest leave out: by ``.gravelerignore``, by ``--exclude``, and by default."""

import os
from pathlib import Path

import pytest

from graveler.cli.exits import ExitCode
from graveler.cli.local_files import LeftOut, warn_of_defaults
from graveler.cli.verbs.imports import IN_PLACE
from graveler.cli.verbs.ingest import _reasons
from tests.cli.support import Result, done, run, write_tree

FILES = {
    ".gravelerignore": "*.tmp\nscratch/\n!keep.tmp\n",
    "a.csv": "1",
    "b.tmp": "22",
    "keep.tmp": "333",
    ".hidden": "4444",
    "sub/.gravelerignore": "/a.csv\n",
    "sub/a.csv": "5",
    "sub/c.csv": "66",
    "sub/.env": "secret",
    "scratch/x": "7",
    ".git/config": "git",
}
TAKEN = [".hidden", "a.csv", "keep.tmp", "sub/c.csv"]
EVERYTHING = sorted(FILES)


@pytest.fixture
def source(working_folder: Path) -> Path:
    return write_tree(working_folder / "in", FILES)


def listed(branch: str = "main", prefix: str = "in/") -> list[str]:
    return [line.removeprefix(prefix) for line in done("ls", "-r", f"lakefs://lake/{branch}/{prefix}").out.splitlines()]


def succeeded(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.code == ExitCode.OK, result
    return result


def test_an_import_leaves_out_what_is_ignored(lake: Path, source: Path) -> None:
    for options in (["--dry-run"], []):
        result = succeeded("import", source, "lakefs://lake/main/in/", *options)
        assert "4 files, 10 B" in result.out
        assert "3 left out by .gravelerignore or --exclude\n" in result.out
        assert "warning: left out 2 files and folders of version control, secrets or tools" in result.err
        assert "--no-ignore takes what is left out" in result.err
    assert listed() == TAKEN
    document = succeeded("import", source, "lakefs://lake/main/in/", "--dry-run", "--json").json
    assert (document["changes"]["excluded"], document["changes"]["left_out"]) == (3, 2)
    assert document["changes"]["unchanged"] == 4


def test_patterns_of_the_command_line_come_last(lake: Path, source: Path) -> None:
    options = ("--exclude", "!.env", "--exclude", "*.csv", "--exclude", "!scratch/", "--exclude", "!b.tmp")
    assert (
        "warning: left out 1 file or folder of" in succeeded("import", source, "lakefs://lake/main/in/", *options).err
    )
    assert listed() == [".hidden", "b.tmp", "keep.tmp", "scratch/x", "sub/.env"]


def test_everything_is_taken_on_request(lake: Path, source: Path) -> None:
    assert succeeded("import", source, "lakefs://lake/main/in/", "--no-ignore").err in ("", f"warning: {IN_PLACE}\n")
    assert listed() == EVERYTHING
    succeeded("import", source, "lakefs://lake/main/in/", "--no-ignore", "--exclude", "*.tmp", "--exclude", "/.git/")
    assert listed() == [path for path in EVERYTHING if not path.endswith(".tmp") and path != ".git/config"]


def test_an_upload_of_a_folder_leaves_out_the_same(lake: Path, source: Path) -> None:
    result = succeeded("put", "-r", source, "lakefs://lake/main/in/")
    assert (
        result.out
        == "uploaded 4 files, 10 B, to lakefs://lake/main/in/\n  3 left out by .gravelerignore or --exclude\n"
    )
    assert "left out 2 files and folders of version control, secrets or tools: '.git/', 'sub/.env'; " in result.err
    assert listed() == TAKEN
    assert done("put", "-r", "--no-ignore", source, "lakefs://lake/main/all/").out.startswith("uploaded 11 files")
    assert listed(prefix="all/") == EVERYTHING
    succeeded("put", "-r", source, "lakefs://lake/main/some/", "--exclude", "sub", "--exclude", ".git")
    assert listed(prefix="some/") == [".hidden", "a.csv", "keep.tmp"]


def test_what_is_left_out_is_named_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_defaults(2, ["z/.env", ".git/"])
    LeftOut(["z", "a"], ["y", "b"]).warn()
    warnings = capsys.readouterr().err.splitlines()
    assert [
        line.index(first) < line.index(second)
        for line, first, second in zip(warnings, ("'.git/'", "'a'", "'b'"), ("'z/.env'", "'z'", "'y'"), strict=True)
    ] == [True] * 3


def test_a_watch_leaves_alone_the_same(lake: Path, source: Path) -> None:
    done("ingest", "rules", "add", "in", source, "lakefs://lake/main/in/", "--after-objects", "1000")
    watched = succeeded("ingest", "watch", source.parent, "--once", "--interval", "0.1", "--exclude", "keep.*")
    assert "left out 2 files and folders of version control" in watched.err
    assert listed() == [path for path in TAKEN if path != "keep.tmp"]
    # What is on the branch stays, also when it is named later; a reconciliation agrees.
    (source / ".gravelerignore").write_text("a.csv\n")
    succeeded("ingest", "watch", source.parent, "--once", "--interval", "0.1")
    assert listed() == [".hidden", "a.csv", "b.tmp", "keep.tmp", "scratch/x", "sub/c.csv"]
    report = done("ingest", "reconcile", "lake", "--dry-run", "--json").json
    assert (report["objects"], report["linked"], report["deleted"]) == (5, [], [])
    report = done("ingest", "reconcile", "lake", "--no-ignore", "--exclude", ".git", "--dry-run", "--json").json
    assert report["linked"] == ["in/.gravelerignore", "in/sub/.env", "in/sub/.gravelerignore", "in/sub/a.csv"]


def test_a_pipe_or_a_folder_with_the_name_holds_no_watch_up(tmp_path: Path) -> None:
    (tmp_path / "folder/.gravelerignore").mkdir(parents=True)
    os.mkfifo(tmp_path / ".gravelerignore")
    reason = _reasons([f"{tmp_path}/"], f"{tmp_path}/", (), ignore=True)
    assert [reason(f"{tmp_path}/{path}") for path in ("a", "folder/a")] == [None, None]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("put", "a", "lakefs://lake/main/a", "--exclude", "x"),
            "--exclude and --no-ignore apply to the files of a folder",
        ),
        (("put", "a", "lakefs://lake/main/a", "--no-ignore"), "they work only with -r"),
        (
            ("import", "s3://bucket/x/", "lakefs://lake/main/a/", "--exclude", "x"),
            "--exclude applies to the files of a folder",
        ),
        (
            ("import", "--listing", "a", "lakefs://lake/main/", "--no-ignore"),
            "--no-ignore applies to the files of a folder",
        ),
        (("import", ".", "lakefs://lake/main/a/", "--exclude", ""), "--exclude '' is no pattern"),
        (("put", "-r", ".", "lakefs://lake/main/a/", "--exclude", "a\nb"), "is no pattern"),
        (("ingest", "reconcile", "lake", "--exclude", "# x"), "is no pattern"),
    ],
)
def test_what_applies_to_folders_is_refused_elsewhere(lake: Path, arguments: tuple[str, ...], says: str) -> None:
    refused = run(*arguments)
    assert (refused.code, refused.out) == (ExitCode.INVALID, ""), refused
    assert says in refused.err
