"""Copies, moves and deletions of objects."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from fsspec.spec import AbstractFileSystem

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.resolver import Resolver, expect_object
from graveler.filesystem.selection import PathOrPaths, Selector, as_paths, parents
from graveler.lake.context import Context
from graveler.requests.staging import Copy, Delete, Move, Upload

_DELETED_AT_ONCE: Final = 1000
"""Objects that one request deletes."""

_Pairs = list[tuple[Place, Place]]
"""Objects, and the places where they arrive."""


class Copies:
    """Changes of which objects a lake has, without their bytes. ``fs`` looks at targets."""

    def __init__(self, fs: AbstractFileSystem, resolver: Resolver, selector: Selector) -> None:
        self._fs = fs
        self._resolver = resolver
        self._selector = selector

    def plan(
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
        selection, arrivals = self._selector.arriving(
            source, target, recursive=recursive, maxdepth=maxdepth, tolerant=tolerant, is_folder=self._fs.isdir
        )
        pairs = [(place, expect_object(Place.of(name))) for place, name in arrivals]
        if moves and not pairs and isinstance(source, str):
            self._fs.info(source)
            raise IsADirectoryError(f"{source!r} is a folder; mv(…, recursive=True) moves what is in it")
        if moves:
            _expect_elsewhere(pairs, selection.folders if recursive and maxdepth is None else set())
        return _in_order(pairs)

    def _normal(self, target: PathOrPaths) -> PathOrPaths:
        """Return targets without protocol; a slash at the end, which says that it is a folder, stays."""
        if isinstance(target, list):
            return [f"{self._fs._strip_protocol(path)}{'/' if path.endswith('/') else ''}" for path in target]
        return f"{self._fs._strip_protocol(target)}{'/' if target.endswith('/') else ''}"

    def copy(self, source: Place, target: Place) -> None:
        """Copy an object. Within a repository no byte moves."""
        with (
            self._resolver.translating_errors(source),
            self._resolver.write_target(target, self._resolver.transactions.current) as (target_repository, branch),
        ):
            repository, ref = self._resolver.repository_and_ref(source)
            if source.repository == target.repository:
                request = Copy(branch=branch, source_path=source.path, destination_path=target.path, source_ref=ref)
                target_repository.run(request)
                return
            target_repository.expect_upload(branch, target.path)
            entry = repository.stat(ref, source.path)
            with NamedTemporaryFile(prefix="graveler-") as file:
                for piece in repository.bytes_in(ref, entry):
                    file.write(piece)
                file.flush()
                upload = Upload(
                    branch=branch, path=target.path, content_type=entry.content_type, metadata=entry.metadata
                )
                target_repository.run(upload, Context(body=Path(file.name)))

    def move(self, source: Place, target: Place) -> None:
        """Move an object on its branch in one step."""
        with (
            self._resolver.translating_errors(source),
            self._resolver.write_target(source, self._resolver.transactions.current) as (repository, branch),
        ):
            repository.run(Move(branch=branch, source_path=source.path, destination_path=target.path))

    def expect_to_delete(self, place: Place) -> None:
        """Refuse to delete what is no object, by its exact path."""
        with self._resolver.translating_errors(place):
            repository, ref = self._resolver.repository_and_ref(place)
            if repository.stat_many(ref, [place.path]) == [None]:
                if self._fs.isdir(place.name):
                    raise is_folder_error(place.name)
                raise ObjectNotFoundError(place.path, place.ref)

    def delete(self, places: Sequence[Place]) -> None:
        """Delete objects by their exact paths."""
        refs: dict[tuple[str, str], list[Place]] = {}
        for place in places:
            refs.setdefault((place.repository, place.ref), []).append(place)
        for of_ref in refs.values():
            with (
                self._resolver.translating_errors(of_ref[0]),
                self._resolver.write_target(of_ref[0], self._resolver.transactions.current) as (repository, branch),
            ):
                for start in range(0, len(of_ref), _DELETED_AT_ONCE):
                    paths = tuple(place.path for place in of_ref[start : start + _DELETED_AT_ONCE])
                    repository.run(Delete(branch=branch, objects=paths))


def is_folder_error(name: str) -> IsADirectoryError:
    """Return the error for a folder where only objects are deleted."""
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
    required = {target: [copy for copy in targets.get(target, ()) if copy != target] for target in by_target}
    try:
        return [(by_target[target], target) for target in TopologicalSorter(required).static_order()]
    except CycleError as error:
        names = ", ".join(repr(place.name) for place in dict.fromkeys(error.args[1]))
        raise ValueError(f"cannot copy {names} onto one another; copy one of them to another name first") from None
