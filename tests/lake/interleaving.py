"""A search over interleavings of real clients, as ``model/protocol.py`` of the design does it over a model.

Clients are threads, of which one runs at a time: at every request to a port, and when it sleeps, a client hands control back
to the scheduler, which picks the next one by a seeded choice. Clients may be killed before or after any request, lose answers,
and find that time has passed and leases have run out. Each has a clock of its own, which may be a day ahead of another one's.
Everything follows from the seed.

A :class:`History` notes what was asked and answered, when. It judges reads as a regular register: a read is wrong if its value
was overwritten, by an acknowledged write, before the read began. A value never written is wrong too, and so is one whose write
was refused before the read began.

To add a verb: write an operation (a method of :class:`Client`) that notes its writes and reads in the history, and name it in
:data:`OPERATIONS`.
"""

from _thread import allocate_lock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from random import seed as seed_global
from threading import Thread, current_thread

import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    ForbiddenError,
    GravelerError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    ObjectChangedError,
    ObjectNotFoundError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.importing.importer import ImportSource
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.lake.turns import KEPT, TURN
from graveler.model import Commit, CommitID, MergeStrategies, MergeStrategy, ObjectEntry
from graveler.operations.parts.commit_work import HANDOVER
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.rounds import open_rounds
from graveler.staging.cleanup import LONGEST_REQUEST, CleanupQueue
from graveler.staging.tokens import LEASE
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import ConditionFailedError
from tests.lake.support import NAME, NAMESPACE, Died, OwnClock, World
from tests.support.instruments import Fault
from tests.support.patience import PATIENCE
from tests.support.pinned import Asked, pinned_commit, pinned_merge

KEYS = ("a", "b", "i/c")
"""Few, so that clients meet. Imports replace what is under ``i/``."""

ASIDE = ("aside", "elsewhere")
"""The names between which a branch changes. What is written to it has a history of its own."""


@dataclass
class Write:
    """One write of one key. ``value`` is None for a delete; ``end`` None until it is acknowledged, ``refused`` until it is
    refused. ``replaces`` is the acknowledged value that it requires to be there."""

    key: str
    value: int | None
    start: int
    end: int | None = None
    refused: int | None = None
    replaces: int | None = None


@dataclass
class History:
    """Who did what when, in ticks of the scheduler. ``created`` are the writes that were to win only if nothing was there."""

    writes: list[Write] = field(default_factory=list)
    created: list[Write] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def judge(self, key: str, value: int | None, began: int, who: str) -> None:
        """Was ``value`` a right answer to a read of ``key`` that began then?"""
        mine = [w for w in self.writes if w.key == key]
        acknowledged = [w for w in mine if w.end is not None and w.end < began]
        if value is None and not acknowledged:
            return
        candidates = [w for w in mine if w.value == value and (w.refused is None or w.refused > began)]
        gone = {w.replaces for w in acknowledged if w.replaces is not None}
        for write in candidates if value not in gone else ():
            line = self._line(write, mine)
            ends = [w.end for w in line if w.end is not None]
            if not any(later.start > min(ends) for later in acknowledged if ends and later not in line):
                return
        newest = max((w.start, w.value) for w in acknowledged) if acknowledged else None
        self.wrong.append(f"{who} read {value} of {key!r}, although {newest} (start, value) had been acknowledged")

    @staticmethod
    def _line(write: Write, writes: Sequence[Write]) -> list[Write]:
        """The write, the one that it replaced, the one that that replaced, …: nothing can have come between two of them."""
        line = [write]
        while line[-1].replaces is not None:
            line.append(next(w for w in writes if w.value == line[-1].replaces))
        return line

    def judge_replacements(self) -> None:
        """Of several that replace one value, one wins."""
        won = [(w.key, w.replaces) for w in self.writes if w.replaces is not None and w.end is not None]
        self.wrong += [
            f"{value} of {key!r} was replaced twice" for key, value in set(won) if won.count((key, value)) > 1
        ]

    def judge_creations(self) -> None:
        """A creator may win only if what was acknowledged before, or was created at the same time, can have been deleted."""
        winners = [create for create in self.created if create.end is not None]
        for create in winners:
            before = [w for w in self.writes if w.end is not None and w.end < create.start]
            for other in before + [w for w in winners if w is not create]:
                if other.key != create.key or other.value is None or other.start > create.start:
                    continue
                assert create.end is not None
                assert other.end is not None
                last = max(create.end, other.end)  # if they overlapped, either may have been the first
                if not any(
                    delete.key == create.key
                    and delete.value is None
                    and delete.start < last
                    and (delete.end is None or delete.end > other.start)
                    for delete in self.writes
                ):
                    self.wrong.append(f"{create.value} of {create.key!r} was created, although {other.value} was there")


