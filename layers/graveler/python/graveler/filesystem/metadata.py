"""Metadata of one path, as fsspec's dictionaries."""

import hashlib
from typing import Any

from graveler.errors import ObjectNotFoundError
from graveler.filesystem.addresses import Place
from graveler.filesystem.resolver import Resolver
from graveler.model import ObjectEntry

Info = dict[str, Any]


def info_of(resolver: Resolver, place: Place) -> Info:
    """Return the info of an object, a folder, a ref, a repository or the lake. :class:`ObjectNotFoundError` if there is none."""
    if not place.path:
        return _info_above(resolver, place)
    repository, ref = resolver.repository_and_ref(place)
    if not place.path.endswith("/"):
        try:
            return file_info(place, repository.stat(ref, place.path))
        except ObjectNotFoundError:
            pass
    if repository.list_objects(ref, prefix=place.prefix, amount=1).results:
        return folder_info(place.name)
    raise ObjectNotFoundError(place.path, place.ref)


def _info_above(resolver: Resolver, place: Place) -> Info:
    """Return the info of the lake, a repository or a ref, which are folders."""
    if place.ref:
        repository, ref = resolver.repository_and_ref(place)
        repository.commit_of(ref)
    elif place.repository:
        resolver.opened.verbs(place.repository).repository  # noqa: B018 - a server is asked here
    else:
        resolver.opened.handle  # noqa: B018
    return folder_info(place.name)


def expect_file(info: Info) -> Info:
    """Return the info of an object. ``IsADirectoryError`` for that of a folder."""
    if info["type"] != "file":
        raise IsADirectoryError(f"{info['name']!r} is a folder, which has no time and no checksum")
    return info


def checksum_of(info: Info) -> int:
    """Return a number that differs for objects of which checksum, size or address differ."""
    identity = repr((info["checksum"], info["size"], info["address"]))
    return int(hashlib.sha256(identity.encode()).hexdigest()[:16], 16)


def file_info(place: Place, entry: ObjectEntry) -> Info:
    """Return the info of an object of the same ref as a place."""
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
    """Return the info of a folder."""
    return {"name": name, "size": 0, "type": "directory"}
