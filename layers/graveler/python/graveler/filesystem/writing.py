"""Writing: objects written as a whole, and folders, which are nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import stringify_path

from graveler.errors import AlreadyExistsError
from graveler.filesystem.addresses import Place
from graveler.filesystem.describing import Describing
from graveler.filesystem.transactions import CommitTransaction
from graveler.progress import ObjectProgress, no_object_progress
from graveler.sdk.writer import ObjectWriter
from graveler.storage.spooled import SpooledFile


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
