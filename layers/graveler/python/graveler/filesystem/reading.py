"""The bytes of objects: whole, in parts, as files, and copied to local files."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import isfilelike, stringify_path

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.local_targets import Download, expect_files, in_folder, local_paths
from graveler.filesystem.metadata import file_info
from graveler.filesystem.object_file import BLOCK, FILE_BLOCK, ObjectFile, PlainFile, pieces_of_file, pieces_of_object
from graveler.filesystem.selecting import PathOrPaths, Selecting, as_paths
from graveler.model import ObjectEntry
from graveler.system.temporary_files import file_beside

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_THREADS: Final = 16
"""Object reads at once, where they wait for a network."""
_OPEN: Final = 100
"""Files that are open at once."""
_TOGETHER: Final = 1000
"""Objects that one request looks up."""


def _every(_: str, __: int) -> bool:
    """Take every object."""
    return True


class Reading(Selecting):
    """Reading of objects."""

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return an object, or the bytes from ``start`` to before ``end``, which count from the end if negative. A whole object
        is compared with its recorded checksum. Cost: a lookup and an object read."""
        place = self._place(path)
        with self._told(place):
            verbs, ref = self._reading(place)
            entry = self._stat(verbs, ref, place)
            if start is None and end is None:
                return b"".join(verbs.bytes_in(ref, entry))
            return _part(verbs, ref, entry, start, end)

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: "Sequence[int | None] | int | None",
        ends: "Sequence[int | None] | int | None",
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> "list[bytes | Exception]":
        """Return parts of objects, in the order given. With ``on_error="return"`` an error takes the place of its part, else
        it is raised; ``TypeError`` for one path instead of several. Cost: a
        lookup for each object, and an object read for each part, several at once."""
        del max_gap  # parts are read one by one
        if isinstance(paths, str | bytes | os.PathLike):
            raise TypeError(f"{paths!r} is one path; give a list of paths, one for each part")
        first = [starts] * len(paths) if not isinstance(starts, Iterable) else list(starts)
        behind = [ends] * len(paths) if not isinstance(ends, Iterable) else list(ends)
        if not len(paths) == len(first) == len(behind):
            raise ValueError(f"{len(paths)} paths, {len(first)} starts and {len(behind)} ends; give as many of each")
        wanted: dict[str, list[int]] = {}
        for at, path in enumerate(paths):
            wanted.setdefault(path, []).append(at)
        found: list[bytes | Exception] = [b""] * len(paths)
        names = list(wanted)
        for at in range(0, len(names), _OPEN):  # a process may have only so many files open
            self._fill({name: wanted[name] for name in names[at : at + _OPEN]}, first, behind, found, on_error)
        return found

    def get_file(
        self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        """Write an object to a local file, which appears as a whole; into a folder if ``lpath`` ends with a slash. A folder of
        the lake is made. The bytes are compared with the recorded checksum. Cost: a lookup and an object read."""
        target = outfile if outfile is not None else lpath
        place = self._place(rpath)
        if not isfilelike(target) and self.isdir(rpath):
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - a path of any kind
            return
        if not isfilelike(target):
            target = in_folder(stringify_path(target), place)
        with self._told(place):
            verbs, ref = self._reading(place)
            entry = verbs.stat(ref, place.path)
        expect_files([Download(place, entry, target)], None)
        self._download(place, entry, target, callback)

    def get(
        self,
        rpath: PathOrPaths,
        lpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        """Write objects to local files, with ``recursive`` all below folders, each as :meth:`get_file`. Targets are named as in
        fsspec's :meth:`get`: a slash at the end of ``lpath`` means a folder, which is made if it does not exist. An empty object
        whose path ends with a slash becomes a folder.

        Before anything is written, ``ValueError`` if an object cannot be a file, or two would be one; ``NotADirectoryError`` and
        ``IsADirectoryError`` if there is a file where a folder has to be, or the other way round. Cost: a lookup for each
        thousand paths or a listing for each thousand objects in a folder; an object read for each.
        """
        downloads = self._downloads(rpath, lpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(downloads))
        for download in callback.wrap(downloads):
            with callback.branched(download.place.name, download.target) as branch:
                self._get_object(download, branch)

    def _downloads(self, rpath: PathOrPaths, lpath: Any, *, recursive: bool, maxdepth: int | None) -> "list[Download]":
        """Return which objects are written to which files. Errors as :meth:`get`."""
        source = as_paths(rpath)
        target = local_paths(lpath)
        selection, arrivals = self._arriving(
            source, target, recursive=recursive, maxdepth=maxdepth, is_folder=os.path.isdir
        )
        downloads = [Download(place, selection.objects[place], name) for place, name in arrivals]
        root = target.rstrip("/") if isinstance(target, str) else None
        with self._told(self._place(source if isinstance(source, str) else "")):
            return expect_files(downloads, root)

    def _get_object(self, download: "Download", callback: Callback) -> None:
        if download.is_folder:
            os.makedirs(download.target, exist_ok=True)  # noqa: PTH103 - a text
        else:
            self._download(download.place, download.entry, download.target, callback)

    def _download(self, place: Place, entry: ObjectEntry, target: Any, callback: Callback) -> None:
        """Write an object to a local file or a stream."""
        with self._told(place):
            verbs, ref = self._reading(place)
            callback.set_size(entry.size)
            if isfilelike(target):
                for piece in verbs.bytes_in(ref, entry):
                    target.write(piece)
                    callback.relative_update(len(piece))
                return
            final = Path(target)
            final.parent.mkdir(parents=True, exist_ok=True)
            with file_beside(final) as (file, temporary):
                for piece in verbs.bytes_in(ref, entry):
                    file.write(piece)
                    callback.relative_update(len(piece))
                file.close()
                temporary.replace(final)

    def native(self, path: "str | Sequence[str]") -> list[str]:
        """Return where the bytes of objects are, for readers that open files by themselves: paths of files, ``s3://`` URLs, or
        behind a server presigned URLs, which are valid for as long as its settings say (15 minutes by default). ``path`` is a
        path, a pattern, or several of them. All are of one commit for each ref: uncommitted changes are left out.
        ``FileNotFoundError`` if nothing matches. Cost as :meth:`glob`; behind a server a request for each object."""
        pinned = type(self)(
            *self.storage_args, **{**self.storage_options, "snapshot": True, "skip_instance_cache": True}
        )
        given = [path] if isinstance(path, str | os.PathLike) else path
        return [place for one in given for _, place in pinned.places(one)]

    def places(
        self, path: str, *, glob: bool = True, takes: "Callable[[str, int], bool]" = _every
    ) -> list[tuple[str, str]]:
        """Return the names of objects and where their bytes are, as :meth:`native` does, but with the uncommitted changes of a
        branch. ``path`` is a pattern only with ``glob``, and matches objects. Objects are left out for whose name and size in
        bytes ``takes`` is false. Errors and cost as there."""
        place = self._place(path)
        names = [place.name]
        if glob and has_magic(place.path):
            # A folder that it matches would give what is in it, which the pattern may match as well, once more.
            infos = self.glob(place.name, detail=True)
            names = [name for name, info in infos.items() if info["type"] == "file"]
        found: list[tuple[str, str]] = []
        with self._told(place):
            if not names:
                raise ObjectNotFoundError(place.path, place.ref)
            for at in range(0, len(names), _TOGETHER):
                found += self._places(names[at : at + _TOGETHER], takes)
        return found

    @overload
    def _open_object(self, place: Place, block_size: object, *, kind: type[ObjectFile] = ...) -> ObjectFile: ...

    @overload
    def _open_object(self, place: Place, block_size: object, *, locked: bool) -> ObjectFile | PlainFile: ...

    def _open_object(
        self, place: Place, block_size: object, *, locked: bool = False, kind: type[ObjectFile] = ObjectFile
    ) -> ObjectFile | PlainFile:
        """Open an object as a file of the ``kind``; for a caller that lets one thread after another use the file (``locked``), as
        a :class:`PlainFile` if it is a local one that has the recorded size."""
        wanted = block_size if isinstance(block_size, int) and block_size > 0 else None  # fsspec also says "default"
        with self._told(place):
            verbs, ref = self._reading(place)
            entry = self._stat(verbs, ref, place)
            file = verbs.open_file(ref, entry)
            if locked and file is not None and os.fstat(file.fileno()).st_size == entry.size:
                return PlainFile(file)
            info = file_info(place, entry)
            note = partial(self._note, place)
            if file is not None:
                fetch = pieces_of_file(file, entry, ref)
                return kind(entry, place.name, info, fetch, min(wanted or FILE_BLOCK, FILE_BLOCK), file, note)
            fetch = pieces_of_object(verbs.opened(ref, entry))
            return kind(entry, place.name, info, fetch, wanted or BLOCK, note=note)

    def _fill(
        self,
        wanted: Mapping[str, Sequence[int]],
        first: "Sequence[int | None]",
        behind: "Sequence[int | None]",
        found: "list[bytes | Exception]",
        on_error: str,
    ) -> None:
        """Read the parts of several objects, whose numbers ``wanted`` has, into ``found``."""
        opened: dict[str, ObjectFile] = {}
        parts: list[tuple[ObjectFile, int]] = []

        def read(part: tuple[ObjectFile, int]) -> None:
            file, at = part
            begin, stop = _bounds(file.size, first[at], behind[at])
            try:
                found[at] = file.at(begin, stop - begin)
            except OSError as error:
                if on_error != "return":
                    raise
                found[at] = error

        try:
            for path, numbers in wanted.items():
                try:
                    opened[path] = self._open_object(self._place(path), None)
                except (OSError, ValueError) as error:
                    if on_error != "return":
                        raise
                    for at in numbers:
                        found[at] = error
                else:
                    parts += ((opened[path], at) for at in numbers)
            if len(parts) < 2 or all(file.is_local for file in opened.values()):
                for part in parts:
                    read(part)
                return
            with ThreadPoolExecutor(min(_THREADS, len(parts)), "graveler-fs") as pool:
                list(pool.map(read, parts))
        finally:
            for file in opened.values():
                file.close()

    def _places(self, names: Sequence[str], takes: "Callable[[str, int], bool]") -> list[tuple[str, str]]:
        """Return names and places of objects of one ref, and of all below folders."""
        first = self._place(names[0])
        verbs, ref = self._reading(first)
        found: list[tuple[str, str]] = []
        paths = [self._place(name).path for name in names]
        entries = (
            verbs.stat_many(ref, paths) if first.path else [None]
        )  # the ref itself, which no pattern finds, is a folder
        for name, entry in zip(names, entries, strict=True):
            if entry is not None:
                found += [(name, verbs.native(ref, entry))] if takes(name, entry.size) else []
            elif not self.isdir(name):
                raise ObjectNotFoundError(self._place(name).path, first.ref)
            else:
                below = self.find(name)
                each = verbs.stat_many(ref, [self._place(one).path for one in below])
                found += [
                    (one, verbs.native(ref, its))
                    for one, its in zip(below, each, strict=True)
                    if its and takes(one, its.size)
                ]
        return found


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return where a part begins and ends, as a slice of the object's bytes does."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


def _part(verbs: "AnyRepository", ref: str, entry: ObjectEntry, start: int | None, end: int | None) -> bytes:
    begin, stop = _bounds(entry.size, start, end)
    return b"".join(verbs.bytes_in(ref, entry, begin, stop - begin)) if stop > begin else b""
