"""The standing of credentials: the verdicts and approvals that were given with a key count until it is revoked, and those given
by an AWS principal until the rule that admitted it is removed."""

from collections.abc import Iterable

from graveler.storage.secrets.credential_ends import MAX_ID_BYTES, end_key
from graveler.storage.tables.port import Tables


def counting(tables: Tables, key_ids: Iterable[str]) -> frozenset[str]:
    """Return the credentials that have not ended; ``""``, which stands for none, always counts. One table read for each hundred
    of them, none for none."""
    ids = sorted({key_id for key_id in key_ids if 0 < len(key_id.encode()) <= MAX_ID_BYTES})
    ends = tables.get_many([*map(end_key, ids)]) if ids else []
    return frozenset(("", *(key_id for key_id, end in zip(ids, ends, strict=True) if end is None)))
