"""Processes that work on one branch of one lake until they are told to stop or killed.

Run as ``python -m tests.lake.fleet <role> <lake> <journal> <name> <seconds>``. The journal gets a line before each write
(``try``) and one when it was acknowledged (``done``); each reaches the file before the next step, so a killed process has
told what was acknowledged to it.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from graveler.errors import (
    BusyError,
    DirtyBranchError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
)
from graveler.lake.clock import Clock, SystemClock
from graveler.lake.importing.importer import ImportSource
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.lake.opening.folder import open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, MergeStrategy, ObjectEntry
from graveler.storage.objects.s3 import S3Settings
from tests.support.servers import REGION

NAME = "repo"
KEYS = 12
"""Keys of each writer: each is written by one process, in ascending order of values."""
SET = 5
"""Keys of each setter: it gives all of them the same value, in one merge or import."""


class AwsPlace(Struct, frozen=True):
    """A lake on servers that speak like AWS."""

    objects: str
    tables: str
    s3_url: str
    dynamodb_url: str


class OffClock(SystemClock):
    """A machine whose wall clock is minutes before or after the others'; not more, since the clean-up compares their times."""

    def __init__(self, random: Random) -> None:
        self._ahead = random.choice((-300.0, 0.0, 300.0))

    def now(self) -> float:
        return super().now() + self._ahead


def open_place(place: str, clock: Clock | None = None) -> Lake:
    """The lake in a folder, or at an :class:`AwsPlace` written as JSON."""
    if not place.startswith("{"):
        return open_folder_lake(Path(place), clock=clock)
    at = msgspec.json.decode(place, type=AwsPlace)
    return open_lake(
        at.objects,
        at.tables,
        s3=S3Settings(REGION, at.s3_url),
        region=REGION,
        dynamodb_endpoint_url=at.dynamodb_url,
        clock=clock,
    )


def main(role: str, lake: str, journal: str, name: str, seconds: str) -> None:
    random = Random(f"{name}{os.getpid()}")
    repository = open_place(lake, OffClock(random)).repository(NAME)
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(*words: object) -> None:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())

    end = time.monotonic() + float(seconds)
    # A restarted process goes on above all values that it may have used.
    number = time.time_ns()
    while time.monotonic() < end:
        number += 1
        try:
            ROLES[role](repository, name, number, random, tell)
        except (BusyError, DirtyBranchError, MergeConflictError, NoChangesError) as error:
            tell("refused", type(error).__name__)
            time.sleep(0.01)


def write(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    if time.time() % 2 < 0.5:
        time.sleep(0.05)  # all writers rest at once, or no merge would ever find the branch without uncommitted changes
        return
    key = f"{name}/{random.randrange(KEYS):02}"
    value = 0 if random.random() < 0.2 else number
    tell("try", key, number, value)
    if value:
        repository.link("main", ObjectEntry(key, f"mem://o/{value}", value, f"{value:032x}", 0))
    else:
        repository.delete("main", [key])
    tell("done", key, number, value, time.monotonic_ns())


def commit(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    message = f"{name}-{number}"
    tell("commit", message)
    made = repository.commit("main", message, request_id=message)
    tell("committed", message, made.id)
    time.sleep(random.uniform(0, 0.05))


def merge(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    key = f"{name}/{number % KEYS:02}"
    repository.link("side", ObjectEntry(key, f"mem://o/{number}", number, f"{number:032x}", 0))
    repository.commit("side", f"{name}-side-{number}")
    for _ in range(20):
        try:
            tell("commit", f"{name}-{number}")
            repository.merge("side", "main", message=f"{name}-{number}", strategy=MergeStrategy.SOURCE_WINS)
            tell("done", key, number, number)
            return
        except DirtyBranchError:
            time.sleep(random.uniform(0, 0.02))


def set_by_merge(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    """Give all keys of a set one value, on a branch of its own, and merge that."""
    repository.link_many(name, entries_of_set(name, number))
    repository.commit(name, f"{name}-side-{number}")
    set_on_main(
        name,
        number,
        random,
        tell,
        lambda message: repository.merge(
            name, "main", message=message, strategy=MergeStrategy.SOURCE_WINS, request_id=message
        ),
    )


def set_by_import(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    """Give all keys of a set one value by an import."""
    records = [(entry.path.encode(), repository.codec.encode(entry)) for entry in entries_of_set(name, number)]
    source = ImportSource(f"{name}/".encode(), True, lambda: iter(records))
    set_on_main(
        name,
        number,
        random,
        tell,
        lambda message: repository.import_sources("main", [source], message, request_id=message),
    )


def entries_of_set(name: str, number: int) -> list[ObjectEntry]:
    return [ObjectEntry(f"{name}/{at}", f"mem://o/{number}", number, f"{number:032x}", 0) for at in range(SET)]


def set_on_main(name: str, number: int, random: Random, tell, land: Callable[[str], Commit]) -> None:  # type: ignore[no-untyped-def]
    message = f"{name}-{number}"
    tell("commit", message)
    for _ in range(50):
        try:
            made = land(message)
        except DirtyBranchError:
            time.sleep(random.uniform(0, 0.05))
            continue
        tell("committed", message, made.id)
        for at in range(SET):
            tell("done", f"{name}/{at}", number, number)
        return


def check_sets(repository: OpenRepository, ref: str, tell) -> None:  # type: ignore[no-untyped-def]
    """Each set shows one value in all of its keys, or is not there yet; a listing of one page is one request."""
    for name in SETTERS:
        page = repository.list_objects(ref, prefix=f"{name}/").results
        values = {item.size for item in page if isinstance(item, ObjectEntry)}
        if page and (len(page) != SET or len(values) != 1):
            tell("wrong", ref, "shows", name, "half", *sorted(values))
        tell("whole", name, *values)


def read(repository: OpenRepository, name: str, number: int, random: Random, tell) -> None:  # type: ignore[no-untyped-def]
    """What a key had, and when the question was asked (monotonic time is the machine's); a commit never changes."""
    for _ in range(20):
        key = f"writer{random.randrange(2)}/{random.randrange(KEYS):02}"
        began = time.monotonic_ns()
        try:
            value = repository.stat("main", key).size
        except ObjectNotFoundError:
            value = 0
        tell("saw", key, value, began)
    check_sets(repository, "main", tell)
    head = repository.branch("main").commit_id
    check_sets(repository, head, tell)
    counts = [len(list(repository.objects(head))) for _ in range(2)]
    if counts[0] != counts[1]:
        tell("wrong", head, "has", *counts, "objects")


ROLES = {
    "writer": write,
    "committer": commit,
    "merger": merge,
    "setter": set_by_merge,
    "importer": set_by_import,
    "reader": read,
}
SETTERS = ("setter0", "importer0")
"""Processes whose keys are a set."""

if __name__ == "__main__":
    main(*sys.argv[1:])
