"""Reads of a source's current contents: one object, or all below a prefix."""

from collections.abc import Iterator, Sequence
from hashlib import md5
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import NotFoundError, UnavailableError
from graveler.ingest.events import FILES
from graveler.ingest.rules import Rule
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.storage.objects.port import StoredObject
from graveler.values.ignore_rules import IGNORE_FILE, IgnoreRules

_FILES: Final = FILES + "/"
_PROBE: Final = "object"


class Found(Struct, frozen=True):
    """An object as its store has it. ``etag`` is empty for a file: :func:`checksum` reads it."""

    key: str
    size: int
    etag: str
    modified: float


def find(repository: OpenRepository, address: str) -> Found | None:
    """Return the object at an address, or None. One object request. :class:`ForbiddenError`, :class:`UnavailableError`."""
    store, key = repository.store_at(address)
    try:
        return _stored_object(
            address, address.removeprefix(_FILES) if address.startswith(_FILES) else key, store.head(key)
        )
    except NotFoundError:
        return None


def checksum(repository: OpenRepository, address: str) -> str:
    """Return the MD5 of an object's bytes. One object request. :class:`NotFoundError` if it is gone."""
    store, key = repository.store_at(address)
    digest = md5(usedforsecurity=False)
    for piece in store.stream(key):
        digest.update(piece)
    return digest.hexdigest()


def entry_of(repository: OpenRepository, rule: Rule, stored: Found) -> ObjectEntry:
    """Return the entry of a rule's branch for an object of the store. An object request for one without ETag, which is read.
    :class:`NotFoundError` if it is gone by then."""
    address = f"{rule.bucket}/{stored.key}"
    etag = stored.etag or checksum(repository, address)
    return ObjectEntry(rule.path(stored.key), address, stored.size, etag, int(stored.modified))


def everything(repository: OpenRepository, rule: Rule, below: str = "") -> Iterator[Found]:
    """Yield everything that a rule would take, and its markers, in the order of keys' bytes; restricted to ``below`` under its
    source. One object request per thousand."""
    store, probe = repository.store_at(f"{rule.source}{_PROBE}")  # a source itself is no object's address
    prefix = probe.removesuffix(_PROBE)
    above = rule.prefix.removesuffix(prefix)  # for a server's folders, the store is the import source
    for stored in store.list(prefix + below):
        key = above + stored.key
        if rule.takes(key) or rule.is_marker(key):
            yield _stored_object(rule.source, key, stored)


def ignore_rules(
    repository: OpenRepository, rule: Rule, exclude: Sequence[str] = (), *, ignore: bool = True
) -> IgnoreRules:
    """Return the rules by which files of a rule's source are left out, for paths below the source; of a store that has no files,
    none but ``exclude``. One object request for each folder, when its files are asked about."""

    def read(folder: str) -> bytes | None:
        store, key = repository.store_at(f"{rule.source}{folder}{IGNORE_FILE}")
        try:
            return b"".join(store.stream(key))
        except NotFoundError:
            return None

    return IgnoreRules(read, exclude, ignore=ignore and rule.bucket == FILES)


def expect_there(rule: Rule) -> None:
    """Raise :class:`UnavailableError` if the folder of a rule is missing: an unmounted disk has deleted nothing. A check of the
    file system; none for other stores."""
    if rule.bucket == FILES and not Path(f"/{rule.prefix}").is_dir():
        raise UnavailableError(
            f"folder {'/' + rule.prefix!r} is gone; nothing was treated as deleted. Create it, empty, if everything in it was "
            "deleted for good"
        )


def _stored_object(address: str, key: str, stored: StoredObject) -> Found:
    etag = "" if address.startswith(_FILES) else stored.etag
    return Found(key, stored.size, etag, stored.modified)
