"""Until when garbage was collected: what happened before has no claim to commits that nothing reaches any more."""

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


def _key(uid: RepositoryUID) -> Key:
    return Key(f"{uid}/gc", b"collected")
