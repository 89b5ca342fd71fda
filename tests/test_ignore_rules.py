"""``.gravelerignore``: the same files are left out as Git leaves out by ``.gitignore``; and what is left out by default."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.values.ignore_rules import DEFAULTS, IGNORE_FILE, FolderRules, IgnoreRules, LeftOutFiles, Reason

NAMES = ("a", "b", "ab", "a.b", "-", "A", "a b", "[a]", "x!")
FILES = tuple(
    f"{above}{name}" for above in ("", "a/", "b/", "a/b/", "ab/a/", "a/b/a/") for name in ("q", *NAMES[4:], "z.b")
)
"""Files whose folders have names that files elsewhere have, too."""

segments = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "q",
        "*",
        "**",
        "a*",
        "*b",
        "*.b",
        "?",
        "??",
        "\\a",
        "a b",
        "\\[a]",
        "x\\!",
        "[ab]",
        "[!a]",
        "[^b]",
        "[]a]",
        "[a-c]",
        "[A-Z]",
        "[[:alpha:]]",
        "[[:upper:]b]",
        "[[:none:]]",
        "[a",
        "[!]a]",
        "[-a]",
        "[a-]",
        "[\\]a]",
        "[c-a]",
        "[[:a]",
        "\\",
        "-",
        "z.?",
        "***",
    ]
)
lines = st.builds(
    lambda mark, first, parts, end: mark + first + "/".join(parts) + end,
    st.sampled_from(["", "", "!", "#", "\\#", "\\!", "!!"]),
    st.sampled_from(["", "", "/", "//"]),
    st.lists(segments, min_size=0, max_size=4),
    st.sampled_from(["", "", "/", " ", "\\ ", "/ ", "\r", "//"]),
)
files_of_patterns = st.lists(lines, max_size=5).map("\n".join)


def walked(files: Mapping[str, str], rules: FolderRules, folder: str = "") -> Iterator[str]:
    """What a walk takes of a tree, whose files of patterns have their text as values."""
    if folder + IGNORE_FILE in files:
        rules = rules.with_file(files[folder + IGNORE_FILE].encode())
    names = {path.removeprefix(folder).partition("/")[0::2] for path in files if path.startswith(folder)}
    folders = {name for name, below in names if below}
    for name in sorted(folders):
        if rules.reason(name, is_folder=True) is None:
            yield from walked(files, rules.inside(name), f"{folder}{name}/")
    for name in sorted({name for name, below in names if not below} - folders):
        if rules.reason(name, is_folder=False) is None:
            yield folder + name


@pytest.fixture(scope="module")
def working_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    git = shutil.which("git")
    if git is None:
        pytest.skip("Git is not installed")
    folder = tmp_path_factory.mktemp("tree")
    subprocess.run([git, "init", "--quiet", folder], check=True)
    for path in FILES:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return folder


@example(outer="a/**\n!a/b/\n", inner="!q")
@example(outer="*\n!*/\n!*.b", inner="z.b")
@example(outer="**/a/*\n", inner="")
@example(outer="\ufeffq\r\n", inner="q\\ ")
@given(outer=files_of_patterns, inner=files_of_patterns)
@settings(max_examples=60, deadline=None)
def test_a_walk_takes_what_git_takes(working_tree: Path, outer: str, inner: str) -> None:
    texts = {"": outer, "a/b/": inner}
    for folder, text in texts.items():
        (working_tree / folder / ".gitignore").write_bytes(text.encode())
    listed = subprocess.run(
        ["git", "-C", working_tree, "ls-files", "--others", "--exclude-per-directory=.gitignore", "-z"],
        capture_output=True,
        check=True,
    )
    expected = {path for path in listed.stdout.decode().split("\0") if path and not path.endswith(".gitignore")}
    files = {**dict.fromkeys(FILES, ""), **{folder + IGNORE_FILE: text for folder, text in texts.items()}}
    plain = FolderRules("", (), 0, is_reading=True)
    assert {path for path in walked(files, plain) if not path.endswith(IGNORE_FILE)} == expected
    of_paths = IgnoreRules(lambda folder: texts[folder].encode() if folder in texts else None)
    assert {path for path in FILES if of_paths.reason(path) is None} == set(expected)


@pytest.mark.parametrize(
    "pattern", ["*a" * 30 + "*b", "*?" * 30 + "*b", "**/" * 30 + "b", "**/a/*/" * 12 + "b", "**\\/a/" * 12 + "b"]
)
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """Without a bound, each of these would run until the end of time."""
    rules = IgnoreRules(lambda _: None, [pattern])
    assert rules.reason("a" * 200 + "c") is None
    assert rules.reason("a/" * 60 + "c") is None


def taken(*paths: str, exclude: tuple[str, ...] = (), ignore: bool = True, text: str | None = None) -> list[str]:
    rules = IgnoreRules(
        lambda folder: text.encode() if text is not None and not folder else None, exclude, ignore=ignore
    )
    return [path for path in paths if rules.reason(path) is None]


def test_secrets_and_folders_of_tools_are_left_out_by_default() -> None:
    never = (
        ".git/config",
        "a/.env",
        ".env.local",
        "a/b/.aws/credentials",
        "x/__pycache__/y.pyc",
        ".DS_Store",
        IGNORE_FILE,
    )
    data = ("a.csv", ".hidden", "_SUCCESS", ".github/x", ".env.example", "env", "git/x", ".environment", ".aws")
    assert taken(*never, *data) == list(data)
    assert taken(*never, *data, ignore=False) == [*never, *data]
    assert {line.strip("!/") for line in DEFAULTS} >= {".git", ".env", ".ssh"}


def test_patterns_of_the_caller_stand_for_the_last_lines() -> None:
    paths = ("a.csv", "a.tmp", "b.tmp", ".env")
    assert taken(*paths, text="*.tmp\n") == ["a.csv"]
    assert taken(*paths, text="*.tmp\n!.env") == ["a.csv", ".env"]
    assert taken(*paths, text="*.tmp\n", exclude=("!b.tmp", "a.csv", "!.env")) == ["b.tmp", ".env"]
    assert taken(*paths, text="*.tmp\n", exclude=("a.csv",), ignore=False) == ["a.tmp", "b.tmp", ".env"]


def test_what_is_left_out_is_counted_and_named() -> None:
    left_out = LeftOutFiles()
    for number in range(1500):
        left_out.add(Reason.DEFAULT, f"{number}/.env")
    left_out.add(Reason.PATTERN, "a.tmp")
    left_out.add(Reason.IS_IGNORE_FILE, IGNORE_FILE)
    assert (left_out.by_pattern, left_out.by_default, len(left_out.paths)) == (1, 1500, 1000)


def test_the_page_names_what_is_left_out_by_default() -> None:
    page = (Path(__file__).parents[1] / "docs/ingest.md").read_text()
    section = page.partition("## Files that are left out")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert {line.removeprefix("!") for line in DEFAULTS} == set(re.findall("`(.*?)`", "".join(rows)))
