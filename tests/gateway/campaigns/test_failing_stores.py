"""A gateway whose store and table fail in all the ways that networks and services have: what it has acknowledged is there, and
no body that was cut, or is another's, is taken for whole.

``GRAVELER_GATEWAY_FAULTS=n`` sends n requests. The seed of ``--hypothesis-seed`` decides which, and what happens to them.
"""

import http.client
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from graveler.gateway.control import Mount
from graveler.lake.opening.location import AwsLake, open_at
from tests.gateway.campaigns.support import Answer, Caller
from tests.gateway.support import running_gateway
from tests.support.campaigns import seed
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.proxy import Dropped, FaultyProxy, Lost, Reply, Trouble, dynamodb_reply, s3_reply

REQUESTS = int(os.environ.get("GRAVELER_GATEWAY_FAULTS", "60"))
KEYS = 5
LIKELIHOOD = 0.12
"""Of a fault, at each request to the store or the table."""
SIZES = (0, 10, 3_000, 70_000, 1_500_000)
OF_STORE: tuple[Trouble, ...] = (
    s3_reply("SlowDown", 503),
    s3_reply("InternalError", 500),
    Reply(200, b"", {"content-length": "0"}),
    Dropped(),
    Lost(),
    Lost(half=True),
)
OF_TABLE: tuple[Trouble, ...] = (
    dynamodb_reply("ProvisionedThroughputExceededException"),
    dynamodb_reply("ThrottlingException"),
    dynamodb_reply("InternalServerError", 500),
    Dropped(),
    Lost(),
)


class Model:
    """What each key may have: None for no object. What got no answer may have happened, or happen yet."""

    def __init__(self) -> None:
        self.values: dict[str, set[bytes | None]] = {str(number): {None} for number in range(KEYS)}

    def judge(self, key: str, method: str, body: bytes, answer: Answer | None) -> str:
        """Take note of an answer; return what is wrong with it."""
        values = self.values[key]
        status = 0 if answer is None else answer.status
        if method == "GET":
            if answer is None or status >= 500:
                return ""
            read = None if status == 404 else answer.body
            return "" if status in (200, 404) and read in values else f"status {status}, {len(answer.body)} bytes"
        after = body if method == "PUT" else None
        if status in (200, 204):
            self.values[key] = {after}
        elif answer is None or status >= 500:
            values.add(after)
        else:
            return f"status {status}: {answer.body[:300]!r}"
        return ""


@pytest.fixture
def proxies(tmp_path: Path) -> Iterator[tuple[AwsLake, AwsLake, FaultyProxy, FaultyProxy]]:
    """A lake as it is, and through a proxy in front of the store and of the table."""
    variables, place = new_lake_on_aws("faulty", tmp_path / "cache")
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        store = stack.enter_context(FaultyProxy(place["s3_endpoint_url"]))
        table = stack.enter_context(FaultyProxy(place["dynamodb_endpoint_url"]))

        def lake(store_url: str, table_url: str) -> AwsLake:
            return AwsLake(
                objects=place["objects"],
                tables=place["location"],
                cache=tmp_path / "cache",
                region=place["region"],
                s3_endpoint_url=store_url,
                dynamodb_endpoint_url=table_url,
            )

        direct = lake(place["s3_endpoint_url"], place["dynamodb_endpoint_url"])
        with open_at(direct) as opened:
            opened.create_repository("sales", f"{place['objects']}/sales")
        yield direct, lake(store.url, table.url), store, table


def at_random(random: Random, troubles: tuple[Trouble, ...]) -> Callable[[str, int], Trouble]:
    return lambda *_: random.choice(troubles) if random.random() < LIKELIHOOD else None


@pytest.mark.ci
def test_nothing_acknowledged_is_lost_where_store_and_table_fail(
    proxies: tuple[AwsLake, AwsLake, FaultyProxy, FaultyProxy],
) -> None:
    direct, faulty, store, table = proxies
    random, model, statuses = Random(seed()), Model(), Counter[int]()
    mount = Mount(bucket="sales", repository="sales", ref="main")
    with running_gateway(faulty, mount, environment=dict(os.environ)) as gateway:
        caller = Caller(gateway.port)
        store.begin(at_random(random, OF_STORE))
        table.begin(at_random(random, OF_TABLE))
        for number in range(REQUESTS):
            key = random.choice(tuple(model.values))
            method = random.choice(("PUT", "PUT", "GET", "GET", "DELETE"))
            body = random.randbytes(random.choice(SIZES)) if method == "PUT" else b""
            try:
                answer: Answer | None = caller.send(method, f"/sales/{key}", body)
            except (OSError, http.client.HTTPException):
                answer = None  # it was cut, and so is no whole answer
            statuses[0 if answer is None else answer.status] += 1
            wrong = model.judge(key, method, body, answer)
            assert not wrong, f"request {number}, {method} {key}, seed {seed()}: {wrong}"
        store.begin(lambda *_: None)
        table.begin(lambda *_: None)
    with open_at(direct) as lake:
        sales = lake.repository("sales")
        there = {entry.path: sales.read("main", entry.path) for entry in sales.objects("main")}
    for key, values in model.values.items():
        assert there.get(key) in values, f"{key}, seed {seed()}"
    print(f"seed {seed()}: {dict(statuses)}")  # noqa: T201


@pytest.mark.ci
def test_a_table_that_stays_throttled_is_a_503_that_clients_repeat(
    proxies: tuple[AwsLake, AwsLake, FaultyProxy, FaultyProxy],
) -> None:
    _, faulty, _, table = proxies
    mount = Mount(bucket="sales", repository="sales", ref="main")
    with running_gateway(faulty, mount, environment=dict(os.environ)) as gateway:
        caller = Caller(gateway.port)
        assert caller.send("PUT", "/sales/a", b"x").status == 200
        table.begin(lambda *_: dynamodb_reply("ThrottlingException"))
        for method in ("PUT", "GET"):
            began = time.monotonic()
            answer = caller.send(method, "/sales/a", b"y" if method == "PUT" else b"")
            assert (answer.status, b"<Code>SlowDown</Code>" in answer.body) == (503, True), answer
            print(f"{method} after {time.monotonic() - began:.1f} s")  # noqa: T201
        table.begin(lambda *_: None)
        assert caller.send("GET", "/sales/a").body in (b"x", b"y")
