"""Clock windows, counted one by one: each window's changes are committed at the right time, whatever else comes, in any order."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import permutations
from typing import Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.ingest.events import ObjectEvent
from graveler.ingest.ingester import CHUNK, WINDOWS_APART, Ingester
from graveler.ingest.pending_changes import (
    MAX_WINDOWS,
    NO_WINDOW,
    Amount,
    Pending,
    decode_pending,
    pending_key,
)
from graveler.ingest.reconcile import Reconciler
from graveler.ingest.results import Batch, Outcome
from graveler.ingest.rules import CommitPolicy, Rule
from graveler.ingest.windows import Window, spelled
from graveler.lake.lake import Lake
from graveler.storage.tables.port import Matches
from tests.ingest.support import RULE, Shore
from tests.lake.support import NAME, Died, changes, died
from tests.support.campaigns import examples, share
from tests.support.instruments import Boundaries, CountingTables

HOUR: Final = 3600
LATE: Final = 1800
WINDOW: Final = Window(HOUR, "YYYY/MM/DD/hh/", LATE)
HOURLY: Final = replace(RULE, commit=CommitPolicy(window=WINDOW), message="{window} {objects}")
BEGIN: Final = int(datetime(2026, 1, 31, 14, tzinfo=UTC).timestamp())
BEFORE_1970: Final = int(datetime(1969, 7, 20, 20, tzinfo=UTC).timestamp())
THE_FIRST: Final = 0
FAR: Final = BEGIN + 30 * 24 * HOUR


def shore(rule: Rule = HOURLY) -> Shore:
    made = Shore()
    made.clock.time = float(BEGIN)
    made.add(rule)
    return made


def key(window: int, name: object) -> str:
    return f"in/{datetime.fromtimestamp(window, UTC):%Y/%m/%d/%H}/{name}"


def process(of: Shore, *events: ObjectEvent) -> Batch:
    batch = of.ingester().process(events)
    assert {result.outcome for result in batch.results} <= {Outcome.STAGED}, batch
    assert batch.commits_failed == ()
    return batch


def told(batch: Batch) -> list[str]:
    return [made.commit.message for made in batch.commits]


def state(of: Shore, rule_id: str) -> Pending:
    at = pending_key(of.repository().repository.uid, rule_id)
    return decode_pending(at, of.tables.get(at))


class Model:
    """What the rule promises of each change: when it was staged, and when its window is over (with its lateness)."""

    def __init__(self, of: Shore) -> None:
        self._shore = of
        self._pending: dict[str, tuple[float, int]] = {}

    def landed(self, path: str, window: int) -> None:
        now = self._shore.clock.now()
        if window > now + HOUR + LATE:
            window = int(now) // HOUR * HOUR
        self._pending[path] = (now, window + HOUR + LATE)

    def check(self, made: Sequence[str], *, looked: bool) -> None:
        """After somebody ``looked`` for what is due, or a batch came, and told of these commits."""
        now = self._shore.clock.now()
        is_due = any(ends <= now for _, ends in self._pending.values())
        assert not made or is_due, "a commit, and no window is over"
        left = changes(self._shore.repository()).keys()
        assert left <= self._pending.keys()
        waiting = [path for path in left if self._pending[path][1] > now]
        for path in left if looked else ():
            staged, ends = self._pending[path]
            assert not staged < ends <= now, f"{path} waits, and its window is over"
            assert ends > now or waiting, f"{path} is late, and joins nothing"
        self._pending = {path: self._pending[path] for path in left}


PAST: Final = st.integers(-40, -1).map(lambda hours: hours * HOUR)
PRESENT: Final = st.sampled_from([0, 0, 0, HOUR, 2 * HOUR])
FUTURE: Final = st.integers(3, 100_000).map(lambda hours: hours * HOUR)
LONG_AGO: Final = st.sampled_from([BEFORE_1970 - BEGIN, THE_FIRST - BEGIN, HOUR - BEGIN])
LANDS: Final = st.lists(st.one_of(PRESENT, PRESENT, PAST, FUTURE, LONG_AGO), min_size=1, max_size=5)
PASSES: Final = st.sampled_from([1.0, 60.0, 1799.0, 1800.0, 3600.0, 5400.0])
STEPS: Final = st.lists(st.one_of(LANDS, PASSES, st.none()), max_size=14)


@settings(max_examples=examples(300))
@given(STEPS)
def test_a_window_is_committed_when_it_is_over_and_waits_for_no_other(steps: list[list[int] | float | None]) -> None:
    of = shore()
    model = Model(of)
    number = 0
    for step in steps:
        if isinstance(step, list):
            events = []
            for offset in step:
                number += 1
                window = BEGIN + int(of.clock.now() - BEGIN) // HOUR * HOUR + offset
                if offset < -100 * HOUR:
                    window = BEGIN + offset
                model.landed(f"data/{key(window, number)[3:]}", window)
                events.append(of.bucket.put(key(window, number)))
            batch = process(of, *events)
            model.check(told(batch), looked=False)
            assert of.branch() == of.bucket.held()
        elif step is not None:
            of.clock.time += step
        model.check(told(of.ingester().commit_due()), looked=True)
    of.clock.time += 3 * (HOUR + LATE)
    model.check(told(of.ingester().commit_due()), looked=True)
    assert changes(of.repository()) == {}, "nothing waits for longer than two windows and their lateness"
    assert of.branch("main@") == of.bucket.held()


SET: Final = (BEGIN, BEGIN, BEGIN + HOUR, BEGIN - 5 * HOUR, FAR, BEFORE_1970)


@pytest.mark.parametrize("order", share(list(permutations(range(len(SET)))), 48, "orders of windows"), ids=str)
def test_every_order_and_cut_of_a_batch_commits_the_same_at_the_same_time(order: Sequence[int]) -> None:
    seen: set[tuple[object, ...]] = set()
    for cuts in range(1 << (len(SET) - 1)):
        of = shore()
        on_time = of.bucket.put(key(BEGIN, "first"))
        process(of, on_time)  # so that what is late joins this
        events = [of.bucket.put(key(window, number)) for number, window in enumerate(SET)]
        batch: list[ObjectEvent] = []
        commits: list[str] = []
        for at, number in enumerate(order):
            batch.append(events[number])
            if cuts & 1 << at or at == len(order) - 1:
                commits += told(process(of, *batch))
                batch = []
        history: list[tuple[float, list[str]]] = [(0.0, commits)]
        for _ in range(4):
            of.clock.time += LATE
            history.append((of.clock.now() - BEGIN, told(of.ingester().commit_due())))
        assert of.branch("main@") == of.bucket.held()
        seen.add(tuple((at, *messages) for at, messages in history))
    assert seen == {((0.0,), (1800.0,), (3600.0,), (5400.0, f"{spelled(BEGIN)} 7"), (7200.0,))}


def test_an_object_of_the_next_window_commits_nothing_before_the_lateness_is_over() -> None:
    of = shore()
    assert told(process(of, of.bucket.put(key(BEGIN, "a")))) == []
    of.clock.time = BEGIN + HOUR + 10.0
    assert told(process(of, of.bucket.put(key(BEGIN + HOUR, "b")), of.bucket.put(key(BEGIN, "late")))) == []
    of.clock.time = float(BEGIN + HOUR + LATE)
    assert told(process(of, of.bucket.put(key(BEGIN + HOUR, "c")))) == [f"{spelled(BEGIN)} 3"]
    assert sorted(changes(of.repository())) == [f"data/{key(BEGIN + HOUR, 'c')[3:]}"], "the commit was made before it"


def test_thirty_days_of_hours_with_one_object_in_the_future_are_thirty_days_of_commits() -> None:
    of = shore()
    batch = process(of, of.bucket.put(key(FAR + 365 * 24 * HOUR, "wrong year")))
    assert "too far in the future" in batch.results[0].reason
    commits: list[str] = []
    for hour in range(720):
        of.clock.time = float(BEGIN + hour * HOUR + LATE)
        commits += told(of.ingester().commit_due())
        commits += told(process(of, of.bucket.put(key(BEGIN + hour * HOUR, hour))))
    assert [message.split()[0] for message in commits] == [spelled(BEGIN + hour * HOUR) for hour in range(719)]
    assert sum(int(message.split()[1]) for message in commits) + len(changes(of.repository())) == 721
    assert len(changes(of.repository())) <= 2


@pytest.mark.parametrize("window", [BEFORE_1970, THE_FIRST, -HOUR, -(10**9) // HOUR * HOUR], ids=spelled)
@pytest.mark.parametrize("beside", [False, True])
def test_windows_before_1970_commit(window: int, beside: bool) -> None:
    of = shore()
    events = [of.bucket.put(key(window, "old"))]
    if beside:
        events.append(of.bucket.put(key(BEGIN, "new")))
    made = told(process(of, *events))
    if beside:
        assert made == []
        of.clock.time = float(BEGIN + HOUR + LATE)
        made = told(of.ingester().commit_due())
    assert made == [f"{spelled(BEGIN if beside else window)} {1 + beside}"]
    assert changes(of.repository()) == {}


def test_a_key_that_states_the_first_window_of_1970_is_of_that_window() -> None:
    assert WINDOW.stated("1970/01/01/00/x", 5e8) == 0
    assert WINDOW.stated("no window", -0.5) == -HOUR


def test_what_is_dated_too_far_ahead_is_named_and_counts_to_the_present_window() -> None:
    of = shore()
    rule = replace(HOURLY, name="q", source="s3://landing/q/", destination="q/")
    made = of.add(rule)
    near, far = (BEGIN + ahead for ahead in (HOUR, 2 * HOUR))
    named = process(
        of, of.bucket.put(key(near, "a").replace("in/", "q/")), of.bucket.put(key(far, "b").replace("in/", "q/"))
    )
    assert named.results[0].reason == ""
    assert spelled(far) in named.results[1].reason
    assert spelled(BEGIN) in named.results[1].reason
    found = state(of, made.id)
    assert found.ahead is not None
    assert (found.ahead.window, found.ahead.at, found.ahead.key.endswith("/b")) == (far, float(BEGIN), True)
    assert sorted(found.amount.windows) == [BEGIN, near]


@pytest.mark.parametrize("windows", [1, 2, 3])
@pytest.mark.parametrize("objects", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1, 480])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another rule"])
def test_a_window_of_a_batch_is_one_commit_however_many_transactions_stage_it(
    objects: int, windows: int, others: int
) -> None:
    shore = Shore()
    policy = CommitPolicy(window=Window(3600))
    shore.add(replace(RULE, commit=policy, message="{window} {objects}"))
    if others:
        shore.add(Rule("other", "s3://landing/other/", "main", "other/"))
    now, events = shore.clock.now(), []
    for number in range(objects):
        events.append(replace(shore.bucket.put(f"in/{number}"), time=now - 3600.0 * (2 + number % windows)))
        events += [shore.bucket.put(f"other/{number}")] * others
    batch = shore.ingester().process(events)
    counted = Counter(spelled(Window(3600).at(event.time)) for event in events if event.key.startswith("in/"))
    assert shore.log() == [f"{window} {count}" for window, count in sorted(counted.items())]
    assert len(batch.commits) == len(counted)


def test_a_backfill_is_few_commits_and_loses_nothing() -> None:
    of = shore()
    events = [of.bucket.put(key(BEGIN - (500 - hour) * HOUR, hour)) for hour in range(480)]
    made = told(process(of, *events))
    assert len(made) == WINDOWS_APART
    assert [message.split()[1] for message in made] == ["1"] * (WINDOWS_APART - 1) + [str(480 - WINDOWS_APART + 1)]
    assert [message.split()[0] for message in made[:-1]] == [
        spelled(BEGIN - (500 - hour) * HOUR) for hour in range(WINDOWS_APART - 1)
    ]
    assert of.branch("main@") == of.bucket.held()


def test_a_backfill_costs_a_transaction_and_two_reads_for_each_window_that_is_apart() -> None:
    calls = []
    for rule in (HOURLY, RULE):
        of = shore(rule)
        events = [of.bucket.put(key(BEGIN - (500 - hour) * HOUR, hour)) for hour in range(480)]
        tables = CountingTables(of.tables)
        ingester = Ingester(Lake(tables, of.objects, clock=of.clock), of.clock)
        tables.reset()
        ingester.process(events, go_on=lambda: False)
        calls.append(tables.calls)
    windows, plain = calls
    assert windows - plain == {"transact": WINDOWS_APART - 1, "get_many": 2 * (WINDOWS_APART - 1)}


@pytest.mark.parametrize("looks", range(6))
def test_when_the_time_is_over_all_is_staged_and_the_clock_makes_the_commits(looks: int) -> None:
    """``looks``: how often there is time left."""
    of = shore()
    events = [of.bucket.put(key(BEGIN - (60 - hour) * HOUR, hour)) for hour in range(48)]
    left = [True] * looks
    batch = of.ingester().process(events, go_on=lambda: bool(left and left.pop()))
    assert {result.outcome for result in batch.results} == {Outcome.STAGED}
    assert len(batch.commits) == looks
    assert of.branch() == of.bucket.held()
    none = of.ingester().commit_due(go_on=lambda: False)
    assert none.commits == ()
    assert len(of.ingester().commit_due().commits) == 1
    assert of.branch("main@") == of.bucket.held()


def test_reconciling_counts_to_each_objects_own_window_and_hides_none_that_is_due() -> None:
    of = shore()
    made = of.add(replace(HOURLY, name="q", source="s3://landing/q/", destination="q/"))
    process(of, of.bucket.put(key(BEGIN, "a").replace("in/", "q/")))
    of.clock.time = BEGIN + HOUR + 60.0
    for window in (BEGIN, BEGIN + HOUR, BEGIN - 9 * HOUR, BEFORE_1970):
        of.bucket.put(key(window, "lost").replace("in/", "q/"))
    lake = of.lake()
    report = Reconciler(lake.tables, of.clock).reconcile(lake.repository(NAME), made)
    assert (report.linked_count, report.commits) == (4, ())
    windows = state(of, made.id).amount.windows
    assert {begin: found.objects for begin, found in windows.items()} == {
        BEFORE_1970: 1,
        BEGIN - 9 * HOUR: 1,
        BEGIN: 2,
        BEGIN + HOUR: 1,
    }
    of.clock.time = float(BEGIN + HOUR + LATE)
    assert told(of.ingester().commit_due()) == [f"{spelled(BEGIN)} 5"]


def test_who_is_killed_at_any_request_leaves_each_window_to_the_next() -> None:
    windows = (BEGIN - 4 * HOUR, BEGIN - 3 * HOUR, BEFORE_1970)

    def run(die_at: int | None) -> tuple[int, Shore]:
        of = shore()
        events = [of.bucket.put(key(window, number)) for number, window in enumerate(windows)]
        seen = Boundaries()

        def kill(_: str, ordinal: int) -> None:
            if die_at is not None and ordinal >= die_at:
                raise Died

        died(lambda: Ingester(of.lake(kill, seen), of.clock).process(events))
        of.clock.time += 60.0  # leases run out
        assert of.ingester().process(events).commits_failed == ()
        of.clock.time += HOUR + LATE
        assert of.ingester().commit_due().commits_failed == ()
        return len(seen.seen), of

    requests, of = run(None)
    assert len(of.log()) == 3
    for die_at in share(range(requests), 3, "killed among windows"):
        _, of = run(die_at)
        assert of.branch("main@") == of.bucket.held(), die_at
        assert changes(of.repository()) == {}
        assert sum(int(message.split()[1]) for message in of.log()) == len(windows), (die_at, of.log())


MANY: Final = Window(60, lateness=7200)
"""Of which more wait at once than are counted one by one."""


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 60, 3600]), st.integers(-20_000, 8_000)), max_size=60),
    st.sampled_from([WINDOW, MANY]),
    st.integers(1, 9),
)
@example([(0, minutes * 60) for minutes in range(-500, 121)], MANY, 1)
@example([(0, minutes * 60) for minutes in range(121, -500, -1)], MANY, 1)
@example([(0, -hours * HOUR) for hours in range(200)] + [(60, 0)] * 300, MANY, 1)
@example([(0, -hours * HOUR) for hours in range(200)] + [(600, 0)] * 30, WINDOW, 1)
def test_an_item_stays_small_and_what_comes_puts_nothing_off(
    steps: list[tuple[int, int]], window: Window, times: int
) -> None:
    """``steps``: how many seconds pass, and how far from then an object's window is; ``times`` as many windows around it."""
    amount, policy, now = Amount(), CommitPolicy(window=window), float(BEGIN)
    waiting: list[int] = []
    counted = 0
    for number, (passes, offset) in enumerate(steps):
        now += passes
        for more in range(times):
            time = now + offset + more * window.seconds
            begin = window.of("", time, now)
            amount = amount.with_more(1, number % 2, now, begin, window)
            counted += 1
            waiting += [window.ends(begin)] if now < window.ends(begin) else []
            assert len(amount.windows) <= MAX_WINDOWS
            if waiting:
                assert amount.due_at(policy) == min(waiting)
            else:
                assert amount.due(policy, now) == "window", "all are late"
        assert sum(found.objects for found in amount.windows.values()) == amount.objects == counted
        assert sum(found.deleted for found in amount.windows.values()) == amount.deleted
        packed = msgspec.msgpack.encode(amount)
        assert len(packed) < 5_000
        assert msgspec.msgpack.decode(packed, type=Amount) == amount
        if amount.due(policy, now):
            amount, waiting, counted = Amount(), [], 0


