"""Statuses: verdicts about trees, whoever posts them.

All statuses of one tree are one item, so that a status which is posted and a publication that relied on what stood there exclude
each other: partition ``<repository uid>/statuses``, sort key the metarange's *name* (``-`` for the tree without objects, whose
name is empty); attributes ``version``, which each change raises, and ``statuses``, their JSON. A new item begins with a random
version: one that was removed and written again never has a version that it had before.

A tree has one status for each name, principal and commit (or the whole tree): nobody replaces the verdict of another. The item
goes when the garbage collector removes the tree's file.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import UNREADABLE, BusyError, CorruptError, InvalidError
from graveler.lake.gates.standing import counting
from graveler.model import MetarangeName, RepositoryUID, Status
from graveler.storage.tables.port import (
    Absent,
    Check,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Tables,
)
from graveler.system.random_bytes import random_bytes

MAX_NAME_BYTES: Final = 100
MAX_DESCRIPTION_BYTES: Final = 1_000
MAX_URL_BYTES: Final = 2_000
MAX_STATUSES: Final = 200
"""Maximum number of statuses of a tree, besides those that graveler posts itself."""
MAX_PRINCIPALS: Final = 12
"""Maximum number of principals with statuses of a tree, besides graveler. Each has room of its own, so nobody who has posted a
success can be kept from posting a failure."""
MAX_OF_PRINCIPAL: Final = 50
"""Maximum number of one principal's statuses of a tree."""
MAX_SECONDS: Final = 366 * 86_400
"""Maximum number of seconds for which a status may be valid; one without an end is valid as long as its tree exists."""
REPEATED_SECONDS: Final = 60
"""A status that says the same as before, and ends less than this many seconds later, is the same one, sent again."""
GRAVELER: Final = "graveler:checks"
"""The principal of the verdicts of checks that graveler runs itself. They have no ``key_id``. Nobody else posts under it."""

_MAX_PRINCIPAL_BYTES: Final = 2_000
_BYTES_OF_PRINCIPAL: Final = 20_000
_BYTES_OF_GRAVELER: Final = 60_000
_TRIES: Final = 100
_EMPTY_TREE: Final = b"-"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Status, ...]).decode


class TreeStatuses(Struct, frozen=True):
    """The statuses of a tree, in the order in which they were posted. ``version`` is 0 if it has none."""

    metarange: MetarangeName
    version: int = 0
    statuses: tuple[Status, ...] = ()


class Statuses:
    """The statuses of one repository's trees."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self.partition: Final = f"{uid}/statuses"

    def key(self, metarange: MetarangeName) -> Key:
        """Return the key of the item of a tree's statuses."""
        return Key(self.partition, metarange.encode() or _EMPTY_TREE)

    def read(self, metarange: MetarangeName) -> TreeStatuses:
        """Return the statuses of a tree. One table read. :class:`CorruptError`."""
        return self.decode(metarange, self._tables.get(self.key(metarange)))

    @staticmethod
    def decode(metarange: MetarangeName, item: Item | None) -> TreeStatuses:
        """Return the statuses in the item at :meth:`key`. No request. :class:`CorruptError` if it is malformed."""
        if item is None:
            return TreeStatuses(metarange)
        version, packed = item.get("version"), item.get("statuses")
        try:
            if not (isinstance(version, int) and isinstance(packed, bytes)):
                raise ValueError("an attribute is missing")
            return TreeStatuses(metarange, version, _decode(packed))
        except UNREADABLE as error:
            raise CorruptError(
                f"the statuses of tree {metarange[:16] or 'without objects'} cannot be read ({error}); remove them with "
                "`graveler fsck --repair`, and post them again"
            ) from None

    def post(self, metarange: MetarangeName, statuses: Sequence[Status]) -> TreeStatuses:
        """Add statuses to a tree's, each in place of the one of the same name, principal and commit; return all. Statuses that
        stand there already change nothing, and those that had expired when the first of the new ones was created, go. So do the
        oldest verdicts of the same principal about single commits, if it has too many.

        One table read and one write, and another write for each race lost; one read more if the tree is full, and statuses of
        ended credentials have to go. :class:`InvalidError` for a status that cannot be one, and beyond the maximum numbers above;
        :class:`BusyError` after losing a hundred races.
        """
        for status in statuses:
            check_status(status)
        tree = self.read(metarange)
        for _ in range(_TRIES):
            merged = _with_room(_merged(tree.statuses, statuses), statuses)
            if merged == tree.statuses:
                return tree
            if _fault(tree.statuses, merged, statuses):
                standing = counting(self._tables, (status.key_id for status in merged))
                merged = tuple(status for status in merged if status.key_id in standing or status in statuses)
                if fault := _fault(tree.statuses, merged, statuses):
                    raise InvalidError(f"{fault}; post one status that sums up several checks")
            changed = TreeStatuses(metarange, tree.version + 1 if tree.version else _first_version(), merged)
            item: Item = {"version": changed.version, "statuses": _encode(merged)}
            try:
                self._tables.put(self.key(metarange), item, _unchanged(tree))
            except ConditionFailedError as error:
                # Perhaps by this write itself, whose answer was lost: then nothing is left to do.
                tree = self.decode(metarange, error.failures.get(0))
            else:
                return changed
        raise BusyError(f"others are posting statuses of the same tree without a pause ({metarange[:16]}); try again")

    def unchanged_check(self, tree: TreeStatuses) -> Check:
        """Return the part of a transaction that makes it fail unless the tree's statuses are as they were read."""
        return Check(self.key(tree.metarange), _unchanged(tree))

    def remove(self, metaranges: Iterable[MetarangeName]) -> None:
        """Remove the statuses of trees that no longer exist. One table write for each 25, and a read: none but the read if the
        repository has no statuses."""
        if self._tables.query(self.partition, limit=1).items:
            self._tables.write_many([Delete(self.key(metarange)) for metarange in metaranges])


