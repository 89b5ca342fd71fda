"""Ends of credentials: marks that an access key was revoked, or that a rule about AWS principals was removed.

The items of keys and rules hold the proof of secrets, and only processes that check credentials may read them. A mark stands in
the partition that every process of the lake may read and only those that manage keys may write: ``lake``, sort key
``ended/<ID>``. An ID never returns, so a mark stays.
"""

from typing import Final

from graveler.storage.tables.port import MAX_SORT_KEY_BYTES, Key, Put

_PREFIX: Final = b"ended/"
MAX_ID_BYTES: Final = MAX_SORT_KEY_BYTES - len(_PREFIX)


def end_key(credential_id: str) -> Key:
    """Return the key of the item that exists if a credential has ended."""
    return Key("lake", _PREFIX + credential_id.encode())


def end_write(credential_id: str, now: float) -> Put:
    """Return the part of a transaction that records the end of a credential."""
    return Put(end_key(credential_id), {"ended": int(now)})
