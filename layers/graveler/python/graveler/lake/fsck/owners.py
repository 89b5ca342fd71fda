"""The leases of hidden branches: each belongs to an existing hidden branch."""

from graveler.errors import CorruptError, InvalidError
from graveler.history.owners import Owners, decode_lease
from graveler.history.refs import Refs
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.model import RepositoryUID
from graveler.storage.tables.port import ConditionFailedError, Item, Key, Matches, Tables

_REMOVE = "A hidden branch created under this name could be mistaken for a transaction's; run again with repair"


def check_owners(tables: Tables, uid: RepositoryUID, refs: Refs, *, repair: bool) -> list[Damage]:
    """Return leases that belong to no hidden branch, or cannot be read; with ``repair`` they are removed. One table read for each
    thousand leases, and one for each lease."""
    partition = Owners(tables, uid).partition
    damages = []
    for sort, item in scan(tables, partition):
        name = sort.decode("utf-8", "backslashreplace")
        if isinstance(item, DamagedItem) and item.rest:
            damages.append(unreadable_rest(partition, repr(name), item))
            continue
        reason = _wrong(refs, name, item)
        key = Key(partition, sort)
        if reason is None or (not isinstance(item, DamagedItem) and tables.get(key) is None):
            continue  # valid, or its transaction has ended meanwhile
        damage = Damage(FindingKind.LEASE, f"the lease of hidden branch {name!r}", reason, _REMOVE)
        if repair and _removed(tables, key, item):
            damage.mark_repaired("Removed")
        damages.append(damage)
    return damages


def _wrong(refs: Refs, name: str, item: Item | DamagedItem) -> str | None:
    """Return why the lease is invalid."""
    if isinstance(item, DamagedItem):
        return f"cannot be read: {item.reason}"
    try:
        decode_lease(name, item)
    except CorruptError:
        return "has no owner"
    try:
        state = refs.branch(name)
    except InvalidError:
        return "is for an invalid branch name"
    except CorruptError:
        return None  # the check of the branches reports it
    if state is None:
        return "is for a branch that does not exist"
    return None if state.hidden else "is for a branch that is not hidden"


def _removed(tables: Tables, key: Key, item: Item | DamagedItem) -> bool:
    """Remove the lease, if it is as it was read. The creation of a hidden branch writes or removes its lease, so this is not a
    new one's."""
    try:
        tables.delete(key, None if isinstance(item, DamagedItem) else Matches(dict(item)))
    except (ConditionFailedError, CorruptError):
        return False
    return True