DIES: Final = st.one_of(st.none(), st.integers(0, 40))


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(st.one_of(LANDS, st.none()), DIES, PASSES), min_size=1, max_size=10))
def test_whoever_dies_at_whichever_request_nothing_waits_for_ever(
    steps: list[tuple[list[int] | None, int | None, float]],
) -> None:
    """Batches and clocks, of which some are killed; the queue brings again what nobody acknowledged."""
    of = shore()
    queue: list[ObjectEvent] = []
    number = 0
    for offsets, die_at, passes in steps:

        def kill(_: str, ordinal: int, die_at: int | None = die_at) -> None:
            if die_at is not None and ordinal >= die_at:
                raise Died

        for offset in offsets or ():
            number += 1
            window = int(of.clock.now()) // HOUR * HOUR + offset if offset > -100 * HOUR else BEGIN + offset
            queue.append(of.bucket.put(key(window, number)))
        ingester = of.ingester(kill)
        if offsets is None:
            died(lambda: ingester.commit_due())  # noqa: B023, PLW0108 - called at once
        elif not died(lambda: ingester.process(queue)):  # noqa: B023 - called at once
            queue = []
        of.clock.time += passes + 60.0  # leases run out
    assert {result.outcome.is_done for result in of.ingester().process(queue).results} <= {True}
    of.clock.time += 3 * (HOUR + LATE)
    batch = of.ingester().commit_due()
    assert (batch.commits_failed, batch.overdue) == ((), ())
    assert changes(of.repository()) == {}
    assert of.branch("main@") == of.bucket.held()


