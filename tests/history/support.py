"""Builders and oracles: histories in memory, and the definitions that walks are compared with."""

import os
from collections.abc import Sequence
from random import Random

from graveler.history.commits import CommitStore, new_commit
from graveler.history.reflog import Event
from graveler.history.refs import BranchState, Refs
from graveler.model import Commit, CommitID, MetarangeName, RepositoryUID, Tag, Token
from graveler.storage.tables.memory import MemoryTables
from tests.support.instruments import CountingTables

HISTORIES = int(os.environ.get("GRAVELER_HISTORIES", "1000"))
"""How many random histories each loop looks at; more by the environment."""

UID = RepositoryUID("repo1")
METARANGE = MetarangeName("ab" * 32 + "-" + "cd" * 16)

Shape = Sequence[tuple[Sequence[int], int]]
"""A history as numbers: for each commit the positions of its parents, all lower than its own, and its creation time."""


def event(operation: str = "test", time_ns: int = 1_700_000_000_000_000_000, by: str = "ann") -> Event:
    return Event(time_ns, operation, f"{operation}-{time_ns}", by)


class World:
    """One repository in memory. ``tables`` counts; :meth:`cold` is a store that has nothing in memory."""

    def __init__(self) -> None:
        self.tables = CountingTables(MemoryTables())
        self.commits = CommitStore(self.tables, UID)
        self.refs = Refs(self.tables, UID)
        self.all: list[Commit] = []

    def cold(self, capacity: int = 16_384) -> CommitStore:
        self.tables.reset()
        return CommitStore(self.tables, UID, capacity)

    def add(self, *parents: Commit, created: int | None = None, message: str = "", put: bool = True) -> Commit:
        """A commit that is like no other: its operation counts up."""
        commit = new_commit(
            parents=parents,
            metarange=METARANGE,
            committer="ann",
            message=message,
            created=len(self.all) if created is None else created,
            metadata={},
            operation=f"op{len(self.all)}",
        )
        if put:
            self.tables.transact([self.commits.put_write(commit, commit.created)])
        self.all.append(commit)
        return commit

    def line(self, length: int, *below: Commit) -> list[Commit]:
        """``length`` commits, each on the one before, the first on ``below``."""
        made: list[Commit] = []
        for _ in range(length):
            made.append(self.add(*(made[-1:] or below)))
        return made

    def branch(self, name: str, commit: Commit, *, hidden: bool = False) -> BranchState:
        state = BranchState(name, commit.id, Token(f"token-{name}"), (), hidden)
        self.tables.transact(self.refs.create_branch_writes(state, event()))
        return state

    def tag(self, name: str, commit: Commit) -> Tag:
        tag = Tag(name, commit.id)
        self.tables.transact(self.refs.create_tag_writes(tag, event()))
        return tag


def build(shape: Shape) -> World:
    world = World()
    for parents, created in shape:
        world.add(*(world.all[at] for at in parents), created=created)
    return world


def random_shape(random: Random, size: int, *, roots: float = 0.1, merges: float = 0.4, skew: bool = True) -> Shape:
    """Up to two parents each, several roots, criss-crosses; creation times go up, or anywhere with ``skew``."""
    shape: list[tuple[Sequence[int], int]] = []
    for at in range(size):
        near = max(0, at - random.choice((2, 4, 12)))
        if at == 0 or random.random() < roots:
            parents: list[int] = []
        elif at > 1 and random.random() < merges:
            parents = random.sample(range(min(near, at - 2), at), 2)
        else:
            parents = [random.randrange(near, at)]
        shape.append((parents, random.randrange(10) if skew else at // 2))
    return shape


def ancestors(world: World) -> dict[CommitID, frozenset[CommitID]]:
    """All that each commit can reach, itself included: by the definition."""
    reach: dict[CommitID, frozenset[CommitID]] = {}
    for commit in world.all:
        reach[commit.id] = frozenset({commit.id}).union(*(reach[parent] for parent in commit.parents))
    return reach
