"""The decision which commits keep their objects: a pure function of the commits and the refs that point at them.

A commit keeps its objects while a branch's rule says so: a head always; any other commit of the branch's history for a number of
days after it was *replaced*, that is after its child was created. Pinned commits (by a tag, a legal hold, a dump, the recent
reference log) keep them too. Without rules every commit does that a ref can reach.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from graveler.model import CommitID, MetarangeName, RetentionRules

DAY = 86_400


class KnownCommit(Struct, frozen=True):
    """The collector's data about a commit. ``created`` is when it became part of the history, whatever date it was given;
    ``expired`` when it was marked (both in Unix seconds), ``swept`` whether its objects may be gone already."""

    id: CommitID
    parents: tuple[CommitID, ...]
    metarange: MetarangeName
    created: int
    expired: int | None = None
    swept: bool = False


class Verdict(Struct, frozen=True):
    """The decision. ``reached``: the metadata stays. ``kept``: the objects stay, too. ``rules`` are those that it follows."""

    reached: frozenset[CommitID]
    kept: frozenset[CommitID]
    rules: RetentionRules | None = None


def judge(
    commits: Mapping[CommitID, KnownCommit],
    branches: Mapping[str, CommitID],
    pinned: Collection[CommitID],
    rules: RetentionRules | None,
    now: float,
) -> Verdict:
    """Decide which of ``commits`` refs reach, and which keep their objects. IDs that are not among ``commits`` are skipped. No
    request; memory for two sets of IDs."""
    reached = _reach(commits, [*branches.values(), *pinned], None)
    if rules is None:
        return Verdict(frozenset(reached), frozenset(reached))
    retained = {cid for cid in pinned if cid in commits}
    by_days: dict[int, list[CommitID]] = {}
    for name, head in branches.items():
        by_days.setdefault(rules.branches.get(name, rules.default_days), []).append(head)
    for days, heads in by_days.items():
        retained |= _reach(commits, heads, now - days * DAY)
    return Verdict(frozenset(reached), frozenset(retained), rules)


def _reach(
    commits: Mapping[CommitID, KnownCommit], starts: Iterable[CommitID], replaced_since: float | None
) -> set[CommitID]:
    """Return all ancestors of ``starts``; with ``replaced_since`` only those whose child on the path was created since then."""
    reached: set[CommitID] = set()
    todo = list(starts)
    while todo:
        cid = todo.pop()
        commit = commits.get(cid)
        if commit is None or cid in reached:
            continue
        reached.add(cid)
        if replaced_since is None or commit.created >= replaced_since:
            todo += commit.parents
    return reached
