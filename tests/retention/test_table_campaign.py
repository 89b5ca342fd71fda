"""Committers of a table, expiries of its snapshots, merges, drops and collectors, interleaved at every request, with crashes.

Data files wait in the table's folder that are young, just too old to be committed, or old. No file that a commit of a branch
needs is ever missing, and at the end nothing else is left. ``GRAVELER_SCHEDULES=n`` for another number of schedules.
"""

import os

from graveler.lake.clock import TABLE_GRACE
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import folder_of
from graveler.lake.iceberg.table_states import reader_in
from graveler.lake.objects.issued_addresses import NAMESPACES
from graveler.requests.iceberg import TableChange
from graveler.retention.runs import LEASE
from graveler.table_format.reached_files import reached_files
from tests.lake.iceberg.support import ORDERS, append, appended, metadata, with_table, write_file
from tests.lake.interleaving import Scheduler
from tests.lake.support import World
from tests.retention.support import collect, keys
from tests.retention.test_interleaved import Worker, what_can_be_done
from tests.retention.test_table_files import TABLE_AGE

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "40")) // 10

BRANCHES = ("main", "dev")
OPERATIONS = {
    "committer": ("append", "append_waiting", "append_waiting", "append_waiting", "merge"),
    "upkeep": ("expire", "expire", "drop_table", "register"),
    "collector": ("collect",),
    "time": ("age_by_half",),
}
CAST = ("committer", "committer", "upkeep", "collector", "time")
WAITING = tuple(f"data/waiting-{number}" for number in range(4))
PAUSES = (60.0, TABLE_AGE - TABLE_GRACE / 2, TABLE_GRACE / 2 - 60.0, 60.0)
"""Seconds after each of them: the first two are old, the third one is just young enough to be committed."""


class TableWorker(Worker):
    """Does one thing after the other to the table; what cannot be done is left."""

    def _branch(self) -> str:
        return self.scheduler.random.choice(BRANCHES)

    def _append(self, path: str) -> None:
        parts, branch = self.repository.parts, self._branch()
        document = CatalogReader(parts, branch).load(ORDERS).document
        self.repository.commit_tables(branch, tables=(appended(parts, document, path),))

    @what_can_be_done
    def append(self, message: str) -> None:
        """Write a file, and append it."""
        parts = self.repository.parts
        location = CatalogReader(parts, "main").load(ORDERS).document["location"]
        path = f"data/{message}"
        parts.objects.put(f"{location.removeprefix(parts.namespace + '/')}/{path}", b"rows")
        self._append(path)

    @what_can_be_done
    def append_waiting(self, _: str) -> None:
        """Append a file that waits in the folder."""
        self._append(self.scheduler.random.choice(WAITING))

    @what_can_be_done
    def expire(self, _: str) -> None:
        """Remove all snapshots but the current one."""
        branch = self._branch()
        document = CatalogReader(self.repository.parts, branch).load(ORDERS).document
        ids = [snapshot["snapshot-id"] for snapshot in document.get("snapshots", ())]
        old = [number for number in ids if number != document.get("current-snapshot-id")]
        update = {"action": "remove-snapshots", "snapshot-ids": old}
        self.repository.commit_tables(branch, tables=(TableChange(ORDERS, (), (update,)),))

    @what_can_be_done
    def drop_table(self, _: str) -> None:
        self.repository.drop_relation("dev", relation=ORDERS)

    @what_can_be_done
    def register(self, _: str) -> None:
        """Make the table of one branch that of the other one."""
        location = CatalogReader(self.repository.parts, "main").load(ORDERS).location
        self.repository.register_table("dev", table=ORDERS, location=location, overwrite=True)

    @what_can_be_done
    def merge(self, _: str) -> None:
        self.repository.merge("dev", "main")

    @what_can_be_done
    def age_by_half(self, _: str) -> None:
        """Let some time pass, if nobody is in the middle of something."""
        if all(client is self or client.at_boundary or client.finished for client in self.scheduler.clients):
            self.scheduler.world.clock.time += TABLE_AGE * self.scheduler.random.choice((0.1, 0.5, 1.0))


def check_tables(world: World) -> set[str]:
    """Check that each file that a table of a commit reaches is linked and exists; return the keys of all linked files."""
    repository = world.repository()
    parts = repository.parts
    stored = keys(world, "tables/")
    needed: set[str] = set()
    commits = {commit.id for branch in BRANCHES for commit in repository.log(branch, amount=1000).results}
    for commit in sorted(commits):
        linked = {entry.address.removeprefix(parts.namespace + "/") for entry in repository.objects(commit)}
        assert linked <= stored, linked - stored
        needed |= linked
        reader = CatalogReader(parts, commit)
        if reader.entry(ORDERS, "table") is None:
            continue
        document = reader.load(ORDERS).document
        folder = folder_of(parts, document["table-uuid"], document["location"])
        reached = {folder.key_of(location) for location in reached_files(document, reader_in(parts, folder))}
        assert reached <= linked, reached - linked
    return needed


def explore(seed: int) -> None:
    scheduler = Scheduler(seed)
    world = with_table(scheduler.world)
    world.main.create_branch("dev", "main")
    for branch in BRANCHES:
        append(world, f"data/{branch}", branch=branch)
    for path, pause in zip(WAITING, PAUSES, strict=True):
        write_file(world, path)
        world.clock.time += pause
    try:
        for number, kind in enumerate(CAST):
            operations = [scheduler.random.choice(OPERATIONS[kind]) for _ in range(3)]
            TableWorker(scheduler, f"{kind}{number}", operations)
        scheduler.run()
        check_tables(world)
        world.clock.time += max(LEASE, 60.0)
        for _ in range(3):
            world.clock.time += 2 * TABLE_AGE
            collect(world)
        assert metadata(world)
        assert keys(world, "tables/") == check_tables(world) | {NAMESPACES}
        assert not world.lake().fsck(world.main.repository.name).findings
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


def test_no_file_of_a_commit_is_ever_missing() -> None:
    for seed in range(SCHEDULES):
        explore(seed)
