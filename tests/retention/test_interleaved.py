"""Collectors among writers, interleaved at every request (the scheduler of ``tests/lake/interleaving.py``), with crashes.

Everything that is staged or committed when they begin is old, so nothing is protected by its age. ``GRAVELER_SCHEDULES=n`` for
another number of schedules.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from graveler.errors import ConflictError, ForbiddenError, GravelerError, InvalidError, NotFoundError
from graveler.model import CommitID
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import LEASE, Mode
from tests.lake.interleaving import Client, Scheduler
from tests.lake.support import Died
from tests.retention.support import AGE, check_live, collect, keys, needed_objects, write

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "480")) // 10

BRANCHES = ("main", "one", "two", "three")
PATHS = ("a", "b", "m", "z")
OPERATIONS = {
    "mover": ("copy", "move", "rename", "delete"),
    "writer": ("write", "commit", "delete", "merge"),
    "dropper": ("drop", "tag", "untag", "reset", "rename"),
    "collector": ("collect", "collect", "age"),
}
CAST = ("mover", "mover", "writer", "dropper", "collector", "collector")


W = TypeVar("W", bound="Worker")


def what_can_be_done(verb: Callable[[W, str], None]) -> Callable[[W, str], None]:
    """A verb that is left when it is refused."""

    def attempt(self: W, message: str) -> None:
        try:
            verb(self, message)
        except (ConflictError, ForbiddenError, InvalidError, NotFoundError) as error:
            if self.doomed:
                raise Died from error

    return attempt


class Worker(Client):
    """Does one thing after the other; what cannot be done is left."""

    def _branch(self) -> str:
        return self.scheduler.random.choice(BRANCHES)

    def _path(self) -> str:
        return self.scheduler.random.choice(PATHS)

    @what_can_be_done
    def copy(self, _: str) -> None:
        self.repository.copy(self._branch(), self._path(), self._path(), source_ref=self._branch())

    @what_can_be_done
    def move(self, _: str) -> None:
        source, destination = self.scheduler.random.sample(PATHS, 2)
        self.repository.move(self._branch(), source, destination)

    @what_can_be_done
    def rename(self, _: str) -> None:
        self.repository.rename_branch(self.scheduler.random.choice(BRANCHES[1:]), self._branch())

    @what_can_be_done
    def delete(self, _: str) -> None:
        self.repository.delete(self._branch(), [self._path()])

    @what_can_be_done
    def write(self, message: str) -> None:
        self.repository.upload(self._branch(), self._path(), message.encode())

    @what_can_be_done
    def commit(self, message: str) -> None:
        self.repository.commit(self._branch(), message)

    @what_can_be_done
    def merge(self, _: str) -> None:
        old = self.scheduler.random.choice(OLD[self.scheduler])
        self.repository.merge(old, self._branch())

    @what_can_be_done
    def drop(self, _: str) -> None:
        self.repository.delete_branch(self._branch())

    @what_can_be_done
    def tag(self, message: str) -> None:
        self.repository.create_tag(message, self.scheduler.random.choice(OLD[self.scheduler]))

    @what_can_be_done
    def untag(self, _: str) -> None:
        for tag in self.repository.tags().results:
            self.repository.delete_tag(tag.name)

    @what_can_be_done
    def reset(self, _: str) -> None:
        self.repository.reset(self._branch(), path=self._path())

    @what_can_be_done
    def collect(self, _: str) -> None:
        Garbage(self.repository, Options(Mode.DELETE, threads=1)).run()

    @what_can_be_done
    def age(self, _: str) -> None:
        """Everything gets old, if nobody is in the middle of something."""
        if all(client is self or client.at_boundary or client.finished for client in self.scheduler.clients):
            self.scheduler.world.clock.time += AGE


OLD: dict[Scheduler, list[CommitID]] = {}
"""Commits of before, some of which nothing reaches."""


def explore(seed: int) -> None:
    scheduler = Scheduler(seed)
    world = scheduler.world
    repository = world.main
    old = [write(repository, "main", a="main a", b="main b")]
    for name in BRANCHES[1:]:
        repository.create_branch(name, "main")
        old.append(write(repository, name, **{f"{name}/x": name}))
    for name in BRANCHES[:3]:
        repository.upload(name, scheduler.random.choice(PATHS), f"staged on {name}".encode())
    repository.delete_branch("three")
    world.clock.time += AGE
    if scheduler.random.random() < 0.5:
        collect(world)
        world.clock.time += AGE
    OLD[scheduler] = old
    try:
        for number, kind in enumerate(CAST):
            operations = [scheduler.random.choice(OPERATIONS[kind]) for _ in range(2)]
            Worker(scheduler, f"{kind}{number}", operations)
        scheduler.run()
        check_live(world)
        world.clock.time += max(LEASE, 60.0)
        for _ in range(3):
            world.clock.time += 2 * AGE
            for name in BRANCHES:
                with suppress(GravelerError):
                    world.repository().commit(name, "the end")
            collect(world)
        check_live(world)
        assert keys(world, "data/") == needed_objects(world)
        assert world.lake().fsck(repository.repository.name).garbage.commit_items == 0
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    finally:
        del OLD[scheduler]


def test_collectors_among_writers() -> None:
    for seed in range(SCHEDULES):
        explore(seed)
