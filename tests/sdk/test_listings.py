"""Listings send requests only as far as they are read, and all pages show one state where possible."""

from itertools import islice

import pytest

from graveler.model import ObjectEntry
from graveler.sdk.branch import Branch
from graveler.sdk.repository import Repository
from tests.sdk.conftest import CountedLake
from tests.support.notebooks import html_of

SHARDS = 16


@pytest.fixture
def many(repo: Repository) -> Branch:
    """A branch of 2,500 objects."""
    main = repo.branch("main")
    add(repo, main, "o", 2500)
    main.commit("many")
    return main


def add(repo: Repository, branch: Branch, prefix: str, number: int) -> None:
    entries = [ObjectEntry(f"{prefix}{n:05}", f"mem://o/{prefix}{n}", 1, "00" * 16, 0) for n in range(number)]
    repo.own.link_many(branch.id, entries)


def test_a_page_is_asked_for_when_it_is_reached(lake: CountedLake, repo: Repository, many: Branch) -> None:
    listing = repo.ref(many.head.id).objects()
    next(listing)
    after_one = lake.requests
    assert len(list(islice(listing, 999))) == 999
    assert lake.requests == after_one
    assert len(list(listing)) == 1500
    assert lake.requests == after_one + 2  # of each page the commit's ID is resolved; the rest is near


def test_a_small_amount_is_asked_for_as_such(lake: CountedLake, repo: Repository) -> None:
    for name in "abcdef":
        repo.branch(name).create("main")
    before = lake.requests
    assert [branch.id for branch in repo.branches(max_amount=3)] == ["a", "b", "c"]
    assert lake.requests <= before + 2 * SHARDS


def test_a_diff_is_of_the_commits_that_were_there_when_it_began(repo: Repository, many: Branch) -> None:
    dev = repo.branch("dev").create("main~1")
    changes = dev.diff(many)
    add(repo, many, "z", 10)
    many.commit("more")
    assert sum(1 for _ in changes) == 2500


def test_a_log_is_of_the_commit_that_was_there_when_it_began(repo: Repository) -> None:
    main = repo.branch("main")
    log = main.log()
    main.commit("later", allow_empty=True)
    assert [commit.message for commit in log] == ["Repository created"]


def test_a_table_costs_the_page_that_comes_next(lake: CountedLake, repo: Repository, many: Branch) -> None:
    head = many.head.id
    before = lake.requests
    listing = repo.ref(head).objects()
    assert repr(listing) == f"Listing('objects of lakefs://demo/{head}')"
    assert lake.requests == before, "a name costs nothing"
    html_of(listing)
    after_one = lake.requests
    html_of(listing)
    assert len(list(islice(listing, 900))) == 900
    html_of(listing)
    assert lake.requests == after_one
    assert len(list(islice(listing, 90))) == 90
    html_of(listing)
    assert lake.requests == after_one + 1, "20 rows and whether more follow are in two pages"
    assert len(list(listing)) == 1510
    assert lake.requests == after_one + 2


def test_a_loop_costs_nothing_for_its_table(repo: Repository) -> None:
    listing = repo.ref("main").log()
    assert iter(listing) is iter(listing) is not listing, "it runs on what joins the pages"
    assert next(iter(listing)) is not None
    assert next(listing, None) is None
