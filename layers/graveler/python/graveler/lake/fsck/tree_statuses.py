"""The statuses of trees: each item can be read. A tree whose statuses cannot be read can be neither judged nor given new ones."""

from graveler.errors import CorruptError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.gates.statuses import Statuses
from graveler.model import MetarangeName
from graveler.storage.tables.port import Delete, Key, Tables

_POST = "Run again with repair, which removes them, and post the verdicts about this tree again"


def check_statuses(tables: Tables, statuses: Statuses, *, repair: bool) -> list[Damage]:
    """Return statuses that cannot be read; with ``repair`` they are removed, so rules ask for them again. One table read for each
    thousand trees that have any, and one write for each that is removed."""
    damages = []
    for sort, item in scan(tables, statuses.partition):
        name = sort.decode("utf-8", "backslashreplace")
        if isinstance(item, DamagedItem) and item.rest:
            damages.append(unreadable_rest(statuses.partition, repr(name), item))
            continue
        try:
            if isinstance(item, DamagedItem):
                raise CorruptError(item.reason)
            statuses.decode(MetarangeName(name), item)
        except CorruptError as error:
            damage = Damage(
                FindingKind.STATUSES, f"the statuses of tree {name[:16]}", f"cannot be read: {error}", _POST
            )
            if repair:
                tables.write_many([Delete(Key(statuses.partition, sort))])
                damage.mark_repaired("Removed")
            damages.append(damage)
    return damages
