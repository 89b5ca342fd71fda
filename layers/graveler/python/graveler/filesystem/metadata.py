"""What the filesystem says of one object or folder."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.resolving import Resolving
from graveler.model import ObjectEntry

Info = dict[str, Any]


class Describing(Resolving):
    """Looking at one path."""

    def info(self, path: str, **_: Any) -> Info:
        """Return ``name``, ``size`` (bytes) and ``type`` (``file`` or ``directory``); of an object also ``checksum``, ``mtime``
        (Unix seconds), ``content_type``, ``metadata`` and ``address``. Cost: that of a lookup; of a listing for a folder."""
        place = self._place(path)
        with self._told(place):
            if not place.path:
                return self._info_above(place)
            verbs, ref = self._reading(place)
            if not place.path.endswith("/"):
                try:
                    return file_info(place, verbs.stat(ref, place.path))
                except ObjectNotFoundError:
                    pass
            if verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                return folder_info(place.name)
            raise ObjectNotFoundError(place.path, place.ref)

    def exists(self, path: str, **_: Any) -> bool:
        """Return whether there is an object or a folder: not if nothing can have this path. Cost as :meth:`info`."""
        try:
            self.info(path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Return whether objects are below a path. Cost as :meth:`info`."""
        try:
            return bool(self.info(path)["type"] == "directory")
        except (FileNotFoundError, ValueError):
            return False

    def isfile(self, path: str) -> bool:
        """Return whether a path is that of an object. Cost: a lookup."""
        try:
            place = self._place(path)
            if not place.path or place.path.endswith("/"):
                return False
            with self._told(place):
                verbs, ref = self._reading(place)
                verbs.stat(ref, place.path)
        except (FileNotFoundError, ValueError):
            return False
        return True

    def created(self, path: str) -> datetime:
        """Return when an object was written, as :meth:`modified`: an object never changes."""
        return self.modified(path)

    def modified(self, path: str) -> datetime:
        """Return when an object was written, in UTC. ``IsADirectoryError`` for a folder, which has no time."""
        return datetime.fromtimestamp(self._file(path)["mtime"], UTC)

    def checksum(self, path: str) -> int:
        """Return a number that changes when the object does."""
        found = self._file(path)
        return int(
            hashlib.sha256(repr((found["checksum"], found["size"], found["address"])).encode()).hexdigest()[:16], 16
        )

    def ukey(self, path: str) -> str:
        """Return a text that changes when the object does."""
        return f"{self.checksum(path):016x}"

    def sign(self, path: str, expiration: int = 3600, **_: Any) -> str:
        """Return a URL with which anyone may read an object, for ``expiration`` seconds; behind a server for as long as that
        allows. ``OSError`` where the store has no such URLs, as a folder."""
        place = self._place(path)
        with self._told(place):
            verbs, ref = self._reading(place)
            return verbs.signed_url(ref, self._stat(verbs, ref, place), expiration)

    def _file(self, path: str) -> Info:
        found = self.info(path)
        if found["type"] != "file":
            raise IsADirectoryError(f"{found['name']!r} is a folder, which has no time and no checksum")
        return found

    def _info_above(self, place: Place) -> Info:
        """Return the info of the lake, a repository or a ref, which are folders."""
        if place.ref:
            verbs, ref = self._reading(place)
            verbs.commit_of(ref)
        elif place.repository:
            self.opened.repository(place.repository).repository  # noqa: B018 - a server is asked here
        else:
            self.opened.lake  # noqa: B018
        return folder_info(place.name)


def file_info(place: Place, entry: ObjectEntry) -> Info:
    return {
        "name": place.named(entry.path),
        "size": entry.size,
        "type": "file",
        "checksum": entry.checksum,
        "mtime": entry.mtime,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "address": entry.address,
    }


def folder_info(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}
