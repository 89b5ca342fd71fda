"""The filesystem class."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from glob import has_magic
from pathlib import Path
from secrets import token_hex
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import isfilelike, other_paths, stringify_path

from graveler.errors import AlreadyExistsError, GravelerError, ObjectNotFoundError
from graveler.filesystem.addresses import PROTOCOL, Place, place_of
from graveler.filesystem.compressed import CompressedWriter
from graveler.filesystem.failures import told
from graveler.filesystem.lakes import OpenedLake, Surroundings, lake_options
from graveler.filesystem.object_file import BLOCK, FILE_BLOCK, ObjectFile, pieces_of_file, pieces_of_object
from graveler.filesystem.transactions import CommitTransaction
from graveler.model import CommonPrefix, ObjectEntry
from graveler.progress import ObjectProgress, no_object_progress
from graveler.sdk.lake import Lake
from graveler.sdk.reopening import has_secret
from graveler.sdk.writer import ObjectWriter, TextObjectWriter
from graveler.storage.spooled import SpooledFile

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository
    from graveler.lake.reading.view import View
    from graveler.remote.reading import RemoteView

Info = dict[str, Any]

_THREADS: Final = 16
"""Object reads at once, where they wait for a network."""
_OPEN: Final = 100
"""Files that are open at once."""
_TOGETHER: Final = 1000
"""Objects that one request deletes."""
_PAGE: Final = 1000


def _in_thread(name: str) -> Callable[..., Any]:
    """Return an asynchronous method that runs the synchronous one of this name in a thread."""

    async def call(self: "GravelerFileSystem", *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *arguments, **options)

    return call


class GravelerFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A lake as a filesystem: ``graveler://repository/ref/path``.

    ``ref`` is a branch with its uncommitted changes, a tag, a commit ID, or an expression such as ``main~2`` or ``main@``. Writes
    go to branches, and are staged there; ``with fs.transaction:`` makes them one commit. Folders are what the paths of objects
    have in common: making an empty one does nothing. A folder without a name, as in ``a//b``, is neither listed nor walked;
    ``find`` finds what is in it.

    Storage options: ``lake`` is a folder, ``dynamodb://table`` or ``https://host``, by default what :func:`graveler.open` finds,
    or an opened lake; ``objects``, ``region``, ``s3_endpoint_url``, ``dynamodb_endpoint_url``, ``user``, ``login`` and
    ``profile`` are the other arguments of that. With ``snapshot``, the instance reads each ref at the commit that it had when it
    was first read, without uncommitted changes. ``on_error`` is called with each error of the lake before it is raised as one of
    files. Credentials come from the environment or the profile, and are never part of a pickle.

    Nothing is cached but what a commit ID names, so every call sees what others wrote before. One ``find``, ``glob`` or ``walk``
    reads a branch's commit once: commits made meanwhile do not show, changes staged meanwhile may. On a branch behind a server,
    each thousand objects are read as they are at that time. Errors are ``FileNotFoundError``, ``PermissionError``,
    ``FileExistsError`` and other kinds of ``OSError``, and ``ValueError``; the lake's own error is the ``__cause__``.

    Synchronous methods run in the calling thread, and not on fsspec's event loop; asynchronous ones run them in threads.
    """

    protocol = PROTOCOL
    root_marker = ""
    cachable = True
    mirror_sync_methods = False
    transaction_type = CommitTransaction
    surroundings = Surroundings()
    _extra_tokenize_attributes = ("surroundings",)

    def __init__(
        self,
        lake: "str | os.PathLike[str] | Lake | None" = None,
        *,
        snapshot: bool = False,
        on_error: Callable[[GravelerError], object] | None = None,
        **storage_options: Any,
    ) -> None:
        if self._cached:
            return
        options = lake_options(storage_options)
        super().__init__(lake, **storage_options)
        location: str | Path | Lake | None
        if isinstance(lake, os.PathLike) or (isinstance(lake, str) and "://" not in lake):
            location = Path(lake).expanduser().absolute()  # whatever the working folder is when it is opened
        else:
            location = lake
        self.snapshot = snapshot
        self._on_error = on_error
        self.opened = OpenedLake(location, options, snapshot=snapshot)

    @property
    def fsid(self) -> str:
        """An ID of the lake's address."""
        return f"{PROTOCOL}_{hashlib.sha256(repr(self.opened.lake).encode()).hexdigest()[:16]}"

    def start_transaction(self) -> CommitTransaction:
        """Begin a transaction without a ``with`` block; :meth:`end_transaction` ends it. ``ValueError`` if there is one."""
        transaction = CommitTransaction(self)
        transaction.start()
        return transaction

    # Looking

    def info(self, path: str, **_: Any) -> Info:
        """Return ``name``, ``size`` (bytes) and ``type`` (``file`` or ``directory``); of an object also ``checksum``, ``mtime``
        (Unix seconds), ``content_type``, ``metadata`` and ``address``. Cost: that of a lookup; of a listing for a folder."""
        place = self._place(path)
        with self._told(place):
            if not place.path:
                return self._info_above(place)
            verbs, ref = self._reading(place)
            if not place.path.endswith("/"):
                try:
                    return _file_info(place, verbs.stat(ref, place.path))
                except ObjectNotFoundError:
                    pass
            if verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                return _folder_info(place.name)
            raise ObjectNotFoundError(place.path, place.ref)

    def ls(self, path: str, detail: bool = True, **_: Any) -> "list[Info] | list[str]":
        """List a folder: its objects and folders, by name; of the lake its repositories, of a repository its branches and tags.
        Of an object only itself. With ``detail``, the results of :meth:`info`, else names. Cost: a listing per thousand."""
        place = self._place(path)
        with self._told(place):
            found = self._listed(place)
        return found if detail else [one["name"] for one in found]

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether there is an object or a folder: not if nothing can have this path. Cost as :meth:`info`."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Return whether objects are below a path. Cost as :meth:`info`."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except (FileNotFoundError, ValueError):
            return False

    def isfile(self, path: str) -> bool:
        """Return whether a path is that of an object. Cost as :meth:`info`."""
        try:
            return bool(self.info(path)["type"] == "file")
        except (FileNotFoundError, ValueError):
            return False

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> "list[str] | dict[str, Info]":
        """Return all objects below a path, of one commit: names, or with ``detail`` a dictionary of their :meth:`info`;
        ``withdirs`` adds folders. ``maxdepth`` counts levels. ``prefix`` is what the rest of their names begins with. Cost: a
        listing per thousand."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        place = self._place(path)
        if not place.ref:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail)  # type: ignore[no-any-return]
        with self._told(place):
            infos = self._found_below(place, maxdepth, withdirs=withdirs, beginning=str(options.get("prefix") or ""))
        return infos if detail else list(infos)

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: "str | Callable[[OSError], object]" = "omit",
        **options: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield folder, folders in it, objects in it, from the top or the bottom; all of one commit for each ref. See
        :meth:`fsspec.AbstractFileSystem.walk`. Cost: a listing per folder and thousand."""
        views: dict[tuple[str, str], View | RemoteView] = {}
        yield from self._walk_in(views, path, maxdepth, topdown, on_error, detail=bool(options.get("detail", False)))

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **options: Any
    ) -> "int | dict[str, int]":
        """Return the bytes of all objects below a path, in total or of each. Cost: for the total of a commit two ranges at most,
        else as :meth:`find`."""
        place = self._place(path)
        if not (total and maxdepth is None and place.ref):
            return super().du(path, total=total, maxdepth=maxdepth, withdirs=withdirs, **options)  # type: ignore[no-any-return]
        found = self.info(path)
        if found["type"] == "file":
            return int(found["size"])
        with self._told(place):
            verbs, ref = self._reading(place)
            return verbs.du(ref, place.prefix).size

    def created(self, path: str) -> datetime:
        """Return when an object was written, as :meth:`modified`: an object never changes."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when an object was written, in UTC. ``IsADirectoryError`` for a folder, which has no time."""
        return datetime.fromtimestamp(self._file(path)["mtime"], UTC)

    def checksum(self, path: str) -> int:
        """Return a number that changes when the object does."""
        found = self._file(path)
        return int(
            hashlib.sha256(repr((found["checksum"], found["size"], found["address"])).encode()).hexdigest()[:16], 16
        )

    def ukey(self, path: str) -> str:
        """Return a text that changes when the object does."""
        return f"{self.checksum(path):016x}"

    def sign(self, path: str, expiration: int = 3600, **_: Any) -> str:
        """Return a URL with which anyone may read an object, for ``expiration`` seconds; behind a server for as long as that
        allows. ``OSError`` where the store has no such URLs, as a folder."""
        place = self._place(path)
        with self._told(place):
            verbs, ref = self._reading(place)
            return verbs.signed_url(ref, self._stat(verbs, ref, place), expiration)

    def native(self, path: "str | Sequence[str]", *, expiration: int = 3600) -> list[str]:
        """Return where the bytes of objects are, for readers that open files by themselves: paths of files, ``s3://`` URLs, or
        behind a server presigned URLs that are valid for a while. ``path`` is a path, a pattern, or several of them. All are of
        one commit for each ref: uncommitted changes are left out. ``FileNotFoundError`` if nothing matches. Cost as :meth:`glob`;
        behind a server a request for each object."""
        pinned = GravelerFileSystem(
            *self.storage_args, **{**self.storage_options, "snapshot": True, "skip_instance_cache": True}
        )
        given = [path] if isinstance(path, str | os.PathLike) else path
        return [place for one in given for _, place in pinned.places(one, expiration=expiration)]

    def places(self, path: str, *, glob: bool = True, expiration: int = 3600) -> list[tuple[str, str]]:
        """Return the names of objects and where their bytes are, as :meth:`native` does, but with the uncommitted changes of a
        branch. ``path`` is a pattern only with ``glob``. Errors and cost as there."""
        place = self._place(path)
        names = self.glob(place.name) if glob and has_magic(place.path) else [place.name]
        found: list[tuple[str, str]] = []
        with self._told(place):
            if not names:
                raise ObjectNotFoundError(place.path, place.ref)
            for at in range(0, len(names), _PAGE):
                found += self._places(names[at : at + _PAGE], expiration)
        return found

    # Reading

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
        """Return parts of objects, in the order given. With ``on_error="return"`` an error takes the place of its part. Cost: a
        lookup for each object, and an object read for each part, several at once."""
        del max_gap  # parts are read one by one
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
                if on_error == "raise":
                    raise
                found[at] = error

        try:
            for path, numbers in wanted.items():
                try:
                    opened[path] = self._open_object(self._place(path), None)
                except (OSError, ValueError) as error:
                    if on_error == "raise":
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

    def get_file(
        self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, outfile: Any = None, **_: Any
    ) -> None:
        """Write an object to a local file, which appears as a whole; a folder is made. The bytes are compared with the recorded
        checksum. Cost: a lookup and an object read."""
        target = outfile if outfile is not None else lpath
        place = self._place(rpath)
        if not isfilelike(target) and self.isdir(rpath):
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - a path of any kind
            return
        with self._told(place):
            verbs, ref = self._reading(place)
            entry = verbs.stat(ref, place.path)
            callback.set_size(entry.size)
            if isfilelike(target):
                for piece in verbs.bytes_in(ref, entry):
                    target.write(piece)
                    callback.relative_update(len(piece))
                return
            final = Path(stringify_path(target))
            final.parent.mkdir(parents=True, exist_ok=True)
            temporary = final.with_name(f".graveler-{token_hex(8)}")
            try:
                with temporary.open("xb") as file:
                    for piece in verbs.bytes_in(ref, entry):
                        file.write(piece)
                        callback.relative_update(len(piece))
                temporary.replace(final)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """Open an object, for reading (``r``), writing (``w``) or writing what is not there yet (``x``), as bytes (``b``) or
        text.

        What is written goes to a temporary file, and appears as a whole when the file is closed. A ``with`` block that an
        exception leaves writes nothing; of ``fsspec.open``, whose files close in either case, that is not true. Cost: a lookup,
        and an object read per ``block_size`` (bytes) in small reads, or per larger read; for writing a table read, and at its end
        an object write and a table write.
        """
        if mode[:1] in ("w", "x"):
            if "b" not in mode:
                text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
                binary = self.open(path, mode.replace("t", "") + "b", block_size, cache_options, compression, **options)
                return TextObjectWriter(
                    binary, text.get("encoding") or "utf-8", text.get("errors"), text.get("newline")
                )
            codec = get_compression(str(path), compression)
            if codec is not None:
                writer = self.open(path, mode, block_size, cache_options, **options)
                return CompressedWriter(writer, compr[codec])
            compression = None
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> "ObjectFile | ObjectWriter":
        """Open an object, for reading (``rb``), writing (``wb``) or writing what is not there yet (``xb``). What is written
        appears as a whole when the file is closed, or never."""
        place = self._place(path)
        if mode == "rb":
            return self._open_object(place, block_size)
        if mode not in ("wb", "xb"):
            raise ValueError(f"mode {mode!r} is not one of 'rb', 'wb', 'xb'; objects are written as a whole")
        self._expect_object(place)
        with self._told(place):
            self._writing(place)  # before the caller writes gigabytes for a missing branch
            if mode == "xb" and self.exists(path):
                raise AlreadyExistsError("object", place.path)
            kind = "create" if mode == "xb" else "overwrite"
            return ObjectWriter(
                place.name,
                SpooledFile(f"writing {place.name!r}", "object-"),
                lambda file: self._upload(place, file, kind, options),
            )

    # Writing

    def pipe_file(
        self, path: str, value: "bytes | bytearray | memoryview", mode: str = "overwrite", **options: Any
    ) -> None:
        """Write an object. With ``mode="create"``, ``FileExistsError`` if there is one. Cost: an object write and a table
        write."""
        place = self._expect_object(self._place(path))
        self._upload(place, bytes(value), mode, options)

    def put_file(
        self, lpath: Any, rpath: str, callback: Callback = DEFAULT_CALLBACK, mode: str = "overwrite", **options: Any
    ) -> None:
        """Write a local file as an object; a folder does nothing. Arguments and cost as :meth:`pipe_file`."""
        source = Path(stringify_path(lpath))
        if source.is_dir():
            return
        place = self._expect_object(self._place(rpath))
        callback.set_size(source.stat().st_size)

        def progress(_: int, size: int) -> None:
            callback.relative_update(size)

        self._upload(place, source, mode, options, progress)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Write an empty object; without ``truncate`` only if there is none."""
        if truncate or not self.exists(path):
            self.pipe_file(path, b"", **options)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Do nothing, as folders are what the paths of objects have in common. ``FileExistsError`` if an object has this path."""
        del create_parents
        place = self._place(path)
        if place.path and self.isfile(path):
            raise FileExistsError(f"{place.name!r} is an object")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing, as :meth:`mkdir`. Without ``exist_ok``, ``FileExistsError`` for a folder with objects."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(f"{self._place(path).name!r} exists")

    def rmdir(self, path: str) -> None:
        """Do nothing to an empty folder. ``OSError`` for one with objects."""
        if self.isdir(path):
            raise OSError(f"{self._place(path).name!r} is not empty; rm(…, recursive=True) deletes what is in it")

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy an object. Within a repository no byte moves. A folder does nothing."""
        source, target = self._place(path1), self._expect_object(self._place(path2))
        if self.isdir(path1):
            return
        with self._told(source):
            verbs, ref = self._reading(source)
            branch = self._writing(target)
            if source.repository == target.repository:
                verbs.copy(branch, source.path, target.path, source_ref=ref)
                return
            entry = verbs.stat(ref, source.path)
            with NamedTemporaryFile(prefix="graveler-") as file:
                for piece in verbs.bytes_in(ref, entry):
                    file.write(piece)
                file.flush()
                self.opened.verbs(target.repository).upload(
                    branch, target.path, Path(file.name), content_type=entry.content_type, metadata=entry.metadata
                )

    def mv(
        self,
        path1: "str | list[str]",
        path2: "str | list[str]",
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Move objects. One object on its branch moves in one step, at which no reader sees both or neither; others are copied
        as :meth:`copy` does, and then deleted: those that were copied, not those that somebody wrote meanwhile. ``ValueError``,
        before anything changes, if an object would be moved onto one that moves, such as itself, or a folder into itself."""
        if isinstance(path1, str) and isinstance(path2, str) and not recursive and not has_magic(path1):
            source, target = self._place(path1), self._place(path2)
            at_once = source[:2] == target[:2] and not path2.endswith("/")
            if at_once and self.isfile(path1) and not self.isdir(path2):
                with self._told(source):
                    branch = self._writing(source)
                    self.opened.verbs(source.repository).move(branch, source.path, target.path)
                return
        sources, targets = self._moves(path1, path2, recursive=recursive, maxdepth=maxdepth)
        self.copy(sources, targets, on_error="raise", **options)
        self._delete(sources, tolerant=True)

    def rm_file(self, path: str) -> None:
        """Delete an object, whose name is no pattern."""
        place = self._expect_object(self._place(path))
        self._delete([place.name], tolerant=False)

    def rm(self, path: "str | Iterable[str]", recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects; with ``recursive`` also all below folders. ``FileNotFoundError`` for what is not there. Cost: a listing
        and a few table writes per thousand."""
        given = [path] if isinstance(path, str | os.PathLike) else list(path)
        names = self.expand_path(given, recursive=recursive, maxdepth=maxdepth)
        for name in names:
            place = self._place(name)
            if not place.path and (len(names) == 1 or name in given):
                self._expect_object(place)
        self._delete(names, tolerant=recursive)

    def _moves(
        self, path1: "str | list[str]", path2: "str | list[str]", *, recursive: bool, maxdepth: int | None
    ) -> tuple[list[str], list[str]]:
        """Return which objects move where: the pairs of :meth:`copy`."""
        if isinstance(path1, list) and isinstance(path2, list):
            sources, targets = path1, path2
        else:
            sources = self.expand_path(path1, recursive=recursive, maxdepth=maxdepth)
            inside = False
            if isinstance(path1, str):
                if not recursive or maxdepth is not None:
                    sources = [name for name in sources if self.isfile(name)]
                if not sources:
                    self.info(path1)
                    raise IsADirectoryError(f"{path1!r} is a folder; mv(…, recursive=True) moves what is in it")
                into = isinstance(path2, str) and (path2.endswith("/") or self.isdir(path2))
                inside = len(sources) == 1 if has_magic(path1) else into and not path1.endswith("/")
            targets = other_paths(sources, path2, exists=inside, flatten=not isinstance(path1, str))
        moved = {self._place(name) for name in sources}
        for source, target in zip(sources, targets, strict=True):
            here, there = self._place(source), self._place(target)
            below = recursive and here[:2] == there[:2] and there.path.startswith(here.prefix)
            if there in moved or (below and self.isdir(source)):
                raise ValueError(f"cannot move {source!r} to {target!r}, which is itself, in it, or moves too")
        return sources, targets

    def _delete(self, names: Sequence[str], *, tolerant: bool) -> None:
        """Delete objects. What is not there, or a folder, is an error unless ``tolerant``."""
        deleted: dict[tuple[str, str], list[str]] = {}
        for name in names:
            place = self._place(name)
            if not place.path:
                continue
            deleted.setdefault((place.repository, place.ref), []).append(place.path)
        for (repository, ref), paths in deleted.items():
            place = Place(repository, ref, paths[0])
            with self._told(place):
                branch = self._writing(place)
                verbs = self.opened.verbs(repository)
                found = verbs.stat_many(branch, paths)
                files = [one.path for one in found if one is not None]
                for missing, entry in zip(paths, found, strict=True):
                    if entry is None and not tolerant:
                        self._refuse_missing(Place(repository, ref, missing))
                if tolerant:
                    markers = [f"{missing}/" for missing, entry in zip(paths, found, strict=True) if entry is None]
                    files += [one.path for one in verbs.stat_many(branch, markers) if one is not None]
                for at in range(0, len(files), _TOGETHER):
                    verbs.delete(branch, files[at : at + _TOGETHER])

    def invalidate_cache(self, path: str | None = None) -> None:
        """Do nothing: nothing is cached that could change. A ``snapshot`` stays what it is."""

    # Pickles

    def __reduce__(self) -> tuple[object, ...]:
        from fsspec.spec import make_instance

        location, options = self.opened.location, dict(self.storage_options)
        options.pop("lake", None)
        if any(isinstance(one, str) and "://" in one and has_secret(one) for one in (location, *options.values())):
            raise TypeError(
                "a filesystem whose options have a URL with a password cannot be pickled; make it in the other process"
            )
        return make_instance, (type(self), (location,), options)

    # Parts

    def _told(self, place: Place) -> AbstractContextManager[None]:
        return told(place.name, self._on_error)

    def _place(self, path: "str | os.PathLike[str]") -> Place:
        return place_of(self._strip_protocol(path))

    def _expect_object(self, place: Place) -> Place:
        """Refuse what cannot be the path of an object."""
        if not place.path:
            raise ValueError(f"{place.name!r} is no path of an object; write {PROTOCOL}://repository/branch/path")
        return place

    def _refuse_missing(self, place: Place) -> None:
        """Say why there is no object to delete: there is a folder, or nothing."""
        if self.isdir(place.name):
            raise IsADirectoryError(f"{place.name!r} is a folder; rm(…, recursive=True) deletes what is in it")
        raise ObjectNotFoundError(place.path, place.ref)

    def _file(self, path: str) -> Info:
        found = self.info(path)
        if found["type"] != "file":
            raise IsADirectoryError(f"{found['name']!r} is a folder, which has no time and no checksum")
        return found

    def _reading(self, place: Place) -> "tuple[AnyRepository, str]":
        """Return the operations of the repository, and the ref to read."""
        if not place.ref:
            raise ObjectNotFoundError(place.name, "the lake")
        transaction = self._transaction
        hidden = (
            transaction.reading(place.repository, place.ref) if isinstance(transaction, CommitTransaction) else None
        )
        return self.opened.verbs(place.repository), hidden or self.opened.reading(place.repository, place.ref)

    def _writing(self, place: Place) -> str:
        """Return the branch to write to. Cost: a table read."""
        self.opened.expect_branch(place.repository, place.ref, f"writing {place.name!r}")
        transaction = self._transaction
        if self._intrans and isinstance(transaction, CommitTransaction):
            return transaction.writing(place.repository, place.ref)
        return place.ref

    def _stat(self, verbs: "AnyRepository", ref: str, place: Place) -> ObjectEntry:
        """Look an object up. ``IsADirectoryError`` for a folder."""
        try:
            if place.path:
                return verbs.stat(ref, place.path)
        except ObjectNotFoundError:
            if not verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                raise
        raise IsADirectoryError(f"{place.name!r} is a folder")

    def _open_object(self, place: Place, block_size: object) -> ObjectFile:
        wanted = block_size if isinstance(block_size, int) and block_size > 0 else None  # fsspec also says "default"
        with self._told(place):
            verbs, ref = self._reading(place)
            entry = self._stat(verbs, ref, place)
            info = _file_info(place, entry)
            file = verbs.open_file(ref, entry)
            if file is not None:
                fetch = pieces_of_file(file, entry, ref)
                return ObjectFile(entry, place.name, info, fetch, min(wanted or FILE_BLOCK, FILE_BLOCK), file)
            return ObjectFile(entry, place.name, info, pieces_of_object(verbs.opened(ref, entry)), wanted or BLOCK)

    def _upload(
        self,
        place: Place,
        data: bytes | Path,
        mode: str,
        options: Mapping[str, Any],
        progress: ObjectProgress = no_object_progress,
    ) -> None:
        if mode not in ("overwrite", "create"):
            raise ValueError(f"mode {mode!r} is not one of 'overwrite', 'create'")
        with self._told(place):
            branch = self._writing(place)
            self.opened.verbs(place.repository).upload(
                branch,
                place.path,
                data,
                content_type=options.get("content_type", ""),
                metadata=options.get("metadata"),
                if_absent=mode == "create",
                progress=progress,
            )

    def _places(self, names: Sequence[str], expiration: int) -> list[tuple[str, str]]:
        """Return names and places of objects of one ref, and of all below folders."""
        first = self._place(names[0])
        verbs, ref = self._reading(first)
        found: list[tuple[str, str]] = []
        for name, entry in zip(names, verbs.stat_many(ref, [self._place(name).path for name in names]), strict=True):
            if entry is not None:
                found.append((name, verbs.native(ref, entry, expiration)))
            elif not self.isdir(name):
                raise ObjectNotFoundError(self._place(name).path, first.ref)
            else:
                below = self.find(name)
                each = verbs.stat_many(ref, [self._place(one).path for one in below])
                found += [
                    (one, verbs.native(ref, its, expiration)) for one, its in zip(below, each, strict=True) if its
                ]
        return found

    def _info_above(self, place: Place) -> Info:
        """Return the info of the lake, a repository or a ref, which are folders."""
        if place.ref:
            verbs, ref = self._reading(place)
            verbs.commit_of(ref)
        elif place.repository:
            self.opened.verbs(place.repository).repository  # noqa: B018 - a server is asked here
        else:
            self.opened.lake  # noqa: B018
        return _folder_info(place.name)

    def _listed(self, place: Place) -> list[Info]:
        if not place.repository:
            return [_folder_info(one.id) for one in self.opened.lake.repositories()]
        if not place.ref:
            repository = self.opened.repository(place.repository)
            names = [*(one.id for one in repository.branches()), *(one.id for one in repository.tags())]
            return [_folder_info(f"{place.repository}/{name}") for name in sorted(names)]
        verbs, ref = self._reading(place)
        found = _children(verbs.view(ref), place)
        if found or not place.path:
            return found
        try:
            return [_file_info(place, verbs.stat(ref, place.path))]
        except ObjectNotFoundError:
            if verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                return []  # all in it is what has no name
            raise

    def _found_below(self, place: Place, maxdepth: int | None, *, withdirs: bool, beginning: str) -> dict[str, Info]:
        verbs, ref = self._reading(place)
        view = verbs.view(ref)
        found: dict[str, Info] = {}
        folders: dict[str, Info] = {}
        base = len(place.prefix)
        for entry in view.objects(f"{place.prefix}{beginning}"):
            inner = entry.path[base:]
            if withdirs or maxdepth is not None:
                parts = inner.split("/")
                for depth in range(1, len(parts) if maxdepth is None else min(len(parts), maxdepth + 1)):
                    name = place.named(place.prefix + "/".join(parts[:depth]))
                    folders.setdefault(name, _folder_info(name))
                if maxdepth is not None and len(parts) > maxdepth:
                    continue
            if inner and not inner.endswith("/"):
                found[place.named(entry.path)] = _file_info(place, entry)
        if not found and not folders and place.path:
            entry_here = view.get(place.path)
            return {} if entry_here is None else {place.name: _file_info(place, entry_here)}
        if withdirs:
            if place.path or found:
                folders.setdefault(place.name, _folder_info(place.name))
            found = {**folders, **found}
        return dict(sorted(found.items()))

    def _walk_in(
        self,
        views: "dict[tuple[str, str], View | RemoteView]",
        path: str,
        maxdepth: int | None,
        topdown: bool,
        on_error: "str | Callable[[OSError], object]",
        *,
        detail: bool,
    ) -> Iterator[tuple[str, Any, Any]]:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        place = self._place(path)
        try:
            with self._told(place):
                if place.ref:
                    key = place.repository, place.ref
                    if key not in views:
                        verbs, ref = self._reading(place)
                        views[key] = verbs.view(ref)
                    listed = _children(views[key], place)
                    if not listed and place.path and not self.isdir(place.name):
                        raise ObjectNotFoundError(place.path, place.ref)
                else:
                    listed = self._listed(place)
        except OSError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            return
        folders, files = (
            {_last(one["name"]): one for one in listed if one["type"] == kind} for kind in ("directory", "file")
        )
        here = (place.name, folders, files) if detail else (place.name, list(folders), list(files))
        if topdown:
            yield here
        if maxdepth is None or maxdepth > 1:
            deeper = None if maxdepth is None else maxdepth - 1
            for name in list(here[1]):  # a caller may have removed some
                below = f"{place.name}/{name}" if place.name else name
                yield from self._walk_in(views, below, deeper, topdown, on_error, detail=detail)
        if not topdown:
            yield here

    # The same, for callers in an event loop

    _info = _in_thread("info")
    _ls = _in_thread("ls")
    _exists = _in_thread("exists")
    _isdir = _in_thread("isdir")
    _isfile = _in_thread("isfile")
    _find = _in_thread("find")
    _du = _in_thread("du")
    _glob = _in_thread("glob")
    _cat_file = _in_thread("cat_file")
    _cat_ranges = _in_thread("cat_ranges")
    _get_file = _in_thread("get_file")
    _pipe_file = _in_thread("pipe_file")
    _put_file = _in_thread("put_file")
    _cp_file = _in_thread("cp_file")
    _mv_file = _in_thread("mv")
    _rm_file = _in_thread("rm_file")
    _mkdir = _in_thread("mkdir")
    _makedirs = _in_thread("makedirs")

    async def _rm(
        self,
        path: "str | Iterable[str]",
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        del batch_size  # they are deleted by thousands
        await asyncio.to_thread(self.rm, path, recursive, maxdepth)

    async def _walk(self, path: str, *arguments: Any, **options: Any) -> AsyncIterator[tuple[str, Any, Any]]:
        for each in await asyncio.to_thread(lambda: list(self.walk(path, *arguments, **options))):
            yield each

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> "AsyncFile":
        """Open an object as :meth:`open` does, as a file whose methods are awaited."""
        return AsyncFile(await asyncio.to_thread(self.open, path, mode, **options))


class AsyncFile:
    """A file whose methods run in threads, one at a time."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def read(self, length: int = -1) -> Any:
        """Return ``length`` bytes, fewer only at the end."""
        return await asyncio.to_thread(self._file.read, length)

    async def write(self, data: bytes) -> int:
        """Write bytes; return their number."""
        return int(await asyncio.to_thread(self._file.write, data))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._file.tell())

    async def close(self) -> None:
        """Close the file; what was written appears now."""
        await asyncio.to_thread(self._file.close)

    async def __aenter__(self) -> "AsyncFile":
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await asyncio.to_thread(self._file.__exit__, *raised)


