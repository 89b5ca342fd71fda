"""Rules: which are valid, which may coexist, and that no change of them is lost."""

from typing import Any

import pytest
from msgspec.structs import replace

from graveler.errors import (
    AlreadyExistsError,
    CorruptError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    RefNotFoundError,
)
from graveler.ingest.results import Outcome
from graveler.ingest.rules import PARTITION, CommitPolicy, Rule, RuleStore, check_rule
from graveler.ingest.windows import Window
from graveler.storage.tables.port import Key
from tests.ingest.support import BUCKET, RULE, SOURCE, Shore
from tests.lake.support import NAME


def named(shore: Shore) -> list[str]:
    return [rule.name for rules in RuleStore(shore.tables).all() for rule in rules.rules]


def test_rules_are_added_listed_and_removed() -> None:
    shore = Shore()
    store = RuleStore(shore.tables)
    known = shore.repository().repository
    rule = replace(
        RULE,
        suffixes=(".csv",),
        commit=CommitPolicy(10, 60, "_SUCCESS", Window(3600, "YYYY/MM/DD/hh/")),
        metadata={"rule": "{rule}"},
    )
    made = shore.add(rule)
    assert made == replace(rule, id=made.id, since=made.since)
    assert store.of(known).rules == (made,)
    shore.add(replace(RULE, name="s", source="s3://landing/other/", destination="o/"))
    assert named(shore) == ["r", "s"]
    assert store.remove(known, "r") == made
    assert named(shore) == ["s"]
    with pytest.raises(NotFoundError, match="no ingest rule 'r'"):
        store.remove(known, "r")
    assert shore.add(rule).id != made.id


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": ""}, "not the name of a rule"),
        ({"name": "a/b"}, "not the name of a rule"),
        ({"branch": "a b"}, "a b"),
        ({"source": "landing/in/"}, "not the address"),
        ({"source": "s3://landing"}, "not the address"),
        ({"source": "s3://landing/in"}, "write 's3://landing/in/'"),
        ({"source": "s3://landing/\udcff/"}, "UTF-8"),
        ({"destination": "data"}, "end with '/'"),
        ({"destination": "/"}, "not start with it"),
        ({"suffixes": ("",)}, "empty suffix"),
        ({"commit": CommitPolicy(objects=-1)}, "negative"),
        ({"commit": CommitPolicy(seconds=-1)}, "negative"),
        ({"commit": CommitPolicy(marker="a/b")}, "is a path"),
        ({"commit": CommitPolicy(window=Window(0))}, "window"),
        ({"message": ""}, "must not be empty"),
        ({"message": "{nothing}"}, "contains 'nothing'"),
        ({"message": "{rule.__class__}"}, "only plain fields"),
        ({"message": "{objects:>1000000000}"}, "only plain fields"),
        ({"message": "{"}, "cannot be read"),
        ({"metadata": {"a": "{b}"}}, "contains 'b'"),
        ({"metadata": {"\udcff": "b"}}, "UTF-8"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        check_rule(replace(RULE, **changes))


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({}, AlreadyExistsError, "ingest rule 'r' already exists"),
        ({"name": "s"}, InvalidError, "overlaps 's3://landing/in/' of rule 'r'"),
        ({"name": "s", "source": SOURCE + "deep/", "destination": "o/"}, InvalidError, "would be ingested twice"),
        ({"name": "s", "source": "s3://landing/", "destination": "o/"}, InvalidError, "would be ingested twice"),
        ({"name": "s", "source": "s3://other/"}, InvalidError, "two sources would write to one path"),
        (
            {"name": "s", "source": "s3://other/", "destination": ""},
            InvalidError,
            "two sources would write to one path",
        ),
    ],
)
def test_rules_that_overlap_are_refused(changes: dict[str, Any], error: type[GravelerError], why: str) -> None:
    shore = Shore()
    shore.add()
    with pytest.raises(error, match=why):
        shore.add(replace(RULE, **changes))
    assert named(shore) == ["r"]


def test_suffixes_that_cannot_meet_do_not_overlap() -> None:
    shore = Shore()
    shore.add(replace(RULE, suffixes=(".csv", ".tsv")))
    shore.add(replace(RULE, name="s", suffixes=(".parquet",)))
    with pytest.raises(InvalidError, match="overlaps"):
        shore.add(replace(RULE, name="t", suffixes=(".gz", "2.csv")))


@pytest.mark.parametrize("source", ["mem://repo/", "mem://repo/data/", "mem://other/"])
def test_a_source_in_a_namespace_of_the_lake_is_refused(source: str) -> None:
    shore = Shore()
    shore.lake().create_repository("other", "mem://other/folder")
    with pytest.raises(InvalidError, match="overlap"):
        shore.add(replace(RULE, source=source))


