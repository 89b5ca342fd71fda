"""Committers of a table, expiries of its snapshots, merges, drops and collectors, interleaved at every request, with crashes.

Writers also stage snapshots, on states that are rolled back and expire meanwhile, and a table has two names for a while. Data
files wait in the table's folder that are young, just too old to be committed, or old. No file that a commit of a branch needs is
ever missing, and at the end nothing else is left. ``GRAVELER_SCHEDULES=n`` for another number of schedules.
"""

import os
from typing import Any, Final

from graveler.lake.clock import TABLE_GRACE
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import folder_of
from graveler.lake.iceberg.table_states import reader_in
from graveler.lake.objects.issued_addresses import NAMESPACES
from graveler.requests.iceberg import Identifier, TableChange
from graveler.retention.runs import LEASE
from graveler.sdk.iceberg_tables import Tables
from graveler.table_format.reached_files import reached_files
from tests.lake.iceberg.support import ORDERS, append, appended, with_table, write_file
from tests.lake.interleaving import Scheduler
from tests.lake.support import World
from tests.retention.support import collect, keys
from tests.retention.test_interleaved import Worker, what_can_be_done
from tests.retention.test_table_files import TABLE_AGE

SCHEDULES = int(os.environ.get("GRAVELER_SCHEDULES", "40")) // 10

BRANCHES = ("main", "dev")
COPY: Final = Identifier(("shop",), "copy")
OPERATIONS = {
    "committer": ("append", "append_waiting", "append_waiting", "stage", "stage", "merge"),
    "upkeep": (
        "expire",
        "expire_by_age",
        "roll_back",
        "roll_back",
        "shorten_log",
        "drop_table",
        "register",
        "copy",
        "rename",
    ),
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

    def _change(self, branch: str, *updates: dict[str, Any]) -> None:
        self.repository.commit_tables(branch, tables=(TableChange(ORDERS, (), updates),))

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
        self._change(branch, {"action": "remove-snapshots", "snapshot-ids": old})

    @what_can_be_done
    def expire_by_age(self, _: str) -> None:
        """Remove the snapshots that have expired, as the command does."""
        later = self.scheduler.world.clock.now() + 1
        Tables(self.repository, self._branch()).expire(str(ORDERS), older_than=later, keep_last=1)

    @what_can_be_done
    def roll_back(self, _: str) -> None:
        """Make the snapshot before the current one, and remove that."""
        branch = self._branch()
        document = CatalogReader(self.repository.parts, branch).load(ORDERS).document
        snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in document.get("snapshots", ())}
        current = document["current-snapshot-id"]
        parent = snapshots.get(current, {}).get("parent-snapshot-id")
        if parent in snapshots:
            reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": parent}
            self._change(branch, reference, {"action": "remove-snapshots", "snapshot-ids": [current]})

    @what_can_be_done
    def stage(self, message: str) -> None:
        """Add a snapshot to the table, which no ref of the table has, on any state of it."""
        parts, branch = self.repository.parts, self._branch()
        document = CatalogReader(parts, branch).load(ORDERS).document
        path = f"data/staged-{message}"
        parts.objects.put(f"{document['location'].removeprefix(parts.namespace + '/')}/{path}", b"rows")
        self._change(branch, appended(parts, document, path).updates[0])

    @what_can_be_done
    def shorten_log(self, _: str) -> None:
        update = {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "1"}}
        self._change(self._branch(), update)

    @what_can_be_done
    def drop_table(self, _: str) -> None:
        self.repository.drop_relation("dev", relation=ORDERS)

    @what_can_be_done
    def register(self, _: str) -> None:
        """Make the table of one branch that of the other one."""
        location = CatalogReader(self.repository.parts, "main").load(ORDERS).location
        self.repository.register_table("dev", table=ORDERS, location=location, overwrite=True)

    @what_can_be_done
    def copy(self, _: str) -> None:
        """Register the table under a second name."""
        branch = self._branch()
        location = CatalogReader(self.repository.parts, branch).load(ORDERS).location
        self.repository.register_table(branch, table=COPY, location=location)

    @what_can_be_done
    def rename(self, _: str) -> None:
        """Give the table the second name, and register it under its first one."""
        branch = self._branch()
        location = CatalogReader(self.repository.parts, branch).load(ORDERS).location
        self.repository.rename_relation(branch, relation=ORDERS, destination=COPY)
        self.repository.register_table(branch, table=ORDERS, location=location)

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
        entries = list(repository.objects(commit))
        linked = {entry.address.removeprefix(parts.namespace + "/") for entry in entries}
        paths = {entry.path for entry in entries}
        assert linked <= stored, linked - stored
        needed |= linked
        for table in Tables(repository, commit).list():
            folder = folder_of(parts, table.uuid, table.metadata["location"])
            reached = reached_files(table.metadata, reader_in(parts, folder))
            assert {folder.key_of(location) for location in reached} <= linked, (commit, table.name)
            assert {table.path_of(location) for location in reached} <= paths, (commit, table.name)
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
        assert keys(world, "tables/") == check_tables(world) | {NAMESPACES}
        assert not world.lake().fsck(world.main.repository.name).findings
    except BaseException as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


def test_no_file_of_a_commit_is_ever_missing() -> None:
    for seed in range(SCHEDULES):
        explore(seed)