class Scheduler:
    """Lets one client run at a time, until its next request."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        seed_global(seed)  # the jitter of backing off
        self.world = World()
        self.world.clock.on_sleep = self.hand_over
        self.history = History()
        self.aside = History()
        self.clients: list[Client] = []
        self.ticks = 0
        self.value = 0
        self.aside_is: str | None = ASIDE[0]
        """The name of the branch that changes it; None while nobody knows."""
        self.renames = self.renaming = 0
        self._back = allocate_lock()
        self._back.acquire()
        self._stay = self.random.choice((0.0, 0.5, 0.8, 0.95))
        self._kill = self.random.choice((0.0, 0.01, 0.03))
        self._fault = self.random.choice((0.0, 0.0, 0.01))
        self._time = self.random.choice((0.0, 0.01, 0.05))
        self._age = self.random.choice((0.0, 0.01))
        self.clocks = Random(f"clocks of {seed}")
        self.apart = self.clocks.choice((0.0, 300.0, 86_400.0))
        """Seconds by which clocks go before or after the true time, at most."""

    def kill_nobody(self) -> None:
        """Let no client be killed, no request fail, and no time pass but by what clients do."""
        self._kill = self._fault = self._time = self._age = 0.0

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def fresh(self) -> int:
        self.value += 1
        return self.value

    def run(self) -> None:
        """Run all clients to their end, then look at what is left."""
        for client in self.clients:
            client.start()
        current: Client | None = None
        ageing = False
        while alive := [client for client in self.clients if not client.finished]:
            if self.random.random() < self._time:
                self.world.clock.time += 20.0  # leases run out
            ageing = ageing or self.random.random() < self._age
            if ageing:
                # The longest request's time passes only while no request is under way; then also clean-up is due.
                under_way = [client for client in alive if not client.at_boundary]
                if not under_way:
                    self.world.clock.time += self.random.choice((1000.0, 100_000.0))
                    ageing = False
                alive = under_way or alive
            if current not in alive or self.random.random() >= self._stay:
                current = self.random.choice(alive)
            assert current is not None
            assert self.ticks < 200_000, "clients go round in circles"
            current.go.release()
            # A client that waits for another one, which cannot go on before this one does, holds a lock over a request.
            assert self._back.acquire(timeout=PATIENCE), f"{current.name} waits for a client that stands still"
        for client in self.clients:
            client.thread.join()
            if client.error is not None:
                raise client.error

    def hand_over(self) -> None:
        """Called by a client's thread before each request."""
        thread = current_thread()
        for client in self.clients:
            if client.thread is thread:
                self.tick()
                self._back.release()
                client.go.acquire()

    def finish(self, client: "Client") -> None:
        client.finished = True
        self._back.release()

    def fault(self, client: "Client") -> Fault:
        chance = self.random.random()
        if chance < self._kill:
            client.doomed = True
            if self.random.random() < 0.5:
                raise Died
            return "fail_after"
        if chance < self._kill + self._fault:
            return self.random.choice(("fail_before", "fail_after", "repeat"))
        return None


