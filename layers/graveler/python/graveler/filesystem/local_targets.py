"""The local files to which objects are downloaded, checked before the first one is written."""

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fsspec.implementations.local import make_path_posix
from fsspec.utils import isfilelike

from graveler.filesystem.addresses import Place
from graveler.filesystem.selection import as_paths, expect_apart, last_part, parents
from graveler.lake.exporting.export_names import (
    IS_ALIKE,
    IS_FOLDER,
    FileNames,
    UnwritableKeysError,
    alike,
)
from graveler.model import ObjectEntry


class Download(NamedTuple):
    """An object, and where it goes: the name of a local file, or a stream."""

    place: Place
    entry: ObjectEntry
    target: Any

    @property
    def is_folder(self) -> bool:
        """True for a folder marker, which becomes a folder."""
        return self.place.path.endswith("/") and not self.entry.size and not isfilelike(self.target)


def local_paths(targets: object) -> Any:
    """Return one or more local paths, absolute; what ends with a slash still does. Streams among several stay."""
    if isinstance(targets, list | tuple):
        return [target if isfilelike(target) else local_paths(target) for target in targets]
    path: str = make_path_posix(as_paths(targets))
    return path


def in_folder(target: str, place: Place) -> str:
    """Return the file for an object: ``target``, or if that ends with a slash the file in it that has the object's name."""
    return f"{target}{last_part(place.path)}" if target.endswith("/") else target


def expect_files(downloads: Sequence[Download], root: str | None) -> list[Download]:
    """Return the downloads, without markers of folders that no folder can be. All go to names below ``root``; if that is None,
    the caller has named each. :class:`UnwritableKeysError` for objects that cannot be files, ``ValueError`` if two would be one;
    ``NotADirectoryError`` and ``IsADirectoryError`` for what is on the disk already."""
    named = [download for download in downloads if not isfilelike(download.target)]
    problems = _without_names(named, root) if root is not None else {}
    folders = {os.path.normpath(download.target): download for download in named if download.is_folder}
    files = [download for download in named if not download.is_folder]
    possible = {os.path.normpath(download.target): download for download in files if download.place not in problems}
    for name in possible:
        problems |= {possible[folder].place: IS_FOLDER for folder in parents(name) if folder in possible}
    needless = {
        download.place
        for name, download in folders.items()
        if download.place in problems or not possible.keys().isdisjoint((name, *parents(name)))
    }
    if problems.keys() - needless:
        unwritable = sorted((place.path, reason) for place, reason in problems.items() if place not in needless)
        raise UnwritableKeysError(unwritable, is_rest_written=False)
    expect_apart((download.place.name, os.path.normpath(download.target)) for download in files)
    _expect_room(possible, [name for name, download in folders.items() if download.place not in needless])
    return [download for download in downloads if download.place not in needless]


def _without_names(downloads: Sequence[Download], root: str) -> dict[Place, str]:
    """Return the objects that the file system below ``root`` has no name for, each with the reason."""
    limits = FileNames.below(Path(root), frozenset())
    problems: dict[Place, str] = {}
    named: dict[str, Place] = {}
    for download in downloads:
        rest = download.target[len(root) :].removesuffix("/" if download.is_folder else "")
        name = rest[1:]
        reason = limits.problem(name) if rest else None
        if reason is not None:
            problems[download.place] = reason
        elif not download.is_folder:
            named[name] = download.place
    if limits.folds:
        problems |= {named[name]: IS_ALIKE for name in alike(lambda: sorted(named))}
    return problems


def _expect_room(files: Iterable[str], folders: Iterable[str]) -> None:
    """Raise ``IsADirectoryError`` if a folder has the name of a file to write, ``NotADirectoryError`` if anything else has the
    name of a folder that is needed."""
    needed = dict.fromkeys(folders)
    for name in files:
        needed |= dict.fromkeys(parents(name))
        if os.path.isdir(name):  # noqa: PTH112 - a text, as all here
            raise IsADirectoryError(errno.EISDIR, "a folder has the name of a file to write; nothing was written", name)
    for name in needed:
        if os.path.lexists(name) and not os.path.isdir(name):  # noqa: PTH112
            raise NotADirectoryError(
                errno.ENOTDIR, "this is no folder, but files are to be written into it; nothing was written", name
            )
