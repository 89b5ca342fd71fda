"""Files of sorted records: we read what RocksDB wrote, RocksDB reads the same, and damage never passes unnoticed."""

import subprocess
import sys
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict
from xxhash import xxh3_64_intdigest

from graveler.errors import UnavailableError
from graveler.runtime.local import ScratchFolder
from graveler.tree.sstable import MalformedTableError, Table, write_table
from graveler.tree.tail import Label, with_label
from tests.support.campaigns import examples
from tests.support.trees import ALONE
from tests.tree.support import LAW

Records = dict[bytes, bytes]


def table_bytes(records: Records) -> bytes:
    ordered = sorted(records)
    return write_table(ordered, [records[key] for key in ordered], ALONE.scratch)


def contents(table: Table, start: bytes = b"") -> Records:
    found = Records()
    for keys, values in table.blocks(start):
        assert keys
        assert len(keys) == len(values)
        found.update(zip(keys, values, strict=True))
    return found


def check_reading(records: Records, probes: list[bytes]) -> None:
    table = Table(table_bytes(records))
    assert list(contents(table).items()) == sorted(records.items())
    ordered = sorted(records)
    for probe in probes:
        for key in (probe, probe + b"\0", probe[:-1]):
            assert table.get(key) == records.get(key)
            assert list(contents(table, key)) == ordered[bisect_left(ordered, key) :]


def many(count: int, random: Random) -> Records:
    """Paths with long shared parts, values of some 50 bytes that do not compress."""
    return {
        b"warehouse/sales/day=2026-%02d-%02d/part-%07d.parquet"
        % (n // 3000 % 12 + 1, n // 100 % 28 + 1, n): random.randbytes(random.choice((0, 1, 40, 50, 60, 130)))
        for n in range(count)
    }


WORLDS: dict[str, Records] = {
    "one": {b"k": b"v"},
    "one, empty value": {b"k": b""},
    "one, zero byte": {b"\0": b"\0"},
    "keys that go on like what RocksDB appends": {b"k" + (b"\x01" + bytes(7))[:n]: b"v%d" % n for n in range(9)},
    "again and again": {b"k" + b"\x01" * n: b"" for n in range(40)},
    "all empty values": {b"%05d" % n: b"" for n in range(5000)},
    "long keys": {b"%03d" % n + b"k" * 1021: b"v%d" % n for n in range(300)},
    "long shared keys": {b"k" * 1020 + b"%04d" % n: b"v%d" % n for n in range(3000)},
    "prefixes of each other": {b"a" * n: b"v%d" % n for n in range(1, 400)},
    "0xff": {b"\xff" * n: b"v%d" % n for n in range(1, 300)},
    "large values": {b"k%d" % n: Random(n).randbytes(70_000 + n) for n in range(5)},
    "large and small values": {b"%03d" % n: b"x" * (300_000 if n % 50 == 7 else n % 5) for n in range(200)},
    "equal values": {b"part-%05d" % n: b"same" * 10 for n in range(3000)},
    "50,000": many(50_000, Random(1)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_records_are_read_as_they_were_written(world: str) -> None:
    records = WORLDS[world]
    ordered = sorted(records)
    check_reading(records, ordered[:: max(1, len(ordered) // 20)] + ordered[-1:] + [b"zz", b"0", b"\xff\xff"])


@pytest.mark.parametrize("world", WORLDS)
def test_every_key_is_found_and_no_neighbour_of_it(world: str) -> None:
    records = dict(sorted(WORLDS[world].items())[:6000])
    table = Table(table_bytes(records))
    for key, value in records.items():
        assert table.get(key) == value
        assert table.get(key + b"\0") == records.get(key + b"\0")


@settings(LAW, max_examples=examples(150))
@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=12) | st.text("ab/", min_size=1).map(str.encode),
        st.binary(max_size=200),
        min_size=1,
    ),
    st.integers(1, 300),
)
def test_any_records_are_read_as_they_were_written(records: Records, copies: int) -> None:
    """``copies`` makes files of many blocks of small examples."""
    more = {b"%s/%04d" % (key, n): value for key, value in records.items() for n in range(copies)}
    check_reading(records, list(records)[:5])
    check_reading(more, list(more)[:3])


@pytest.mark.parametrize("world", WORLDS)
def test_plain_rocksdb_reads_the_same(world: str, tmp_path: Path) -> None:
    """Any RocksDB opens our files: here one that knows nothing of our options, nor of labels."""
    records = WORLDS[world]
    file = tmp_path / "table.sst"
    file.write_bytes(with_label(table_bytes(records), Label.of("ranges", f"{'0' * 64}-{'1' * 32}")))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(tmp_path / "db"), options)
    try:
        database.ingest_external_file([str(file)])
        assert list(database.items()) == sorted(records.items())
        for key in sorted(records)[::97]:
            assert database[key] == records[key]
            assert (key + b"\0" in database) == (key + b"\0" in records)
    finally:
        database.close()


def test_a_table_is_shared_by_threads() -> None:
    records = many(5000, Random(2))
    table = Table(table_bytes(records))

    def read(number: int) -> bool:
        random = Random(number)
        probes = random.sample(sorted(records), 200)
        return contents(table) == records and all(table.get(key) == records[key] for key in probes)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(12)))


