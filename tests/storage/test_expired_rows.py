"""Tables without a service for it remove rows whose ``expires`` has passed, and whole partitions."""

from pathlib import Path

from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key, Tables
from graveler.storage.tables.sqlite import SqliteTables


def check(tables: Tables) -> None:
    tables.put(Key("p", b"past"), {"expires": 99})
    tables.put(Key("p", b"now"), {"expires": 100})
    tables.put(Key("p", b"never"), {"other": 1})
    tables.put(Key("q", b"alike"), {"expired": 1, "text": "expires"})
    assert tables.remove_expired(100.0) == 1
    assert tables.remove_expired(100.0) == 0
    assert [sort for sort, _ in tables.query("p").items] == [b"never", b"now"]
    assert tables.get(Key("q", b"alike")) is not None

    for partition in ("u/", "u/a", "u/a/b", "u/\U0010ffff", "u0", "u", "v/u/"):
        tables.put(Key(partition, b"1"), {})
        tables.put(Key(partition, b"2"), {})
    assert tables.remove_partitions("u/") == 8
    assert tables.remove_partitions("u/") == 0
    assert [len(tables.query(name).items) for name in ("u/", "u/a", "u/a/b", "u0", "u", "v/u/")] == [0, 0, 0, 2, 2, 2]


def test_in_memory() -> None:
    check(MemoryTables())


def test_in_a_file(tmp_path: Path) -> None:
    with SqliteTables(tmp_path / "tables.sqlite") as tables:
        check(tables)