# Beside processes of before, which know one window of a rule, the latest.


class OldAmount(msgspec.Struct, frozen=True):
    objects: int = 0
    deleted: int = 0
    since: float = 0.0
    window: int = NO_WINDOW
    marked: bool = False


class OldTaken(msgspec.Struct, frozen=True):
    number: int
    amount: OldAmount
    reason: str
    operation: str = ""


class OldPending(msgspec.Struct, frozen=True):
    amount: OldAmount = OldAmount()
    taken: OldTaken | None = None
    number: int = 0
    version: int = 0


def old_process(of: Shore, rule: Rule, change: Callable[[OldPending], OldPending], *paths: str) -> None:
    """A process of before stages objects, and changes the rule's state as it knows it."""
    at = pending_key(of.repository().repository.uid, rule.id)
    item = of.tables.get(at) or {}
    packed = item.get("pending", msgspec.msgpack.encode(OldPending()))
    assert isinstance(packed, bytes)
    before = msgspec.msgpack.decode(packed, type=OldPending)
    after = replace(change(before), version=before.version + 1)
    for path in paths:
        of.repository().upload("main", path, b"1")
    condition = Matches({"version": before.version}) if item else None
    of.tables.put(at, {"pending": msgspec.msgpack.encode(after), "version": after.version}, condition)


