"""Repositories: creating, finding, listing and deleting them.

A repository's item lies in one partition under its name. Its namespace belongs to it alone, for good. Two records ensure that.
The object ``_graveler/repository`` in the namespace is put on condition that there is none, which keeps other lakes out. An item
of the table, put on the same condition in the transaction that creates the repository, decides between those of one lake: a
creator that died leaves only the object, so after a while another one of the same lake may replace it.
"""

from contextlib import suppress
from hashlib import sha256
from secrets import token_bytes, token_hex
from typing import Final

import msgspec

from graveler.errors import (
    UNREADABLE,
    BusyError,
    CorruptError,
    InvalidError,
    LaterVersionError,
    NotFoundError,
    ReadOnlyRepositoryError,
    RepositoryNotFoundError,
)
from graveler.lake.clock import Clock
from graveler.lake.leases import HeldError, LeaseWatch, wait_for
from graveler.lake.settings.repository_settings import (
    ATTRIBUTES,
    READ_ONLY,
    RULES_VERSION,
    check_settings,
    decode_settings,
    settings_attributes,
)
from graveler.lake.text import utf8
from graveler.model import Page, Repository, RepositoryUID, Settings, SplitParameters
from graveler.storage.limits import text_key
from graveler.storage.objects.port import ObjectConditionError, ObjectMissingError, Objects, StoredObject
from graveler.storage.tables.port import (
    Absent,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Value,
    Write,
)
from graveler.storage.tables.walking import items
from graveler.tree.split import validate_split

FORMAT_VERSION: Final = 2
"""The latest version of a repository's format that this one knows: that of repositories with rules about branches and tags."""
_FIRST_FORMAT: Final = 1
"""The version of a repository without such rules."""
GATED_UID: Final = "gated_uid"
"""The attribute of the uid once a repository has had rules. A process of an earlier version looks for ``uid``, does not find it,
and opens the repository anew, which the format version makes it refuse."""
MARKER: Final = "_graveler/repository"
PARTITION: Final = "repositories"
DELETED_PARTITION: Final = "deleted-repositories"
NAMESPACES_PARTITION: Final = "namespaces"
LAKE: Final = Key("lake", b"id")
"""The item that distinguishes this lake from all others."""

_CLAIM_LIFETIME: Final = 30.0
"""Seconds for which a namespace that a creator claimed is watched, by the watcher's own clock, before its creator counts as
dead."""

CLAIM_SECONDS: Final = _CLAIM_LIFETIME / 2
"""Seconds after which a creator gives up, by its own clock: others may claim the namespace soon."""


_CLAIM_ATTEMPTS: Final = 3

_KEPT: Final = 64


class _Marker(msgspec.Struct, frozen=True):
    repository: str
    uid: str
    lake: str
    format_version: int


class KnownRepository(msgspec.Struct, frozen=True):
    """A repository and the secret that proves its data names."""

    repository: Repository
    secret: bytes


class DeletedRepository(msgspec.Struct, frozen=True):
    """A deleted repository whose leftovers still exist. ``at`` in Unix seconds; ``namespace`` is empty if an
    older version deleted it; ``purging``: their removal has begun, so it cannot be restored any more."""

    uid: RepositoryUID
    name: str
    namespace: str
    at: int
    purging: bool


