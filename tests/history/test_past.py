"""Earlier states of a branch, by moves and by time, compared with the definition, with wrong clocks."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidError, RefNotFoundError
from graveler.history.expressions import RefExpression, Step, parse, resolve
from graveler.history.past import Past, parse_past
from graveler.history.reflog import KEEP_SECONDS, LogEntry
from graveler.history.relative_times import seconds_ago
from graveler.model import CommitID
from tests.history.support import World, event

SECOND = 1_000_000_000
NOW = time.time_ns() // SECOND * SECOND - 3600 * SECOND
"""Times of rows are relative to this one: the log is kept for 90 days from now."""

HOUR = Past("1970-01-01T01:00Z", time_ns=3600 * SECOND)


def moved(world: World, times: list[int], *, name: str = "main", created: bool = True) -> list[CommitID]:
    """A branch that was created at the first time and moved at each later one, by its log alone; where it was, in order."""
    commits = [commit.id for commit in world.line(len(times) + 1)]
    for number, (time_ns, old, new) in enumerate(zip(times, commits, commits[1:], strict=False), 1):
        before = None if created and number == 1 else old
        world.tables.transact(
            [world.refs.reflog.put_write("branch", name, LogEntry(event("commit", time_ns), before, new), number)]
        )
    return commits[1:] if created else commits


def at(time_ns: int) -> str:
    return f"main@{{{datetime.fromtimestamp(time_ns // SECOND, UTC).isoformat()}}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main@{0}", RefExpression("main", True, (), Past("0"))),
        ("main@{12}~2", RefExpression("main", True, (Step("~", 2),), Past("12", 12))),
        ("main@{1970-01-02}", RefExpression("main", True, (), Past("1970-01-02", time_ns=86_400 * SECOND))),
        ("a-b@{1970-01-01T01:00Z}^2", RefExpression("a-b", True, (Step("^", 2),), HOUR)),
        ("main@{1970-01-01 01:00+01:00}", RefExpression("main", True, (), Past("1970-01-01 01:00+01:00", time_ns=0))),
        ("main@{1 hour ago}~1", RefExpression("main", True, (Step("~", 1),), Past("1 hour ago", ago=3600))),
        ("main@{yesterday}", RefExpression("main", True, (), Past("yesterday", ago=86_400))),
        ("main@{1970-01-01T00:00:00.5}", RefExpression("main", True, (), Past("1970-01-01T00:00:00.5", time_ns=SECOND // 2))),
    ],
)  # fmt: skip
def test_parse(text: str, expected: RefExpression) -> None:
    assert parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("@{1}", 1),
        ("main@{}", 7),
        ("main@{tomorrow}", 7),
        ("main@{-1}", 7),
        ("main@{1 fortnight ago}", 7),
        ("main@{hour ago}", 7),
        ("main@{1234567890 days ago}", 7),
        ("main@{1234567890}", 7),
        ("main@{1969-12-31}", 7),
        ("main@{2026-13-01}", 7),
        ("main@{1", 6),
        ("main@{1}x", 9),
        ("main@{1}@", 9),
        ("main~1@{1}", 1),
        ("v1.0@{1}", 5),
    ],
)
def test_what_is_no_time_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(InvalidError, match=f"at character {position}:") as refused:
        parse(text)
    assert repr(text) in str(refused.value)
    if position == 7:
        assert str(refused.value).endswith("or how long ago: 1 hour ago, 90m, 3d or yesterday")


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12), st.integers(-55, 55))
def test_by_time_the_newest_row_that_is_not_later_counts_whatever_the_clocks(times: list[int], asked: int) -> None:
    world = World()
    commits = moved(world, [NOW + one * SECOND for one in times])
    expected = next((one for one, said in zip(commits[::-1], times[::-1], strict=True) if said <= asked), None)
    if expected is None:
        with pytest.raises(RefNotFoundError, match="did not exist"):
            resolve(at(NOW + asked * SECOND), world.refs, world.commits)
    else:
        assert resolve(at(NOW + asked * SECOND), world.refs, world.commits).commit_id == expected


def test_by_moves_and_then_by_steps() -> None:
    world = World()
    commits = moved(world, [NOW + one * SECOND for one in (5, 1, 3)])
    world.branch("main", world.all[-1])
    for moves, expected in enumerate(commits[::-1]):
        found = resolve(f"main@{{{moves}}}", world.refs, world.commits)
        assert (found.commit_id, found.branch) == (expected, None)
    assert resolve("main@{1}~1", world.refs, world.commits).commit_id == commits[0]
    with pytest.raises(RefNotFoundError, match="branch 'main' did not exist 4 moves ago: it was created then"):
        resolve("main@{4}", world.refs, world.commits)
    with pytest.raises(RefNotFoundError, match="has only 4 moves"):
        resolve("main@{5}", world.refs, world.commits)


def test_of_a_deleted_branch_the_log_stays() -> None:
    world = World()
    (only,) = moved(world, [NOW])
    gone = LogEntry(event("delete branch", NOW + 10 * SECOND), only, None)
    world.tables.transact([world.refs.reflog.put_write("branch", "main", gone, 2)])
    assert resolve(at(NOW + 5 * SECOND), world.refs, world.commits).commit_id == only
    assert resolve("main@{1}", world.refs, world.commits).commit_id == only
    with pytest.raises(RefNotFoundError, match="had been deleted by that time"):
        resolve(at(NOW + 11 * SECOND), world.refs, world.commits)
    with pytest.raises(RefNotFoundError, match="no branch is called 'main'"):
        resolve("main@{0}", world.refs, world.commits)


def test_where_rows_expired_a_branch_was_where_the_oldest_one_found_it() -> None:
    world = World()
    before, after = moved(world, [NOW], created=False)
    assert resolve(at(NOW - 86_400 * SECOND), world.refs, world.commits).commit_id == before
    assert resolve(at(NOW), world.refs, world.commits).commit_id == after
    long_ago = NOW - (KEEP_SECONDS + 1) * SECOND
    with pytest.raises(RefNotFoundError, match="does not reach back to that time; it is kept for 90 days"):
        resolve(at(long_ago), world.refs, world.commits)


def test_a_branch_that_nothing_moved_lately_is_where_it_was() -> None:
    world = World()
    tip = world.line(2)[-1]
    world.branch("main", tip)  # its row is years old
    assert resolve(at(NOW), world.refs, world.commits).commit_id == tip.id
    for text in ("none@{0}", "none@{1}", "none@{2026-01-01}", at(NOW).replace("main", "none")):
        with pytest.raises(RefNotFoundError):
            resolve(text, world.refs, world.commits)


def test_cost() -> None:
    """One read for each thousand moves since."""
    world = World()
    moved(world, [NOW + one * SECOND for one in range(2100)])
    for text, reads in (
        ("main@{1}", 1),
        ("main@{1000}", 1),
        ("main@{1001}", 2),
        (at(NOW + 2090 * SECOND), 1),
        (at(NOW), 3),
    ):
        world.tables.reset()
        resolve(text, world.refs, world.commits)
        assert world.tables.calls == {"query": reads}, text


def test_a_time_is_utc() -> None:
    for said in ("2026-06-01T12:00Z", "2026-06-01T12:00", "2026-06-01 14:00+02:00"):
        assert parse_past(said) == Past(said, time_ns=1_780_315_200 * SECOND)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        ("Yesterday", 86_400),
        ("90m", 5400),
        ("90 m", 5400),
        ("1 second ago", 1),
        ("2 Minutes Ago", 120),
        ("1.hour.ago", 3600),
        ("3d", 3 * 86_400),
        ("3 days", 3 * 86_400),
        ("2w ago", 14 * 86_400),
        ("999999999 weeks ago", 999_999_999 * 7 * 86_400),
        ("1", None),
        ("1  hour ago", None),
        ("1 hour  ago", None),
        ("ago", None),
        ("1.5 hours ago", None),
        ("\u0661 hour ago", None),
        ("1 month ago", None),
        ("", None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert seconds_ago(text) == seconds


def test_a_duration_counts_from_the_lookup_not_from_the_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    first, second = moved(world, [NOW, NOW + 1800 * SECOND])
    for now, expected in ((NOW + 3600 * SECOND, first), (NOW + 5400 * SECOND, second), (NOW + 5401 * SECOND, second)):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        assert resolve("main@{1 hour ago}", world.refs, world.commits).commit_id == expected
        assert resolve("main@{now}", world.refs, world.commits).commit_id == second
    with pytest.raises(RefNotFoundError, match="did not exist yet"):
        resolve("main@{3 days ago}", world.refs, world.commits)
    with pytest.raises(RefNotFoundError, match="does not reach back to that time; it is kept for 90 days"):
        resolve("main@{999999999 weeks ago}", world.refs, world.commits)
