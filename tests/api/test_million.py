"""A large commit through the API with a simulated clock: it ends in the right commit, within the request or handed over,
wherever its time runs out. With ``GRAVELER_WHOLE`` it has a million records, else enough for some forty ranges."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.model import Commit, ObjectEntry, SplitParameters
from graveler.operations.kinds import KINDS
from graveler.operations.runner import Runner
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Sent, StoredObject
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import QueryPage
from tests.api.support import BASE, Answer, as_answer, basic, make_event
from tests.support.campaigns import WHOLE
from tests.support.keyrings import keyring

RECORDS = 1_000_000 if WHOLE else 20_000
SPLIT = SplitParameters() if WHOLE else SplitParameters(min_size=15_000, max_size=60_000, raggedness=200)
COMMITS = "/repositories/repo/branches/main/commits"

PAGE_SECONDS = 0.02
PUT_SECONDS = 0.1


class Simulated:
    """Time that passes by requests only."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.time = 0.0

    def spend(self, seconds: float) -> None:
        with self._lock:
            self.time += seconds


class SlowTables(MemoryTables):
    """A page of staged changes takes a while."""

    def __init__(self, clock: Simulated) -> None:
        super().__init__()
        self.clock = clock

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        self.clock.spend(PAGE_SECONDS)
        return super().query(partition, start=start, end=end, limit=limit, descending=descending)


class SlowObjects(MemoryObjects):
    """So does a file. Notes which ranges were put."""

    def __init__(self, namespace: str, clock: Simulated) -> None:
        super().__init__(namespace)
        self.clock = clock
        self.ranges: Counter[str] = Counter()

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        self.clock.spend(PUT_SECONDS)
        if "/ranges/" in key:
            self.ranges[key] += 1
        return super().put(key, data, if_absent=if_absent, sent=sent)


class Api:
    """An application whose requests have so many simulated ``seconds``, and a branch with a large change staged."""

    def __init__(self, seconds: float) -> None:
        self.clock = Simulated()
        self.seconds = seconds
        tables = SlowTables(self.clock)
        self.objects = SlowObjects("mem://repo", self.clock)
        self.lake = Lake(tables, lambda _: self.objects, staging_shards=8)
        access = Access(tables, keyring(tables))
        settings = Settings(operation_records=10 * RECORDS, request_seconds=3_600)
        self.application = Application(self.lake, access, settings, Runner(tables, KINDS, heartbeat=0.05))
        self.admin = basic(access.create_key("somebody", Role.ADMIN))
        self.repository = self.lake.create_repository("repo", "mem://repo", split=SPLIT)
        self.repository.link_many("main", entries())

    def commit(self) -> Answer:
        began = self.clock.time
        event = make_event(
            "POST", BASE + COMMITS, "", {"message": "large"}, {"authorization": self.admin, "idempotency-key": "k"}
        )
        return as_answer(self.application(event, lambda: began + self.seconds - self.clock.time))

    def operations(self) -> int:
        event = make_event("GET", BASE + "/repositories/repo/operations", "", None, {"authorization": self.admin})
        return len(as_answer(self.application(event)).json()["results"])


def entries() -> Iterator[ObjectEntry]:
    for number in range(RECORDS):
        yield ObjectEntry(
            path=f"data/{number:08}",
            address=f"mem://elsewhere/{number}",
            size=number,
            checksum=f"{number:032x}",
            mtime=1,
        )


@pytest.fixture(scope="module")
def in_one_call() -> tuple[float, Commit, Counter[str]]:
    """What the commit takes in one call, the commit, and the ranges that it puts."""
    api = Api(1e9)
    before = api.clock.time
    answer = api.commit()
    assert answer.status == 201, answer
    assert api.operations() == 0
    api.application.close()
    assert max(api.objects.ranges.values()) == 1
    assert len(api.objects.ranges) > 30
    return api.clock.time - before, api.repository.commit_of("main"), api.objects.ranges


@pytest.mark.parametrize(("part", "hands_over"), [(3.0, False), (1.6, True), (1.0, True), (0.3, True)])
def test_a_large_commit_ends_in_the_right_commit_on_either_side_of_the_limit(
    in_one_call: tuple[float, Commit, Counter[str]], part: float, hands_over: bool
) -> None:
    seconds, expected, ranges = in_one_call
    api = Api(part * seconds)
    try:
        tries = 1
        while (answer := api.commit()).status == 429:
            assert "send the same request again" in answer.text
            tries += 1
        assert answer.status == 201, answer
        made = api.repository.commit_of("main")
        assert (answer.json()["id"], made.message, made.metarange_id) == (made.id, "large", expected.metarange_id)
        assert api.operations() == hands_over
        assert not api.repository.has_staged("main")
        assert set(ranges) <= set(api.objects.ranges)
        assert sum(count - 1 for count in api.objects.ranges.values()) <= 1, "at most one range is put twice"
        assert api.commit().json()["id"] == made.id, "the same request has the same answer"
        if not hands_over:
            assert tries == 1
    finally:
        api.application.close()
