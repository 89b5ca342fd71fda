"""The glossary is in order, each entry is short and linked, and it has the words that other pages define or refer to."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs_site.http_api import slug
from tests.docs_site.sources import ROOT, copied

TEXT = (ROOT / "docs" / "glossary.md").read_text()
ENTRIES = dict(re.findall(r"^## ([^\n]+)\n\n(.+?)(?=\n\n## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


def test_terms_are_in_order_and_each_is_there_once() -> None:
    terms = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    assert set(terms) == set(ENTRIES)


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_is_one_or_two_sentences_and_links_to_a_page(term: str) -> None:
    text = " ".join(re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", ENTRIES[term])).split())
    assert "\n\n" not in ENTRIES[term]
    assert 1 <= len(re.findall(r"[.](?= |$)", text)) <= 2
    assert re.search(r"\]\(\w+\.md", ENTRIES[term])


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_does_not_refer_to_itself(term: str) -> None:
    assert f"(#{slug(term)})" not in ENTRIES[term]


@pytest.mark.parametrize("page", [name for name in copied() if name.endswith(".md")])
def test_each_term_that_a_page_links_to_is_there(page: str) -> None:
    """From other pages, and within the glossary."""
    pattern = r"\]\(#([^)]+)\)" if page == "docs/glossary.md" else r"\]\([^)#]*glossary\.md#([^)]+)\)"
    assert set(re.findall(pattern, (ROOT / page).read_text())) <= {slug(term) for term in ENTRIES}


def test_it_has_the_words_of_the_architecture() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Words\n")[2]
    words = re.findall(r"^\| ([a-z]+) \|", section, re.MULTILINE)
    assert "metarange" in words
    terms = {term.lower() for term in ENTRIES}
    other = {"word": "glossary", "staged": "staged change", "namespace": "storage namespace"}
    assert {other.get(word, word) for word in words} - {"glossary"} <= terms


def test_the_page_about_the_installation_names_every_extra() -> None:
    extras = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert named == set(extras) - {"cli", "clients", "dev"}
    (all_,) = extras["all"]
    row = next(line for line in page.splitlines() if line.startswith("| `all` |"))
    assert set(re.findall(r"`(\w+)`", row)) - {"all"} == set(
        all_.removeprefix("graveler[").removesuffix("]").split(",")
    )
