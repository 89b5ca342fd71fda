"""Folders: listed, walked, searched and added up."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.describing import Describing, Info, file_info, folder_info
from graveler.model import CommonPrefix

if TYPE_CHECKING:
    from graveler.lake.reading.view import View
    from graveler.remote.reading import RemoteView

_PAGE: Final = 1000


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
        ``withdirs`` adds folders. ``maxdepth`` counts levels. ``prefix`` is what the rest of their names begins with. Cost: a
        listing per thousand."""
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
        """Yield folder, folders in it, objects in it, from the top or the bottom; all of one commit for each ref. See
        :meth:`fsspec.AbstractFileSystem.walk`. Cost: a listing per folder and thousand."""
        views: dict[tuple[str, str], View | RemoteView] = {}
        yield from self._walk_in(views, path, maxdepth, topdown, on_error, detail=bool(options.get("detail", False)))

    def du(
        self, path: str, total: bool = True, maxdepth: int | None = None, withdirs: bool = False, **options: Any
    ) -> "int | dict[str, int]":
        """Return the bytes of all objects below a path, in total or of each. Cost: for the total of a commit two ranges at most,
        else as :meth:`find`."""
        place = self._place(path)
        if not (total and maxdepth is None and place.ref):
            return super().du(path, total=total, maxdepth=maxdepth, withdirs=withdirs, **options)  # type: ignore[no-any-return]
        found = self.info(path)
        if found["type"] == "file":
            return int(found["size"])
        with self._told(place):
            verbs, ref = self._reading(place)
            return verbs.du(ref, place.prefix).size

    def _listed(self, place: Place) -> list[Info]:
        if not place.repository:
            return [folder_info(one.id) for one in self.opened.lake.repositories()]
        if not (place.ref or place.path):
            repository = self.opened.repository(place.repository)
            names = [*(one.id for one in repository.branches()), *(one.id for one in repository.tags())]
            return [folder_info(Place(place.repository, name, "").name) for name in sorted(names)]
        verbs, ref = self._reading(place)
        found = _children(verbs.view(ref), place)
        if found or not place.path:
            return found
        try:
            return [file_info(place, verbs.stat(ref, place.path))]
        except ObjectNotFoundError:
            if verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                return []  # all in it is what has no name
            raise

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
        self,
        views: "dict[tuple[str, str], View | RemoteView]",
        path: str,
        maxdepth: int | None,
        topdown: bool,
        on_error: "str | Callable[[OSError], object]",
        *,
        detail: bool,
    ) -> Iterator[tuple[str, Any, Any]]:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError(f"maxdepth is {maxdepth}; give at least 1")
        place = self._place(path)
        try:
            with self._told(place):
                if place.ref:
                    key = place.repository, place.ref
                    if key not in views:
                        verbs, ref = self._reading(place)
                        views[key] = verbs.view(ref)
                    listed = _children(views[key], place)
                    if not listed and place.path and not self.isdir(place.name):
                        raise ObjectNotFoundError(place.path, place.ref)
                else:
                    listed = self._listed(place)
        except OSError as error:
            if on_error == "raise":
                raise
            if callable(on_error):
                on_error(error)
            return
        folders, files = (
            {_last(one["name"]): one for one in listed if one["type"] == kind} for kind in ("directory", "file")
        )
        here = (place.name, folders, files) if detail else (place.name, list(folders), list(files))
        if topdown:
            yield here
        if maxdepth is None or maxdepth > 1:
            deeper = None if maxdepth is None else maxdepth - 1
            for name in list(here[1]):  # a caller may have removed some
                below = f"{place.name}/{name}" if place.name else name
                yield from self._walk_in(views, below, deeper, topdown, on_error, detail=detail)
        if not topdown:
            yield here


def _children(view: "View | RemoteView", place: Place) -> list[Info]:
    """Return the objects and folders in a folder, by name."""
    found: dict[tuple[str, str], Info] = {}
    after: str | None = ""
    while after is not None:
        page = view.list_objects(prefix=place.prefix, after=after, delimiter="/", amount=_PAGE)
        for item in page.results:
            if item.path == "/" or item.path.endswith("//"):
                continue  # an empty name, whose path is that of the folder above
            if isinstance(item, CommonPrefix):
                info = folder_info(place.named(item.path.removesuffix("/")))
            elif item.path == place.prefix or item.path.endswith("/"):
                continue  # a folder's marker
            else:
                info = file_info(place, item)
            found[info["name"], info["type"]] = info
        after = page.next_after
    return [info for _, info in sorted(found.items())]


def _last(name: str) -> str:
    return name.rpartition("/")[2]
