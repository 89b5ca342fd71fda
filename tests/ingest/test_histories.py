"""Long histories with everything at once: events late, twice and lost, requests that fail, processes that die, reconciling."""

from random import Random

import pytest
from msgspec.structs import replace

from graveler.errors import GravelerError
from graveler.ingest.events import ObjectEvent
from graveler.ingest.ingester import Ingester
from graveler.ingest.reconcile import Reconciler
from graveler.ingest.rules import CommitPolicy, Deletes
from tests.ingest.support import RULE
from tests.ingest.test_late_events import Beach
from tests.ingest.test_order import EVENTS
from tests.lake.support import NAME, Died
from tests.support.campaigns import WHOLE
from tests.support.instruments import Boundaries, Fault

FAULTS: list[Fault] = ["fail_before", "refuse", "fail_after", "repeat", "late"]


class Weather:
    """Now and then a request fails, or its process dies."""

    def __init__(self, random: Random, rate: float) -> None:
        self._random = random
        self._rate = rate

    def __call__(self, _: str, __: int) -> Fault:
        what = self._random.random()
        if what < self._rate / 2:
            raise Died
        return self._random.choice(FAULTS) if what < self._rate else None


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
@pytest.mark.parametrize("deletes", list(Deletes), ids=lambda deletes: deletes.value)
@pytest.mark.parametrize("seed", range(50 if WHOLE else 1))
def test_any_history_ends_in_what_the_bucket_holds(versioned: bool, deletes: Deletes, seed: int) -> None:
    """With kept deletes nothing is lost: nobody can know what was created last by an event that never came."""
    random = Random(f"{versioned} {deletes.value} {seed}")
    beach = Beach(versioned, replace(RULE, deletes=deletes, commit=CommitPolicy(objects=40)))
    bucket = beach.versions
    keys = [f"in/{number % 5}//k {number}" for number in range(max(10, EVENTS // 20))]
    waiting: list[ObjectEvent] = []
    told = kills = faults = lost = reconciled = 0
    while told < EVENTS or waiting:
        if told < EVENTS:
            for _ in range(random.randrange(1, 12)):
                bucket.change(random, random.choice(keys))
            waiting += bucket.events[told:]
            told = len(bucket.events)
        requests = Boundaries()
        rate = 0.0 if told >= EVENTS and random.random() < 0.5 else 0.02
        lake = beach.lake(Weather(random, rate), requests)
        size = random.choice((1, 3, 10, 60))
        some = [waiting.pop(random.randrange(min(len(waiting), 90))) for _ in range(min(size, len(waiting)))]
        try:
            results = Ingester(lake, beach.clock).process(some).results
            waiting += [event for event, result in zip(some, results, strict=True) if not result.outcome.is_done]
            waiting += random.choices(some, k=len(some) // 8)
            faults += sum(not result.outcome.is_done for result in results)
        except (Died, GravelerError):
            kills += 1
            waiting += some
        if random.random() < 0.5:
            requests.deliver()
        if random.random() < 0.1:
            if deletes is Deletes.APPLY and (lost == 0 or random.random() < 0.7):
                dropped = min(len(waiting), random.randrange(len(waiting) // 3 + 1) + 1)
                random.shuffle(waiting)
                del waiting[:dropped]
                lost += dropped
            done = False
            while not done:
                quiet = Weather(random, random.choice((0.0, 0.02)))
                lake = beach.lake(quiet)
                try:
                    report = Reconciler(lake.tables, beach.clock).reconcile(lake.repository(NAME), beach.rule)
                    done = report.refused == ()
                except (Died, GravelerError):
                    kills += 1
                beach.clock.time += 30.0
            reconciled += 1
        beach.clock.time += random.choice((0.0, 0.0, 10.0, 600.0))
    beach.clock.time += 60.0
    beach.ingester().commit_due()
    assert beach.branch() == bucket.wanted(deletes)
    assert kills > 0
    assert reconciled > 0
    assert lost > 0 or deletes is Deletes.KEEP