class Client:
    """One process after another: killed, it begins again as a new one and goes on with the next operation."""

    def __init__(self, scheduler: Scheduler, name: str, operations: list[str]) -> None:
        self.scheduler = scheduler
        self.name = name
        self.operations = operations
        self.go = allocate_lock()
        self.go.acquire()
        self.thread = Thread(target=self._run, name=name, daemon=True)
        self.finished = False
        self.at_boundary = True
        self.doomed = False
        self.error: BaseException | None = None
        self.commits: list[tuple[str, Commit]] = []
        self.unclear: set[str] = set()
        self._repository: OpenRepository | None = None
        self._foresee: Callable[[], None] | None = None
        self._clock = OwnClock(scheduler.world.clock, scheduler.apart * scheduler.clocks.choice((-1, 0, 1)))
        scheduler.clients.append(self)

    def start(self) -> None:
        self.thread.start()

    def _run(self) -> None:
        self.go.acquire()
        try:
            for number, operation in enumerate(self.operations):
                self.at_boundary = True
                self.scheduler.hand_over()
                self.at_boundary = False
                try:
                    getattr(self, operation)(f"{self.name}-{number}")
                except Died:
                    self._repository = None
                except ConditionFailedError:
                    raise  # not for users
                except (BusyError, MergeConflictError, PreconditionError, RefNotFoundError, UnavailableError):
                    if self.doomed:
                        self._repository = None
                self.doomed = False
        except BaseException as error:  # noqa: BLE001 - shown by the scheduler's thread
            self.error = error
        self.scheduler.finish(self)

    @property
    def repository(self) -> OpenRepository:
        if self._repository is None:
            self._repository = self.scheduler.world.repository(self._request, clock=self._clock)
        return self._repository

    def _request(self, _: str, __: int) -> Fault:
        if self.doomed:
            raise Died
        self.scheduler.hand_over()
        if self._foresee is not None:
            self._foresee()
        return self.scheduler.fault(self)

    def _key(self) -> str:
        return self.scheduler.random.choice(KEYS)

    def _note(self, key: str, value: int | None) -> Write:
        write = Write(key, value, self.scheduler.tick())
        self.scheduler.history.writes.append(write)
        return write

    @contextmanager
    def _refusable(self, write: Write) -> Iterator[None]:
        """Notes that a write was refused, and so must have no effect."""
        try:
            yield
        except (ForbiddenError, NotFoundError, ObjectChangedError):
            write.refused = self.scheduler.tick()
            raise

    def put(self, _: str) -> None:
        value = self.scheduler.fresh()
        key = self._key()
        write = self._note(key, value)
        with self._refusable(write):
            self.repository.link("main", entry(key, value))
        write.end = self.scheduler.tick()

    def create(self, _: str) -> None:
        value = self.scheduler.fresh()
        key = self._key()
        write = self._note(key, value)
        self.scheduler.history.created.append(write)
        try:
            self.repository.link("main", entry(key, value), if_absent=True)
            write.end = self.scheduler.tick()
        except AlreadyExistsError:
            pass

    def replace(self, _: str) -> None:
        """Replace what is there, on condition that it still is; its writer need not have got an answer yet."""
        key = self._key()
        value = self._visible(key)
        if value is None:
            return
        write = self._note(key, self.scheduler.fresh())
        write.replaces = value
        assert write.value is not None
        with suppress(ObjectNotFoundError), self._refusable(write):
            self.repository.link("main", entry(key, write.value), if_match=entry(key, value).checksum)
            write.end = self.scheduler.tick()

    def delete_same(self, _: str) -> None:
        key = self._key()
        value = self._visible(key)
        if value is None:
            return
        write = self._note(key, None)
        with self._refusable(write):
            self.repository.delete("main", [key], if_match=entry(key, value).checksum)
        write.end = self.scheduler.tick()

    def _visible(self, key: str) -> int | None:
        try:
            return self.repository.stat("main", key).size
        except ObjectNotFoundError:
            return None

    def reset(self, message: str) -> None:
        """Stage what nobody else knows of, and drop it; what others staged must stay."""
        prefix = f"z/{self.name}/"
        self.repository.link("main", entry(prefix + message, self.scheduler.fresh()))
        if self.scheduler.random.random() < 0.5:
            self.repository.reset("main", prefix=prefix)
        else:
            self.repository.reset("main", path=prefix + message)
            prefix += message
        if left := self.scheduler.world.repository().uncommitted("main", prefix=prefix).results:
            self.scheduler.history.wrong.append(f"{left} are there after their reset")

    def delete(self, _: str) -> None:
        key = self._key()
        write = self._note(key, None)
        with self._refusable(write):
            self.repository.delete("main", [key])
        write.end = self.scheduler.tick()

    def read(self, _: str) -> None:
        key = self._key()
        began = self.scheduler.tick()
        try:
            value: int | None = self.repository.stat("main", key).size
        except ObjectNotFoundError:
            value = None
        self.scheduler.history.judge(key, value, began, self.name)

    def list(self, _: str) -> None:
        began = self.scheduler.tick()
        self._judge(self.repository, "main", began)

    def commit(self, message: str) -> None:
        began = self.scheduler.tick()
        self.unclear.add(message)
        made = self.repository.commit("main", message, request_id=message)
        self.unclear.discard(message)
        self.commits.append((message, made))
        # What was acknowledged before it began is in it, or in one before.
        self._judge(self.scheduler.world.repository(), made.id, began)

    def commit_again(self, message: str) -> None:
        """The same request twice, whatever came of the first."""
        began = self.scheduler.tick()
        self.unclear.add(message)
        first: Commit | None = None
        try:
            first = self.repository.commit("main", message, request_id=message)
        except (BusyError, NoChangesError, UnavailableError):
            if self.doomed:
                raise
        again = self.repository.commit("main", message, request_id=message)
        self.unclear.discard(message)
        if first is not None and first.id != again.id:
            self.scheduler.history.wrong.append(f"{message} twice made {first.id[:8]} and {again.id[:8]}")
        self.commits.append((message, again))
        self._judge(self.scheduler.world.repository(), again.id, began)

    def commit_in_parts(self, message: str) -> None:
        """The steps of a commit, some of them twice."""
        began = self.scheduler.tick()
        self.unclear.add(message)
        made = self._in_parts(pinned_commit(branch="main", message=message), message)
        self.unclear.discard(message)
        self.commits.append((message, made))
        self._judge(self.scheduler.world.repository(), made.id, began)

    def merge_in_parts(self, message: str) -> None:
        """As :meth:`merge`."""
        value = self.scheduler.fresh()
        key = self._key()
        write = self._note(key, value)
        self.repository.link("side", entry(key, value))
        source = self.repository.commit("side", f"{message} aside")
        self.unclear |= {message, f"{message} aside"}
        write.start = self.scheduler.tick()
        ask = pinned_merge(
            source="side",
            source_id=source.id,
            destination="main",
            message=message,
            strategies=MergeStrategies(MergeStrategy.SOURCE_WINS),
        )
        self.commits.append((message, self._in_parts(ask, message)))
        write.end = self.scheduler.tick()

    def _in_parts(self, ask: Asked, message: str) -> Commit:
        twice = self.scheduler.random.choice((1, 2))
        for number in range(20):
            began = self.repository.clock.now()
            operation = open_rounds(
                self.repository, message, ask, request_id=message, began=began, sizes=Sizes(records=1, parts=2)
            )
            planned = [operation.plan(number) for _ in range(twice)]
            for part in [*range(planned[-1].parts)] * twice:
                operation.run_part(part, number)
            made = [commit for _ in range(twice) if (commit := operation.publish(number)) is not None]
            if len({commit.id for commit in made}) > 1:
                self.scheduler.history.wrong.append(f"{message} in parts, published twice, made several commits")
            if made:
                return made[0]
        raise BusyError("the branch kept moving")

    def pick(self, message: str) -> None:
        """Change a key on a branch of one's own, and pick that commit."""
        value = self.scheduler.fresh()
        key = self._key()
        self.repository.create_branch(message, "main")
        self.repository.link(message, entry(key, value))
        made = self.repository.commit(message, f"{message} elsewhere")
        write = self._note(key, value)
        self.unclear.add(message)
        self.commits.append(
            (message, self.repository.cherry_pick("main", made.id, message=message, request_id=message))
        )
        write.end = self.scheduler.tick()

    def copy(self, message: str) -> None:
        """A branch of one's own has a value under a path of its own, which is copied over a key."""
        value = self.scheduler.fresh()
        key = self._key()
        self.repository.create_branch(message, "main")
        self.repository.link(message, entry(f"z/{message}", value))
        write = self._note(key, value)
        copied = self.repository.copy("main", f"z/{message}", key, source_ref=message)
        write.end = self.scheduler.tick()
        if copied.size != value:
            self.scheduler.history.wrong.append(f"{copied.size} was copied, not {value}")

    def move(self, message: str) -> None:
        """What nobody else knows of gets the name of a key. If the move failed, it may be at both places, never at none."""
        value = self.scheduler.fresh()
        key = self._key()
        source = f"z/{message}"
        self.repository.link("main", entry(source, value))
        write = self._note(key, value)
        self.repository.move("main", source, key)
        write.end = self.scheduler.tick()
        with suppress(ObjectNotFoundError):
            self.scheduler.world.repository().stat("main", source)
            self.scheduler.history.wrong.append(f"{source!r} is there after it was moved")

    def revert(self, message: str) -> None:
        """Bring a value by a pick, then take that commit back: to the register it writes what the parent had."""
        value = self.scheduler.fresh()
        key = f"z/{message}"
        self.repository.create_branch(message, "main")
        self.repository.link(message, entry(key, value))
        made = self.repository.commit(message, f"{message} elsewhere")
        brought, back = f"{message} brought", f"{message} back"
        self.unclear |= {brought, back}
        picked = self.repository.cherry_pick("main", made.id, message=brought, request_id=brought)
        reverted = self.repository.revert("main", picked.id, message=back, request_id=back)
        self.commits += [(brought, picked), (back, reverted)]
        fresh = self.scheduler.world.repository()
        if key in contents(fresh, reverted.id) or contents(fresh, picked.id).get(key) != value:
            self.scheduler.history.wrong.append(f"{message}: a revert did not take back what the pick had brought")

    def hard_reset(self, message: str) -> None:
        """To the register, it writes each key as the commit has it."""
        fresh = self.scheduler.world.repository()
        commits = fresh.log("main", amount=4, first_parent=True).results
        target = self.scheduler.random.choice(commits).id
        self._move(message, lambda: [target], lambda: self.repository.hard_reset("main", target, by=message))

    def undo(self, message: str) -> None:
        fresh = self.scheduler.world.repository()

        def targets() -> list[CommitID]:
            return [row.new for row in fresh.reflog("main", 1000) if row.new is not None]

        self._move(message, targets, lambda: self.repository.undo("main", by=message))

    def _move(self, message: str, targets: Callable[[], Sequence[CommitID]], verb: Callable[[], object]) -> None:
        """While it works, any of the targets may be where the branch goes, also those that are made before its last request;
        afterwards its reference log says which one it was."""
        fresh = self.scheduler.world.repository()
        writes: dict[CommitID, list[Write]] = {}

        def foresee() -> None:
            for target in targets():
                if target not in writes:
                    found = contents(fresh, target)
                    writes[target] = [self._note(key, found.get(key)) for key in KEYS]

        foresee()
        self._foresee = foresee
        acknowledged = False
        try:
            verb()
            acknowledged = True
        except NotFoundError:
            pass  # nothing to undo
        finally:
            self._foresee = None
            went = {row.new for row in fresh.reflog("main", 1000) if row.event.by == message}
            for target, noted in writes.items():
                for write in noted:
                    if target not in went:
                        self.scheduler.history.writes.remove(write)
                    elif acknowledged:
                        write.end = self.scheduler.tick()

    def dump(self, _: str) -> None:
        """What was acknowledged when a dump began is in it, and nothing else."""
        world = self.scheduler.world
        began = self.scheduler.tick()
        manifest = world.lake(self._request, clock=self._clock).dump(NAME)
        copies = MemoryObjects(NAMESPACE, world.clock.now)
        for stored in world.objects().list():
            copies.put(stored.key, world.objects().get(stored.key))
        elsewhere = Lake(MemoryTables(), lambda _: copies, clock=world.clock)
        elsewhere.restore(NAMESPACE, manifest.id, NAME)
        self._judge(elsewhere.repository(NAME), "main", began)

    def put_aside(self, _: str) -> None:
        """Write to the branch that changes its name. Where it has another name, the write has no effect, whatever comes of it."""
        scheduler = self.scheduler
        name = scheduler.random.choice(ASIDE)
        value = scheduler.fresh()
        write = Write("a", value, scheduler.tick())
        scheduler.aside.writes.append(write)
        elsewhere, renames = scheduler.aside_is not in (None, name), scheduler.renames
        try:
            with self._refusable(write):
                if scheduler.random.random() < 0.3:
                    others = [entry(f"beside/{number}", value) for number in range(3)]
                    self.repository.link_many(name, [entry("a", value), *others])
                else:
                    self.repository.link(name, entry("a", value))
        finally:
            if elsewhere and renames == scheduler.renames:
                write.refused = write.start
        write.end = scheduler.tick()

    def commit_aside(self, message: str) -> None:
        self.repository.commit(self.scheduler.random.choice(ASIDE), message)

    def read_aside(self, _: str) -> None:
        began = self.scheduler.tick()
        self.scheduler.aside.judge(
            "a", contents(self.repository, self.scheduler.random.choice(ASIDE)).get("a"), began, self.name
        )

    def rename(self, _: str) -> None:
        scheduler = self.scheduler
        old, new = scheduler.random.sample(ASIDE, 2)
        scheduler.aside_is = None
        scheduler.renames = renames = scheduler.renames + 1
        scheduler.renaming += 1
        try:
            with suppress(AlreadyExistsError):
                self.repository.rename_branch(old, new)
                if renames == scheduler.renames and scheduler.renaming == 1:
                    scheduler.aside_is = new
        finally:
            scheduler.renaming -= 1

    def merge_beside(self, message: str) -> None:
        """A merge that what is staged refuses only where it would change the same object."""
        self._merge(message, beside_uncommitted=True)

    def merge(self, message: str) -> None:
        self._merge(message, beside_uncommitted=False)

    def _merge(self, message: str, *, beside_uncommitted: bool) -> None:
        value = self.scheduler.fresh()
        key = self._key()
        write = self._note(key, value)  # if this fails halfway, a later merge may bring it
        self.repository.link("side", entry(key, value))
        self.repository.commit("side", message)
        self.unclear.add(message)
        write.start = self.scheduler.tick()
        self.repository.merge(
            "side",
            "main",
            message=message,
            strategy=MergeStrategy.SOURCE_WINS,
            beside_uncommitted=beside_uncommitted,
        )
        write.end = self.scheduler.tick()

    def take(self, message: str) -> None:
        """Import one object."""
        value = self.scheduler.fresh()
        self.unclear.add(message)
        write = self._note("i/c", value)
        repository = self.repository
        record = repository.codec.encode(entry("i/c", value))
        source = ImportSource(b"i/", True, lambda: iter([(b"i/c", record)]))
        repository.import_sources("main", [source], message)
        write.end = self.scheduler.tick()

    def _judge(self, repository: OpenRepository, ref: str, began: int) -> None:
        found = {e.path: e.size for e in repository.objects(ref)}
        for key in KEYS:
            self.scheduler.history.judge(key, found.get(key), began, f"{self.name} at {ref[:8]}")