class Repositories:
    """The repositories of one lake."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._decoded: dict[str, tuple[Item, KnownRepository]] = {}
        """The last decoded repositories by name, since most are requested repeatedly."""

    def get(self, name: str) -> KnownRepository:
        """Return the repository of this name. One table read. :class:`RepositoryNotFoundError`."""
        item = self._tables.get(repository_key(name)) if _may_be_name(name) else None
        if item is None:
            raise RepositoryNotFoundError(name)
        return self.decode(name, item)

    def decode(self, name: str, item: Item) -> KnownRepository:
        """Decode an item as :func:`decode_repository`; an item equal to the last one of this name yields the same repository."""
        before = self._decoded.get(name)
        if before is not None and before[0] == item:
            return before[1]
        record = decode_repository(name, item)
        if len(self._decoded) >= _KEPT:
            self._decoded.clear()
        self._decoded[name] = item, record
        return record

    def exists(self, name: str) -> bool:
        """Return whether the name is taken. One table read."""
        return self._tables.get(repository_key(name)) is not None

    def has_namespace(self, namespace: str) -> bool:
        """Return whether a storage namespace belongs to a repository. One table read."""
        item = self._tables.get(namespace_key(namespace))
        return item is not None and item.get("namespace") == namespace

    def is_there(self, repository: Repository) -> bool:
        """Return whether this very repository exists. One table read."""
        item = self._tables.get(repository_key(repository.name))
        return item is not None and uid_of(item) == repository.uid

    def page(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Repository]:
        """Return a page of repositories whose name begins with ``prefix`` and is greater than ``after``, by name. One table
        read."""
        prefix_bytes, after_bytes = utf8("prefix", prefix), utf8("after", after)
        start = max(prefix_bytes, after_bytes + b"\0" if after_bytes else b"")
        page = self._tables.query(PARTITION, start=start, limit=amount)
        results: list[Repository] = []
        for sort, item in page.items:
            name = text_key(PARTITION, sort)
            if not name.startswith(prefix):
                return Page(tuple(results))
            results.append(decode_repository(name, item).repository)
        return Page(tuple(results), results[-1].name if page.more and results else None)

    def claim(self, repository: Repository, objects: Objects, clock: Clock, leases: LeaseWatch) -> None:
        """Claim the namespace for this repository. One table read, one object write. :class:`InvalidError` if it is another's.

        If another repository is being created in it, wait until it exists, or its creator has died: half a minute at most, with
        two object reads and two table reads every few seconds. :class:`BusyError` if others are faster again and again.
        """
        lake = self.lake_id()

        def look() -> tuple[str, StoredObject] | None:
            try:
                stored = objects.head(MARKER)
                owner = self._owner(objects)
            except ObjectMissingError:
                return None  # its creator withdrew the claim
            self._refuse_if_owned(objects.namespace, owner, lake)
            return owner.uid, stored

        for _ in range(_CLAIM_ATTEMPTS):
            if self._mark(repository, objects, lake):
                return
            try:
                dead = wait_for(leases, clock, f"namespaces/{objects.namespace}", _CLAIM_LIFETIME, look)
            except HeldError:
                continue  # yet another creator
            # Its creator died between the claim and the repository's item. Of two processes that find that, one wins.
            if dead is not None:
                with suppress(ObjectConditionError, ObjectMissingError):
                    objects.delete(MARKER, if_match=dead.etag)
        raise BusyError(
            f"others are claiming storage namespace {objects.namespace}, too; choose another one, or try again"
        )

    def mark(self, repository: Repository, objects: Objects) -> bool:
        """Mark a namespace without a mark as this repository's; return False if it has the mark of another one. One table read,
        one object write."""
        return self._mark(repository, objects, self.lake_id())

    def _mark(self, repository: Repository, objects: Objects, lake: str) -> bool:
        marker = msgspec.json.encode(_Marker(repository.name, repository.uid, lake, repository.format_version))
        try:
            objects.put(MARKER, marker, if_absent=True)
        except ObjectConditionError:
            with suppress(ObjectMissingError):
                return self._owner(objects).uid == repository.uid  # an earlier attempt, whose response was lost
            return False
        return True

    def _refuse_if_owned(self, namespace: str, owner: _Marker, lake: str) -> None:
        if owner.lake != lake:
            whose = f"repository {owner.repository!r} of another lake"
        else:
            item = self._tables.get(repository_key(owner.repository))
            if item is not None and uid_of(item) == owner.uid:
                whose = f"repository {owner.repository!r}"
            elif self._tables.get(Key(DELETED_PARTITION, owner.uid.encode())) is not None:
                whose = f"repository {owner.repository!r}, which was deleted but still has data there"
            else:
                return
        raise namespace_taken(namespace, whose)

    def lake_id(self) -> str:
        """Return the ID that distinguishes this lake from all others; the first caller makes it. One table read; a write and a
        read more the first time."""
        item = self._tables.get(LAKE)
        if item is None:
            with suppress(ConditionFailedError):  # another creator was faster: its ID counts
                self._tables.put(LAKE, {"id": token_hex(16)}, Absent())
            item = self._tables.get(LAKE) or {}
        return str(item.get("id"))

    def release(self, repository: Repository, objects: Objects) -> None:
        """Withdraw a claim after the repository could not be created."""
        with suppress(ObjectConditionError, ObjectMissingError):  # another one's by now, or gone
            stored = objects.head(MARKER)
            if self._owner(objects).uid == repository.uid:
                objects.delete(MARKER, if_match=stored.etag)

    def create_writes(self, record: KnownRepository) -> list[Write]:
        """Return the writes of the creating transaction for the repository and its namespace; they fail if either is taken."""
        repository = record.repository
        owner: Item = {"namespace": repository.namespace, "repository": repository.name, "uid": repository.uid}
        return [
            Put(repository_key(repository.name), _encode(record), Absent()),
            Put(namespace_key(repository.namespace), owner, Absent()),
        ]

    def delete(self, name: str, now: float, *, force: bool = False) -> None:
        """Delete the repository's item; its objects stay. Its other items in the table are swept later by its uid.

        One table read, one transaction. A repository created again under the name is another one, with a new uid.
        :class:`ReadOnlyRepositoryError` unless ``force``.
        """
        record = self.get(name)
        uid = record.repository.uid
        if record.repository.settings.read_only and not force:
            raise ReadOnlyRepositoryError(name)
        identity = identity_attributes(uid, record.repository.settings.rules.version)
        writes: list[Write] = [
            Delete(repository_key(name), Matches(identity if force else {**identity, READ_ONLY: None})),
            Delete(
                namespace_key(record.repository.namespace)
            ),  # the object in the namespace reserves it, as long as it exists
            Put(
                Key(DELETED_PARTITION, uid.encode()),
                {"name": name, "at": int(now), "namespace": record.repository.namespace},
            ),
        ]
        try:
            self._tables.transact(writes)
        except ConditionFailedError as error:
            if self._tables.get(Key(DELETED_PARTITION, uid.encode())) is None:
                item = check_same(uid, name, error.failures.get(0))
                if item.get(READ_ONLY) is True and not force:
                    raise ReadOnlyRepositoryError(name) from None
                raise BusyError(
                    f"the rules of repository {name!r} were changed at this moment; nothing was deleted, try again"
                ) from None

    def deleted(self) -> list[DeletedRepository]:
        """Return the deleted repositories whose leftovers still exist, by uid. One table read for each thousand."""
        return [
            _decode_deleted(text_key(DELETED_PARTITION, sort), item)
            for sort, item in items(self._tables, DELETED_PARTITION)
        ]

    def find_deleted(self, uid: RepositoryUID) -> DeletedRepository | None:
        """Return the deleted repository of this uid. One table read."""
        item = self._tables.get(Key(DELETED_PARTITION, uid.encode()))
        return None if item is None else _decode_deleted(uid, item)

    def begin_purge(self, deleted: DeletedRepository) -> None:
        """Mark a repository as being purged; it cannot be restored from here on. One table write. :class:`NotFoundError` if it
        was restored meanwhile."""
        item: Item = {"name": deleted.name, "at": deleted.at, "namespace": deleted.namespace, "purging": True}
        try:
            self._tables.put(Key(DELETED_PARTITION, deleted.uid.encode()), item, Matches({"at": deleted.at}))
        except ConditionFailedError:
            raise NotFoundError(
                f"repository {deleted.name!r} with uid {deleted.uid} is no longer deleted: it was restored, or is gone"
            ) from None

    def end_purge(self, uid: RepositoryUID, objects: Objects | None) -> None:
        """End a purge that has removed everything: delete the namespace's mark, then the item. Two object requests, one table
        write."""
        if objects is not None:
            with suppress(ObjectConditionError, ObjectMissingError):
                stored = objects.head(MARKER)
                if self._owner(objects).uid == uid:
                    objects.delete(MARKER, if_match=stored.etag)
        self._tables.delete(Key(DELETED_PARTITION, uid.encode()))

    def owns(self, uid: RepositoryUID, objects: Objects) -> bool:
        """Return whether the namespace has the mark of this repository, in this lake. (A dump restored elsewhere takes uid and
        namespace along.) One object read, one table read. :class:`CorruptError`."""
        try:
            owner = self._owner(objects)
        except ObjectMissingError:
            return False
        lake = self._tables.get(LAKE) or {}
        return owner.uid == uid and owner.lake == lake.get("id")

    @classmethod
    def uid_at(cls, objects: Objects) -> RepositoryUID:
        """Return the uid in the namespace's mark. One object read. :class:`ObjectMissingError`, :class:`CorruptError`."""
        return RepositoryUID(cls._owner(objects).uid)

    @staticmethod
    def _owner(objects: Objects) -> _Marker:
        try:
            return msgspec.json.decode(objects.get(MARKER), type=_Marker)
        except UNREADABLE as error:
            raise CorruptError(
                f"{objects.namespace}/{MARKER} does not say which repository owns this namespace: {error}"
            ) from None


