"""The navigation names every page once; pages become the Markdown that the generator understands."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs_site.sources import (
    ROOT,
    NavigationError,
    assemble,
    check,
    copied,
    for_python_markdown,
    navigation,
    written_out,
)
from tests.make_site import BUILT, announcement, made
from tests.support.shell import Shell


def pages() -> list[str]:
    return [*(name for name in copied() if name.endswith(".md")), *made()]


def test_the_navigation_names_every_page_once() -> None:
    check(written_out(navigation(), pages()), pages())


@pytest.mark.parametrize(
    ("items", "fault"),
    [
        (["a.md", {"More": ["c.md"]}], "b.md is not in the navigation"),
        (["a.md", {"More": ["b.md", "c.md", "d.md"]}], "d.md does not exist"),
        (["a.md", {"More": ["b.md", "c.md", {"Again": "a.md"}]}], "a.md is there twice"),
    ],
)
def test_a_page_that_is_missing_or_superfluous_is_named(items: list[object], fault: str) -> None:
    with pytest.raises(NavigationError, match=fault):
        check(items, ["a.md", "b.md", "c.md"])


def test_a_pattern_stands_for_the_pages_that_no_entry_names_and_the_folders_own_page_comes_first() -> None:
    page_names = ["a.md", "docs/x/1.md", "docs/x/2.md", "docs/x/README.md", "docs/x/named.md"]
    items = ["a.md", {"Named": "docs/x/named.md"}, {"All": ["docs/x/*.md"]}, {"None": ["docs/y/*.md"]}]
    assert written_out(items, page_names) == [
        "a.md",
        {"Named": "docs/x/named.md"},
        {"All": ["docs/x/README.md", "docs/x/1.md", "docs/x/2.md"]},
    ]


@pytest.mark.parametrize(
    ("github", "python"),
    [
        ("```python served\nx\n```\n", "```python\nx\n```\n"),
        (
            "- a\n  b\n\n  ```yaml\n  k:\n    v\n  ```\n\nend\n",
            "- a\n    b\n\n    ```yaml\n    k:\n      v\n    ```\n\nend\n",
        ),
        ("1. a\n   - b\n\nx\n\n    code\n", "1. a\n    - b\n\nx\n\n    code\n"),
        ("1. a\n\n   b\n2. c\n3. d\n", "1. a\n\n    b\n\n2. c\n3. d\n"),
        ("- a\nb\n  c\n", "- a\nb\n    c\n"),
        ("```sh\n- a\n  b\n```\n\n    code\n", "```sh\n- a\n  b\n```\n\n    code\n"),
    ],
)
def test_lists_and_fences_keep_their_meaning(github: str, python: str) -> None:
    assert for_python_markdown(github) == python


def test_the_sources_are_the_pages_and_a_configuration_that_names_them(tmp_path: Path) -> None:
    configuration = assemble(tmp_path / "site", made())
    project = tomllib.loads(configuration.read_text())["project"]
    assert project["theme"]["font"] is False
    assert (tmp_path / "site" / project["docs_dir"] / "docs" / "openapi.json").is_file()
    written = (tmp_path / "site" / project["docs_dir"]).rglob("*.md")
    assert {path.relative_to(tmp_path / "site" / project["docs_dir"]).as_posix() for path in written} >= set(pages())


def test_the_page_of_the_design_records_lists_each() -> None:
    folder = ROOT / "docs" / "design"
    listed = re.findall(r"^\| \[(\d{4})\]\((\1-[\w-]+\.md)\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name in listed] == sorted(path.name for path in folder.glob("0*.md"))


def test_the_build_says_how_to_serve_the_site(shell: Shell) -> None:
    shell.cd(ROOT)
    assert announcement(BUILT / "html") == (
        "built build/docs/html/index.html, which a browser can open\n"
        "to serve it at http://127.0.0.1:8000/: python3 -m http.server -d build/docs/html --bind 127.0.0.1\n"
    )