def test_tables_are_written_by_several_threads_at_a_time() -> None:
    worlds = [many(3000, Random(n)) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert [contents(Table(data)) for data in pool.map(table_bytes, worlds)] == worlds


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    for scratch in (tmp_path / "missing", Path("/proc/self")):
        with pytest.raises(UnavailableError, match=str(scratch)):
            write_table([b"k"], [b"v"], ScratchFolder(scratch))


def test_a_full_disk_is_unavailable_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk."""
    script = """
import resource, sys
from pathlib import Path
from random import randbytes
from graveler.errors import UnavailableError
from graveler.runtime.local import ScratchFolder
from graveler.tree.sstable import write_table
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_table([b"%05d" % n for n in range(5000)], [randbytes(100) for _ in range(5000)], ScratchFolder(Path(sys.argv[1])))
except UnavailableError as error:
    assert sys.argv[1] in str(error)
    sys.exit(42)
"""
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 42
    assert not list(tmp_path.iterdir())


# -- damage

SMALL: Records = {b"key/%03d" % n: b"value %d" % (n % 7) for n in range(30)}
BLOCKS: Records = {b"key/%04d" % n: Random(n).randbytes(100) for n in range(400)}
DAMAGED = {"one block": SMALL, "many blocks": BLOCKS}


def opened(data: bytes) -> Records | None:
    """What the file says; None if it is refused. Any other exception is a failure."""
    try:
        table = Table(data)
    except MalformedTableError:
        return None
    return contents(table)


@pytest.mark.parametrize("world", DAMAGED)
def test_a_file_cut_off_anywhere_is_refused(world: str) -> None:
    data = table_bytes(DAMAGED[world])
    step = 1 if len(data) < 5000 else 37
    lengths = {*range(0, len(data), step), *range(len(data) - 200, len(data)), *range(100)}
    for length in lengths:
        with pytest.raises(MalformedTableError):
            Table(data[:length])
    for shift in (1, 5, 1000):
        with pytest.raises(MalformedTableError):
            Table(data[shift:])
        with pytest.raises(MalformedTableError):
            Table(data + b"\0" * shift)


@pytest.mark.parametrize("world", DAMAGED)
def test_a_flipped_byte_is_seen_when_the_file_is_opened_or_changes_nothing(world: str, seed: int) -> None:
    """Nothing but the footer's padding is without a checksum; there a change is without effect."""
    records = DAMAGED[world]
    data, random = table_bytes(records), Random(seed)
    every = len(data) < 5000
    places = range(len(data)) if every else [*random.sample(range(len(data)), 1500), *range(len(data) - 400, len(data))]
    unseen = set()
    for place in places:
        masks = (
            {0xFF, 1, 0x80, random.randrange(1, 256)}
            if every or place >= len(data) - 400
            else {random.randrange(1, 256)}
        )
        for mask in masks:
            damaged = bytearray(data)
            damaged[place] ^= mask
            found = opened(bytes(damaged))
            if found is not None:
                assert found == records
                unseen.add(place)
    assert all(len(data) - 53 < place < len(data) - 12 for place in unseen)


def test_two_files_put_together_wrongly_are_refused(seed: int) -> None:
    random = Random(seed)
    one, other = table_bytes(SMALL), table_bytes(BLOCKS)
    for _ in range(500):
        a, b = random.randrange(1, len(one)), random.randrange(1, len(other))
        for mixed in (one[:a] + other[b:], other[:b] + one[a:], one[:a] + b"\0" * 50 + one[a:]):
            assert opened(mixed) in (None, SMALL, BLOCKS)


@settings(LAW, max_examples=examples(500))
@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    end = bytes.fromhex("05000000f7cff485b741e288")
    for candidate in (data, data + end, data[:200] + b"\x04" + data[200:240].ljust(40, b"\0") + end):
        assert opened(candidate) is None


def with_right_checksums(data: bytes, changed: int, places: list[tuple[int, int]]) -> bytes:
    """Damage that a checksum does not tell: the block around ``changed`` gets the digest of what it now is."""
    repaired = bytearray(data)
    for offset, size in places:
        if offset <= changed <= offset + size:
            digest = xxh3_64_intdigest(bytes(repaired[offset : offset + size])) ^ repaired[offset + size] * 0x6B9083D9
            repaired[offset + size + 1 : offset + size + 5] = (digest & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(repaired)


def block_places(data: bytes) -> list[tuple[int, int]]:
    """Offset and size of each block, found by trying: a block's checksum ends it."""
    places, begin, at = [], 0, 0
    while at + 5 <= len(data):
        digest = (xxh3_64_intdigest(data[begin:at]) ^ data[at] * 0x6B9083D9) & 0xFFFFFFFF
        if digest == int.from_bytes(data[at + 1 : at + 5], "little"):
            places.append((begin, at - begin))
            begin = at = at + 5
        else:
            at += 1
    return places


def test_damage_below_right_checksums_is_refused_or_read_without_any_other_error(seed: int) -> None:
    """No checksum is proof against malice: what it lets through must not crash, hang or eat memory either."""
    random = Random(seed)
    for records in (SMALL, {b"k": b"v" * 3}, {b"%d" % n: b"x" * 100 for n in range(90)}):
        data = table_bytes(records)
        places = block_places(data)
        assert len(places) >= 3
        for _ in range(3000):
            damaged = bytearray(data)
            place = random.randrange(len(data) - 53)
            damaged[place] = random.choice((0, 1, 7, 127, 128, 255, random.randrange(256)))
            for extra in range(random.choice((0, 0, 3))):
                damaged[min(place + 1 + extra, len(data) - 54)] = random.randrange(256)
            repaired = with_right_checksums(bytes(damaged), place, places)
            try:
                table = Table(repaired)
            except MalformedTableError:
                continue
            for key in (*records, b"", b"zzz"):
                try:
                    table.get(key)
                except MalformedTableError:
                    break
            try:
                for keys, values in table.blocks():
                    assert len(keys) == len(values)
            except MalformedTableError:
                continue


@pytest.mark.parametrize("claimed", [1 << 26, (1 << 26) + 1, 1 << 40, 1 << 62])
def test_a_block_that_claims_to_be_huge_allocates_nothing(claimed: int) -> None:
    """Both by RocksDB's length before the frame and by zstd's own within it."""
    data = bytearray(table_bytes({b"%03d" % n: b"x" * 100 for n in range(90)}))
    places = block_places(bytes(data))
    offset, size = places[0]
    assert data[offset + size] == 7
    length = bytearray()
    rest = claimed
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    frame = bytes.fromhex("28b52ffd") + b"\xe0" + claimed.to_bytes(8, "little") + b"\x01\x00\x00"
    for forged in (bytes(length) + frame, bytes(length) + bytes(data[offset + 2 : offset + size]), b"\x64" + frame):
        copy = bytearray(data)
        copy[offset : offset + min(len(forged), size)] = forged[:size]
        assert len(copy) == len(data)
        table = Table(with_right_checksums(bytes(copy), offset, places))
        with pytest.raises(MalformedTableError):
            list(table.blocks())
        with pytest.raises(MalformedTableError):
            table.get(b"003")
