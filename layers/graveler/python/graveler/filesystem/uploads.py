"""Writes of whole objects, from bytes, local files and writers."""

import os
import stat
from collections.abc import Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.spec import AbstractFileSystem

from graveler.errors import AlreadyExistsError
from graveler.files.writer import ObjectWriter
from graveler.filesystem.addresses import Place
from graveler.filesystem.resolver import Resolver, expect_object
from graveler.filesystem.selection import PathOrPaths, arrival_names, as_paths, expect_apart, last_part
from graveler.filesystem.transactions import CommitTransaction
from graveler.lake.context import Context
from graveler.requests.staging import Upload
from graveler.storage.spooled import SpooledFile
from graveler.system.links import kind_of_file
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.record import encode_key


class Uploads:
    """The uploads to one lake. ``fs`` looks at targets."""

    def __init__(self, fs: AbstractFileSystem, resolver: Resolver) -> None:
        self._fs = fs
        self._resolver = resolver

    def plan(self, lpath: Any, rpath: PathOrPaths, *, recursive: bool, maxdepth: int | None) -> list[tuple[str, str]]:
        """Return which local files are written as which objects. Errors as :meth:`GravelerFileSystem.put`."""
        source, target = as_paths(lpath), as_paths(rpath)
        if isinstance(source, list) and isinstance(target, list):
            if len(source) != len(target):
                raise ValueError(f"{len(source)} files and {len(target)} targets; give as many of each")
            names, arrivals = source, target
        else:
            local = LocalFileSystem()
            path = make_path_posix(source)
            names = local.expand_path(path, recursive=recursive, maxdepth=maxdepth)
            folders = {name.rstrip("/") for name in names if os.path.isdir(name)}  # noqa: PTH112 - a text
            is_pattern = isinstance(path, str) and has_magic(path)
            if is_pattern and not (recursive and maxdepth is None):
                names = [name for name in names if name.rstrip("/") not in folders]
                folders = set()
            stripped = local._strip_protocol(path) if isinstance(path, str) else path
            arrivals = arrival_names(names, folders, path, stripped, target, is_folder=self._fs.isdir)
        uploads = [
            (name, arrival)
            for name, arrival in zip(names, arrivals, strict=True)
            if not os.path.isdir(name)  # noqa: PTH112
        ]
        places = [
            self.place_of(f"{arrival}{last_part(name)}" if arrival.endswith("/") else arrival)
            for name, arrival in uploads
        ]
        expect_apart((name, place.name) for (name, _), place in zip(uploads, places, strict=True))
        for (name, _), place in zip(uploads, places, strict=True):
            with self._resolver.translating_errors(place):
                encode_key(place.path)
            mode = os.stat(name).st_mode  # noqa: PTH116
            if not stat.S_ISREG(mode):
                raise ValueError(f"{name!r} is {kind_of_file(mode)}, which is no object; nothing was uploaded")
        return uploads

    def place_of(self, path: str) -> Place:
        """Return the place of an object to write. ``ValueError`` for a path that is none of an object."""
        return expect_object(Place.of(self._fs._strip_protocol(path)))

    def upload(
        self,
        place: Place,
        data: bytes | Path,
        mode: str,
        options: Mapping[str, Any],
        progress: ObjectProgress = no_object_progress,
    ) -> None:
        """Write an object; in ``mode`` create only if there is none."""
        if mode not in ("overwrite", "create"):
            raise ValueError(f"mode {mode!r} is not one of 'overwrite', 'create'")
        with self._resolver.translating_errors(place):
            transaction = self._resolver.transactions.current
            self._upload_in(transaction, place, data, options, if_absent=mode == "create", progress=progress)

    def open_writer(self, place: Place, options: Mapping[str, Any], *, if_absent: bool) -> ObjectWriter:
        """Open a writer, whose object appears when it is closed."""
        expect_object(place)
        with self._resolver.translating_errors(place):
            transaction = self._resolver.transactions.current  # also when it is closed, by whatever thread
            with self._resolver.write_target(place, transaction) as (repository, branch):
                repository.expect_upload(branch, place.path)  # before the caller writes gigabytes for a missing branch
                if if_absent and self._fs.exists(place.name):
                    raise AlreadyExistsError("object", place.path)
                writer = ObjectWriter(
                    place.name,
                    SpooledFile(f"writing {place.name!r}", "object-"),
                    lambda file: self._upload_in(transaction, place, file, options, if_absent=if_absent),
                )
            if transaction is not None:
                transaction.add(writer)
            return writer

    def _upload_in(
        self,
        transaction: CommitTransaction | None,
        place: Place,
        data: bytes | Path,
        options: Mapping[str, Any],
        *,
        if_absent: bool,
        progress: ObjectProgress = no_object_progress,
    ) -> None:
        with (
            self._resolver.translating_errors(place),
            self._resolver.write_target(place, transaction) as (repository, branch),
        ):
            request = Upload(
                branch=branch,
                path=place.path,
                content_type=options.get("content_type", ""),
                metadata=options.get("metadata") or {},
                if_absent=if_absent,
            )
            repository.run(request, Context(body=data, progress=progress))
