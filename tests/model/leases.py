"""Leases as a model: owners that renew and die, watchers with clocks of their own, all orders of their steps.

    python -m tests.model.leases

Time goes on in ticks, and in each tick every process takes a step or lets it pass: an owner that lives renews at the latest
:data:`RENEWAL` ticks after its last beat, or dies; a watcher starts at any time, and then looks at any time. Wall clocks are off
by some ticks, monotonic ones begin when their process does. The search goes through all states that can be reached.

Two things are looked for:

- *A living owner is taken over.* Its beat is never older than ``RENEWAL``, which is less than a lease.
- *A dead one is not*: a watcher that has looked in each tick since it started, for a lease's length, still believes.

With the rule (believe a beat for a lease's length after seeing it first, by one's own monotonic clock) there is no such history.
Where wall clocks are compared, the search prints one, and so it does where a process that has just started takes over at once.
"""

import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from tests.support.tuples import changed

LEASE: Final = 3
"""Ticks."""
RENEWAL: Final = 2
OFFSETS: Final = (-7, 0, 7)
"""Ticks by which a wall clock may go before or after another: longer than two leases."""
HORIZON: Final = 7
"""Ticks of a history: an owner may die late, and a watcher start after it, and a lease still runs out."""


class Rule(Enum):
    """How a watcher judges a lease."""

    OWN_CLOCK = "by its own monotonic clock"
    WALL_CLOCK = "by comparing the owner's wall clock with its own"
    AT_ONCE = "a process that has just started takes over at once"


class Watcher(NamedTuple):
    """``ahead``: its wall clock; ``started`` in true time, -1 before; ``beat`` as seen last, since when by its monotonic clock;
    ``diligent``: it has looked in every tick since it started."""

    ahead: int
    started: int = -1
    beat: int = -1
    since: int = 0
    diligent: bool = True


class World(NamedTuple):
    """``beat`` is counted, ``at`` when it was written in true time, ``until`` what an owner that trusts clocks writes."""

    now: int
    alive: bool
    died: int
    beat: int
    at: int
    until: int
    ahead: int
    watchers: tuple[Watcher, ...]


def look(rule: Rule, world: World, watcher: Watcher) -> tuple[Watcher, bool]:
    """What the watcher knows after a look, and whether it believes the lease."""
    monotonic = world.now - watcher.started
    if rule is Rule.WALL_CLOCK:
        return watcher, world.until > world.now + watcher.ahead
    if watcher.beat != world.beat:
        first = watcher.beat == -1 and rule is Rule.AT_ONCE
        seen = changed(watcher, beat=world.beat, since=monotonic - (LEASE if first else 0))
        return seen, not first
    return watcher, monotonic < watcher.since + LEASE


def owner_steps(world: World) -> Iterator[tuple[str, World]]:
    """What the owner may do in this tick."""
    if not world.alive:
        yield "", world
        return
    renewed = changed(world, beat=world.beat + 1, at=world.now, until=world.now + world.ahead + LEASE)
    yield "the owner renews", renewed
    yield "the owner dies", changed(world, alive=False, died=world.now)
    if world.now - world.at < RENEWAL:
        yield "", world


def watcher_steps(rule: Rule, world: World, number: int) -> Iterator[tuple[str, World, str]]:
    """What a watcher may do in this tick, and what is wrong with it."""
    watcher = world.watchers[number]

    def having(later: Watcher) -> World:
        return changed(world, watchers=(*world.watchers[:number], later, *world.watchers[number + 1 :]))

    if watcher.started < 0:
        yield "", world, ""
        watcher = changed(watcher, started=world.now)
    else:
        yield "", having(changed(watcher, diligent=False)), ""
    seen, believed = look(rule, world, watcher)
    wrong = ""
    if not believed and world.alive:
        wrong = f"watcher {number} takes over from a living owner"
    since = max(world.died, seen.started)
    if believed and not world.alive and seen.diligent and world.now - since >= LEASE + 1:
        wrong = f"watcher {number} has looked for longer than a lease, and still believes a dead owner"
    what = "believes" if believed else "takes over"
    yield f"watcher {number} looks and {what}", having(seen), wrong


def search(rule: Rule, owners: tuple[int, ...] = OFFSETS) -> tuple[list[str] | None, int]:
    """A shortest bad history with two watchers, or None; and how many states were looked at. ``owners``: by how much the owner's
    wall clock may be off."""
    states = 0
    for ahead in owners:
        first = World(0, True, -1, 0, 0, ahead + LEASE, ahead, tuple(Watcher(off) for off in OFFSETS[-2:]))
        before: dict[World, tuple[World, str] | None] = {first: None}
        queue = deque([first])
        while queue:
            world = queue.popleft()
            states += 1
            if world.now == HORIZON:
                continue
            for steps, after, wrong in tick(rule, world):
                if after in before and not wrong:
                    continue
                if wrong:
                    return [*history(before, world), f"{world.now}: {steps}", wrong], states
                before[after] = (world, f"{world.now}: {steps}")
                queue.append(after)
    return None, states


def tick(rule: Rule, world: World) -> Iterator[tuple[str, World, str]]:
    """All that may happen in one tick: the owner's step, then each watcher's."""
    reached = [(said, after, "") for said, after in owner_steps(world)]
    for number in range(len(world.watchers)):
        reached = [
            ("; ".join(filter(None, (said, more))), later, wrong or worse)
            for said, after, wrong in reached
            for more, later, worse in watcher_steps(rule, after, number)
        ]
    for said, after, wrong in reached:
        yield said or "nothing", changed(after, now=world.now + 1), wrong


def history(before: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    """The steps that lead to a state."""
    told: list[str] = []
    while (step := before[world]) is not None:
        world, said = step
        told.append(said)
    return [
        f"the owner's clock is off by {world.ahead}, the watchers' by {[w.ahead for w in world.watchers]}",
        *told[::-1],
    ]


def main() -> int:
    """Print what the search finds under each rule; 1 if it is not what it should be."""
    failed = 0
    for rule in Rule:
        bad, states = search(rule)
        sys.stdout.write(f"{rule.value}: {states:,} states, " + ("no bad history\n" if bad is None else "\n"))
        for line in bad or ():
            sys.stdout.write(f"    {line}\n")
        failed |= (bad is None) != (rule is Rule.OWN_CLOCK)
    return failed


if __name__ == "__main__":
    sys.exit(main())
