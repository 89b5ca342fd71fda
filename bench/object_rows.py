"""Rows about the bytes of objects: read and exported whole, compared with what the lake noted and not."""

import hashlib
import random
from collections.abc import Iterator
from functools import partial
from shutil import rmtree
from typing import Any

from bench.rows import REPOSITORY, Run, row
from graveler.lake.context import UNLIMITED
from graveler.lake.exporting.export import export
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.requests.exporting import Export

_SMALL = 4 << 10
_MANY = 2000
_LARGE = 256 << 20
_FILES, _FILE = 500, 1 << 20


class Unverified:
    """A repository whose whole reads compare the size alone."""

    def __init__(self, repository: OpenRepository) -> None:
        self._repository = repository

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)

    def stream(self, ref: str, path: str) -> Iterator[bytes]:
        return self._repository.bytes_in(ref, self._repository.stat(ref, path), verify=False)


def _filled(run: Run, amount: int, size: int) -> OpenRepository:
    """A lake of its own with so many objects of a size, all of which are in the system's cache."""
    repository = create_folder_lake(run.folder.with_name("objects")).create_repository(REPOSITORY, "local://objects")
    data = (random.Random(7).randbytes(1 << 20) * (1 + (size >> 20)))[:size]
    for number in range(amount):
        repository.upload("main", f"{number:06}", data)
    repository.commit("main", "objects")
    return repository


def _reads(run: Run, amount: int, size: int, *, verify: bool) -> None:
    repository = _filled(run, amount, size)
    entries = list(repository.objects("main@"))
    run.amount = amount

    def read() -> None:
        for entry in entries:
            for _ in repository.bytes_in("main", entry, verify=verify):
                pass

    for _ in range(run.repeat + 1):
        run.timed(read)
    del run.seconds[0]
    run.note = f"{size * amount / min(run.seconds) / 1e6:,.0f} MB/s at best"
    rmtree(run.folder.with_name("objects"))


def _exports(run: Run, *, verify: bool) -> None:
    repository = _filled(run, _FILES, _FILE)
    run.amount = _FILES
    source: Any = repository if verify else Unverified(repository)
    for number in range(run.repeat + 1):
        folder = run.folder.with_name(f"out-{number}")
        run.timed(partial(export, source, Export(ref="main", folder=folder), UNLIMITED))
        rmtree(folder)
    del run.seconds[0]
    run.note = f"{_FILES * _FILE / min(run.seconds) / 1e6:,.0f} MB/s at best"
    rmtree(run.folder.with_name("objects"))


@row("bytes: 2,000 whole reads of 4 KiB, MD5 compared")
def small_compared(run: Run) -> None:
    _reads(run, _MANY, _SMALL, verify=True)


@row("bytes: 2,000 whole reads of 4 KiB, size compared")
def small_by_size(run: Run) -> None:
    _reads(run, _MANY, _SMALL, verify=False)


@row("bytes: whole read of 256 MiB, MD5 compared")
def large_compared(run: Run) -> None:
    _reads(run, 1, _LARGE, verify=True)


@row("bytes: whole read of 256 MiB, size compared")
def large_by_size(run: Run) -> None:
    _reads(run, 1, _LARGE, verify=False)


@row("bytes: MD5 of 256 MiB in memory")
def digest_alone(run: Run) -> None:
    data = random.Random(7).randbytes(1 << 20) * (_LARGE >> 20)
    for _ in range(run.repeat):
        run.timed(lambda: hashlib.md5(data, usedforsecurity=False).digest())
    run.note = f"{_LARGE / min(run.seconds) / 1e6:,.0f} MB/s at best"


@row("bytes: export of 500 objects of 1 MiB, MD5 compared")
def export_compared(run: Run) -> None:
    _exports(run, verify=True)


@row("bytes: export of 500 objects of 1 MiB, size compared")
def export_by_size(run: Run) -> None:
    _exports(run, verify=False)


@row("bytes: fsck that reads 500 objects of 1 MiB")
def check_bytes(run: Run) -> None:
    repository = _filled(run, _FILES, _FILE)
    run.amount = _FILES
    for _ in range(run.repeat):
        report = run.timed(partial(repository.fsck, object_bytes=True))
        assert report.findings == ()
        assert report.counts.bytes == _FILES * _FILE
    run.note = f"{_FILES * _FILE / min(run.seconds) / 1e6:,.0f} MB/s at best"
    rmtree(run.folder.with_name("objects"))
