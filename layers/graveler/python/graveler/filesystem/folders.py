"""Folders: their contents, all objects below them, and the sums of their sizes."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.metadata import Info, file_info, folder_info
from graveler.filesystem.resolver import Resolver
from graveler.model import CommonPrefix, ObjectEntry
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.lake.reading.view import View
    from graveler.remote.reading import RemoteView

_PAGE: Final = 1000

Views = dict[tuple[str, str], "View | RemoteView"]
"""One state of each ref, by repository and ref."""


class Walk(NamedTuple):
    """The options of one walk, and its state of each ref."""

    views: Views
    topdown: bool
    on_error: "str | Callable[[OSError], object]"
    detail: bool


class Folders:
    """The folders of one lake."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def list_folder(self, place: Place) -> list[Info]:
        """Return what a folder has, by name: of the lake its repositories, of a repository its refs; of an object only itself."""
        if not place.repository:
            lake = self._resolver.opened.handle.verbs
            return [folder_info(stored.name) for stored in items(lambda name: lake.repositories("", name, _PAGE))]
        if not (place.ref or place.path):
            repository = self._resolver.opened.verbs(place.repository)
            branches = items(lambda name: repository.branches("", name, _PAGE))
            tags = items(lambda name: repository.tags("", name, _PAGE))
            refs = [*(branch.name for branch in branches), *(tag.name for tag in tags)]
            return [folder_info(Place(place.repository, ref, "").name) for ref in sorted(refs)]
        repository, ref = self._resolver.repository_and_ref(place)
        listed, _ = _children(repository.view(ref), place, place.prefix)
        if listed or not place.path:
            return listed
        try:
            return [file_info(place, repository.stat(ref, place.path))]
        except ObjectNotFoundError:
            if repository.list_objects(ref, prefix=place.prefix, amount=1).results:
                return []  # it has only what has no name
            raise

    def view(self, views: Views, place: Place) -> "View | RemoteView":
        """Return the one state of the ref of a place."""
        key = place.repository, place.ref
        if key not in views:
            repository, ref = self._resolver.repository_and_ref(place)
            views[key] = repository.view(ref)
        return views[key]

    def below(self, views: Views, place: Place, maxdepth: int | None) -> Iterator[tuple[Place, ObjectEntry]]:
        """Yield all objects below a place, whatever their paths end with, with their own places."""
        if not place.ref and not place.path:
            deeper = None if maxdepth is None else maxdepth - 1
            for details in self.list_folder(place) if deeper != 0 else ():
                yield from self.below(views, Place.of(details["name"]), deeper)
            return
        start = len(place.prefix)
        for entry in self.view(views, place).objects(place.prefix):
            if maxdepth is None or entry.path.count("/", start) < maxdepth:
                yield place._replace(path=entry.path), entry

    def find(self, place: Place, maxdepth: int | None, *, with_folders: bool, beginning: str) -> dict[str, Info]:
        """Return all objects below a place of a ref, by name, whose paths go on with ``beginning``."""
        repository, ref = self._resolver.repository_and_ref(place)
        view = repository.view(ref)
        files: dict[str, Info] = {}
        folders: dict[str, Info] = {}
        base = len(place.prefix)
        for entry in view.objects(f"{place.prefix}{beginning}"):
            inner = entry.path[base:]
            if with_folders or maxdepth is not None:
                parts = inner.split("/")
                for depth in range(1, len(parts) if maxdepth is None else min(len(parts), maxdepth + 1)):
                    if parts[depth - 1]:  # else it has the name of the folder above
                        name = place.named(place.prefix + "/".join(parts[:depth]))
                        folders.setdefault(name, folder_info(name))
                if maxdepth is not None and len(parts) > maxdepth:
                    continue
            if inner and not inner.endswith("/"):
                files[place.named(entry.path)] = file_info(place, entry)
        if not files and not folders and place.path:
            entry_of_place = view.get(place.path)
            return {} if entry_of_place is None else {place.name: file_info(place, entry_of_place)}
        if with_folders:
            if place.path or files:
                folders.setdefault(place.name, folder_info(place.name))
            files = {**folders, **files}
        return dict(sorted(files.items()))

    def size(self, place: Place) -> int:
        """Return the bytes of all objects below a place of a ref."""
        repository, ref = self._resolver.repository_and_ref(place)
        return repository.du(ref, place.prefix).size

    def sizes(self, place: Place, maxdepth: int | None) -> dict[str, int]:
        """Return the bytes of each object below a place, and of the object there."""
        views: Views = {}
        sizes = {below.name: entry.size for below, entry in self.below(views, place, maxdepth)}
        if place.path and (entry := self.view(views, place).get(place.path)) is not None:
            sizes[place.name] = entry.size
        return sizes

    def walk(self, walk: Walk, place: Place, prefix: str, maxdepth: int | None) -> Iterator[tuple[str, Any, Any]]:
        """Walk the folder of a ref that ``prefix`` names, or the lake or a repository."""
        is_nameless = False
        try:
            with self._resolver.translating_errors(place):
                if place.ref:
                    view = self.view(walk.views, place)
                    listed, is_nameless = _children(view, place, prefix)
                    is_empty = not (listed or is_nameless or view.list_objects(prefix=prefix, amount=1).results)
                    if is_empty and place.path:
                        raise ObjectNotFoundError(place.path, place.ref)
                else:
                    listed = self.list_folder(place)
        except OSError as error:
            if walk.on_error == "raise":
                raise
            if callable(walk.on_error):
                walk.on_error(error)
            return
        folders, files = (
            {_last(details["name"]): details for details in listed if details["type"] == kind}
            for kind in ("directory", "file")
        )
        top = place.named(prefix)[:-1] if prefix else place.name
        row = (top, folders, files) if walk.detail else (top, list(folders), list(files))
        if walk.topdown:
            yield row
        if maxdepth is None or maxdepth > 1:
            deeper = None if maxdepth is None else maxdepth - 1
            if is_nameless:
                yield from self.walk(walk, place, f"{prefix}/", deeper)
            for name in list(row[1]):  # a caller may have removed some
                below = place._replace(path=prefix + name) if place.ref else Place.of(f"{top}/{name}" if top else name)
                yield from self.walk(walk, below, below.prefix, deeper)
        if not walk.topdown:
            yield row


def _children(view: "View | RemoteView", place: Place, prefix: str) -> tuple[list[Info], bool]:
    """Return the objects and folders in a folder, by name, and whether it has a folder without a name."""
    listed: dict[tuple[str, str], Info] = {}
    is_nameless = False
    after: str | None = ""
    while after is not None:
        page = view.list_objects(prefix=prefix, after=after, delimiter="/", amount=_PAGE)
        for item in page.results:
            if item.path == f"{prefix}/":
                is_nameless = True
                continue
            if isinstance(item, CommonPrefix):
                details = folder_info(place.named(item.path.removesuffix("/")))
            elif item.path == prefix:
                continue  # the folder's own object
            else:
                details = file_info(place, item)
            listed[details["name"], details["type"]] = details
        after = page.next_after
    return [details for _, details in sorted(listed.items())], is_nameless


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def expect_depth(maxdepth: int | None) -> None:
    """Refuse a depth without levels. ``ValueError``."""
    if maxdepth is not None and maxdepth < 1:
        raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
