"""Computed capacity units equal those reported by DynamoDB's engine, where it counts like AWS."""

import json
from collections.abc import Callable

from msgspec import structs

from graveler.storage.tables.port import Key, Put, Tables
from tests.aws.conftest import Proxies
from tests.aws.scene import servers
from tests.support.capacity import Units, units_of


def test_units_are_those_of_the_engine(proxies: Proxies) -> None:
    proxy = proxies[0]
    table = structs.replace(servers(), dynamodb_url=proxy.url).table()
    proxy.begin(lambda *_: None)
    seen: list[tuple[str, bytes, bytes]] = []
    proxy.answered = lambda *exchange: seen.append(exchange)
    k, large, small = Key("units", b"k"), Key("units", b"large"), Key("units", b"small")
    verbs: list[tuple[Callable[[Tables], object], Units]] = [
        (lambda t: t.put(small, {"v": b"x" * 100, "n": 12345, "list": ["a", "ü"], "yes": True}), Units(write=1)),
        (lambda t: t.put(large, {"v": "x" * 9000}), Units(write=9)),
        (lambda t: t.put(k, {"v": b"x" * 1020}), Units(write=2)),
        (lambda t: t.get(small), Units(read=1)),
        (lambda t: t.get(large), Units(read=3)),
        (lambda t: t.get_many([small, large, k]), Units(read=5)),
        (lambda t: t.query("units"), Units(read=3)),
        (lambda t: t.write_many([Put(small, {}), Put(k, {"v": b"x" * 3000})]), Units(write=4)),
    ]
    for verb, expected in verbs:
        seen.clear()
        verb(table)
        ((operation, request, answer),) = seen
        assert units_of(operation, request, answer) == expected, operation
        told = json.loads(answer)["ConsumedCapacity"]
        consumed = sum(each["CapacityUnits"] for each in (told if isinstance(told, list) else [told]))
        assert consumed == expected.read + expected.write, operation
    seen.clear()
    table.transact([Put(small, {"v": b"x"}), Put(k, {"v": b"x" * 1500})])
    table.get_many([Key("units", b"none"), Key("units", b"neither")])
    table.query("nothing")
    assert [units_of(*exchange) for exchange in seen] == [Units(write=6), Units(read=2), Units(read=1)]
