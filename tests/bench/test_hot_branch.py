"""The simulation of a hot branch: its partitions have the stated capacity, and it uses simulated time only."""

from functools import partial

import pytest
from bench.hot_branch import Bucket, Partitions, Time, simulated

from graveler.errors import BusyError
from graveler.storage.tables.port import Check, ConditionFailedError, Key, Matches, Put


def test_threads_of_a_simulated_clock_take_turns_in_the_order_of_their_time() -> None:
    time = Time()
    seen: list[tuple[float, str]] = []

    def work(name: str, pause: float) -> None:
        for _ in range(3):
            time.sleep(pause)
            seen.append((time.now, name))

    time.run([partial(work, "slow", 2.0), partial(work, "quick", 1.5)])
    assert seen == [(1.5, "quick"), (2, "slow"), (3, "quick"), (4, "slow"), (4.5, "quick"), (6, "slow")]
    time.sleep(100)  # a thread that does not live by it does not wait
    assert time.now == 6


def test_a_bucket_takes_its_rate_and_a_second_of_it_at_first() -> None:
    bucket = Bucket(10)
    taken = 0
    for step in range(300):
        if bucket.has(step / 100):
            bucket.take(1)
            taken += 1
    assert taken == 10 + 10 * 3


def test_a_partition_refuses_what_is_beyond_its_rate_until_it_is_given_up() -> None:
    time = Time()
    tables = Partitions(time)
    done: list[str] = []

    def write_on() -> None:
        large = {"v": b"x" * 300_000}  # 293 units, and twice that in a transaction
        while True:
            tables.transact([Put(Key("hot", b"%d" % each), large) for each in range(12)])

    def write() -> None:
        with pytest.raises(BusyError):
            write_on()
        done.append("given up")

    time.run([write])
    assert done == ["given up"]
    assert tables.refused > 0


def test_a_transaction_checks_and_writes_as_the_real_one() -> None:
    tables = Partitions(Time())
    tables.put(Key("p", b"a"), {"v": 1})
    with pytest.raises(ConditionFailedError):
        tables.transact([Check(Key("p", b"none"), Matches({"v": 1})), Put(Key("p", b"b"), {"v": 1})])
    assert tables.get(Key("p", b"b")) is None
    tables.transact([Check(Key("p", b"a"), Matches({"v": 1})), Put(Key("p", b"b"), {"v": 1})])
    assert tables.get_many([Key("p", b"a"), Key("p", b"b"), Key("p", b"c")]) == [{"v": 1}, {"v": 1}, None]


def test_more_shards_take_more_and_the_same_seed_gives_the_same() -> None:
    one, again, eight = (simulated("link 100", 8, shards, 1.5, seed=3) for shards in (1, 1, 8))
    assert one == again
    assert float(one.rate.replace(",", "")) <= 1_500  # whole calls, which are few
    assert float(eight.rate.replace(",", "")) > 3 * float(one.rate.replace(",", ""))
