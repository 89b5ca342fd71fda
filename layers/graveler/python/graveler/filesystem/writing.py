"""Writing: objects written as a whole, and folders, which are nothing."""

import os
import stat
from collections.abc import Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.utils import stringify_path

from graveler.errors import AlreadyExistsError
from graveler.files.writer import ObjectWriter
from graveler.filesystem.addresses import Place
from graveler.filesystem.metadata import Describing
from graveler.filesystem.selecting import PathOrPaths, arrival_names, as_paths, expect_apart, last_part
from graveler.filesystem.transactions import CommitTransaction
from graveler.storage.spooled import SpooledFile
from graveler.system.links import kind_of_file
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.record import encode_key


class Writing(Describing):
    """Writing of objects."""

    def pipe_file(
        self, path: str, value: "bytes | bytearray | memoryview", mode: str = "overwrite", **options: Any
    ) -> None:
        """Write an object. With ``mode="create"``, ``FileExistsError`` if there is one. Cost: an object write and a table
        write."""
        place = self._expect_object(self._place(path))
        self._upload(place, value if isinstance(value, bytes) else bytes(memoryview(value)), mode, options)

    def put_file(
        self, lpath: Any, rpath: str, callback: Callback = DEFAULT_CALLBACK, mode: str = "overwrite", **options: Any
    ) -> None:
        """Write a local file as an object, into a folder if ``rpath`` ends with a slash; a local folder does nothing. Arguments
        and cost as :meth:`pipe_file`. ``ValueError`` for a pipe, a socket or a device."""
        source = Path(stringify_path(lpath))
        if source.is_dir():
            return
        place = self._expect_object(self._place(f"{rpath}{source.name}" if rpath.endswith("/") else rpath))
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(
                f"{str(source)!r} is {kind_of_file(status.st_mode)}, which is no object; nothing was uploaded"
            )
        callback.set_size(status.st_size)

        def progress(_: int, size: int) -> None:
            callback.relative_update(size)

        self._upload(place, source, mode, options, progress)

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
        uploads = self._uploads(lpath, rpath, recursive=recursive, maxdepth=maxdepth)
        callback.set_size(len(uploads))
        for source, name in callback.wrap(uploads):
            with callback.branched(source, name) as branch:
                self.put_file(source, name, callback=branch, **options)

    def _uploads(
        self, lpath: Any, rpath: PathOrPaths, *, recursive: bool, maxdepth: int | None
    ) -> list[tuple[str, str]]:
        """Return which files are written as which objects. Errors as :meth:`put`."""
        source, target = as_paths(lpath), as_paths(rpath)
        if isinstance(source, list) and isinstance(target, list):
            if len(source) != len(target):
                raise ValueError(f"{len(source)} files and {len(target)} targets; give as many of each")
            names, arrivals = source, target
        else:
            local = LocalFileSystem()
            given = make_path_posix(source)
            names = local.expand_path(given, recursive=recursive, maxdepth=maxdepth)
            folders = {name.rstrip("/") for name in names if os.path.isdir(name)}  # noqa: PTH112 - a text
            is_pattern = isinstance(given, str) and has_magic(given)
            if is_pattern and not (recursive and maxdepth is None):
                names = [name for name in names if name.rstrip("/") not in folders]
                folders = set()
            stripped = local._strip_protocol(given) if isinstance(given, str) else given
            arrivals = arrival_names(names, folders, given, stripped, target, is_folder=self.isdir)
        uploads = [
            (name, arrival)
            for name, arrival in zip(names, arrivals, strict=True)
            if not os.path.isdir(name)  # noqa: PTH112
        ]
        places = [
            self._expect_object(self._place(f"{arrival}{last_part(name)}" if arrival.endswith("/") else arrival))
            for name, arrival in uploads
        ]
        expect_apart((name, place.name) for (name, _), place in zip(uploads, places, strict=True))
        for (name, _), place in zip(uploads, places, strict=True):
            with self._told(place):
                encode_key(place.path)
            mode = os.stat(name).st_mode  # noqa: PTH116
            if not stat.S_ISREG(mode):
                raise ValueError(f"{name!r} is {kind_of_file(mode)}, which is no object; nothing was uploaded")
        return uploads

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

    def _open_writer(self, place: Place, options: Mapping[str, Any], *, if_absent: bool) -> ObjectWriter:
        self._expect_object(place)
        mode = "create" if if_absent else "overwrite"
        with self._told(place):
            transaction = self.transactions.meant  # also when it is closed, by whatever thread
            with self._changing_in(transaction, place) as (verbs, branch):
                verbs.expect_upload(branch, place.path)  # before the caller writes gigabytes for a missing branch
                if if_absent and self.exists(place.name):
                    raise AlreadyExistsError("object", place.path)
                writer = ObjectWriter(
                    place.name,
                    SpooledFile(f"writing {place.name!r}", "object-"),
                    lambda file: self._upload_in(transaction, place, file, mode, options),
                )
            if transaction is not None:
                transaction.add(writer)
            return writer

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
            self._upload_in(self.transactions.meant, place, data, mode, options, progress)

    def _upload_in(
        self,
        transaction: CommitTransaction | None,
        place: Place,
        data: bytes | Path,
        mode: str,
        options: Mapping[str, Any],
        progress: ObjectProgress = no_object_progress,
    ) -> None:
        with self._told(place), self._changing_in(transaction, place) as (verbs, branch):
            verbs.upload(
                branch,
                place.path,
                data,
                content_type=options.get("content_type", ""),
                metadata=options.get("metadata"),
                if_absent=mode == "create",
                progress=progress,
            )
