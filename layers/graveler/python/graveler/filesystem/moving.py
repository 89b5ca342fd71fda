"""Copying, moving and deleting."""

import os
from collections.abc import Iterable, Sequence
from glob import has_magic
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from fsspec.utils import other_paths

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.describing import Describing

_TOGETHER: Final = 1000
"""Objects that one request deletes."""


class Moving(Describing):
    """Changes of which objects there are, without their bytes."""

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy an object. Within a repository no byte moves. A folder does nothing."""
        source, target = self._place(path1), self._expect_object(self._place(path2))
        if self.isdir(path1):
            return
        with self._told(source), self._changing(target) as (there, branch):
            verbs, ref = self._reading(source)
            if source.repository == target.repository:
                there.copy(branch, source.path, target.path, source_ref=ref)
                return
            there.expect_upload(branch, target.path)
            entry = verbs.stat(ref, source.path)
            with NamedTemporaryFile(prefix="graveler-") as file:
                for piece in verbs.bytes_in(ref, entry):
                    file.write(piece)
                file.flush()
                there.upload(
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
                with self._told(source), self._changing(source) as (verbs, branch):
                    verbs.move(branch, source.path, target.path)
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
            with self._told(place), self._changing(place) as (verbs, branch):
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

    def _refuse_missing(self, place: Place) -> None:
        """Say why there is no object to delete: there is a folder, or nothing."""
        if self.isdir(place.name):
            raise IsADirectoryError(f"{place.name!r} is a folder; rm(…, recursive=True) deletes what is in it")
        raise ObjectNotFoundError(place.path, place.ref)
