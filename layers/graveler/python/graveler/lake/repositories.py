"""Repositories: creating, finding, listing and deleting them.

A repository's item lies in one partition under its name. Its namespace belongs to it alone: the object
``_graveler/repository`` there says to whom, and is put on condition that there is none.
"""

from secrets import token_bytes, token_hex
from typing import Final

import msgspec

from graveler.errors import CorruptError, InvalidError, RepositoryNotFoundError
from graveler.model import Page, Repository, RepositoryUID, SplitParameters
from graveler.storage.objects import ObjectConditionError, Objects
from graveler.storage.tables import Absent, ConditionFailedError, Delete, Item, Key, Matches, Put, Tables, Write
from graveler.tree.split import validate_split

FORMAT_VERSION: Final = 1
MARKER: Final = "_graveler/repository"
PARTITION: Final = "repositories"
DELETED_PARTITION: Final = "deleted-repositories"

_CLAIM_LIFETIME: Final = 600.0
"""Seconds after which a namespace that a creator claimed and then died may be claimed by another."""


class _Marker(msgspec.Struct, frozen=True):
    repository: str
    uid: str
    format_version: int


class KnownRepository(msgspec.Struct, frozen=True):
    """A repository and the secret that proves its data names."""

    repository: Repository
    secret: bytes


class Repositories:
    """The repositories of one lake."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, name: str) -> KnownRepository:
        """The repository of this name. One table read. :class:`RepositoryNotFoundError`."""
        item = self._tables.get(repository_key(name))
        if item is None:
            raise RepositoryNotFoundError(name)
        return decode_repository(name, item)

    def exists(self, name: str) -> bool:
        """Is the name taken? One table read."""
        return self._tables.get(repository_key(name)) is not None

    def page(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Repository]:
        """Repositories whose name begins with ``prefix`` and is greater than ``after``, by name. One table read."""
        start = max(prefix.encode(), after.encode() + b"\0" if after else b"")
        page = self._tables.query(PARTITION, start=start, limit=amount)
        results: list[Repository] = []
        for sort, item in page.items:
            name = sort.decode()
            if not name.startswith(prefix):
                return Page(tuple(results))
            results.append(decode_repository(name, item).repository)
        return Page(tuple(results), results[-1].name if page.more and results else None)

    def claim(self, repository: Repository, objects: Objects, now: float) -> None:
        """Make the namespace this repository's own. One object write. :class:`InvalidError` if it is another's."""
        marker = msgspec.json.encode(_Marker(repository.name, repository.uid, repository.format_version))
        try:
            objects.put(MARKER, marker, if_absent=True)
            return
        except ObjectConditionError:
            stored = objects.head(MARKER)
            owner = self._owner(objects)
        item = self._tables.get(repository_key(owner.repository))
        alive = item is not None and item.get("uid") == owner.uid
        deleted = self._tables.get(Key(DELETED_PARTITION, owner.uid.encode())) is not None
        if alive or deleted or now - stored.modified < _CLAIM_LIFETIME:
            whose = f"repository {owner.repository!r}" + (
                ", which was deleted; its data is still there" if deleted else ""
            )
            raise InvalidError(
                f"storage namespace {objects.namespace} already belongs to {whose}; "
                "a namespace holds one repository, so choose another one"
            )
        # Its creator died between the claim and the repository's item. Of two who find that, one wins.
        objects.delete(MARKER, if_match=stored.etag)
        objects.put(MARKER, marker, if_absent=True)

    def release(self, repository: Repository, objects: Objects) -> None:
        """Take a claim back, after the repository could not be created."""
        stored = objects.head(MARKER)
        if self._owner(objects).uid == repository.uid:
            objects.delete(MARKER, if_match=stored.etag)

    def create_writes(self, known: KnownRepository) -> list[Write]:
        """The part of the creating transaction that names the repository; it fails if the name is taken."""
        return [Put(repository_key(known.repository.name), _encode(known), Absent())]

    def delete(self, name: str, now: float) -> None:
        """Forget the repository's name; its objects stay. What else the table holds of it is swept later by its uid.

        One table read, one transaction. A repository created again under the name is another one, with a new uid.
        """
        known = self.get(name)
        uid = known.repository.uid
        writes: list[Write] = [
            Delete(repository_key(name), Matches({"uid": uid})),
            Put(Key(DELETED_PARTITION, uid.encode()), {"name": name, "at": int(now)}),
        ]
        try:
            self._tables.transact(writes)
        except ConditionFailedError:
            raise RepositoryNotFoundError(name) from None

    @staticmethod
    def _owner(objects: Objects) -> _Marker:
        try:
            return msgspec.json.decode(objects.get(MARKER), type=_Marker)
        except msgspec.MsgspecError as error:
            raise CorruptError(f"{objects.namespace}/{MARKER} does not say whose namespace this is: {error}") from None


def new_repository(
    name: str, namespace: str, default_branch: str, created: int, split: SplitParameters
) -> KnownRepository:
    """A repository that does not exist yet, with a uid and a secret of its own."""
    validate_split(split)
    uid = RepositoryUID(token_hex(8))
    return KnownRepository(
        Repository(name, uid, namespace, default_branch, created, split, FORMAT_VERSION), token_bytes(32)
    )


def repository_key(name: str) -> Key:
    """Where a repository's item is."""
    return Key(PARTITION, name.encode())


def check_same(uid: RepositoryUID, name: str, item: Item | None) -> None:
    """:class:`RepositoryNotFoundError` unless ``item`` is still the repository with this uid."""
    if item is None or item.get("uid") != uid:
        raise RepositoryNotFoundError(name)


def _encode(known: KnownRepository) -> Item:
    repository = known.repository
    return {
        "uid": repository.uid,
        "namespace": repository.namespace,
        "default_branch": repository.default_branch,
        "created": repository.created,
        "min_size": repository.split.min_size,
        "max_size": repository.split.max_size,
        "raggedness": repository.split.raggedness,
        "format_version": repository.format_version,
        "secret": known.secret,
    }


class _Item(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    default_branch: str
    created: int
    min_size: int
    max_size: int
    raggedness: int
    format_version: int
    secret: bytes


def decode_repository(name: str, item: Item) -> KnownRepository:
    """The repository of an item. :class:`InvalidError` for one of a newer format."""
    version = item.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise InvalidError(
            f"repository {name!r} has format {version}; this graveler knows formats up to {FORMAT_VERSION}: use a newer one"
        )
    try:
        fields = msgspec.convert(dict(item), _Item)
    except msgspec.ValidationError as error:
        raise CorruptError(f"the item of repository {name!r} in the table is damaged: {error}") from None
    split = SplitParameters(fields.min_size, fields.max_size, fields.raggedness)
    return KnownRepository(
        Repository(
            name,
            RepositoryUID(fields.uid),
            fields.namespace,
            fields.default_branch,
            fields.created,
            split,
            fields.format_version,
        ),
        fields.secret,
    )
