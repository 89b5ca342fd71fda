"""The branches and tags that point at each commit, as logs show them."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from graveler.model import Branch, CommitID, Page, Tag

MOST_NAMES: Final = 1000
"""Number of branches, and of tags, that are looked at: the first ones by name."""


class _Names(Protocol):
    """A repository whose branches and tags can be listed."""

    def branches(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Branch]: ...

    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]: ...


class RefsAtCommits(Struct, frozen=True):
    """The refs at each commit, branches before tags, both by name. ``more``: the repository has others, beyond
    :data:`MOST_NAMES` of a kind, which were not looked at."""

    by_commit: Mapping[CommitID, Sequence[Branch | Tag]]
    more: bool


def refs_at_commits(repository: _Names) -> RefsAtCommits:
    """Return the refs at each commit of a repository that has some. Hidden branches are left out. Cost: a page of
    :data:`MOST_NAMES` branches, and one of tags, however many commits a caller shows."""
    by_commit: dict[CommitID, list[Branch | Tag]] = {}
    branches, tags = repository.branches(amount=MOST_NAMES), repository.tags(amount=MOST_NAMES)
    refs: list[Branch | Tag] = [*branches.results, *tags.results]
    for ref in refs:
        by_commit.setdefault(ref.commit_id, []).append(ref)
    return RefsAtCommits(by_commit, branches.next_after is not None or tags.next_after is not None)
