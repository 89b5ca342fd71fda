"""The bytes of objects: as files, in parts, and the places where other readers find them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, overload

from fsspec.spec import AbstractFileSystem

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.metadata import file_info
from graveler.filesystem.object_file import BLOCK, FILE_BLOCK, ObjectFile, PlainFile, pieces_of_file, pieces_of_object
from graveler.filesystem.resolver import Resolver
from graveler.model import ObjectEntry

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_THREADS: Final = 16
"""Object reads at once, where they wait for a network."""
_OPEN_FILES: Final = 100
"""Files that are open at once: a process may have only so many."""
_LOOKUPS: Final = 1000
"""Objects that one request looks up."""

Bound = int | None
"""Where a part begins or ends, as in a slice."""


class ObjectBytes:
    """The bytes of the objects of one lake. ``fs`` lists folders."""

    def __init__(self, fs: AbstractFileSystem, resolver: Resolver) -> None:
        self._fs = fs
        self._resolver = resolver

    @overload
    def open(self, place: Place, block_size: object, *, kind: type[ObjectFile] = ...) -> ObjectFile: ...

    @overload
    def open(self, place: Place, block_size: object, *, plain: bool) -> ObjectFile | PlainFile: ...

    def open(
        self, place: Place, block_size: object, *, plain: bool = False, kind: type[ObjectFile] = ObjectFile
    ) -> ObjectFile | PlainFile:
        """Open an object as a file of the ``kind``; for a caller that lets one thread after another use the file, as a
        :class:`PlainFile` (``plain``), if it is a local one that has the recorded size."""
        size = block_size if isinstance(block_size, int) and block_size > 0 else None  # fsspec also says "default"
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            entry = self._resolver.stat(repository, ref, place)
            file = repository.open_file(ref, entry)
            if plain and file is not None and os.fstat(file.fileno()).st_size == entry.size:
                return PlainFile(file)
            info = file_info(place, entry)
            note = partial(self._resolver.note, place)
            if file is not None:
                fetch = pieces_of_file(file, entry, ref)
                return kind(entry, place.name, info, fetch, min(size or FILE_BLOCK, FILE_BLOCK), file, note)
            fetch = pieces_of_object(repository.opened(ref, entry))
            return kind(entry, place.name, info, fetch, size or BLOCK, note=note)

    def read(self, place: Place, start: Bound, end: Bound) -> bytes:
        """Return an object, compared with its recorded checksum, or a part of it."""
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            entry = self._resolver.stat(repository, ref, place)
            if start is None and end is None:
                return b"".join(repository.bytes_in(ref, entry))
            return _part(repository, ref, entry, start, end)

    def read_parts(
        self, places: Sequence[Place], starts: Sequence[Bound], ends: Sequence[Bound], *, raises: bool
    ) -> "list[bytes | Exception]":
        """Return parts of objects, in the order given; unless it ``raises``, an error takes the place of its part."""
        numbers: dict[Place, list[int]] = {}
        for number, place in enumerate(places):
            numbers.setdefault(place, []).append(number)
        parts: list[bytes | Exception] = [b""] * len(places)
        distinct = list(numbers)
        bounds = list(zip(starts, ends, strict=True))
        for start in range(0, len(distinct), _OPEN_FILES):
            group = {place: numbers[place] for place in distinct[start : start + _OPEN_FILES]}
            self._read_into(parts, group, bounds, raises=raises)
        return parts

    def _read_into(
        self,
        parts: "list[bytes | Exception]",
        numbers: Mapping[Place, Sequence[int]],
        bounds: Sequence[tuple[Bound, Bound]],
        *,
        raises: bool,
    ) -> None:
        """Read parts of several objects, the ``numbers`` of each object, into ``parts``."""
        files: list[ObjectFile] = []
        reads: list[tuple[ObjectFile, int]] = []

        def read(file: ObjectFile, number: int) -> None:
            begin, stop = _bounds(file.size, *bounds[number])
            try:
                parts[number] = file.read_at(begin, stop - begin)
            except OSError as error:
                if raises:
                    raise
                parts[number] = error

        try:
            for place, of_place in numbers.items():
                try:
                    file = self.open(place, None)
                except (OSError, ValueError) as error:
                    if raises:
                        raise
                    for number in of_place:
                        parts[number] = error
                else:
                    files.append(file)
                    reads += ((file, number) for number in of_place)
            if len(reads) < 2 or all(file.is_local for file in files):
                for file, number in reads:
                    read(file, number)
                return
            with ThreadPoolExecutor(min(_THREADS, len(reads)), "graveler-fs") as pool:
                list(pool.map(read, *zip(*reads, strict=True)))
        finally:
            for file in files:
                file.close()

    def native_places(
        self, place: Place, names: Sequence[str], takes: Callable[[str, int], bool]
    ) -> list[tuple[str, str]]:
        """Return names and native places of the objects of these names, all of the ref of ``place``, and of all below folders.
        :class:`ObjectNotFoundError` if there are none."""
        with self._resolver.translating_errors(place):
            if not names:
                raise ObjectNotFoundError(place.path, place.ref)
            places: list[tuple[str, str]] = []
            for start in range(0, len(names), _LOOKUPS):
                places += self._native_places(place, names[start : start + _LOOKUPS], takes)
            return places

    def _native_places(
        self, place: Place, names: Sequence[str], takes: Callable[[str, int], bool]
    ) -> list[tuple[str, str]]:
        repository, ref = self._resolver.repository_and_ref(place)

        def native(entries: Iterable[tuple[str, ObjectEntry | None]]) -> list[tuple[str, str]]:
            return [
                (name, repository.native(ref, entry)) for name, entry in entries if entry and takes(name, entry.size)
            ]

        def stats(names: Iterable[str]) -> list[ObjectEntry | None]:
            return repository.stat_many(ref, [Place.of(name).path for name in names])

        places: list[tuple[str, str]] = []
        entries = stats(names) if place.path else [None]  # the ref itself, which no pattern finds, is a folder
        for name, entry in zip(names, entries, strict=True):
            if entry is not None:
                places += native([(name, entry)])
            elif not self._fs.isdir(name):
                raise ObjectNotFoundError(Place.of(name).path, place.ref)
            else:
                below: list[str] = self._fs.find(name)
                places += native(zip(below, stats(below), strict=True))
        return places


def _bounds(size: int, start: Bound, end: Bound) -> tuple[int, int]:
    """Return where a part begins and ends, as a slice of the object's bytes does."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


def _part(repository: "AnyRepository", ref: str, entry: ObjectEntry, start: Bound, end: Bound) -> bytes:
    begin, stop = _bounds(entry.size, start, end)
    return b"".join(repository.bytes_in(ref, entry, begin, stop - begin)) if stop > begin else b""
