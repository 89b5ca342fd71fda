"""The rows of candidates: each can be read, and the commit of an open one is there."""

from collections.abc import Mapping

from graveler.errors import CorruptError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.fsck.history import Damage, History, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.gates.candidates import Candidates
from graveler.storage.limits import text_key
from graveler.storage.tables.port import ConditionFailedError, Item, Key, Matches, Tables

_REMOVE = (
    "The change has to be made again, and no garbage may be collected until the row is gone; run again with repair"
)


class CandidateCheck:
    """Checks the candidates of one repository."""

    def __init__(self, tables: Tables, candidates: Candidates, history: History, *, repair: bool) -> None:
        self._tables = tables
        self._candidates = candidates
        self._history = history
        self._repair = repair
        self.damages: list[Damage] = []

    def run(self) -> Mapping[int, str]:
        """Add the commits of open candidates to the history; return them with their rows. Rows that cannot be read are damages,
        and with ``repair`` they are removed, which gives the changes that they held back to the branch. One table read for each
        thousand rows, and one write for each that is removed."""
        partition = self._candidates.partition
        rows: dict[int, str] = {}
        for sort, item in scan(self._tables, partition):
            id_ = sort.decode("utf-8", "backslashreplace")
            if isinstance(item, DamagedItem) and item.rest:
                self.damages.append(unreadable_rest(partition, repr(id_), item))
                continue
            try:
                if isinstance(item, DamagedItem):
                    raise CorruptError(item.reason)
                row = self._candidates.decode(text_key(partition, sort), item)
            except CorruptError as error:
                self._report(Key(partition, sort), item, f"the row of candidate {id_!r}", f"cannot be read: {error}")
                continue
            if row is not None and row.in_progress and row.candidate.commit_id:
                rows[self._history.number(row.candidate.commit_id)] = f"candidate {id_}"
        return rows

    def _report(self, key: Key, item: Item | DamagedItem, subject: str, reason: str) -> None:
        damage = Damage(FindingKind.CANDIDATE, subject, reason, _REMOVE)
        if self._repair and self._removed(key, item):
            damage.mark_repaired("Removed")
        self.damages.append(damage)

    def _removed(self, key: Key, item: Item | DamagedItem) -> bool:
        """Remove the row, if it is as it was read."""
        try:
            self._tables.delete(key, None if isinstance(item, DamagedItem) else Matches(dict(item)))
        except (ConditionFailedError, CorruptError):
            return False
        return True