def _decode_deleted(uid: str, item: Item) -> DeletedRepository:
    name, time, namespace = item.get("name"), item.get("at"), item.get("namespace", "")
    if not (isinstance(name, str) and isinstance(time, int) and isinstance(namespace, str)):
        raise CorruptError(f"the item of the deleted repository {uid} cannot be read; restore the table from a copy")
    return DeletedRepository(RepositoryUID(uid), name, namespace, time, bool(item.get("purging")))


def new_repository(
    name: str,
    namespace: str,
    default_branch: str,
    created: int,
    split: SplitParameters,
    settings: Settings,
) -> KnownRepository:
    """Return a repository that does not exist yet, with a new uid and secret."""
    validate_split(split)
    check_settings(settings)
    uid = RepositoryUID(token_hex(8))
    return KnownRepository(
        Repository(name, uid, namespace, default_branch, created, split, _FIRST_FORMAT, settings), token_bytes(32)
    )


def repository_key(name: str) -> Key:
    """Return the key of a repository's item."""
    return Key(PARTITION, name.encode())


def namespace_key(namespace: str) -> Key:
    """Return the key of the item that names the owner of a storage namespace."""
    return Key(NAMESPACES_PARTITION, sha256(utf8("storage namespace", namespace)).digest())


def _may_be_name(name: str) -> bool:
    """Return False for names that cannot even be looked up."""
    return bool(name) and name.isascii() and len(name) <= 255


