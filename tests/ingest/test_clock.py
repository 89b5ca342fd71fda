"""The clock: it sends few requests, forgets no repository, and reports commits that are overdue."""

from collections.abc import Iterator
from typing import Final

import pytest
from msgspec.structs import replace

from graveler.ingest import waiting_repositories
from graveler.ingest.due_commits import LATE
from graveler.ingest.ingester import Ingester
from graveler.ingest.rules import CommitPolicy, RuleStore
from graveler.ingest.waiting_repositories import ALL_EVERY
from graveler.ingest.windows import Window
from graveler.lake.lake import Lake
from graveler.storage.tables.port import Key
from tests.ingest.support import BUCKET, RULE, Shore
from tests.lake.support import NAME, Died, changes, died
from tests.support.campaigns import share
from tests.support.instruments import Boundaries, CountingTables

POLICY: Final = CommitPolicy(seconds=60)


def coast(repositories: int, rules: int) -> Shore:
    """Repositories ``r00``, …, each with rules about ``in/<repository>/<rule>/``; nothing is pending, and all were looked at."""
    shore = Shore()
    store, lake = RuleStore(shore.tables), shore.lake()
    for number in range(repositories):
        name = f"r{number:02}"
        lake.create_repository(name, f"mem://{name}")
        for rule in range(rules):
            source = f"{BUCKET}/in/{name}/{rule}/"
            store.add(lake, name, replace(RULE, name=f"{rule}", source=source, destination=f"{rule}/", commit=POLICY))
    shore.ingester().commit_due()
    return shore


def land(shore: Shore, repository: int, rule: int = 0, name: str = "x") -> None:
    batch = shore.ingester().process([shore.bucket.put(f"in/r{repository:02}/{rule}/{name}")])
    assert batch.results[0].outcome.is_done


def messages(shore: Shore, repository: int) -> int:
    """How many commits the rules have made."""
    return len(shore.lake().repository(f"r{repository:02}").log("main", amount=1000).results) - 1


@pytest.mark.parametrize("rules", [1, 7])
@pytest.mark.parametrize("pending", [0, 1, 3])
def test_a_minute_costs_a_read_for_each_repository_with_something_pending(rules: int, pending: int) -> None:
    shore = coast(5, rules)
    for number in range(pending):
        for rule in range(rules):
            land(shore, number, rule)
    tables = CountingTables(shore.tables)
    ingester = Ingester(Lake(tables, shore.objects, clock=shore.clock), shore.clock)
    for _ in range(3):
        assert ingester.commit_due().commits == ()
    # The marks; the rules; what is pending in each.
    assert tables.calls == {"query": 3 * (2 + pending if pending else 1)}
    shore.clock.time += 60
    assert len(ingester.commit_due().commits) == pending, "one commit takes what all rules of a branch have staged"
    shore.clock.time += 60
    ingester.commit_due()  # takes the marks away
    tables.reset()
    ingester.commit_due()
    assert tables.calls == {"query": 1}


def test_all_repositories_are_looked_at_now_and_then() -> None:
    shore = coast(4, 1)
    land(shore, 2)
    (mark,) = waiting_repositories.waiting(shore.tables, shore.clock.now()).marks
    shore.tables.delete(
        Key(waiting_repositories.PARTITION, mark.encode())
    )  # as if a process of before had staged it, which marks nothing
    shore.clock.time += ALL_EVERY - 1
    assert shore.ingester().commit_due().commits == ()
    shore.clock.time += 1
    assert len(shore.ingester().commit_due().commits) == 1
    land(shore, 2, name="y")
    shore.clock.time += 60
    assert len(shore.ingester().commit_due().commits) == 1


def clock_requests() -> int:
    shore, seen = coast(2, 1), Boundaries()
    land(shore, 0)
    land(shore, 1)
    shore.ingester(seen=seen).commit_due()
    shore.clock.time += 60
    shore.ingester(seen=seen).commit_due()
    shore.ingester(seen=seen).commit_due()
    return len(seen.seen)


