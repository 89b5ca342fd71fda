"""Keys to measure with: real file paths, or generated ones, sorted by their bytes.

Real ones are the paths in Debian's ``Contents`` indices, which ``apt-file`` fetches: 1.6 million for amd64, 5.6 million more
for all. Generated ones look like a hive table's: ``table/dt=2026-01-01/part-00000.parquet``.
"""

import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from os import SEEK_END
from pathlib import Path
from shutil import which

from xxhash import xxh3_128_digest

from graveler.model import ObjectEntry

LISTS = Path("/var/lib/apt/lists")
READER = "/usr/lib/apt/apt-helper"
EXTERNAL = "s3://warehouse/debian/"


def debian(cache: Path, which_index: str = "amd64") -> Path:
    """A file of the paths of one index (``amd64`` or ``all``), a line each, sorted; made once and kept in ``cache``."""
    kept = cache / f"debian-{which_index}.keys"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(".part")
        paths = sorted(set(_contents(_index(which_index))))
        temporary.write_bytes(b"\n".join(paths) + b"\n")
        temporary.rename(kept)
    return kept


def hive(cache: Path, count: int) -> Path:
    """A file of ``count`` generated keys, a line each, sorted."""
    kept = cache / f"hive-{count}.keys"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(".part")
        with temporary.open("wb", buffering=1 << 20) as file:
            first = date(2016, 1, 1)
            tables = max(1, count // 1_000_000)
            days, parts = 2_000, -(-count // (tables * 2_000))
            left = count
            for table in range(tables):
                for day in range(days):
                    when = first + timedelta(days=day)
                    for part in range(min(parts, left)):
                        file.write(b"table%05d/dt=%s/part-%05d.snappy.parquet\n" % (table, str(when).encode(), part))
                    left -= min(parts, left)
        temporary.rename(kept)
    return kept


def read(path: Path, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """The keys of a file, one by one: those whose lines begin at byte ``start`` or behind it, and before ``stop``."""
    with path.open("rb", buffering=1 << 20) as file:
        file.seek(start)
        at = start
        for line in file:
            if stop is not None and at >= stop:
                return
            at += len(line)
            yield line[:-1]


def parts(path: Path, count: int) -> list[tuple[int, int]]:
    """The bytes of a file in so many parts of whole lines: where each begins and ends."""
    bounds = [0]
    with path.open("rb") as file:
        size = file.seek(0, SEEK_END)
        for number in range(1, count):
            file.seek(size * number // count)
            file.readline()
            bounds.append(file.tell())
    return list(pairwise([*bounds, size]))


def entry(key: bytes, version: int = 0) -> ObjectEntry:
    """What an inventory would say of this key: all of it derived from the path, and different in each version. 0.3 µs."""
    checksum = xxh3_128_digest(key, version)
    size = (checksum[0] << 8 | checksum[1]) * 37
    path = key.decode()
    return ObjectEntry(path, EXTERNAL + path, size, checksum.hex(), 1_700_000_000 + size)


def _index(which_index: str) -> Path:
    """apt's file of an index; fetched by ``apt-file update`` if there is none."""
    found = _found(which_index)
    if not found:
        print("bench: fetching Debian's Contents indices by apt-file", file=sys.stderr)
        if which("apt-file") is None:
            _run("apt-get", "update", "-qq")
            _run("apt-get", "install", "-qq", "-y", "--no-install-recommends", "apt-file")
        _run("apt-file", "update")
        found = _found(which_index)
    if not found:
        raise SystemExit(f"bench: apt-file brought no Contents index for {which_index}; use --keys hive:1600000")
    return max(found, key=lambda path: path.stat().st_size)


def _found(which_index: str) -> list[Path]:
    return [path for path in LISTS.glob(f"*_main_Contents-{which_index}*") if path.suffix != ".diff_Index"]


def _contents(index: Path) -> Iterator[bytes]:
    """The paths of an index: each line is a path, white space, and the packages that have it."""
    with subprocess.Popen([READER, "cat-file", str(index)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            path = line.rstrip().rsplit(None, 1)[0].rstrip()
            try:
                path.decode()
            except UnicodeDecodeError:
                continue
            if 0 < len(path) <= 1024:
                yield path


def _run(*command: str) -> None:
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed; use --keys hive:1600000 for generated keys")