def entry(key: str, value: int) -> ObjectEntry:
    return ObjectEntry(key, f"mem://elsewhere/{value}", value, f"{value:032x}", 0)


OPERATIONS: dict[str, tuple[str, ...]] = {
    "writer": ("put", "put", "put", "delete", "read"),
    "resetter": ("reset", "reset", "reset", "put", "read"),
    "creator": ("create", "create", "delete", "read"),
    "replacer": ("replace", "replace", "replace", "delete_same", "put"),
    "committer": ("commit", "commit", "commit_again", "read"),
    "merger": ("merge",),
    "neighbour": ("merge_beside",),
    "parter": ("commit_in_parts", "merge_in_parts", "put", "read"),
    "importer": ("take",),
    "reader": ("read", "list"),
    "picker": ("pick", "put", "read"),
    "mover": ("hard_reset", "undo", "commit", "read"),
    "dumper": ("dump",),
    "copier": ("copy", "move", "read"),
    "reverter": ("revert", "put", "read"),
    "renamer": ("rename", "rename", "read_aside"),
    "aside": ("put_aside", "put_aside", "commit_aside", "read_aside"),
}

CASTS: list[tuple[str, ...]] = [
    ("writer", "committer"),
    ("writer", "committer", "committer"),
    ("writer", "writer", "committer", "reader"),
    ("writer", "committer", "merger"),
    ("writer", "committer", "committer", "merger"),
    ("writer", "merger", "reader"),
    ("writer", "committer", "importer"),
    ("writer", "committer", "merger", "importer"),
    ("creator", "creator", "committer"),
    ("creator", "creator", "committer", "committer"),
    ("creator", "writer", "committer", "merger"),
    ("resetter", "committer", "committer"),
    ("resetter", "resetter", "committer", "writer"),
    ("resetter", "creator", "committer", "committer"),
    ("resetter", "writer", "committer", "merger"),
    ("picker", "committer"),
    ("picker", "picker", "writer", "committer"),
    ("mover", "writer", "committer"),
    ("mover", "mover", "committer"),
    ("mover", "writer", "committer", "importer"),
    ("dumper", "writer", "committer"),
    ("dumper", "creator", "committer", "committer"),
    ("dumper", "resetter", "writer", "committer"),
    ("renamer", "aside", "aside"),
    ("renamer", "renamer", "aside", "aside"),
    ("copier", "committer", "writer"),
    ("copier", "copier", "committer", "merger"),
    ("copier", "creator", "committer", "resetter"),
    ("reverter", "committer", "writer"),
    ("reverter", "reverter", "committer", "merger"),
    ("reverter", "picker", "importer", "copier"),
    ("neighbour", "writer", "committer"),
    ("neighbour", "writer", "reader"),
    ("neighbour", "resetter", "committer", "committer"),
    ("replacer", "replacer", "committer"),
    ("replacer", "replacer", "committer", "committer"),
    ("replacer", "creator", "committer", "merger"),
    ("replacer", "writer", "committer", "resetter"),
    ("replacer", "replacer", "merger"),
    ("creator", "merger", "committer"),
]
"""Which clients meet; the seed picks one."""