@pytest.mark.parametrize("repository", [0, 1])
@pytest.mark.parametrize("at", share(range(clock_requests()), 5, "what lands beside the clock"))
def test_what_lands_beside_the_clock_is_not_forgotten(at: int, repository: int) -> None:
    """At each request of clocks that look, commit, and take the mark away."""
    shore = coast(2, 1)
    land(shore, 0)
    land(shore, 1)
    landed: list[int] = []

    def meanwhile(_: str, ordinal: int) -> None:
        if ordinal == at and not landed:
            landed.append(at)
            land(shore, repository, name="meanwhile")

    seen = Boundaries()
    for passes in (0, 60, 0):
        shore.clock.time += passes
        shore.ingester(meanwhile, seen).commit_due()
    assert landed == [at]
    shore.clock.time += 120  # the clock is not to need the look at all repositories
    shore.ingester().commit_due()
    for number in (0, 1):
        assert changes(shore.lake().repository(f"r{number:02}")) == {}
    assert shore.lake().repository(f"r{repository:02}").stat("main@", "0/meanwhile").path == "0/meanwhile"


@pytest.mark.parametrize("at", share(range(clock_requests()), 5, "a clock that dies"))
def test_a_clock_that_dies_leaves_all_to_the_next(at: int) -> None:
    shore = coast(2, 1)
    land(shore, 0)
    land(shore, 1)
    seen = Boundaries()

    def dies(_: str, ordinal: int) -> None:
        if ordinal == at:
            raise Died

    for passes in (0, 60, 0):
        shore.clock.time += passes
        died(lambda: shore.ingester(dies, seen).commit_due())
    shore.clock.time += 60
    shore.ingester().commit_due()
    assert [messages(shore, number) for number in (0, 1)] == [1, 1]


def test_who_has_little_time_comes_to_each_repository_in_its_turn() -> None:
    shore = coast(5, 1)
    for number in range(5):
        land(shore, number)
    shore.clock.time += 60
    for _ in range(5):
        looks: Iterator[bool] = iter([True, True, False])
        shore.ingester().commit_due(go_on=lambda looks=looks: next(looks))  # type: ignore[misc]
        shore.clock.time += 60
    assert [messages(shore, number) for number in range(5)] == [1] * 5


@pytest.mark.parametrize(
    ("policy", "due"),
    [
        (CommitPolicy(seconds=60), 60),
        (CommitPolicy(window=Window(3600, lateness=600)), 4200),
        (CommitPolicy(objects=2), 0),
    ],
    ids=["seconds", "window", "objects"],
)
def test_what_is_pending_for_too_long_is_told(policy: CommitPolicy, due: int) -> None:
    shore = Shore()
    shore.clock.time = 1_700_000_000 // 3600 * 3600.0
    shore.add(replace(RULE, commit=policy))
    repository = shore.repository()
    shore.ingester().process([shore.bucket.put("in/a")])
    repository.protect(["main"])
    shore.clock.time += due + LATE - 1
    assert shore.ingester().commit_due().overdue == ()
    shore.clock.time += 1
    told = [(one.repository, one.rule, one.seconds) for one in shore.ingester().commit_due().overdue]
    assert told == ([(NAME, "r", LATE)] if due else [])
    without_time = shore.ingester().commit_due(go_on=iter([True, False, False]).__next__)
    assert len(without_time.overdue) == len(told), "also where there is no time to try"
    repository.unprotect(["main"])
    assert shore.ingester().commit_due().overdue == ()


def test_a_repository_that_is_gone_is_looked_at_no_more() -> None:
    shore = coast(1, 1)
    land(shore, 0)
    shore.lake().delete_repository("r00")
    shore.clock.time += 60
    assert shore.ingester().commit_due().commits == ()
    assert waiting_repositories.waiting(shore.tables, shore.clock.now()).marks == {}
