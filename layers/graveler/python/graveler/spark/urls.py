"""Spark's own access to the lake's addresses: Hadoop URLs, and the object store's metadata for the files."""

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError, UnavailableError
from graveler.spark.handles import Reached
from graveler.storage.durable_files import sync_file, sync_folder, unavailable
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects, StoredObject

_S3: Final = "s3://"
_PIECE: Final = 1 << 20
_THREADS: Final = 8


def hadoop_url(objects: Objects, key: str) -> str:
    """Return the URL of an object or folder for Hadoop's file systems: S3 by s3a, folders as files. Not encoded; no request.
    :class:`InvalidError` for other stores."""
    if isinstance(objects, FolderObjects):
        return f"file://{objects.file_of(key)}"
    address = f"{objects.namespace}/{key}"
    if not address.startswith(_S3):
        raise InvalidError(f"Spark cannot read or write {address!r} directly; it supports folders and S3")
    return f"s3a://{address.removeprefix(_S3)}"


def locator(repository: Reached) -> Callable[[str], str]:
    """Return a function from an address to its URL. :class:`InvalidError`, :class:`graveler.errors.ForbiddenError`."""
    return lambda address: hadoop_url(*repository.store_at(address))


def stored_below(objects: Objects, folder: str, names: Collection[str]) -> Iterator[StoredObject]:
    """Yield the stored objects of these names below a folder, in no order; ``etag`` is a digest of the contents: on S3 its own
    (of parts, with their number), of files their MD5, for which they are read and made durable. S3: one request per thousand
    objects in the folder. Files: one read each, several at once."""
    if not names:  # a partitioned frame without rows: even the folder is missing
        return
    keys = {f"{folder}/{name}" for name in names}
    stored = [stored_object for stored_object in objects.list(f"{folder}/") if stored_object.key in keys]
    if not isinstance(objects, FolderObjects):
        yield from stored
        return
    with ThreadPoolExecutor(_THREADS, "graveler-spark") as pool:
        digests = pool.map(partial(_settled, objects), (stored_object.key for stored_object in stored))
        for stored_object, digest in zip(stored, digests, strict=True):
            yield StoredObject(stored_object.key, stored_object.size, digest, stored_object.modified)
    _settle_folders(objects.file_of(folder), (objects.file_of(stored_object.key).parent for stored_object in stored))


def _settled(objects: FolderObjects, key: str) -> str:
    """Return the MD5 of a file, which is durable afterwards."""
    digest = md5(usedforsecurity=False)
    path = objects.file_of(key)
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
            sync_file(file.fileno())
    except OSError as error:
        raise unavailable(error, f"reading {path}") from error
    return digest.hexdigest()


def _settle_folders(top: Path, folders: Iterable[Path]) -> None:
    """Make the names of files and folders durable, from the lowest up to the folder that holds ``top``."""
    every: set[Path] = set(top.parents[:3])  # the namespace's own folder, ``data``, and the first part of the name
    for folder in folders:
        while folder not in every:
            every.add(folder)
            folder = folder.parent
    for folder in sorted(every, key=lambda path: -len(path.parts)):
        try:
            sync_folder(folder)
        except OSError as error:
            raise UnavailableError(
                f"{folder} cannot be flushed to disk: {error.strerror}; nothing was linked"
            ) from None
