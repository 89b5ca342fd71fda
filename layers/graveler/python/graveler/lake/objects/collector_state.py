"""The time up to which garbage was collected: earlier reference log rows no longer protect unreachable commits. And whether a
collector is working."""

from graveler.model import RepositoryUID
from graveler.storage.tables.port import Key, Tables


def collected_before(tables: Tables, uid: RepositoryUID) -> int:
    """Return Unix seconds: earlier rows of reference logs may name commits that are gone. 0 if nothing was ever collected. One
    table read."""
    item = tables.get(_key(uid))
    until = None if item is None else item.get("until")
    return until if isinstance(until, int) else 0


def set_collected(tables: Tables, uid: RepositoryUID, until: float) -> None:
    """Record that time. One table write."""
    tables.put(_key(uid), {"until": int(until)})


def turn_key(uid: RepositoryUID) -> Key:
    """Return the key of the item of the collector whose turn it is; the item is removed when the collector has ended."""
    return Key(f"{uid}/gc", b"turn")


def is_collecting(tables: Tables, uid: RepositoryUID) -> bool:
    """Return whether a collector is working, or has died and is yet to be continued. One table read."""
    return tables.get(turn_key(uid)) is not None


def _key(uid: RepositoryUID) -> Key:
    return Key(f"{uid}/gc", b"collected")
