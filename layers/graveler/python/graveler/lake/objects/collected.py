"""Until when garbage was collected: what happened before has no claim to commits that nothing reaches any more. And whether a
collector is at work."""

from graveler.model import RepositoryUID
from graveler.storage.tables import Key, Tables


def collected_before(tables: Tables, uid: RepositoryUID) -> int:
    """Unix seconds: rows of reference logs from before may name commits that are gone. 0 if nothing was ever collected. One table
    read."""
    item = tables.get(_key(uid))
    until = None if item is None else item.get("until")
    return until if isinstance(until, int) else 0


def set_collected(tables: Tables, uid: RepositoryUID, until: float) -> None:
    """Say so. One table write."""
    tables.put(_key(uid), {"until": int(until)})


def turn_key(uid: RepositoryUID) -> Key:
    """Where the item of the collector lies whose turn it is; it goes when the collector has ended."""
    return Key(f"{uid}/gc", b"turn")


def is_collecting(tables: Tables, uid: RepositoryUID) -> bool:
    """Whether a collector is at work, or has died and will be gone on with. One table read."""
    return tables.get(turn_key(uid)) is not None


def _key(uid: RepositoryUID) -> Key:
    return Key(f"{uid}/gc", b"collected")