def test_an_event_from_the_repositorys_own_namespace_is_poison() -> None:
    shore = Shore()
    made = shore.add()
    store = RuleStore(shore.tables)
    looped = replace(made, source="mem://repo/")
    store.change(shore.repository().repository, lambda _: (looped,))
    result = shore.ingester().process([replace(shore.bucket.put("data/a"), bucket="mem://repo")]).results[0]
    assert result.outcome.value == "poison"
    assert "own storage namespace" in result.reason


def test_a_rule_needs_its_branch_and_an_allowed_source() -> None:
    shore = Shore()
    with pytest.raises(RefNotFoundError):
        shore.add(replace(RULE, branch="no"))
    shore.repository().set_import_sources(["s3://elsewhere/"])
    with pytest.raises(ForbiddenError, match="does not allow objects of 's3://landing/in/'"):
        shore.add()
    shore.repository().set_import_sources(["s3://landing/"])
    shore.add()


def test_two_who_add_rules_at_once_lose_neither_and_never_overlap() -> None:
    shore = Shore()
    done: list[bool] = []

    def meanwhile(method: str, _: int) -> None:
        if method == "put" and not done:
            done.append(True)
            shore.add(replace(RULE, name="first", source="s3://landing/first/", destination="first/"))

    lake = shore.lake(meanwhile)
    RuleStore(lake.tables).add(lake, NAME, RULE)
    assert named(shore) == ["first", "r"]
    done.clear()

    def overlapping(method: str, _: int) -> None:
        if method == "put" and not done:
            done.append(True)
            shore.add(replace(RULE, name="faster", source="s3://landing/x/", destination="x/"))

    lake = shore.lake(overlapping)
    with pytest.raises(InvalidError, match="of rule 'faster'"):
        RuleStore(lake.tables).add(lake, NAME, replace(RULE, name="slow", source="s3://landing/x/", destination="y/"))


def test_what_lands_after_a_rule_was_made_is_taken_by_who_looked_before() -> None:
    shore = Shore()
    shore.add(RULE)
    ingester = shore.ingester()
    other = replace(RULE, name="other", source=f"{BUCKET}/other/", destination="other/")
    assert ingester.process([shore.bucket.put("other/early")]).results[0].outcome is Outcome.SKIPPED
    shore.add(other)
    assert ingester.process([shore.bucket.put("other/a")]).results[0].outcome is Outcome.STAGED
    RuleStore(shore.tables).remove(shore.repository().repository, "other")
    assert ingester.process([shore.bucket.put("other/b")]).results[0].outcome is Outcome.SKIPPED
    assert list(shore.branch(prefix="other/")) == ["other/a"]


def test_damaged_rules_are_named() -> None:
    shore = Shore()
    shore.add()
    uid = shore.repository().repository.uid
    shore.tables.put(Key(PARTITION, uid.encode()), {"rules": b"?", "version": 1, "repository": NAME})
    with pytest.raises(CorruptError, match=uid):
        RuleStore(shore.tables).of(shore.repository().repository)
    (found,) = RuleStore(shore.tables).all()
    assert (found.repository, found.rules) == (NAME, ())
    assert uid in found.damaged[0].reason


def test_too_many_rules_are_told_without_their_item() -> None:
    shore = Shore()

    def add(number: int) -> None:
        text = "x" * 60_000
        source, destination = f"{BUCKET}/{number}/", f"{number}/"
        shore.add(replace(RULE, name=f"r{number}", source=source, destination=destination, message=text))

    for number in range(6):
        add(number)
    with pytest.raises(InvalidError, match="has 6 ingest rules, and no more fit into 400,000 bytes") as told:
        add(6)
    assert "Key(" not in str(told.value)
    assert len(named(shore)) == 6
    RuleStore(shore.tables).remove(shore.repository().repository, "r0")
    add(6)
    assert len(named(shore)) == 6


def test_where_keys_go() -> None:
    rule = replace(RULE, suffixes=(".csv",), commit=CommitPolicy(marker="_SUCCESS"))
    assert rule.path("in/a/b.csv") == "data/a/b.csv"
    assert [rule.takes(key) for key in ("in/a.csv", "in/a", "out/a.csv", "in/.csv/")] == [True, False, False, False]
    assert [rule.is_marker(key) for key in ("in/x/_SUCCESS", "in/_SUCCESS", "in/a_SUCCESS", "_SUCCESS")] == [
        True,
        True,
        False,
        False,
    ]
    whole = Rule("w", "file:///", "main")
    assert (whole.bucket, whole.prefix, whole.path("tmp/a")) == ("file://", "", "tmp/a")
