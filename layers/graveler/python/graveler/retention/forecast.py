"""The outlook: what keeps the commits of a history, and when a run will free what nothing keeps any more. Pure."""

import heapq
import math
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from graveler.model import CommitID, RetentionRules
from graveler.retention.rules import DAY, KnownCommit, Verdict

_SHOWN: Final = 10


class Release(Struct, frozen=True):
    """Commits whose objects runs from ``at`` on (Unix seconds) can remove, if no other commit needs them."""

    at: int
    commits: int


class Outlook(Struct, frozen=True):
    """Why commits keep their objects, and until when. ``heads``, ``pinned`` (tags, legal holds, dumps, operations, the latest
    reference log) and ``replaced`` count those that do: the last ones by the days of rules, or for want of them (``has_rules``).
    ``to_mark`` is the number of commits that nothing keeps and no run has marked yet: the next run does, and a later one removes
    their files. ``releases`` has the next days on which commits become free, as far as it is known now, and ``later`` the number
    of commits after these."""

    heads: int
    pinned: int
    replaced: int
    has_rules: bool
    to_mark: int
    releases: tuple[Release, ...]
    later: int


def look_ahead(
    commits: Mapping[CommitID, KnownCommit],
    branches: Mapping[str, CommitID],
    pinned: Collection[CommitID],
    verdict: Verdict,
    dead: Collection[CommitID],
    now: float,
    wait: float,
) -> Outlook:
    """Return the outlook of a history. ``wait`` is the time in seconds between a mark and the removal. No request; memory for a
    number for each commit."""
    rules = verdict.rules
    heads = {head for head in branches.values() if head in commits}
    held = {cid for cid in pinned if cid in commits} - heads
    replaced = verdict.kept - heads - held
    free: list[float] = []
    to_mark = 0
    for commit in commits.values():
        if commit.id in verdict.kept or commit.id in dead:
            continue
        to_mark += commit.expired is None
        # A record younger than the grace period is not marked yet.
        free.append((max(now, commit.created + wait) if commit.expired is None else commit.expired) + wait)
    if rules is not None:
        ends = _ends(commits, branches, rules)
        free += [ends[cid] + wait for cid in replaced]
    days: dict[int, list[float]] = {}
    for time in free:
        days.setdefault(int(time // DAY), []).append(time)
    releases = [Release(math.ceil(min(days[day])), len(days[day])) for day in sorted(days)]
    later = sum(release.commits for release in releases[_SHOWN:])
    return Outlook(len(heads), len(held), len(replaced), rules is not None, to_mark, tuple(releases[:_SHOWN]), later)


def _ends(
    commits: Mapping[CommitID, KnownCommit], branches: Mapping[str, CommitID], rules: RetentionRules
) -> dict[CommitID, float]:
    """Return when the rules cease to keep each commit that a branch reaches: some days after it was replaced, on the path from a
    head on which that was latest."""
    ends: dict[CommitID, float] = {}
    by_days: dict[int, list[CommitID]] = {}
    for name, head in branches.items():
        by_days.setdefault(rules.branches.get(name, rules.default_days), []).append(head)
    for days, heads in by_days.items():
        since: dict[CommitID, float] = {}
        todo = [(-math.inf, head) for head in set(heads)]
        while todo:
            negative, cid = heapq.heappop(todo)
            commit = commits.get(cid)
            if commit is None or cid in since:
                continue
            since[cid] = -negative
            for parent in commit.parents:
                heapq.heappush(todo, (-min(-negative, commit.created), parent))
        for cid, replaced in since.items():
            ends[cid] = max(ends.get(cid, -math.inf), replaced + days * DAY)
    return ends
