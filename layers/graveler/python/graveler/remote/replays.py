"""The conflicts of a revert or a cherry-pick, which the HTTP API refuses without listing them."""

from typing import TYPE_CHECKING

from graveler.model import CommitID, Conflict, MergeStrategies, MergeStrategy, ObjectEntry
from graveler.values.merge_strategies import strategy_for

if TYPE_CHECKING:
    from graveler.remote.reading import RemoteReader

_PAGE = 1000


def replay_conflicts(
    repository: "RemoteReader", branch: str, base: CommitID, source: CommitID, strategies: MergeStrategies
) -> tuple[Conflict, ...]:
    """Return the objects, in order, that differ between ``base`` and ``source``, of which the branch's commit has neither
    version, and for which no strategy decides. Cost: per thousand that differ, one
    :meth:`~graveler.remote.reading.RemoteReader.diff`, and a request to look them up on the branch."""
    head = repository.commit_of(f"{branch}@").id
    conflicts: list[Conflict] = []
    after: str | None = ""
    while after is not None:
        page = repository.diff(base, source, after=after, amount=_PAGE)
        current = repository.stat_many(head, [change.path for change in page.results])
        for change, entry in zip(page.results, current, strict=True):
            if strategy_for(strategies, change.path) is not MergeStrategy.NONE:
                continue
            if _identity(entry) not in (_identity(change.before), _identity(change.after)):
                conflicts.append(Conflict(change.path, change.before, change.after, entry))
        after = page.next_after
    return tuple(conflicts)


def _identity(entry: ObjectEntry | None) -> tuple[object, ...] | None:
    """Return what identifies an object in merges."""
    return None if entry is None else (entry.size, entry.checksum, entry.content_type, dict(entry.metadata))
