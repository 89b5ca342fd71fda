"""How an operation ends, as a model: who publishes its commit, and who says that it failed or was cancelled, in all orders.

    python -m tests.model.endings

Every step is one atomic request to the table. Workers (two executions of one operation) look for the commit of its request,
publish, and say that it is completed; in between they give signs of life. Enders (a user who cancels, a state machine or a sweep
that gives up) read the operation, look for the commit, and write the end. Each may die at any step. Each transaction may be
carried out without its answer being told, and may arrive after its sender has gone on.

Under the rules of a branch the commit is a *candidate*: one transaction prepares it, another publishes it. Then the commit's
existence proves nothing, and the candidate's row says whether it is published.

A history is bad if

- the operation has failed or was cancelled, and its commit is there, or it is completed, and its commit is not;
- there are two commits;
- a worker is kept from publishing, although nobody has ended the operation and there is no commit;
- an ender is refused because of a commit that it has already seen: trying again would not help.

With any of :data:`RULES` switched off, the search prints one.
"""

import sys
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.support.tuples import changed

RULES: Final[dict[str, bool]] = {
    "publish_while_running": True,  # the transaction that publishes checks that the operation has not ended
    "by_what_stays": True,  # … by what no sign of life changes, and not by the operation's version
    "publish_once": True,  # … and that the request has no commit (promise C4)
    "look_before_ending": True,  # who ends the operation looks for its commit first
    "end_without_commit": True,  # the transaction that ends it checks that there still is none
    "row_is_proof": True,  # who looks for a commit that is a candidate reads its row, and not whether it exists
}

HANGING: Final = 2
"""How many transactions hang at a time, at most. One that never arrives hangs for ever."""

RUNNING, COMPLETED, ENDED = "running", "completed", "ended without a commit"
LOOK, PUBLISH, BEAT, READ, COMPLETE, GONE = "look", "publish", "beat", "read", "complete", "gone"
END: Final = "end"


class Process(NamedTuple):
    """``kind`` is ``worker`` or ``ender``; ``at`` its next step; ``version`` of the operation as it was read; ``found``: the
    request's commit was there when it could be looked for."""

    kind: str
    at: str
    version: int = 0
    found: bool = False


class Late(NamedTuple):
    """A transaction that is under way, and whose sender does not wait any more."""

    what: str
    version: int
    found: bool


class World(NamedTuple):
    """The operation's item (state and version), how many commits are published, signs of life that are left, the processes, and
    what is under way. ``prepared``: whether the candidate exists; None if the branch has no rules."""

    state: str
    version: int
    commits: int
    beats: int
    processes: tuple[Process, ...]
    late: tuple[Late, ...] = ()
    prepared: bool | None = None


Step = tuple[str, World]


def publish(rules: dict[str, bool], world: World, version: int) -> World | None:
    """The world after the transaction that publishes; None if a condition of it fails."""
    alive = world.state == RUNNING if rules["by_what_stays"] else world.version == version
    if rules["publish_while_running"] and not alive:
        return None
    if rules["publish_once"] and world.commits:
        return None
    return changed(world, commits=world.commits + 1)


def end(rules: dict[str, bool], world: World, version: int, *, found: bool) -> World | None:
    """The world after the transaction that ends the operation; None if a condition of it fails."""
    if world.version != version:
        return None
    if rules["end_without_commit"] and not found and world.commits:
        return None
    return changed(world, state=COMPLETED if found else ENDED, version=version + 1)


def carry_out(rules: dict[str, bool], world: World, what: Late) -> World | None:
    if what.what == PUBLISH:
        return publish(rules, world, what.version)
    return end(rules, world, what.version, found=what.found)


def sent(
    rules: dict[str, bool], world: World, what: Late, done: Process, refused: Process, unsure: Process
) -> Iterator[tuple[str, World, Process]]:
    """A transaction is carried out, with or without an answer; or hangs; or never arrives."""
    after = carry_out(rules, world, what)
    if after is None:
        yield f"{what.what}: refused", world, refused
    else:
        yield f"{what.what}: done", after, done
        yield f"{what.what}: done, and the answer is lost", after, unsure
    if len(world.late) < HANGING:
        yield f"{what.what}: hangs", changed(world, late=tuple(sorted((*world.late, what)))), unsure


