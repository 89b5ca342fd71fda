"""Unusual keys: events, reconciliation and imports take every key of S3; keys that no lake can have are reported."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.ingest.results import Outcome
from graveler.requests.importing import AddressType, ImportAddress
from tests.ingest.support import BUCKET, RULE, SOURCE, Shore
from tests.ingest.test_reconcile import reconcile
from tests.ingest.test_watching import Place, failures
from tests.support.campaigns import examples

ODD = ["a//b", "/a", "//", "a/./b", "a/../b", "../x", "..", ".", "./y", "in/../..", " ", "a\nb", "é" * 500 + "//x"]
BELOW = st.lists(st.sampled_from(["", ".", "..", "a", "b c", "é+%2B"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(BELOW.filter(lambda key: not key.endswith("/") and key != ""), min_size=1, unique=True))
@settings(max_examples=examples(60), deadline=None)
def test_any_key_of_s3_is_taken_by_events_and_found_the_same_by_reconciling(below: list[str]) -> None:
    events, listing = Shore(), Shore()
    for shore in (events, listing):
        rule = shore.add()
        for key in below:
            shore.bucket.put(f"in/{key}", key)
        if shore is events:
            results = shore.ingester().process(shore.bucket.events).results
            assert {result.outcome for result in results} == {Outcome.STAGED}
        report = reconcile(shore, rule)
        assert (report.linked_count, report.refused) == (len(below) if shore is listing else 0, ())
        assert shore.branch() == shore.bucket.held()
        for key in below:
            assert shore.repository().read("main", f"data/{key}") == key.encode()


@pytest.mark.parametrize("source", [f"{BUCKET}/", f"{BUCKET}//x/", f"{BUCKET}/a/../"])
def test_sources_may_be_odd_too(source: str) -> None:
    shore = Shore()
    shore.add(replace(RULE, source=source))
    prefix = source.removeprefix(f"{BUCKET}/")
    for key in ODD:
        if not key.endswith("/"):
            shore.bucket.put(prefix + key)
    results = shore.ingester().process(shore.bucket.events).results
    assert {result.outcome for result in results} == {Outcome.STAGED}
    assert shore.branch() == shore.bucket.held(prefix)


def test_an_import_takes_them() -> None:
    shore = Shore()
    for key in ODD:
        shore.bucket.put(f"in/{key}", key)
    repository = shore.repository()
    repository.import_addresses("main", [ImportAddress(AddressType.COMMON_PREFIX, SOURCE, "data/")])
    assert shore.branch("main@") == shore.bucket.held()
    for key in ODD:
        assert repository.read("main", f"data/{key}") == key.encode()


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_key_that_no_path_can_be_stops_no_other(dry_run: bool) -> None:
    shore = Shore()
    rule = shore.add()
    long = "in/" + "x" * 1021  # with its destination, two bytes too many
    for key in ("in/a", long, "in/z"):
        shore.bucket.put(key)
    results = shore.ingester().process(shore.bucket.events[1:2]).results
    assert (results[0].outcome, "at most 1024 are allowed" in results[0].reason) == (Outcome.POISON, True)
    report = reconcile(shore, rule, dry_run=dry_run)
    assert report.linked == ("data/a", "data/z")
    assert [(one.path, "at most 1024" in one.reason) for one in report.refused] == [("data/" + long[3:], True)]


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes there")
def test_a_file_whose_name_is_no_text_stops_no_other(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for name in (b"a", b"bad-\xff", b"z"):
        (place.drop / os.fsdecode(name)).write_text("1")
    told = failures(place.rounds(3))
    assert sorted(place.branch()) == ["in/a", "in/z"]
    assert [name for name, _ in told].count("bad-\udcff") == 1
    report = place.ingest.reconcile(*place.rules()[0], dry_run=False)
    assert len(report.refused) == 1
    assert "cannot be written as UTF-8" in report.refused[0].reason
