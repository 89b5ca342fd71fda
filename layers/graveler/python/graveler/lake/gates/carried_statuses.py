"""Statuses that a candidate keeps although its branch moved, by rules whose moved head means ``apart``.

A status belongs to one tree, and a candidate that is built anew on a moved head has another one. Such a rule says that a verdict
about some paths stays, as long as the move touched none of them, and none of the objects that the change touches.
"""

from collections.abc import Mapping
from itertools import islice
from operator import eq
from typing import Final

from graveler.lake.gates.judgement import Gate, matches
from graveler.lake.gates.statuses import Statuses
from graveler.lake.gates.touched import touched
from graveler.lake.parts import RepositoryParts
from graveler.model import Candidate, Commit, MovedHead, RequiredStatus
from graveler.tree.key_range import KeyRange
from graveler.tree.record_differences import record_differences
from graveler.tree.tree import Tree

MOST_KEYS: Final = 10_000
"""The largest number of objects that a change may touch for its statuses to be carried: they are compared with the move again."""


def carry_statuses(
    repository: RepositoryParts,
    gate: Gate,
    earlier: Candidate,
    commit: Commit,
    trees: tuple[Tree, Tree],
) -> None:
    """Post the statuses of the ``earlier`` candidate's tree also to that of ``commit``, which was made by the same request on a
    head that has moved, as far as a rule permits it. ``trees`` are those of that head and of the commit. Nobody's newer status
    is replaced.

    No request without such a rule. Else one table read and two for the statuses, two metaranges, and ranges in which heads
    and commits differ; one table write if there is something to carry.
    """
    required = _carriable(gate)
    if not required or earlier.metarange == commit.metarange:
        return
    store = Statuses(repository.tables, repository.uid)
    posted = [
        status
        for status in store.read(earlier.metarange).statuses
        if not status.commit_id
        and (needed := required.get(status.name)) is not None
        and matches(status.principal, needed.posters)
    ]
    if not posted:
        return
    head = repository.commits.get(earlier.head)
    before, built = repository.trees.load_many([head.metarange, earlier.metarange])
    if not _is_apart(before, built, trees[0]):
        return
    present = {(status.name, status.principal) for status in store.read(commit.metarange).statuses}
    carried = [
        status
        for status in posted
        if (status.name, status.principal) not in present
        and not touched(before, trees[0], required[status.name].paths)
        and not touched(built, trees[1], required[status.name].paths)
    ]
    if carried:
        store.post(commit.metarange, carried)


def _carriable(gate: Gate) -> Mapping[str, RequiredStatus]:
    """Return the posted statuses about some paths that every rule of the gate lets carry, by name."""
    apart: dict[str, RequiredStatus] = {}
    exact: set[str] = set()
    for rule in gate.rules:
        for required in rule.statuses:
            if rule.moved_head is MovedHead.APART and required.posters and required.paths:
                apart[required.name] = required
            elif not rule.observe:
                exact.add(required.name)
    return {name: required for name, required in apart.items() if name not in exact}


def _is_apart(before: Tree, built: Tree, moved: Tree) -> bool:
    """Return whether the move from ``before`` to ``moved`` touched no key in which ``built`` differs from ``before``."""
    change = record_differences(before, built, KeyRange())
    keys = [key for key, _, _ in islice(change, MOST_KEYS + 1)]
    return len(keys) <= MOST_KEYS and all(map(eq, before.get_many(keys), moved.get_many(keys)))