def takes(rules: dict[str, bool], world: World, process: Process) -> Iterator[tuple[str, World, Process]]:
    """What a process may do next: the world after it, and the process."""
    gone = changed(process, at=GONE)
    yield "dies", world, gone
    if process.at == READ:
        ended = world.state != RUNNING
        following = COMPLETE if process.kind == "worker" else LOOK
        ends = world.state == COMPLETED if process.kind == "worker" else ended
        yield "reads the operation", world, gone if ends else changed(process, at=following, version=world.version)
    elif process.at == LOOK:
        found = world.commits > 0 if rules["row_is_proof"] else bool(world.prepared)
        if process.kind == "ender":
            yield "looks for the commit", world, changed(process, at=END, found=found)
        else:
            after = changed(process, at=READ if found else PUBLISH, version=world.version)
            yield "looks for the commit", world, after
    elif process.at == PUBLISH and world.prepared is False:
        yield "prepares a candidate", changed(world, prepared=True), process
    elif process.at == PUBLISH:
        if world.beats and world.state == RUNNING:
            beaten = changed(world, version=world.version + 1, beats=world.beats - 1)
            yield "gives a sign of life", beaten, process
        what = Late(PUBLISH, process.version, found=False)
        looks = changed(process, at=LOOK)
        yield from sent(rules, world, what, changed(process, at=READ), gone if world.state != RUNNING else looks, looks)
    elif process.at == COMPLETE:
        if world.version == process.version:
            yield "says that it is completed", changed(world, state=COMPLETED, version=world.version + 1), gone
        else:
            yield "says that it is completed: refused", world, changed(process, at=READ)
    elif process.at == END:
        again = changed(process, at=READ)
        yield from sent(
            rules, world, Late(END, process.version, process.found and rules["look_before_ending"]), gone, again, gone
        )


def steps(rules: dict[str, bool], world: World) -> Iterator[tuple[str, World, str]]:
    """All that may happen next, and what is wrong with it."""
    for number, process in enumerate(world.processes):
        if process.at == GONE:
            continue
        for said, after, later in takes(rules, world, process):
            hindered = ""
            if said == f"{PUBLISH}: refused" and world.state == RUNNING and not world.commits:
                hindered = "a worker is kept from publishing"
            if said == f"{END}: refused" and world.version == process.version and process.found:
                hindered = "who ends it is refused for a commit that was there before, and would be for ever"
            processes = (*after.processes[:number], later, *after.processes[number + 1 :])
            told = f"{process.kind}: {said}"
            yield told, changed(after, processes=tuple(sorted(processes))), hindered
    for what in world.late:
        left = list(world.late)
        left.remove(what)
        arrived = carry_out(rules, world, what) or world
        yield f"late: {what.what}", changed(arrived, late=tuple(left)), ""


def wrong(world: World) -> str:
    """What is wrong with a state; nothing with most."""
    if world.commits > 1:
        return "there are two commits"
    if world.state == ENDED and world.commits:
        return "it ended without a commit, which is there"
    if world.state == COMPLETED and not world.commits:
        return "it is completed, and there is no commit"
    return ""


def search(
    switched_off: str = "", *, workers: int = 2, enders: int = 2, beats: int = 1, candidate: bool = False
) -> tuple[list[str] | None, int]:
    """A shortest bad history without one of the rules, or None; and how many states were looked at. ``candidate``: the commit is
    one."""
    rules = {rule: rule != switched_off for rule in RULES}
    processes = (Process("worker", LOOK),) * workers + (Process("ender", READ),) * enders
    first = World(RUNNING, 0, 0, beats, processes, prepared=False if candidate else None)
    before: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        for said, after, hindered in steps(rules, world):
            if bad := hindered or wrong(after):
                return [*history(before, world), said, bad], len(before)
            if after not in before:
                before[after] = world, said
                queue.append(after)
    return None, len(before)


def history(before: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    """The steps that lead to a state."""
    told: list[str] = []
    while (step := before[world]) is not None:
        world, said = step
        told.append(said)
    return told[::-1]


def main() -> int:
    """Print what the search finds with all rules, and without each of them; 1 if it is not what it should be."""
    failed = 0
    for candidate, rule in ((False, ""), *((True, rule) for rule in ("", *RULES))):
        bad, states = search(rule, candidate=candidate)
        title = f"without {rule}" if rule else "all rules"
        sys.stdout.write(f"{title}{', of a candidate' if candidate else ''}: {states:,} states, ")
        sys.stdout.write("no bad history\n" if bad is None else "\n")
        for line in bad or ():
            sys.stdout.write(f"    {line}\n")
        failed |= (bad is None) != (not rule)
    return failed


if __name__ == "__main__":
    sys.exit(main())
