"""When ingested changes become a commit, and what the commit says."""

from calendar import timegm

import pytest
from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.ingest.pending_changes import Amount
from graveler.ingest.results import Batch
from graveler.ingest.rules import CommitPolicy, Rule
from graveler.ingest.windows import Window, spelled
from tests.ingest.support import RULE, Shore
from tests.lake.support import Died, changes, died

HOURLY = Window(3600, "input/YYYY/MM/DD/hh:mm/", lateness=300)


def with_policy(policy: CommitPolicy, rule: Rule = RULE) -> Shore:
    shore = Shore()
    shore.add(replace(rule, commit=policy))
    return shore


def land(shore: Shore, *keys: str) -> Batch:
    return shore.ingester().process([shore.bucket.put(f"in/{key}") for key in keys])


def test_without_a_policy_nothing_is_committed() -> None:
    shore = with_policy(CommitPolicy())
    land(shore, *"abc")
    shore.clock.time += 1e6
    assert shore.ingester().commit_due() == Batch(())
    assert len(changes(shore.repository())) == 3


def test_after_so_many_objects() -> None:
    shore = with_policy(CommitPolicy(objects=3))
    assert land(shore, "a", "b").commits == ()
    made = land(shore, "c", "d").commits
    assert [commit.commit.message for commit in made] == ["Ingest 4 objects by rule r"]
    assert made[0].commit.committer == "ingest"
    assert land(shore, "e", "f").commits == ()


def test_after_so_many_seconds_since_the_first() -> None:
    shore = with_policy(CommitPolicy(seconds=60))
    land(shore, "a")
    shore.clock.time += 59
    assert land(shore, "b").commits == ()
    shore.clock.time += 1
    assert len(shore.ingester().commit_due().commits) == 1
    assert shore.ingester().commit_due().commits == ()
    assert changes(shore.repository()) == {}


def test_when_a_marker_lands_whether_or_not_it_is_taken_itself() -> None:
    shore = with_policy(CommitPolicy(marker="_SUCCESS"), replace(RULE, suffixes=(".parquet",)))
    assert land(shore, "1/a.parquet", "1/note.txt").commits == ()
    event = shore.bucket.put("in/1/_SUCCESS")
    assert len(shore.ingester().process([event]).commits) == 1
    assert list(shore.branch("main@")) == ["data/1/a.parquet"]
    assert shore.ingester().process([event]).commits == ()
    land(shore, "2/a.parquet")
    assert shore.ingester().process([event]).commits == (), "the marker of before says nothing about these"
    shore.ingester().process([shore.bucket.delete("in/1/_SUCCESS")])
    assert len(shore.log()) == 1


def test_each_clock_window_is_a_commit() -> None:
    shore = with_policy(
        CommitPolicy(window=HOURLY),
        replace(
            RULE, message="Hour {window}", metadata={"objects": "{objects}", "why": "{reason}", "from": "{source}"}
        ),
    )
    base = "input/2026/01/31"
    shore.clock.time = timegm((2026, 1, 31, 15, 4, 0))
    assert land(shore, f"{base}/14:00/a", f"{base}/14:30/b").commits == ()
    shore.clock.time = timegm((2026, 1, 31, 15, 4, 59))
    assert land(shore, f"{base}/14:50/late").commits == ()
    shore.clock.time += 1
    made = land(shore, f"{base}/15:00/c", f"{base}/15:50/d").commits
    assert [commit.commit.message for commit in made] == ["Hour 2026-01-31T14:00:00Z"]
    assert made[0].commit.metadata == {"objects": "3", "why": "window", "from": "s3://landing/in/"}
    shore.clock.time = timegm((2026, 1, 31, 16, 4, 59))
    assert shore.ingester().commit_due().commits == ()
    shore.clock.time += 1
    assert [commit.commit.message for commit in shore.ingester().commit_due().commits] == ["Hour 2026-01-31T15:00:00Z"]
    assert changes(shore.repository()) == {}


def test_late_objects_of_an_earlier_window_join_the_next_commit() -> None:
    shore = with_policy(CommitPolicy(window=replace(HOURLY, layout="")))
    begin = int(shore.clock.time) // 3600 * 3600
    shore.clock.time = begin + 3600 + 600
    events = [replace(shore.bucket.put(f"in/{hour}"), time=begin + hour * 3600) for hour in (1, 0)]
    assert [commit for event in events for commit in shore.ingester().process([event]).commits] == []
    shore.clock.time = begin + 7200 + 300
    made = shore.ingester().process([replace(shore.bucket.put("in/2"), time=begin + 7200)]).commits
    assert [commit.commit.message for commit in made] == ["Ingest 2 objects by rule r"]


