"""The objects that a method takes, and the names under which they arrive: for copying, moving, deleting and downloading.

fsspec expands its arguments to names, none of which ends with a slash. Paths of objects can, and their parts can be empty. So
these verbs go by the paths of the lake, as this module lists them; only the rules by which a source and a target make a name are
fsspec's ("Copying files and directories" in its documentation).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from glob import has_magic
from itertools import accumulate, islice
from typing import NamedTuple

from fsspec.spec import AbstractFileSystem
from fsspec.utils import common_prefix, stringify_path

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.folders import Folders, Views, expect_depth
from graveler.filesystem.resolver import Resolver
from graveler.model import ObjectEntry

PathOrPaths = str | list[str]
"""A path or a pattern; or several of them."""


class Selection(NamedTuple):
    """The objects and folders for which the arguments of a method stand."""

    objects: dict[Place, ObjectEntry]
    """By their places, whose paths are exact: they can end with a slash."""
    folders: set[str]
    """The names of folders that the arguments name or match."""
    missing: list[Place]
    """Arguments without an object."""
    unmatched: list[Place]
    """Patterns without a match, and arguments of a recursive verb that are neither an object nor a folder."""


class Selector:
    """Selects objects by paths, patterns and folders. Patterns are those of ``fs``."""

    def __init__(self, fs: AbstractFileSystem, resolver: Resolver, folders: Folders) -> None:
        self._fs = fs
        self._resolver = resolver
        self._folders = folders

    def select(self, source: PathOrPaths, *, recursive: bool, maxdepth: int | None) -> Selection:
        """Return the objects that the arguments of a verb stand for: those in folders only if it is recursive, and then all of
        one state of each ref.

        ``d`` stands for the object ``d`` and all below the folder ``d``; ``d/`` for what is below, or for the object if there is
        no such folder. Cost: a lookup for each thousand paths, a listing for each thousand objects of a folder.
        """
        expect_depth(maxdepth)
        views: Views = {}
        selection = Selection({}, set(), [], [])
        plain: list[Place] = []
        for path in [source] if isinstance(source, str) else source:
            name = self._fs._strip_protocol(path)
            place = Place.of(name)
            if has_magic(name):
                plain += self._select_matches(selection, views, place, recursive=recursive, maxdepth=maxdepth)
            elif recursive:
                self._select_below(selection, views, place, maxdepth, is_folder=path.endswith("/"))
            else:
                plain.append(place)
        self._select_plain(selection, plain)
        return selection

    def _select_plain(self, selection: Selection, places: Iterable[Place]) -> None:
        """Add the objects at these places."""
        refs: dict[tuple[str, str], list[Place]] = {}
        for place in places:
            if place.path:
                refs.setdefault((place.repository, place.ref), []).append(place)
            else:
                selection.folders.add(place.name)
        for places_of_ref in refs.values():
            with self._resolver.translating_errors(places_of_ref[0]):
                repository, ref = self._resolver.repository_and_ref(places_of_ref[0])
                entries = repository.stat_many(ref, [place.path for place in places_of_ref])
            for place, entry in zip(places_of_ref, entries, strict=True):
                if entry is not None:
                    selection.objects[place] = entry
                elif self._fs.isdir(place.name):
                    selection.folders.add(place.name)
                else:
                    selection.missing.append(place)

    def _select_below(
        self, selection: Selection, views: Views, place: Place, maxdepth: int | None, *, is_folder: bool
    ) -> None:
        """Add all below a place, and the object there unless ``is_folder`` says that the folder is meant."""
        with self._resolver.translating_errors(place):
            below = dict(self._folders.below(views, place, maxdepth))
            is_empty = not below and (not place.path or maxdepth is None or not self._fs.isdir(place.name))
            entry = None
            if place.path and (is_empty or not is_folder):
                entry = self._folders.view(views, place).get(place.path)
        if entry is not None:
            selection.objects[place] = entry
        elif is_empty and place.path:
            selection.unmatched.append(place)
        if not is_empty or not place.path:
            selection.folders.add(place.name)
        selection.objects.update(below)

    def _select_matches(
        self, selection: Selection, views: Views, pattern: Place, *, recursive: bool, maxdepth: int | None
    ) -> list[Place]:
        """Add what is below the matches of a pattern, if the verb is recursive; else return the objects among them."""
        matches = self._fs.glob(pattern.name, maxdepth=maxdepth, detail=True)
        if not matches:
            selection.unmatched.append(pattern)
        deeper = None if maxdepth is None else maxdepth - 1
        objects: list[Place] = []
        for name, info in matches.items():
            place = Place.of(name)
            if recursive and maxdepth is None and not selection.folders.isdisjoint(parents(name)):
                continue  # all below a folder above it is selected
            if recursive and deeper != 0:
                self._select_below(selection, views, place, deeper, is_folder=False)
            elif info["type"] == "file":
                objects.append(place)
            else:
                selection.folders.add(name)
        return objects

    def expect_selected(self, selection: Selection, *, tolerant: bool) -> None:
        """Raise the error of a missing object for an argument without one; if ``tolerant``, or for what could have matched, only
        if nothing is selected."""
        missing = [] if tolerant else selection.missing
        if not selection.objects and not selection.folders:
            missing = [*selection.missing, *selection.unmatched]
        for place in missing:
            with self._resolver.translating_errors(place):
                raise ObjectNotFoundError(place.path, place.ref)

    def arriving(
        self,
        source: PathOrPaths,
        target: PathOrPaths,
        *,
        recursive: bool,
        maxdepth: int | None,
        is_folder: Callable[[str], bool],
        tolerant: bool = False,
    ) -> tuple[Selection, list[tuple[Place, str]]]:
        """Return what ``source`` stands for; and the objects, in the order of their names, each with the name under which it
        arrives at ``target``, for which it counts what ``is_folder`` says of that. A list of targets has one for each source, and
        a folder among the sources has none.

        ``ValueError`` if two would arrive under one name, or the lists differ in their lengths. :class:`FileNotFoundError` for
        what is missing; if ``tolerant`` only if all is.
        """
        if isinstance(source, list) and isinstance(target, list):
            if len(source) != len(target):
                raise ValueError(f"{len(source)} paths and {len(target)} targets; give as many of each")
            selection = Selection({}, set(), [], [])
            places = [Place.of(self._fs._strip_protocol(path)) for path in source]
            self._select_plain(selection, places)
            pairs = [
                (place, f"{name}{last_part(place.path)}" if name.endswith("/") else name)
                for place, name in zip(places, target, strict=True)
                if place in selection.objects
            ]
        else:
            selection = self.select(source, recursive=recursive, maxdepth=maxdepth)
            places = sorted(selection.objects, key=lambda place: place.name)
            names = [place.name for place in places]
            stripped = self._fs._strip_protocol(source)
            is_pattern = isinstance(stripped, str) and has_magic(stripped)
            folders = selection.folders if not is_pattern or (recursive and maxdepth is None) else set[str]()
            arrivals = arrival_names(names, folders, source, stripped, target, is_folder=is_folder)
            pairs = list(zip(places, arrivals, strict=True))
        self.expect_selected(selection, tolerant=tolerant)
        expect_apart((place.name, name) for place, name in pairs)
        return selection, pairs


def arrival_names(
    names: Sequence[str],
    folders: Collection[str],
    source: PathOrPaths,
    stripped: PathOrPaths,
    target: PathOrPaths,
    *,
    is_folder: Callable[[str], bool],
) -> list[str]:
    """Return the names under which sources arrive at a target, by fsspec's rules: from a list each directly in the target; from a
    folder by the rest of the name, in a new folder or, if the target is one already, below the source's last part; from a pattern
    by what follows the part that all have in common. ``stripped`` is the source without protocol and slashes at its end,
    ``folders`` are the folders that it names or matches."""
    if not isinstance(target, str):
        raise TypeError("several targets need a list of as many sources")
    root = target.rstrip("/")
    if not isinstance(source, str) or not isinstance(stripped, str):
        return [f"{root}/{last_part(name)}" for name in names]
    if has_magic(stripped):
        visible = {*folders, *(name.rstrip("/") for name in names)}
        base = common_prefix(visible) if visible else ""
        is_inside = len(visible) == 1
    else:
        base = stripped
        is_contents = source.endswith("/") and stripped in folders
        is_inside = not is_contents and (target.endswith("/") or is_folder(target))
    if is_inside:
        base = base.rpartition("/")[0]
    return [root + name[len(base) :] if base or name.startswith("/") else f"{root}/{name}" for name in names]


def parents(name: str) -> Iterator[str]:
    """Yield the names of all folders above a name, from the top."""
    parts = accumulate(name.split("/"), "{}/{}".format)
    return islice(parts, name.count("/"))


def last_part(name: str) -> str:
    """Return the last part of a name, with the slashes at its end."""
    return name[name.rstrip("/").rfind("/") + 1 :]


def expect_apart(pairs: Iterable[tuple[str, str]]) -> None:
    """Raise ``ValueError`` if two of the sources have the same target, where the second would replace the first."""
    arrived: dict[str, str] = {}
    for source, target in pairs:
        earlier = arrived.setdefault(target, source)
        if earlier is not source and earlier != source:
            raise ValueError(f"{earlier!r} and {source!r} would both be {target!r}; nothing was written")


def as_paths(paths: object) -> PathOrPaths:
    """Return a path of any kind, or several of them, as text."""
    if isinstance(paths, list | tuple | set | frozenset):
        return [stringify_path(path) for path in paths]
    text: str = stringify_path(paths)
    return text