def old_stages(window: int, now: float) -> Callable[[OldPending], OldPending]:
    def change(before: OldPending) -> OldPending:
        amount = before.amount
        more = OldAmount(
            amount.objects + 1,
            amount.deleted,
            amount.since if amount.objects + amount.deleted else now,
            max(amount.window, window),
            amount.marked,
        )
        return replace(before, amount=more)

    return change


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([-50, -1, 0, 0, 1, 1000]), st.sampled_from([0.0, 600.0, 3600.0])),
        min_size=1,
        max_size=8,
    )
)
def test_beside_processes_of_before_nothing_stays_uncommitted(steps: list[tuple[bool, int, float]]) -> None:
    of = shore()
    made = of.add(replace(HOURLY, name="q", source="s3://landing/q/", destination="q/"))
    for number, (old, hours, passes) in enumerate(steps):
        now = of.clock.now()
        window = int(now) // HOUR * HOUR + hours * HOUR
        if old:
            old_process(of, made, old_stages(window, now), f"q/old/{number}")
        else:
            process(of, of.bucket.put(key(window, number).replace("in/", "q/")))
        of.clock.time += passes
        of.ingester().commit_due()
    of.clock.time += 3 * (HOUR + LATE)
    assert of.ingester().commit_due().commits_failed == ()
    assert changes(of.repository()) == {}


