"""Owners of hidden branches: whether one belongs to a transaction, and whether that is still at work.

A transaction works on a hidden branch of its own. The transaction that creates the branch also writes its *lease*, an item beside
it, and the one that deletes or renames the branch removes the lease. The owner renews the lease by writing a new *beat*. A lease
whose beat stays the same for :data:`LEASE` seconds, by the clock of the watching process
(:class:`graveler.lake.leases.LeaseWatch`), has run out: the owner was killed, and the garbage collector deletes the branch, on
condition that neither the branch nor the beat has changed since. A hidden branch without a lease belongs to no transaction, and
stays until a user deletes it.

Items: partition ``<repository uid>/transactions``, sort key the branch's name in UTF-8; attributes ``owner`` and ``beat``.
"""

from secrets import token_hex
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, InvalidError
from graveler.history.names import check_branch
from graveler.model import RepositoryUID
from graveler.storage.tables.port import ConditionFailedError, Delete, Item, Key, Matches, Put, Tables
from graveler.storage.tables.walking import items

LEASE: Final = 300.0
"""Seconds for which a lease is valid while its beat does not change."""
RENEWAL: Final = 30.0
"""Seconds between two renewals: nine may fail before the lease runs out."""

_LONGEST_OWNER: Final = 200
_PAGE: Final = 1000


class BranchLease(Struct, frozen=True):
    """The lease of a hidden branch. ``owner`` names the transaction; ``beat`` is its last one."""

    branch: str
    owner: str
    beat: str


class Owners:
    """The leases of one repository's hidden branches."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self.partition: Final = f"{uid}/transactions"

    def claim_write(self, branch: str, owner: str) -> Put:
        """Return the part of a transaction that gives a branch its lease, as it creates the branch. :class:`InvalidError` for an
        owner that is empty or longer than 200 characters."""
        if not 1 <= len(owner) <= _LONGEST_OWNER:
            raise InvalidError(f"the owner of a branch must have 1 to {_LONGEST_OWNER} characters, not {len(owner)}")
        return Put(self._key(branch), _item(owner))

    def gone_write(self, branch: str) -> Delete:
        """Return the part of a transaction that removes the lease of a branch, if it has one."""
        return Delete(self._key(branch))

    def over_write(self, lease: BranchLease) -> Delete:
        """Return the part of a transaction that removes a lease, on condition that it was not renewed since it was read."""
        return Delete(self._key(lease.branch), Matches({"owner": lease.owner, "beat": lease.beat}))

    def renew(self, branch: str, owner: str) -> bool:
        """Write a new beat; return False if the branch has no lease of this owner. One table write."""
        check_branch(branch)
        try:
            self._tables.put(self._key(branch), _item(owner), Matches({"owner": owner}))
        except ConditionFailedError:
            return False
        return True

    def release(self, branch: str, owner: str) -> None:
        """Remove the lease and leave the branch, which only its user deletes from then on. One table write."""
        check_branch(branch)
        try:
            self._tables.delete(self._key(branch), Matches({"owner": owner}))
        except ConditionFailedError:
            return  # it has none: an earlier try of the same call removed it

    def get(self, branch: str) -> BranchLease | None:
        """Return the lease of a branch, or None. One table read. :class:`CorruptError`."""
        item = self._tables.get(self._key(branch))
        return None if item is None else decode_lease(branch, item)

    def all(self) -> list[BranchLease]:
        """Return all leases, by branch. One table read for each thousand. :class:`CorruptError`."""
        return [
            decode_lease(sort.decode("utf-8", "backslashreplace"), item)
            for sort, item in items(self._tables, self.partition)
        ]

    def _key(self, branch: str) -> Key:
        return Key(self.partition, branch.encode())


def decode_lease(branch: str, item: Item) -> BranchLease:
    """Return the lease in a branch's lease item. No request. :class:`CorruptError` if it is malformed."""
    owner, beat = item.get("owner"), item.get("beat")
    if not (isinstance(owner, str) and isinstance(beat, str)):
        raise CorruptError(f"the lease of hidden branch {branch!r} cannot be read; run fsck with repair")
    return BranchLease(branch, owner, beat)


def _item(owner: str) -> dict[str, str]:
    return {"owner": owner, "beat": token_hex(8)}