def test_what_is_staged_while_a_commit_is_made_is_not_forgotten() -> None:
    shore = with_policy(CommitPolicy(objects=2))
    other = shore.ingester()
    more = [shore.bucket.put("in/c")]
    done: list[bool] = []

    def meanwhile(_: str, __: int) -> None:
        if not done and shore.log():  # it is published, and its counts are not forgotten yet
            done.append(True)
            assert other.process(more).results[0].outcome.is_done

    shore.ingester(meanwhile).process([shore.bucket.put("in/a"), shore.bucket.put("in/b")])
    assert done == [True]
    assert sorted(changes(shore.repository())) == ["data/c"]
    assert len(land(shore, "d").commits) == 1
    assert shore.branch("main@") == shore.bucket.held()


def test_a_commit_whose_maker_died_is_not_made_twice() -> None:
    shore = with_policy(CommitPolicy(objects=2))

    def die(_: str, __: int) -> None:
        if shore.log():
            raise Died

    assert died(lambda: shore.ingester(die).process([shore.bucket.put("in/a"), shore.bucket.put("in/b")]))
    land(shore, "c")
    assert len(shore.log()) == 1
    assert sorted(changes(shore.repository())) == ["data/c"]


def test_a_commit_that_cannot_be_made_is_named_and_made_later() -> None:
    shore = with_policy(CommitPolicy(seconds=60))
    land(shore, "a")
    shore.clock.time += 60
    shore.repository().protect(["main"])
    failed = shore.ingester().commit_due().commits_failed
    assert [(one.repository, one.rule) for one in failed] == [("repo", "r")]
    assert "protected" in failed[0].reason
    shore.repository().unprotect(["main"])
    assert len(shore.ingester().commit_due().commits) == 1
    assert shore.ingester().commit_due() == Batch(())


def test_somebody_elses_commit_leaves_nothing_to_do() -> None:
    shore = with_policy(CommitPolicy(seconds=60))
    land(shore, "a")
    shore.repository().commit("main", "mine")
    shore.clock.time += 60
    assert shore.ingester().commit_due() == Batch(())
    assert shore.log() == ["mine"]


@pytest.mark.parametrize(
    ("layout", "below", "begins"),
    [
        ("YYYY/MM/DD/hh:mm/", "2026/01/31/14:59/x", "2026-01-31T14:00:00Z"),
        ("dt=YYYY-MM-DD/", "dt=2024-02-29/x", "2024-02-29T00:00:00Z"),
        ("YYYYMMDDhh", "2026010203-x", "2026-01-02T03:00:00Z"),
        ("YYYY/MM/DD/", "2026/02/31/x", "1970-01-01T01:00:00Z"),
        ("YYYY/MM/DD/", "x/2026/02/01/", "1970-01-01T01:00:00Z"),
        ("", "2026/02/01/", "1970-01-01T01:00:00Z"),
    ],
)
def test_the_window_is_what_the_key_says_else_the_events_time(layout: str, below: str, begins: str) -> None:
    assert spelled(Window(3600, layout).stated(below, 5000.0)) == begins


@pytest.mark.parametrize("window", [Window(0), Window(60, lateness=-1), Window(60, "MM/"), Window(60, "YYYY/YYYY/")])
def test_windows_that_cannot_be_are_refused(window: Window) -> None:
    with pytest.raises(InvalidError, match="window"):
        window.check()


@pytest.mark.parametrize("ahead", [1.0, 3600.0, 86_400.0])
def test_a_process_whose_clock_is_ahead_delays_a_commit_until_the_next_object_at_most(ahead: float) -> None:
    policy = CommitPolicy(seconds=60)
    late = Amount().with_more(1, 0, 1_000.0 + ahead)
    assert late.due_at(policy) == 1_060.0 + ahead
    assert late.with_more(1, 0, 1_000.0).due_at(policy) == 1_060.0
    assert Amount().with_more(1, 0, 1_000.0).with_more(1, 0, 1_030.0).due_at(policy) == 1_060.0