def test_a_process_of_before_beside_a_commit_loses_nothing_whenever_it_stages() -> None:
    """It drops what it does not know, the request of the commit that is being made among it."""

    def run(at: int | None) -> int:
        of = shore()
        made = of.add(replace(HOURLY, name="q", source="s3://landing/q/", destination="q/"))
        process(of, of.bucket.put(key(BEGIN, "a").replace("in/", "q/")))
        of.clock.time = float(BEGIN + HOUR + LATE)
        staged: list[int] = []

        def meanwhile(_: str, ordinal: int) -> None:
            if ordinal == at and not staged:
                staged.append(ordinal)
                old_process(of, made, old_stages(BEGIN + HOUR, of.clock.now()), "q/old")

        seen = Boundaries()
        batch = Ingester(of.lake(meanwhile, seen), of.clock).commit_due()
        assert batch.commits_failed == ()
        log = of.log()
        assert [commit.commit.message for commit in batch.commits] == log, "what is told is what was made"
        of.clock.time += 3 * (HOUR + LATE)
        assert of.ingester().commit_due().commits_failed == ()
        assert changes(of.repository()) == {}, at
        wanted = {f"q/{key(BEGIN, 'a')[3:]}"} | ({"q/old"} if staged else set())
        assert {entry.path for entry in of.repository().objects("main@", "q/")} == wanted
        assert len(of.log()) <= 2
        return len(seen.seen)

    for at in share(range(run(None)), 2, "staged by a process of before"):
        run(at)


def test_a_state_that_waited_for_the_future_goes_on() -> None:
    of = shore()
    made = of.add(replace(HOURLY, name="q", source="s3://landing/q/", destination="q/"))
    for number in range(3):
        old_process(of, made, old_stages(FAR if number == 1 else BEGIN, BEGIN), f"q/old/{number}")
    assert of.ingester().commit_due().commits == ()
    of.clock.time = float(BEGIN + HOUR + LATE)
    assert told(of.ingester().commit_due()) == [f"{spelled(BEGIN)} 3"]
    assert changes(of.repository()) == {}


def test_a_state_that_could_not_be_before_1970_goes_on() -> None:
    of = shore()
    made = of.add(replace(HOURLY, name="q", source="s3://landing/q/", destination="q/"))
    old_process(of, made, old_stages(BEFORE_1970, BEGIN), "q/old")
    of.clock.time = float(BEGIN + HOUR + LATE)
    assert told(of.ingester().commit_due()) == [f"{spelled(BEGIN)} 1"]
