"""Files of rows: they can be read from any place, and no damage goes unnoticed. Damaged marks stop the collector."""

from random import Random

import pytest

from graveler.errors import CorruptError
from graveler.retention.comparison import NAME_BYTES, ROW
from graveler.retention.mark_state import STATE
from graveler.retention.rowfiles import ROWS, look_at_rows, name_at, put_rows, read_rows
from graveler.storage.objects.memory import MemoryObjects
from tests.lake.support import World
from tests.retention.support import AGE, check_live, collect, keys, write

COUNTS = (0, 1, 2, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 7)


def make(count: int) -> tuple[MemoryObjects, list[bytes]]:
    random = Random(count)
    objects = MemoryObjects("mem://rows")
    rows = sorted(ROW.pack(random.randbytes(NAME_BYTES), number) for number in range(count))
    pieces, at = list[bytes](), 0
    while at < count:
        some = random.randrange(1, 2 * ROWS)
        pieces.append(b"".join(rows[at : at + some]))
        at += some
    put_rows(objects, "rows", pieces)
    return objects, rows


@pytest.mark.parametrize("count", COUNTS)
def test_rows_are_read_from_anywhere(count: int) -> None:
    objects, rows = make(count)
    seen = look_at_rows(objects, "rows")
    assert seen.rows == count
    assert b"".join(read_rows(objects, "rows").rest()) == b"".join(rows)
    for number in {0, count // 3, count // 2, count - 1} if count else ():
        name = rows[number][:NAME_BYTES]
        assert name_at(objects, "rows", number) == name
        assert b"".join(read_rows(objects, "rows", name).rest()) == b"".join(rows[number + 1 :])
    if count:
        assert (seen.first, seen.last) == (rows[0][:NAME_BYTES], rows[-1][:NAME_BYTES])


@pytest.mark.parametrize("count", [0, 2, ROWS, 2 * ROWS + 7])
def test_no_damage_goes_unnoticed(count: int) -> None:
    """A bit that flips, an end that is missing, a part of another file: an error, whoever reads from wherever."""
    objects, rows = make(count)
    whole, random = objects.get("rows"), Random(count)
    other = make(count + ROWS)[0].get("rows")
    damaged = [
        whole[:-1],
        whole + b"\0",
        whole[: len(whole) // 2],
        b"",
        other[: len(whole) // 2] + whole[len(whole) // 2 :],
    ]
    damaged.append(whole[: 29 * ROWS + 4] + whole[-62:] if count > ROWS else whole[4:])
    for _ in range(12):
        at = random.randrange(len(whole))
        damaged.append(whole[:at] + bytes([whole[at] ^ 1 << random.randrange(8)]) + whole[at + 1 :])
    for data in damaged:
        objects.put("rows", data)
        with pytest.raises(CorruptError, match="rows is damaged or incomplete, so nothing was collected; remove it"):
            list(read_rows(objects, "rows").rest())
        for number in (0, count // 2) if count else ():
            above = rows[number][:NAME_BYTES]
            try:
                found = b"".join(read_rows(objects, "rows", above).rest())
            except CorruptError:
                continue
            assert found == b"".join(rows[number + 1 :]), "what lies before is not looked at"


def damaged_marks(suffix: str) -> tuple[World, str]:
    """A lake with something to remove, whose marks of that kind are damaged."""
    world = World()
    write(world.main, "main", **{f"k{number}": f"{number}" for number in range(50)})
    world.clock.time += AGE
    collect(world)
    world.main.upload("main", "dropped", b"dropped")
    world.main.reset("main")
    world.clock.time += AGE
    (key,) = [key for key in keys(world, "_graveler/gc/marks/") if key.endswith(suffix)]
    data = world.objects().get(key)
    world.objects().put(key, data[:100] + bytes([data[100] ^ 1]) + data[101:])
    return world, key


def test_rows_that_are_damaged_remove_nothing() -> None:
    world, key = damaged_marks(".rows")
    before = keys(world, "data/")
    with pytest.raises(CorruptError, match=key):
        collect(world)
    assert keys(world, "data/") == before
    world.objects().delete(key)
    assert collect(world).plan.ranges_read > 0
    assert len(keys(world, "data/")) == 50
    check_live(world)


def test_a_state_that_is_damaged_is_made_anew() -> None:
    world, key = damaged_marks("state.msgpack")
    assert key == STATE
    assert collect(world).plan.ranges_read > 0
    assert len(keys(world, "data/")) == 50
    check_live(world)