def check_status(status: Status) -> None:
    """Check that a status can be posted. No request. :class:`InvalidError` with what is wrong."""
    name = status.name
    if not _is_text(name, MAX_NAME_BYTES) or not name.isprintable() or name != name.strip():
        raise InvalidError(
            f"status name {name[:MAX_NAME_BYTES]!r} must be 1 to {MAX_NAME_BYTES} bytes of printable text that neither begins "
            "nor ends with a space"
        )
    description = status.description
    if description and not (
        _is_text(description, MAX_DESCRIPTION_BYTES) and all(line.isprintable() for line in description.split("\n"))
    ):
        raise InvalidError(
            f"the description of status {name!r} must be at most {MAX_DESCRIPTION_BYTES:,} bytes of printable lines; it has "
            f"{len(description.encode(errors='replace')):,} bytes and begins with {description[:40]!r}. Shorten it, and let "
            "`url` lead to the rest"
        )
    if status.url and not _is_web_address(status.url):
        raise InvalidError(
            f"the url {status.url[:100]!r} of status {name!r} must begin with https:// or http:// and a host, and have at most "
            f"{MAX_URL_BYTES:,} ASCII characters, without spaces and without a password"
        )
    if status.expires and not status.created < status.expires <= status.created + MAX_SECONDS:
        raise InvalidError(
            f"status {name!r} must expire after its creation, and at most {MAX_SECONDS // 86_400} days later; give the number of "
            "seconds for which it is valid"
        )
    for kind, text in (("principal", status.principal), ("poster", status.by), ("key ID", status.key_id)):
        if text and not _is_text(text, _MAX_PRINCIPAL_BYTES):
            raise InvalidError(
                f"the {kind} {text[:100]!r} of status {name!r} has more than {_MAX_PRINCIPAL_BYTES:,} bytes"
            )


def is_current(status: Status, now: float) -> bool:
    """Return whether a status has not expired."""
    return not status.expires or now < status.expires


def _is_text(text: str, most: int) -> bool:
    """Return whether a text has 1 to ``most`` bytes in UTF-8."""
    try:
        return 0 < len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


def _is_web_address(url: str) -> bool:
    if len(url) > MAX_URL_BYTES or not (url.isascii() and url.isprintable()) or " " in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _merged(present: Sequence[Status], posted: Sequence[Status]) -> tuple[Status, ...]:
    """Return the statuses of a tree after a post."""
    now = min((status.created for status in posted), default=0)
    merged = {_identity(status): status for status in present if is_current(status, now)}
    for status in posted:
        identity = _identity(status)
        previous = merged.get(identity)
        if previous is None or not _repeats(status, previous):
            merged.pop(identity, None)  # the newest is the last
            merged[identity] = status
    return tuple(merged.values())


def _identity(status: Status) -> tuple[str, str, str]:
    return status.name, status.principal, status.commit_id


def _repeats(status: Status, previous: Status) -> bool:
    """Return whether a status is the previous one, posted again."""
    if replace(status, created=0, expires=0) != replace(previous, created=0, expires=0):
        return False
    if not (status.expires and previous.expires):
        return status.expires == previous.expires
    return -REPEATED_SECONDS < status.expires - previous.expires < REPEATED_SECONDS


def _with_room(statuses: tuple[Status, ...], posted: Sequence[Status]) -> tuple[Status, ...]:
    """Return the statuses without the oldest of the posters' verdicts about single commits, as far as they have too many: a tree
    that does not change, such as the empty one, may be that of any number of commits."""
    for principal in {status.principal for status in posted}:
        of_commits = [s for s in statuses if s.principal == principal and s.commit_id and s not in posted]
        while of_commits and _has_too_many(statuses, principal):
            oldest = of_commits.pop(0)
            statuses = tuple(status for status in statuses if status is not oldest)
    return statuses


def _has_too_many(statuses: Sequence[Status], principal: str) -> bool:
    sizes = [len(_encode(status)) for status in statuses if status.principal == principal]
    return len(sizes) > MAX_OF_PRINCIPAL or sum(sizes) > _room_of(principal)


def _room_of(principal: str) -> int:
    """Return the number of bytes that a principal's statuses of a tree may have."""
    return _BYTES_OF_GRAVELER if principal == GRAVELER else _BYTES_OF_PRINCIPAL


def _fault(before: Sequence[Status], after: Sequence[Status], posted: Sequence[Status]) -> str:
    """Return why a tree may not have these statuses after a post; empty if it may. Whoever has posted before may replace what
    stands there, however full the tree is."""
    for principal in {status.principal for status in posted}:
        if _has_too_many(after, principal):
            room = f"{MAX_OF_PRINCIPAL} statuses of one tree, of {_room_of(principal):,} bytes in all"
            return f"{principal!r} may have at most {room}"
    earlier, later = _besides_graveler(before), _besides_graveler(after)
    principals = {status.principal for status in later}
    if len(principals) > MAX_PRINCIPALS and not principals <= {status.principal for status in earlier}:
        return f"a tree has statuses of at most {MAX_PRINCIPALS} posters"
    if len(later) > max(MAX_STATUSES, len(earlier)):
        return f"a tree has at most {MAX_STATUSES} statuses"
    return ""


def _besides_graveler(statuses: Sequence[Status]) -> list[Status]:
    return [status for status in statuses if status.principal != GRAVELER]


def _unchanged(tree: TreeStatuses) -> Condition:
    return Matches({"version": tree.version}) if tree.version else Absent()


def _first_version() -> int:
    return 1 + int.from_bytes(random_bytes(6), "big")
