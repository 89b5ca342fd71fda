"""Branches and tags as lists show them: with last commits, distances from a base, and whether anything is staged."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from graveler.errors import InvalidError
from graveler.history.expressions import resolve
from graveler.history.graph import divergences
from graveler.history.refs import BranchState
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.state_reader import at_least_one
from graveler.model import Branch, Commit, CommitID, DetailedRef, Divergence, Page, RefSelection, Tag

MOST_SORTED: Final = 10_000
"""Number of refs that are sorted by their commits."""

_PAGE: Final = 1000
_POSITION: Final = re.compile(r"(-?\d{1,20}):(.+)", re.ASCII | re.DOTALL)
"""A position among refs by their commits: the time of the last one's commit in Unix seconds, and its name."""

NamedRef = TypeVar("NamedRef", BranchState, Tag)

_ListPage = Callable[[str, str, int], Page[NamedRef]]
"""Lists the refs of a kind by name: those with a prefix, after a name, up to an amount."""


def detailed(
    parts: RepositoryParts, refs: Sequence[Branch | Tag], staged: Sequence[bool | None], selection: RefSelection
) -> tuple[DetailedRef, ...]:
    """Return refs with the details of the selection, and whether anything is ``staged`` on each. Cost as of
    :meth:`graveler.lake.reading.history_reader.HistoryReader.detailed_branches`."""
    ids = [ref.commit_id for ref in refs]
    commits = _commits(parts, ids) if "commit" in selection.details else {}
    distances: Sequence[Divergence | None] = [None] * len(refs)
    if "counts" in selection.details:
        base = resolve(selection.base or parts.default_branch, parts.refs, parts.commits).commit_id
        distances = divergences(parts.commits, base, ids)
    return tuple(
        DetailedRef(ref, commits.get(ref.commit_id), distance, is_staged)
        for ref, distance, is_staged in zip(refs, distances, staged, strict=True)
    )


def selected(parts: RepositoryParts, list_page: _ListPage[NamedRef], selection: RefSelection) -> Page[NamedRef]:
    """Return a page of refs, in the order of the selection. Cost as of ``list_page``; by update, that of all refs, and one table
    read for each 100 of their commits. :class:`InvalidError` for a position that no page has, and for too many refs."""
    amount = at_least_one(selection.amount)
    if not selection.by_update:
        return list_page(selection.prefix, selection.after, amount)
    position = _parse_position(selection.after) if selection.after else None
    refs = _all_refs(list_page, selection.prefix)
    commits = _commits(parts, [ref.commit_id for ref in refs])
    ranks = [(-commits[ref.commit_id].created, ref.name) for ref in refs]
    following = sorted((rank, number) for number, rank in enumerate(ranks) if position is None or rank > position)
    shown = following[:amount]
    next_after = None
    if len(following) > len(shown):
        (created, name), _ = shown[-1]
        next_after = f"{-created}:{name}"
    return Page(tuple(refs[number] for _, number in shown), next_after)


def _all_refs(list_page: _ListPage[NamedRef], prefix: str) -> list[NamedRef]:
    """Return all refs that begin with ``prefix``. :class:`InvalidError` if they are too many to be sorted."""
    refs: list[NamedRef] = []
    after: str | None = ""
    while after is not None:
        page = list_page(prefix, after, _PAGE)
        refs += page.results
        after = page.next_after
        if len(refs) + (after is not None) > MOST_SORTED:
            raise InvalidError(
                f"more than {MOST_SORTED:,} names begin with {prefix!r}, too many to sort by their commits; "
                "give a longer prefix, or list them by name"
            )
    return refs


def _parse_position(after: str) -> tuple[int, str]:
    match = _POSITION.fullmatch(after)
    if match is None:
        raise InvalidError(
            f"{after[:80]!r} is not a position in a list by commits; pass the position from the previous page"
        )
    return -int(match[1]), match[2]


def _commits(parts: RepositoryParts, ids: Iterable[CommitID]) -> Mapping[CommitID, Commit]:
    """Return commits that refs point at. One table read for each 100 that are not in memory. :class:`CorruptError` if one is
    missing."""
    cached = {cid: parts.commits.in_memory(cid) for cid in ids}
    cached.update(parts.commits.read([cid for cid, commit in cached.items() if commit is None]))
    return {cid: parts.branches.commit(cid) if commit is None else commit.commit for cid, commit in cached.items()}
