"""Downloads: objects written to local files or streams."""

import os
from pathlib import Path
from typing import Any

from fsspec.callbacks import Callback
from fsspec.utils import isfilelike, stringify_path

from graveler.filesystem.addresses import Place
from graveler.filesystem.local_targets import Download, expect_files, in_folder, local_paths
from graveler.filesystem.resolver import Resolver
from graveler.filesystem.selection import PathOrPaths, Selector
from graveler.system.temporary_files import file_beside


class Downloads:
    """The downloads of objects that a selector finds."""

    def __init__(self, resolver: Resolver, selector: Selector) -> None:
        self._resolver = resolver
        self._selector = selector

    def plan(
        self, source: PathOrPaths, lpath: Any, place: Place, *, recursive: bool, maxdepth: int | None
    ) -> list[Download]:
        """Return which objects are written to which files. Errors are about ``place``, and those of
        :meth:`GravelerFileSystem.get`."""
        target = local_paths(lpath)
        selection, arrivals = self._selector.arriving(
            source, target, recursive=recursive, maxdepth=maxdepth, is_folder=os.path.isdir
        )
        downloads = [Download(arrived, selection.objects[arrived], name) for arrived, name in arrivals]
        root = target.rstrip("/") if isinstance(target, str) else None
        with self._resolver.translating_errors(place):
            return expect_files(downloads, root)

    def write_one(self, place: Place, target: Any, callback: Callback) -> None:
        """Write the object of a place to a stream, a file, or into a folder if ``target`` ends with a slash."""
        if not isfilelike(target):
            target = in_folder(stringify_path(target), place)
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            entry = repository.stat(ref, place.path)
        download = Download(place, entry, target)
        expect_files([download], None)
        self._write_file(download, callback)

    def write(self, download: Download, callback: Callback) -> None:
        """Write an object to its file or stream; make the folder of a folder marker."""
        if download.is_folder:
            os.makedirs(download.target, exist_ok=True)  # noqa: PTH103 - a text
        else:
            self._write_file(download, callback)

    def _write_file(self, download: Download, callback: Callback) -> None:
        place, entry, target = download
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            callback.set_size(entry.size)
            if isfilelike(target):
                for piece in repository.bytes_in(ref, entry):
                    target.write(piece)
                    callback.relative_update(len(piece))
                return
            final = Path(target)
            final.parent.mkdir(parents=True, exist_ok=True)
            with file_beside(final) as (file, temporary):
                for piece in repository.bytes_in(ref, entry):
                    file.write(piece)
                    callback.relative_update(len(piece))
                file.close()
                temporary.replace(final)
