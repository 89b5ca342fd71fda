"""Copying, moving and deleting."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from glob import has_magic
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.selecting import PathOrPaths, Selecting, as_paths, last_part, parents

_TOGETHER: Final = 1000
"""Objects that one request deletes."""

_Pairs = list[tuple[Place, Place]]
"""Objects, and the places where they arrive."""


class Moving(Selecting):
    """Changes of which objects there are, without their bytes."""

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copy an object; into a folder if ``path2`` ends with a slash. Within a repository no byte moves. A folder does
        nothing."""
        source = self._place(path1)
        name = f"{self._strip_protocol(path2)}/{last_part(source.path)}" if path2.endswith("/") else path2
        target = self._expect_object(self._place(name))
        if not self.isdir(path1):
            self._copy_object(source, target)

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
        for source, target in self._copies(path1, path2, recursive=recursive, maxdepth=maxdepth, tolerant=tolerant):
            try:
                self._copy_object(source, target)
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
                with self._told(source), self._changing(source) as (verbs, branch):
                    verbs.move(branch, source.path, target.path)
                return
        pairs = self._copies(path1, path2, recursive=recursive, maxdepth=maxdepth, moves=True)
        for source, target in pairs:
            self._copy_object(source, target)
        self._delete([source for source, _ in pairs])

    def rm_file(self, path: str) -> None:
        """Delete an object, whose name is no pattern."""
        place = self._expect_object(self._place(path))
        with self._told(place):
            verbs, ref = self._reading(place)
            if verbs.stat_many(ref, [place.path]) == [None]:
                raise _folder(place.name) if self.isdir(path) else ObjectNotFoundError(place.path, place.ref)
        self._delete([place])

    def rm(self, path: PathOrPaths | Iterable[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects; with ``recursive`` also all below folders, also those whose path ends with a slash.
        ``FileNotFoundError`` for what is not there. Cost: a listing and a few table writes per thousand."""
        paths = as_paths(path)
        for name in [paths] if isinstance(paths, str) else paths:
            if not has_magic(self._strip_protocol(name)):
                self._expect_object(self._place(name))
        selection = self._select(paths, recursive=recursive, maxdepth=maxdepth)
        if not recursive:
            for name in sorted(selection.folders):
                raise _folder(name)
        self._expect_selected(selection, tolerant=False)
        self._delete(list(selection.objects))

    def _copies(
        self,
        path1: PathOrPaths,
        path2: PathOrPaths,
        *,
        recursive: bool,
        maxdepth: int | None,
        tolerant: bool = False,
        moves: bool = False,
    ) -> _Pairs:
        """Return which objects are copied where, in an order in which none is replaced before it is copied."""
        source, target = as_paths(path1), self._normal(as_paths(path2))
        selection, arrivals = self._arriving(
            source, target, recursive=recursive, maxdepth=maxdepth, tolerant=tolerant, is_folder=self.isdir
        )
        pairs = [(place, self._expect_object(Place.of(name))) for place, name in arrivals]
        if moves and not pairs and isinstance(source, str):
            self.info(source)
            raise IsADirectoryError(f"{source!r} is a folder; mv(…, recursive=True) moves what is in it")
        if moves:
            _expect_elsewhere(pairs, selection.folders if recursive and maxdepth is None else set())
        return _in_order(pairs)

    def _normal(self, target: PathOrPaths) -> PathOrPaths:
        """Return targets without protocol; a slash at the end, which says that it is a folder, stays."""
        if isinstance(target, list):
            return [f"{self._strip_protocol(path)}{'/' if path.endswith('/') else ''}" for path in target]
        return f"{self._strip_protocol(target)}{'/' if target.endswith('/') else ''}"

    def _copy_object(self, source: Place, target: Place) -> None:
        with self._told(source), self._changing(target) as (target_verbs, branch):
            verbs, ref = self._reading(source)
            if source.repository == target.repository:
                target_verbs.copy(branch, source.path, target.path, source_ref=ref)
                return
            target_verbs.expect_upload(branch, target.path)
            entry = verbs.stat(ref, source.path)
            with NamedTemporaryFile(prefix="graveler-") as file:
                for piece in verbs.bytes_in(ref, entry):
                    file.write(piece)
                file.flush()
                target_verbs.upload(
                    branch, target.path, Path(file.name), content_type=entry.content_type, metadata=entry.metadata
                )

    def _delete(self, places: Sequence[Place]) -> None:
        """Delete objects by their exact paths."""
        refs: dict[tuple[str, str], list[Place]] = {}
        for place in places:
            refs.setdefault((place.repository, place.ref), []).append(place)
        for named in refs.values():
            with self._told(named[0]), self._changing(named[0]) as (verbs, branch):
                for start in range(0, len(named), _TOGETHER):
                    verbs.delete(branch, [place.path for place in named[start : start + _TOGETHER]])


def _folder(name: str) -> IsADirectoryError:
    return IsADirectoryError(f"{name!r} is a folder; rm(…, recursive=True) deletes what is in it")


def _expect_elsewhere(pairs: _Pairs, folders: AbstractSet[str]) -> None:
    """Raise ``ValueError`` if an object would move onto one that moves, or into a folder that moves."""
    sources = {source for source, _ in pairs}
    for source, target in pairs:
        if target in sources or not folders.isdisjoint(parents(target.name)):
            raise ValueError(f"cannot move {source.name!r} to {target.name!r}, which is itself, in it, or moves too")


def _in_order(pairs: _Pairs) -> _Pairs:
    """Return the pairs in an order in which no source is replaced before it is copied; ``ValueError`` if there is none."""
    by_target = {target: source for source, target in pairs}
    targets: dict[Place, list[Place]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    if targets.keys().isdisjoint(by_target):
        return pairs
    before = {target: [first for first in targets.get(target, ()) if first != target] for target in by_target}
    try:
        return [(by_target[target], target) for target in TopologicalSorter(before).static_order()]
    except CycleError as error:
        names = ", ".join(repr(place.name) for place in dict.fromkeys(error.args[1]))
        raise ValueError(f"cannot copy {names} onto one another; copy one of them to another name first") from None