IN_PARTS: list[tuple[str, ...]] = [
    ("parter", "writer", "committer"),
    ("parter", "parter", "writer"),
    ("parter", "merger", "writer", "committer"),
    ("parter", "resetter", "writer"),
]
"""The same, of clients whose commits and merges are worked on in parts."""

LENGTH = 5


def explore(seed: int, casts: Sequence[tuple[str, ...]] = CASTS) -> Scheduler:
    """Run the schedule of a seed, which picks one of ``casts``; raises ``AssertionError`` with the seed for a bad history."""
    scheduler = Scheduler(seed)
    world = scheduler.world
    world.main.create_branch("side", "main")
    world.main.create_branch(ASIDE[0], "main")
    for number, kind in enumerate(scheduler.random.choice(casts)):
        operations = [scheduler.random.choice(OPERATIONS[kind]) for _ in range(LENGTH)]
        Client(scheduler, f"{kind}{number}", operations)
    with pytest.MonkeyPatch.context() as patch:
        if scheduler.apart > LONGEST_REQUEST:  # the clean-up does compare times of several clocks
            patch.setattr(CleanupQueue, "sweep", lambda *_: 0)
        try:
            scheduler.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    scheduler.history.judge_creations()
    scheduler.history.judge_replacements()
    problems = scheduler.history.wrong + scheduler.aside.wrong
    problems += final_problems(scheduler)
    assert not problems, f"seed {seed}: " + "; ".join(problems)
    return scheduler


