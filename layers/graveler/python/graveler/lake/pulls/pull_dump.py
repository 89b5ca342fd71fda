"""Pull requests in dumps: they are people's work, unlike candidates, which a dump leaves out.

A dump reads them after the branches. So the commit of one that was merged meanwhile may be missing on the branch as dumped: it is
dumped as open then. A restore gives branches new tokens, and so new lives: a pull request follows its branches there.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from graveler.history.commits import CommitStore
from graveler.history.graph import merge_base
from graveler.lake.pulls.pull_store import PullStore, pull_item
from graveler.model import CommitID, Token
from graveler.requests.pulls import PullState
from graveler.staging.tokens import life_of
from graveler.storage.tables.port import Delete, Item, Key, Tables, Write
from graveler.storage.tables.walking import items

_PULL: Final = b"pull/"


def dumped_pulls(
    store: PullStore, tables: Tables, commits: CommitStore, heads: Mapping[str, CommitID], since: float
) -> Iterator[tuple[str, Item]]:
    """Yield the names and items of pull requests and of comments. ``heads`` are those of the dumped branches, by name; ``since``
    (Unix seconds) is before they were read. One table read for each thousand items; for each pull request that was merged since
    then also those of :func:`graveler.history.graph.merge_base`."""
    for sort, item in items(tables, store.partition, start=_PULL):
        if not sort.startswith(_PULL):
            return
        number = int(sort.removeprefix(_PULL))
        pull = store.decode(number, item)
        head = heads.get(pull.destination)
        if pull.state is PullState.MERGED and pull.closed >= since and not _has(commits, head, pull.merged_commit):
            pull = replace(pull, state=PullState.OPEN, merged_commit=CommitID(""), closed=0, closed_by="")
        yield sort.decode(), pull_item(pull)


def dumped_comments(store: PullStore, tables: Tables) -> Iterator[tuple[str, Item]]:
    """Yield the names and items of all comments. One table read for each thousand."""
    for sort, item in items(tables, store.comment_partition):
        yield sort.decode(), item


def restored_pull_writes(
    store: PullStore, name: str, item: Item, fresh: Mapping[str, tuple[str, Token]]
) -> list[Write]:
    """Return the writes that restore a pull request from its name and item. ``fresh`` has for each branch the life that it had in
    the dump, and its new token. No request. :class:`CorruptError`."""
    pull = store.decode(int(name.encode().removeprefix(_PULL)), item)
    moved = replace(
        pull,
        source_life=_life(fresh.get(pull.source), pull.source_life),
        destination_life=_life(fresh.get(pull.destination), pull.destination_life),
        candidate=CommitID(""),
        lacks=(),
    )
    return store.restore_writes(moved)


def clearing_writes(store: PullStore, tables: Tables) -> Iterator[Write]:
    """Yield the writes that remove what the table still has of pull requests and comments, from before the repository was deleted
    or from a restore that died. One table read for each thousand."""
    for partition in (store.partition, store.comment_partition):
        for sort, _ in items(tables, partition):
            yield Delete(Key(partition, sort))


def _has(commits: CommitStore, head: CommitID | None, merged: CommitID) -> bool:
    return head is not None and merge_base(commits, head, merged) == merged


def _life(fresh: tuple[str, Token] | None, life: str) -> str:
    """Return the life of a branch after the restore: that of its new token, if it was the same branch in the dump."""
    return life if fresh is None or fresh[0] != life else life_of(fresh[1])
