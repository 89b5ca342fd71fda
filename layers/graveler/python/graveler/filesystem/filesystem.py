"""The filesystem class that fsspec finds by its entry point: its methods are fsspec's, and its components do the work."""

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from glob import has_magic
from pathlib import Path
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import isfilelike, stringify_path

from graveler.errors import GravelerError
from graveler.files.lake import LakeHandle as Lake
from graveler.files.shared_lake import has_secret
from graveler.files.writer import ObjectWriter, TextObjectWriter
from graveler.filesystem.addresses import PROTOCOL, PROTOCOLS, Place
from graveler.filesystem.async_methods import with_async_methods
from graveler.filesystem.compressed import CompressedWriter
from graveler.filesystem.copies import Copies, is_folder_error
from graveler.filesystem.downloads import Downloads
from graveler.filesystem.error_translation import translating_lake_errors
from graveler.filesystem.folders import Folders, Walk, expect_depth
from graveler.filesystem.lakes import OpenedLake, Surroundings, expect_known, take_lake_options
from graveler.filesystem.local_targets import Download
from graveler.filesystem.metadata import Info, checksum_of, expect_file, info_of
from graveler.filesystem.object_bytes import ObjectBytes
from graveler.filesystem.object_file import CachedFile, ObjectFile
from graveler.filesystem.resolver import Resolver, expect_object
from graveler.filesystem.selection import PathOrPaths, Selector, as_paths, last_part
from graveler.filesystem.transactions import CommitTransaction, Transactions
from graveler.filesystem.uploads import Uploads
from graveler.system.links import kind_of_file

_ONE_THREAD_AT_A_TIME: Final = "pyarrow.fs"
"""The module whose files no two threads use at once: Arrow keeps a lock from a seek to the end of the read behind it
(``PyReadableFile::ReadAt`` in ``arrow/python/io.cc``)."""


def _every(_: str, __: int) -> bool:
    """Take every object."""
    return True


