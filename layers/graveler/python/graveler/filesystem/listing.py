"""Folders: listed, walked, searched and added up."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.metadata import Describing, Info, file_info, folder_info
from graveler.model import CommonPrefix, ObjectEntry
from graveler.values.paging import items

if TYPE_CHECKING:
    from graveler.lake.reading.view import View
    from graveler.remote.reading import RemoteView

_PAGE: Final = 1000

Views = dict[tuple[str, str], "View | RemoteView"]
"""One state of each ref, by repository and ref."""


class Listing(Describing):
    """Looking at all below a path."""

    def ls(self, path: str, detail: bool = True, **_: Any) -> "list[Info] | list[str]":
        """List a folder: its objects and folders, by name; of the lake its repositories, of a repository its branches and tags.
        Of an object only itself. With ``detail``, the results of :meth:`info`, else names. Cost: a listing per thousand."""
        place = self._place(path)
        with self._told(place):
            found = self._listed(place)
        return found if detail else [one["name"] for one in found]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> "list[str] | dict[str, Info]":
        """Return all objects below a path, of one commit: names, or with ``detail`` a dictionary of their :meth:`info`;
        ``withdirs`` adds folders, of which an object whose path ends with a slash is one. ``maxdepth`` counts levels. ``prefix``
        is what the rest of their names begins with. Cost: a listing per thousand."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        place = self._place(path)
        if not place.ref:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail)  # type: ignore[no-any-return]
        with self._told(place):
            infos = self._found_below(place, maxdepth, withdirs=withdirs, beginning=str(options.get("prefix") or ""))
        return infos if detail else list(infos)

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: "str | Callable[[OSError], object]" = "omit",
        **options: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield folder, folders in it, objects in it, from the top or the bottom; all of one commit for each ref. A folder
        without a name, ``a/`` in ``a//b``, is walked, but not among the folders in ``a``. See
        :meth:`fsspec.AbstractFileSystem.walk`. Cost: a listing per folder and thousand."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        walk = _Walk({}, topdown, on_error, bool(options.get("detail", False)))
        place = self._place(path)
        yield from self._walk_in(walk, place, place.prefix, maxdepth)

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **options: Any
    ) -> "int | dict[str, int]":
        """Return the bytes of all objects below a path, in total or of each, also of those whose path ends with a slash. Cost:
        for the total of a commit two ranges at most, else as :meth:`find`."""
        place = self._place(path)
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        with self._told(place):
            if total and maxdepth is None and place.ref:
                size = int(self.info(path)["size"])  # of a folder 0
                verbs, ref = self._reading(place)
                return size + verbs.du(ref, place.prefix).size
            views: Views = {}
            sizes = {below.name: entry.size for below, entry in self._below(views, place, maxdepth)}
            if place.path and (entry := self._view(views, place).get(place.path)) is not None:
                sizes[place.name] = entry.size
        if total:
            return sum(sizes.values())
        if withdirs:
            for name in self.find(path, maxdepth=maxdepth, withdirs=True, **options):
                sizes.setdefault(name, 0)  # a folder
        return dict(sorted(sizes.items()))

    def _listed(self, place: Place) -> list[Info]:
        if not place.repository:
            lake = self.opened.lake.verbs
            return [folder_info(stored.name) for stored in items(lambda name: lake.repositories("", name, _PAGE))]
        if not (place.ref or place.path):
            repository = self.opened.repository(place.repository)
            branches = items(lambda name: repository.branches("", name, _PAGE))
            tags = items(lambda name: repository.tags("", name, _PAGE))
            refs = [*(branch.name for branch in branches), *(tag.name for tag in tags)]
            return [folder_info(Place(place.repository, ref, "").name) for ref in sorted(refs)]
        verbs, ref = self._reading(place)
        listed, _ = _children(verbs.view(ref), place, place.prefix)
        if listed or not place.path:
            return listed
        try:
            return [file_info(place, verbs.stat(ref, place.path))]
        except ObjectNotFoundError:
            if verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                return []  # all in it is what has no name
            raise

    def _view(self, views: Views, place: Place) -> "View | RemoteView":
        """Return the one state of the ref of a place."""
        key = place.repository, place.ref
        if key not in views:
            verbs, ref = self._reading(place)
            views[key] = verbs.view(ref)
        return views[key]

    def _below(self, views: Views, place: Place, maxdepth: int | None) -> Iterator[tuple[Place, ObjectEntry]]:
        """Yield all objects below a place, whatever their paths end with, with their own places."""
        if not place.ref and not place.path:
            deeper = None if maxdepth is None else maxdepth - 1
            for details in self._listed(place) if deeper != 0 else ():
                yield from self._below(views, Place.of(details["name"]), deeper)
            return
        start = len(place.prefix)
        for entry in self._view(views, place).objects(place.prefix):
            if maxdepth is None or entry.path.count("/", start) < maxdepth:
                yield place._replace(path=entry.path), entry

    def _found_below(self, place: Place, maxdepth: int | None, *, withdirs: bool, beginning: str) -> dict[str, Info]:
        verbs, ref = self._reading(place)
        view = verbs.view(ref)
        found: dict[str, Info] = {}
        folders: dict[str, Info] = {}
        base = len(place.prefix)
        for entry in view.objects(f"{place.prefix}{beginning}"):
            inner = entry.path[base:]
            if withdirs or maxdepth is not None:
                parts = inner.split("/")
                for depth in range(1, len(parts) if maxdepth is None else min(len(parts), maxdepth + 1)):
                    if parts[depth - 1]:  # else it has the name of the folder above
                        name = place.named(place.prefix + "/".join(parts[:depth]))
                        folders.setdefault(name, folder_info(name))
                if maxdepth is not None and len(parts) > maxdepth:
                    continue
            if inner and not inner.endswith("/"):
                found[place.named(entry.path)] = file_info(place, entry)
        if not found and not folders and place.path:
            entry_here = view.get(place.path)
            return {} if entry_here is None else {place.name: file_info(place, entry_here)}
        if withdirs:
            if place.path or found:
                folders.setdefault(place.name, folder_info(place.name))
            found = {**folders, **found}
        return dict(sorted(found.items()))

    def _walk_in(
        self, walk: "_Walk", place: Place, prefix: str, maxdepth: int | None
    ) -> Iterator[tuple[str, Any, Any]]:
        """Walk the folder of a ref that ``prefix`` names, or the lake or a repository."""
        is_nameless = False
        try:
            with self._told(place):
                if place.ref:
                    view = self._view(walk.views, place)
                    listed, is_nameless = _children(view, place, prefix)
                    is_empty = not (listed or is_nameless or view.list_objects(prefix=prefix, amount=1).results)
                    if is_empty and place.path:
                        raise ObjectNotFoundError(place.path, place.ref)
                else:
                    listed = self._listed(place)
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
                yield from self._walk_in(walk, place, f"{prefix}/", deeper)
            for name in list(row[1]):  # a caller may have removed some
                below = place._replace(path=prefix + name) if place.ref else Place.of(f"{top}/{name}" if top else name)
                yield from self._walk_in(walk, below, below.prefix, deeper)
        if not walk.topdown:
            yield row


class _Walk(NamedTuple):
    """One walk: its state of each ref, and what its caller chose."""

    views: Views
    topdown: bool
    on_error: "str | Callable[[OSError], object]"
    detail: bool


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