def _file_info(place: Place, entry: ObjectEntry) -> Info:
    return {
        "name": f"{place.repository}/{place.ref}/{entry.path}",
        "size": entry.size,
        "type": "file",
        "checksum": entry.checksum,
        "mtime": entry.mtime,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "address": entry.address,
    }


def _folder_info(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _children(view: "View | RemoteView", place: Place) -> list[Info]:
    """Return the objects and folders in a folder, by name."""
    found: dict[tuple[str, str], Info] = {}
    after: str | None = ""
    while after is not None:
        page = view.list_objects(prefix=place.prefix, after=after, delimiter="/", amount=_PAGE)
        for item in page.results:
            if item.path == "/" or item.path.endswith("//"):
                continue  # an empty name, whose path is that of the folder above
            if isinstance(item, CommonPrefix):
                info = _folder_info(place.named(item.path.removesuffix("/")))
            elif item.path == place.prefix or item.path.endswith("/"):
                continue  # a folder's marker
            else:
                info = _file_info(place, item)
            found[info["name"], info["type"]] = info
        after = page.next_after
    return [info for _, info in sorted(found.items())]


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return where a part begins and ends, as a slice of the object's bytes does."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


def _part(verbs: "AnyRepository", ref: str, entry: ObjectEntry, start: int | None, end: int | None) -> bytes:
    begin, stop = _bounds(entry.size, start, end)
    return b"".join(verbs.bytes_in(ref, entry, begin, stop - begin)) if stop > begin else b""