@with_async_methods
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

    Nothing is cached but what a commit ID names, so every call sees what others wrote before; but a repository that another
    process deletes, or makes again, is read as before for up to a minute, or until this one changes something there. One
    ``find``, ``glob`` or ``walk`` reads a branch's head and staging tokens once: no commit, merge or reset shows in between;
    single changes that are staged meanwhile may. On a branch it lasts ten minutes at most
    (:class:`graveler.PreconditionError`).

    Errors are ``FileNotFoundError``, ``PermissionError``, ``FileExistsError`` and other kinds of ``OSError``, and
    ``ValueError``; the lake's own error is the ``__cause__``.

    Synchronous methods run in the calling thread, and not on fsspec's event loop; asynchronous ones run them in threads.
    """

    protocol = PROTOCOLS
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
        options = take_lake_options(storage_options)
        expect_known(storage_options)
        super().__init__(lake, **storage_options)
        location: str | Path | Lake | None
        if isinstance(lake, os.PathLike) or (isinstance(lake, str) and "://" not in lake):
            location = Path(lake).expanduser().absolute()  # whatever the working folder is when it is opened
        else:
            location = lake
        self.snapshot = snapshot
        self.opened = OpenedLake(location, options, snapshot=snapshot)
        self.transactions = Transactions(self, self.opened)
        self._resolver = Resolver(self.opened, self.transactions, on_error)
        self._folders = Folders(self._resolver)
        self._selector = Selector(self, self._resolver, self._folders)
        self._objects = ObjectBytes(self, self._resolver)
        self._downloads = Downloads(self._resolver, self._selector)
        self._uploads = Uploads(self, self._resolver)
        self._copies = Copies(self, self._resolver, self._selector)

    @property
    def fsid(self) -> str:
        """An ID of the lake's address."""
        return f"{PROTOCOL}_{hashlib.sha256(repr(self.opened.handle).encode()).hexdigest()[:16]}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Return a path, or a list of them, without protocol and slashes around it: a lake has no repository without a name. The
        ref is spelled as in the names of listings, with which fsspec and others compare it."""
        stripped = super()._strip_protocol(path)
        if isinstance(stripped, list):
            return stripped
        stripped = stripped.lstrip("/")
        return Place.of(stripped).name if "%" in stripped else stripped

    def _place(self, path: "str | os.PathLike[str]") -> Place:
        return Place.of(self._strip_protocol(path))

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
        exception leaves writes nothing. This does not hold for ``fsspec.open``, which always closes its files. Cost: a lookup,
        and an object read per ``block_size`` (bytes) in small reads, or per larger read; for writing a table read, and at its end
        an object write and a table write. With the option ``plain``, no two threads may use a file for reading at once, and
        those of a lake in a folder take less time; it is on for ``pyarrow``, which cannot name options.
        """
        if mode == "rb" and compression is None:
            caller = sys._getframe().f_back  # a thread of DuckDB has none
            is_arrow = caller is not None and caller.f_globals.get("__name__") == _ONE_THREAD_AT_A_TIME
            return self._objects.open(self._place(path), block_size, plain=options.get("plain", is_arrow))
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
            options["autocommit"] = True  # its own transaction knows the file already
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> "ObjectFile | ObjectWriter":
        """Open an object, for reading (``rb``), writing (``wb``) or writing what is not there yet (``xb``). What is written
        appears as a whole when the file is closed, or never."""
        place = self._place(path)
        if mode == "rb":
            return self._objects.open(place, block_size, kind=CachedFile if "cache_type" in options else ObjectFile)
        if mode not in ("wb", "xb"):
            raise ValueError(f"mode {mode!r} is not one of 'rb', 'wb', 'xb'; objects are written as a whole")
        return self._uploads.open_writer(place, options, if_absent=mode == "xb")

    def info(self, path: str, **_: Any) -> Info:
        """Return ``name``, ``size`` (bytes) and ``type`` (``file`` or ``directory``); of an object also ``checksum``, ``mtime``
        (Unix seconds), ``content_type``, ``metadata`` and ``address``. Cost: that of a lookup; of a listing for a folder."""
        place = self._place(path)
        with self._resolver.translating_errors(place):
            return info_of(self._resolver, place)

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
        """Return whether a path is that of an object. Cost: a lookup."""
        try:
            place = self._place(path)
            if not place.path or place.path.endswith("/"):
                return False
            with self._resolver.translating_errors(place):
                repository, ref = self._resolver.repository_and_ref(place)
                repository.stat(ref, place.path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def created(self, path: str) -> datetime:
        """Return when an object was written, as :meth:`modified`: an object never changes."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when an object was written, in UTC. ``IsADirectoryError`` for a folder, which has no time."""
        return datetime.fromtimestamp(expect_file(self.info(path))["mtime"], UTC)

    def checksum(self, path: str) -> int:
        """Return a number that changes when the object does."""
        return checksum_of(expect_file(self.info(path)))

    def ukey(self, path: str) -> str:
        """Return a text that changes when the object does."""
        return f"{self.checksum(path):016x}"

    def sign(self, path: str, expiration: int = 3600, **_: Any) -> str:
        """Return a URL with which anyone may read an object, for ``expiration`` seconds; behind a server for as long as that
        allows. ``OSError`` where the store has no such URLs, as a folder."""
        place = self._place(path)
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            return repository.signed_url(ref, self._resolver.stat(repository, ref, place), expiration)

    def ls(self, path: str, detail: bool = True, **_: Any) -> "list[Info] | list[str]":
        """List a folder: its objects and folders, by name; of the lake its repositories, of a repository its branches and tags.
        Of an object only itself. With ``detail``, the results of :meth:`info`, else names. Cost: a listing per thousand."""
        place = self._place(path)
        with self._resolver.translating_errors(place):
            infos = self._folders.list_folder(place)
        return infos if detail else [info["name"] for info in infos]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> "list[str] | dict[str, Info]":
        """Return all objects below a path, of one commit: names, or with ``detail`` a dictionary of their :meth:`info`;
        ``withdirs`` adds folders, of which an object whose path ends with a slash is one. ``maxdepth`` counts levels. ``prefix``
        is what the rest of their names begins with. Cost: a listing per thousand."""
        expect_depth(maxdepth)
        place = self._place(path)
        if not place.ref:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail)  # type: ignore[no-any-return]
        with self._resolver.translating_errors(place):
            beginning = str(options.get("prefix") or "")
            infos = self._folders.find(place, maxdepth, with_folders=withdirs, beginning=beginning)
        return infos if detail else list(infos)

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: "str | Callable[[OSError], object]" = "omit",
        **options: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield folder, folders in it, objects in it, from the top or the bottom; all of one commit for each ref. A folder
        without a name, ``a/`` in ``a//b``, is walked, but not among the folders in ``a``. See
        :meth:`fsspec.AbstractFileSystem.walk`. Cost: a listing per folder and thousand."""
        expect_depth(maxdepth)
        walk = Walk({}, topdown, on_error, bool(options.get("detail", False)))
        place = self._place(path)
        yield from self._folders.walk(walk, place, place.prefix, maxdepth)

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **options: Any
    ) -> "int | dict[str, int]":
        """Return the bytes of all objects below a path, in total or of each, also of those whose path ends with a slash. Cost:
        for the total of a commit two ranges at most, else as :meth:`find`."""
        place = self._place(path)
        expect_depth(maxdepth)
        with self._resolver.translating_errors(place):
            if total and maxdepth is None and place.ref:
                return int(self.info(path)["size"]) + self._folders.size(place)  # a folder's own is 0
            sizes = self._folders.sizes(place, maxdepth)
        if total:
            return sum(sizes.values())
        if withdirs:
            for name in self.find(path, maxdepth=maxdepth, withdirs=True, **options):
                sizes.setdefault(name, 0)  # a folder
        return dict(sorted(sizes.items()))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Return an object, or the bytes from ``start`` to before ``end``, which count from the end if negative. A whole object
        is compared with its recorded checksum. Cost: a lookup and an object read."""
        return self._objects.read(self._place(path), start, end)

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
        begins = list(starts) if isinstance(starts, Iterable) else [starts] * len(paths)
        stops = list(ends) if isinstance(ends, Iterable) else [ends] * len(paths)
        if not len(paths) == len(begins) == len(stops):
            raise ValueError(f"{len(paths)} paths, {len(begins)} starts and {len(stops)} ends; give as many of each")
        places = [self._place(path) for path in paths]
        return self._objects.read_parts(places, begins, stops, raises=on_error != "return")

    def native(self, path: "str | Sequence[str]") -> list[str]:
        """Return where the bytes of objects are, for readers that open files by themselves: paths of files, ``s3://`` URLs, or
        behind a server presigned URLs, which are valid for as long as its settings say (15 minutes by default). ``path`` is a
        path, a pattern, or several of them. All are of one commit for each ref: uncommitted changes are left out.
        ``FileNotFoundError`` if nothing matches. Cost as :meth:`glob`; behind a server a request for each object."""
        pinned = type(self)(
            *self.storage_args, **{**self.storage_options, "snapshot": True, "skip_instance_cache": True}
        )
        paths = [path] if isinstance(path, str | os.PathLike) else path
        return [place for source in paths for _, place in pinned.places(source)]

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
        return self._objects.native_places(place, names, takes)

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
        self._downloads.write_one(place, target, callback)

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
        downloads = self._planned_downloads(rpath, lpath, recursive, maxdepth)
        callback.set_size(len(downloads))
        for download in callback.wrap(downloads):
            with callback.branched(download.place.name, download.target) as branch:
                self._downloads.write(download, branch)

    def _planned_downloads(
        self, rpath: PathOrPaths, lpath: Any, recursive: bool, maxdepth: int | None
    ) -> list[Download]:
        """Return which objects are written to which files. Errors as :meth:`get`."""
        source = as_paths(rpath)
        place = self._place(source if isinstance(source, str) else "")
        return self._downloads.plan(source, lpath, place, recursive=recursive, maxdepth=maxdepth)

    def pipe_file(
        self, path: str, value: "bytes | bytearray | memoryview", mode: str = "overwrite", **options: Any
    ) -> None:
        """Write an object. With ``mode="create"``, ``FileExistsError`` if there is one. Cost: an object write and a table
        write."""
        data = value if isinstance(value, bytes) else bytes(memoryview(value))
        self._uploads.upload(self._uploads.place_of(path), data, mode, options)

    def put_file(
        self, lpath: Any, rpath: str, callback: Callback = DEFAULT_CALLBACK, mode: str = "overwrite", **options: Any
    ) -> None:
        """Write a local file as an object, into a folder if ``rpath`` ends with a slash; a local folder does nothing. Arguments
        and cost as :meth:`pipe_file`. ``ValueError`` for a pipe, a socket or a device."""
        source = Path(stringify_path(lpath))
        if source.is_dir():
            return
        place = self._uploads.place_of(f"{rpath}{source.name}" if rpath.endswith("/") else rpath)
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(
                f"{str(source)!r} is {kind_of_file(status.st_mode)}, which is no object; nothing was uploaded"
            )
        callback.set_size(status.st_size)

        def progress(_: int, size: int) -> None:
            callback.relative_update(size)

        self._uploads.upload(place, source, mode, options, progress)

    def put(
        self,
        lpath: Any,
        rpath: PathOrPaths,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Write local files as objects, with ``recursive`` all below folders, each as :meth:`put_file`. Targets are named as in
        fsspec's :meth:`put`: a slash at the end of ``rpath`` means a folder.

        Before anything is written, ``ValueError`` if two files would be one object, one cannot be an object by its name, or one
        is a pipe, a socket or a device.
        """
        uploads = self._uploads.plan(lpath, rpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(uploads))
        for source, name in callback.wrap(uploads):
            with callback.branched(source, name) as branch:
                self.put_file(source, name, callback=branch, **options)

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
        """Copy an object; into a folder if ``path2`` ends with a slash. Within a repository no byte moves. A folder does
        nothing."""
        source = self._place(path1)
        name = f"{self._strip_protocol(path2)}/{last_part(source.path)}" if path2.endswith("/") else path2
        target = expect_object(self._place(name))
        if not self.isdir(path1):
            self._copies.copy(source, target)

    def copy(
        self,
        path1: PathOrPaths,
        path2: PathOrPaths,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **_: Any,
    ) -> None:
        """Copy objects, with ``recursive`` all below folders, also those whose path ends with a slash. Within a repository no
        byte moves. Targets are named as in fsspec's :meth:`copy`.

        ``ValueError``, before anything changes, if two would have one target, or a list of pairs exchanges objects. What is gone
        by the time at which it is copied is an error with ``on_error="raise"``, the default unless ``recursive``; with
        ``"ignore"`` it is left out. Cost: a lookup for each thousand paths or a listing for each thousand objects in a folder;
        for each object a lookup and a table write.
        """
        tolerant = (on_error or ("ignore" if recursive else "raise")) == "ignore"
        for source, target in self._copies.plan(
            path1, path2, recursive=recursive, maxdepth=maxdepth, tolerant=tolerant
        ):
            try:
                self._copies.copy(source, target)
            except FileNotFoundError:
                if not tolerant:
                    raise

    def mv(
        self,
        path1: PathOrPaths,
        path2: PathOrPaths,
        recursive: bool = False,
        maxdepth: int | None = None,
        **_: Any,
    ) -> None:
        """Move objects. One object on its branch moves in one step, at which no reader sees both or neither; others are copied
        as :meth:`copy` does, and then deleted: those that were copied, not those that somebody wrote meanwhile. ``ValueError``,
        before anything changes, if an object would be moved onto one that moves, such as itself, or a folder into itself."""
        path1, path2 = as_paths(path1), as_paths(path2)
        if isinstance(path1, str) and isinstance(path2, str) and not recursive and not has_magic(path1):
            source, target = self._place(path1), self._place(path2)
            at_once = source[:2] == target[:2] and not path2.endswith("/")
            if at_once and self.isfile(path1) and not self.isdir(path2):
                self._copies.move(source, target)
                return
        pairs = self._copies.plan(path1, path2, recursive=recursive, maxdepth=maxdepth, moves=True)
        for source, target in pairs:
            self._copies.copy(source, target)
        self._copies.delete([source for source, _ in pairs])

    def rm_file(self, path: str) -> None:
        """Delete an object, whose name is no pattern."""
        place = expect_object(self._place(path))
        self._copies.expect_to_delete(place)
        self._copies.delete([place])

    def rm(self, path: PathOrPaths | Iterable[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects; with ``recursive`` also all below folders, also those whose path ends with a slash.
        ``FileNotFoundError`` for what is not there. Cost: a listing and a few table writes per thousand."""
        paths = as_paths(path)
        for name in [paths] if isinstance(paths, str) else paths:
            if not has_magic(self._strip_protocol(name)):
                expect_object(self._place(name))
        selection = self._selector.select(paths, recursive=recursive, maxdepth=maxdepth)
        if not recursive:
            for name in sorted(selection.folders):
                raise is_folder_error(name)
        self._selector.expect_selected(selection, tolerant=False)
        self._copies.delete(list(selection.objects))

    @property
    def transaction(self) -> CommitTransaction:
        """The transaction of this thread, or one that a ``with`` block begins. Several threads may have one each; changes in a
        thread without one, such as a library's, belong to the only one there is: ``ValueError`` while there are several."""
        return self.transactions.of_this_context

    def start_transaction(self) -> CommitTransaction:
        """Begin a transaction without a ``with`` block; :meth:`end_transaction` ends it. ``ValueError`` if this thread has
        one."""
        transaction = self.transactions.of_this_context
        transaction.start()
        return transaction

    def end_transaction(self) -> None:
        """Commit and merge the transaction of this thread, or the only one there is. Does nothing without one."""
        with translating_lake_errors("the transaction"):
            transaction = self.transactions.current
        if transaction is not None:
            transaction.complete()

    def invalidate_cache(self, path: str | None = None) -> None:
        """Do nothing: nothing is cached that could change. A ``snapshot`` stays what it is."""

    def __reduce__(self) -> tuple[object, ...]:
        from fsspec.spec import make_instance

        location, options = self.opened.location, dict(self.storage_options)
        options.pop("lake", None)
        values = (location, *options.values())
        if any(isinstance(value, str) and "://" in value and has_secret(value) for value in values):
            raise TypeError(
                "a filesystem whose options have a URL with a password cannot be pickled; make it in the other process"
            )
        return make_instance, (type(self), (location,), options)