def namespace_taken(namespace: str, whose: str) -> InvalidError:
    """Return the error for a namespace that belongs to another repository."""
    return InvalidError(
        f"storage namespace {namespace} already belongs to {whose}; a namespace holds only one repository, so choose another one"
    )


def check_same(uid: RepositoryUID, name: str, item: Item | None) -> Item:
    """Return the item. :class:`RepositoryNotFoundError` unless it is still that of the repository with this uid."""
    if item is None or uid_of(item) != uid:
        raise RepositoryNotFoundError(name)
    return item


def uid_of(item: Item) -> Value | None:
    """Return the uid in a repository's item; None if it has none."""
    return item.get("uid") or item.get(GATED_UID)


def identity_attributes(uid: RepositoryUID, rules_version: int) -> dict[str, Value | None]:
    """Return the attributes of a repository's item as long as it exists and its rules have this version."""
    return {GATED_UID: uid, RULES_VERSION: rules_version} if rules_version else {"uid": uid}


def _encode(record: KnownRepository) -> Item:
    repository = record.repository
    rules_version = repository.settings.rules.version
    identity: Item = {GATED_UID: repository.uid} if rules_version else {"uid": repository.uid}
    return {
        **identity,
        "namespace": repository.namespace,
        "default_branch": repository.default_branch,
        "created": repository.created,
        "min_size": repository.split.min_size,
        "max_size": repository.split.max_size,
        "raggedness": repository.split.raggedness,
        "format_version": FORMAT_VERSION if rules_version else repository.format_version,
        "secret": record.secret,
        **settings_attributes(repository.settings),
    }


def with_settings(item: Item, settings: Settings) -> Item:
    """Return a repository's item with other settings. The first rules raise its format version, and move its uid."""
    other_attributes = {name: value for name, value in item.items() if name not in ATTRIBUTES}
    if settings.rules.version and GATED_UID not in item:
        other_attributes |= {GATED_UID: other_attributes.pop("uid"), "format_version": FORMAT_VERSION}
    return {**other_attributes, **settings_attributes(settings)}


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
    """Return the repository of an item. :class:`LaterVersionError` for one of a later format."""
    version = item.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise LaterVersionError(f"repository {name!r}", version, FORMAT_VERSION)
    try:
        fields = msgspec.convert({**item, "uid": uid_of(item)}, _Item)
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
            decode_settings(name, item),
        ),
        fields.secret,
    )
