"""Commits that changed some paths: the basis of blame, and of a log of these paths; and those of an author, or with a text.

Blame and log compare two neighbouring commits in some key ranges. The trees' range IDs answer most of that, except for the ranges
that differ (:mod:`graveler.tree.has_difference`); commits with the same metarange ID are not even loaded.
"""

from collections.abc import Callable, Mapping, Sequence

from graveler.history import graph
from graveler.history.commits import CommitStore
from graveler.lake.text import utf8
from graveler.model import Commit, CommitID
from graveler.tree.has_difference import differ_anywhere, where_equal
from graveler.tree.key_range import KeyRange
from graveler.tree.record import encode_key
from graveler.tree.tree import Tree

Load = Callable[[Commit], Tree]
"""Returns the tree of a commit."""


def keys_of_path(path: str) -> KeyRange:
    """Return the key range of one path. :class:`InvalidError` for an invalid path."""
    key = encode_key(path)
    return KeyRange(key, key + b"\0")


def keys_of_prefix(prefix: str) -> KeyRange:
    """Return the key range of the paths that begin with ``prefix``. :class:`InvalidError` for invalid UTF-8."""
    return KeyRange.of_prefix(utf8("prefix", prefix))


def touching(key_ranges: Sequence[KeyRange], load: Load, empty: Tree) -> graph.Shows:
    """Return a filter for commits that differ, in one of the key ranges, from every parent; first commits if they have objects
    there.

    So a merge that took everything there from one side is passed over, as git does. Cost for each commit: its tree and its
    parents', one object read each unless used recently, and ranges that differ between two of them.
    """

    def shows(commit: Commit, parents: Sequence[Commit]) -> bool:
        if not parents:
            return bool(commit.metarange) and differ_anywhere(empty, load(commit), key_ranges)
        if any(parent.metarange_id == commit.metarange_id for parent in parents):
            return False
        return all(differ_anywhere(load(parent), load(commit), key_ranges) for parent in parents)

    return shows


def by_author_and_text(author: str, text: str, shows: graph.Shows | None) -> graph.Shows:
    """Return a filter for commits whose committer is ``author`` and whose message has ``text``, in upper or lower case; empty
    ones match all. Only commits that match are passed on to ``shows``."""
    folded = text.casefold()

    def matching(commit: Commit, parents: Sequence[Commit]) -> bool:
        if author and commit.committer != author:
            return False
        if folded and folded not in commit.message.casefold():
            return False
        return shows is None or shows(commit, parents)

    return matching


def last_changes(commits: CommitStore, start: CommitID, key_ranges: Sequence[KeyRange], load: Load) -> list[Commit]:
    """Return for each key range the commit that made it what it is in ``start``. The walk follows parents that are equal there
    (of a merge the first such parent), and ends at the commit that has no such parent.

    One walk for all. Cost: about one table read for each 32 commits down to the oldest result; for each of these commits as in
    :func:`touching`, whatever the number of key ranges.
    """
    origins = graph.origins(commits, {start: range(len(key_ranges))}, _unchanged(key_ranges, load))
    return [origins.commits[number] for number in range(len(key_ranges))]


def last_changes_until(
    commits: CommitStore,
    frontier: Mapping[CommitID, Sequence[int]],
    key_ranges: Sequence[KeyRange],
    load: Load,
    stop: Callable[[], bool],
) -> graph.Origins:
    """Return :func:`last_changes` of the numbered key ranges in the commits of a frontier, as far as they are found before
    ``stop`` returns True. Cost: as there."""
    return graph.origins(commits, frontier, _unchanged(key_ranges, load), stop)


def _unchanged(key_ranges: Sequence[KeyRange], load: Load) -> graph.Unchanged:
    def unchanged(commit: Commit, parent: Commit, numbers: Sequence[int]) -> Sequence[int]:
        if commit.metarange_id == parent.metarange_id:
            return numbers
        equal = where_equal(load(commit), load(parent), [key_ranges[number] for number in numbers])
        return [number for number, same in zip(numbers, equal, strict=True) if same]

    return unchanged