def final_problems(scheduler: Scheduler) -> list[str]:
    """What is wrong at the end: contents, staging, history."""
    world = scheduler.world
    history = scheduler.history
    history.wrong.clear()
    fresh = world.repository()
    found = contents(fresh, "main")
    for key in KEYS:
        history.judge(key, found.get(key), scheduler.tick(), "the end")
    there = [branch.name for branch in fresh.branches().results if branch.name in ASIDE]
    if len(there) == 1:
        scheduler.aside.judge("a", contents(fresh, there[0]).get("a"), scheduler.tick(), "the end, aside")
    else:
        history.wrong.append(f"the branch that changes its name is there {len(there)} times")
    slept = world.clock.slept
    try:
        fresh.commit("main", "the end")
    except NoChangesError:
        pass
    except GravelerError as error:
        history.wrong.append(f"the last commit failed: {error}")
    operations = [operation for client in scheduler.clients for operation in client.operations]
    # Operations in parts, and candidates that lost their branch once, keep their turn.
    keep_turn = any(operation.endswith(("_in_parts", "_merge", "_merge_beside")) for operation in operations)
    if (waited := world.clock.slept - slept) > (KEPT + HANDOVER if keep_turn else TURN + LEASE) + 1:
        history.wrong.append(f"the last commit waited {waited:.0f} s, longer than a turn and a lease")
    if contents(fresh, "main@") != found or contents(fresh, "main") != found:
        history.wrong.append(f"{contents(fresh, 'main@')} after the last commit, {found} before")
    if fresh.parts.branches.state("main").sealed:
        history.wrong.append("sealed tokens are left")
    wrong = history.wrong + scheduler.aside.wrong
    # History: each acknowledged commit once, linear along first parents, made by somebody.
    line = fresh.log("main", amount=10_000, first_parent=True).results
    ids = {commit.id for commit in line}
    if {"hard_reset", "undo"} & {operation for client in scheduler.clients for operation in client.operations}:
        ids |= {row.new for row in fresh.reflog("main", 10_000) if row.new is not None}  # more than the line has
    said = [c.message for c in line]
    for client in scheduler.clients:
        for message, commit in client.commits:
            if commit.id not in ids:
                wrong.append(f"the commit of {message} is not in the history")
    wrong += [f"{said.count(message)} commits say {message}" for message in set(said) if said.count(message) > 1]
    known = {message for client in scheduler.clients for message, _ in client.commits}
    known |= {message for client in scheduler.clients for message in client.unclear} | {"the end", "Repository created"}
    wrong += [f"nobody made commit {message}" for message in said if message not in known]
    return wrong


def contents(repository: OpenRepository, ref: str) -> dict[str, int]:
    return {e.path: e.size for e in repository.objects(ref)}


Explore = Callable[[int], Scheduler]
