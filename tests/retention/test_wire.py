"""The collector through a faulty network and a faulty S3: a proxy in front of a real S3 server refuses, loses and delays.

The first try of *every* request of a run that removes something fails. Nothing needed is removed, and everything else is.
"""

import os
from collections.abc import Iterator
from secrets import token_hex
from typing import Final
from unittest.mock import patch

import pytest

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.rate_limit import Pace
from graveler.retention.runs import Candidate, Kind, Mode, Outcome
from graveler.retention.sweeper import Sweeper
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.tables.memory import MemoryTables
from graveler.system.retries import Retries
from tests.lake.support import NAME, TINY, FakeClock
from tests.retention.support import AGE, OffClock, contents, write
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import Dropped, FaultyProxy, Hanging, Lost, Trouble, s3_reply
from tests.support.servers import REGION, s3proxy

SLOW_DOWN: Final = s3_reply("SlowDown", 503)
TROUBLES: Final[dict[str, Trouble]] = {
    "throttled": SLOW_DOWN,
    "cut off before": Dropped(),
    "answer lost": Lost(),
    "answer cut off": Lost(half=True),
    "answer too slow": Hanging(),
}
BUCKET: Final = f"wire-{token_hex(6)}"


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    with patch.dict(os.environ, CREDENTIALS), FaultyProxy(s3proxy()) as proxy:
        make_bucket(BUCKET, S3Settings(REGION, s3proxy()))
        yield proxy


def troubled(proxy: FaultyProxy, tries: int = 8, timeout: float = 20) -> S3Settings:
    """Of a client that asks so often, and waits so long each time."""
    return S3Settings(REGION, proxy.url, read_timeout=timeout, retries=Retries(tries, 0.005, 0.02))


class Place:
    """A lake whose table is in memory, and whose objects are on the server; as it will be some seconds from now."""

    def __init__(self) -> None:
        self._tables, self._prefix = MemoryTables(), token_hex(4)

    def lake(self, seconds: float = 0.0, settings: S3Settings | None = None) -> Lake:
        at = settings or S3Settings(REGION, s3proxy())
        return Lake(self._tables, lambda _: S3Objects(BUCKET, self._prefix, at), clock=OffClock(seconds))

    def repository(self, seconds: float = 0.0, settings: S3Settings | None = None) -> OpenRepository:
        return self.lake(seconds, settings).repository(NAME)

    def prepare(self) -> None:
        """What is needed, what nobody reaches any more since long, and what was never committed."""
        self.lake().create_repository(NAME, f"s3://{BUCKET}/{self._prefix}", split=TINY)
        repository = self.repository()
        write(repository, "main", **{f"k{number}": f"{number}" for number in range(6)})
        repository.create_branch("gone", "main")
        write(repository, "gone", **{f"g{number}": f"gone {number}" for number in range(4)})
        repository.upload("main", "reset", b"reset")
        repository.reset("main", path="reset")
        repository.upload("main", "staged", b"staged")
        repository.delete_branch("gone")
        Garbage(self.repository(AGE), Options(Mode.DELETE, rate=1e6)).run()

    def data(self) -> set[str]:
        return {stored.key for stored in self.repository().namespace.list("data/")}


@pytest.mark.parametrize(
    ("trouble", "mode"),
    [
        ("throttled", Mode.DELETE),
        ("answer lost", Mode.QUARANTINE),
        *(pytest.param(name, Mode.DELETE, marks=pytest.mark.ci) for name in TROUBLES if name != "throttled"),
        pytest.param("throttled", Mode.QUARANTINE, marks=pytest.mark.ci),
    ],
)
def test_a_run_whose_every_request_is_troubled_once(proxy: FaultyProxy, trouble: str, mode: Mode) -> None:
    place = Place()
    place.prepare()
    before = contents(place.repository(), "main")
    hangs = isinstance(TROUBLES[trouble], Hanging)
    collector = place.repository(2 * AGE, troubled(proxy, timeout=0.5 if hangs else 20))
    proxy.begin(lambda _, number: TROUBLES[trouble] if number % 2 == 0 else None)
    summary = Garbage(collector, Options(mode, threads=1, rate=1e6)).run()
    assert len(proxy.seen) > 60
    proxy.release()
    proxy.begin(lambda *_: None)
    assert summary.total(Outcome.FAILED).files == 0
    assert summary.forgotten == 1
    assert contents(place.repository(), "main") == before
    assert len(before) == len(place.data()) == 7
    report = place.lake().fsck(NAME, committed_objects=True)
    assert not report.findings
    left = report.garbage
    assert (left.commit_items, left.commit_records, left.metaranges, left.ranges) == (0, 0, 0, 0)


def test_a_server_that_asks_to_slow_down_is_asked_more_slowly_until_everything_is_gone(proxy: FaultyProxy) -> None:
    """It refuses twelve requests. The adapter tries each twice, then all threads together are told to go half as fast."""
    proxy.begin(lambda *_: None)
    objects, clock = S3Objects(BUCKET, token_hex(4), troubled(proxy, 2)), FakeClock()
    candidates = []
    for number in range(12):
        stored = objects.put(f"data/{number:03}", b"1")
        candidates.append(Candidate(Kind.OBJECT, stored.key, 1, stored.etag, stored.modified, ""))
    live = objects.put("data/live", b"1")
    proxy.begin(lambda _, number: SLOW_DOWN if number < 12 else None)
    pace = Pace(clock, 1000.0)
    sweeper = Sweeper(objects, clock, 1, pace)
    assert sweeper.sweep("run", Mode.DELETE, candidates[:1], lambda: None) == [Outcome.DELETED]
    assert len(proxy.seen) == 13
    slowest = pace.rate
    assert slowest < 1000 / 2**6 + 3
    began = clock.now()
    for candidate in candidates[1:]:
        assert sweeper.sweep("run", Mode.DELETE, [candidate], lambda: None) == [Outcome.DELETED]
    assert clock.now() - began > 10 / 1000 * 4, "at four times the first pace's distance, at least"
    assert pace.rate > slowest, "and faster again, little by little"
    proxy.begin(lambda *_: None)
    assert [stored.key for stored in objects.list()] == [live.key]


@pytest.mark.ci
def test_a_server_that_stays_busy_is_given_up_on_and_the_next_run_removes_the_rest(proxy: FaultyProxy) -> None:
    place = Place()
    place.prepare()
    before, garbage = contents(place.repository(), "main"), len(place.data())
    collector = place.repository(2 * AGE, troubled(proxy, 1))
    proxy.begin(lambda operation, _: SLOW_DOWN if operation in ("POST", "DELETE") else None)
    with patch("graveler.retention.sweeper._PATIENCE", 0.2):
        summary = Garbage(collector, Options(Mode.DELETE, threads=1, rate=1e6, parquet=False)).run()
    proxy.begin(lambda *_: None)
    assert summary.total(Outcome.FAILED).files == sum(tally.files for tally in summary.plan.found.values()) > 5
    assert summary.forgotten == 0, "what a commit's files are named by stays as long as they do"
    assert len(place.data()) == garbage
    Garbage(place.repository(3 * AGE), Options(Mode.DELETE, rate=1e6)).run()
    assert contents(place.repository(), "main") == before
    assert len(place.data()) == 7
