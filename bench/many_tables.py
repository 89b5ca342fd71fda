"""Rows of ``python -m bench.iceberg`` for branches with many tables: committers at once, and a namespace of ten thousand; and
commits of many files."""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from threading import Barrier, Thread

from bench import servers
from bench.lines import Goal, Line, show
from bench.rows import REPOSITORY
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.requests.iceberg import Document, Identifier, TableChange
from graveler.table_format.manifest_lists import write_manifest_list
from graveler.table_format.manifests import entry_from, write_manifest

NAMESPACE = ("shop",)
DEFINITION: Document = {
    "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
}
PAGE = 1000
Commit = Callable[[int, int], None]
"""Commits the n-th change of a table."""


def committers(folder: Path, number: int, each: int) -> list[Line]:
    """Committers at once, each of a table of its own, on one branch: in the library, and through one server."""
    repository = with_tables(folder / "library", number)
    lines = [line_of("library", number, each, lambda table, change: commit_property(repository, table, change))]
    place = folder / "served"
    with_tables(place, number)
    with servers.graveler(["--lake", str(place)], 1, source=f"{folder.as_uri()}/") as server:
        credential = b64encode(f"{servers.KEY_ID}:{servers.SECRET}".encode()).decode()
        connections = [HTTPConnection("127.0.0.1", server.port, timeout=600) for _ in range(number)]

        def commit(table: int, change: int) -> None:
            body = json.dumps({"requirements": [], "updates": [property_update(change)]})
            path = f"/iceberg/v1/{REPOSITORY}/main/namespaces/shop/tables/t{table}"
            head = {"Content-Type": "application/json", "Authorization": f"Basic {credential}"}
            connections[table].request("POST", path, body, head)
            response = connections[table].getresponse()
            answer = response.read()
            if response.status != 200:
                raise RuntimeError(f"answered {response.status}: {answer.decode()}")

        lines.append(line_of("one server", number, each, commit))
        for connection in connections:
            connection.close()
    return lines


def line_of(what: str, number: int, each: int, commit: Commit) -> Line:
    """Measure committers at once."""
    seconds: list[list[float]] = [[] for _ in range(number)]
    refusals: list[str] = []
    barrier = Barrier(number + 1)

    def work(table: int) -> None:
        barrier.wait()
        for change in range(each):
            began = time.perf_counter()
            try:
                commit(table, change)
            except Exception as error:  # noqa: BLE001 - each one counts
                refusals.append(repr(error))
            seconds[table].append(time.perf_counter() - began)

    threads = [Thread(target=work, args=(table,)) for table in range(number)]
    for thread in threads:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    totals = sorted(map(sum, seconds))
    goals = (
        Goal("commits a second", number * each / took, 60, least=True),
        Goal("refusals", len(refusals), 0),
        Goal("slowest ÷ median committer", totals[-1] / median(totals), 2),
    )
    of_one = [second for worker_seconds in seconds for second in worker_seconds]
    return Line(
        f"{number} committers on {number} tables of one branch, {what}",
        show(median(of_one)),
        rate=f"{number * each / took:,.0f}",
        spread=f"to {show(max(of_one))}",
        goals=goals,
        notes=refusals[0] if refusals else "",
    )


def many_tables(folder: Path, number: int, repeat: int) -> list[Line]:
    """A namespace of many tables, beside one with a single table."""
    many, single = with_tables(folder / "many", number), with_tables(folder / "single", 1)

    def page(repository: OpenRepository) -> None:
        relations = CatalogReader(repository.parts, "main").relations(NAMESPACE, "table", amount=PAGE)
        assert len(relations.results) == min(PAGE, number)

    def load(repository: OpenRepository) -> None:
        CatalogReader(repository.parts, "main").load(table_name(0))

    lines = []
    seconds = median(timed(repeat, [lambda _: page(many)])[0])
    lines.append(
        Line(
            f"page of {PAGE:,} of {number:,} tables",
            show(seconds),
            rate=f"{1 / seconds:,.0f}",
            goals=(Goal("seconds", seconds, 0.02),),
        )
    )
    calls: dict[str, Callable[[OpenRepository, int], None]] = {
        "load": lambda repository, _: load(repository),
        "commit a property": lambda repository, change: commit_property(repository, 0, change),
    }
    for what, call in calls.items():
        times = timed(repeat, [lambda change, call=call, of=of: call(of, change) for of in (many, single)])  # type: ignore[misc]
        seconds, alone = map(median, times)
        goals = (Goal("time ÷ that with one table", seconds / alone, 1.5),)
        lines.append(
            Line(
                f"{what}, one of {number:,} tables",
                show(seconds),
                rate=f"{1 / seconds:,.0f}",
                beside=f"one table: {show(alone)}",
                goals=goals,
            )
        )
    return lines


def many_files(folder: Path, number: int, repeat: int) -> list[Line]:
    """Commits of many files, beside commits of one."""
    repository = with_tables(folder / "files", 2)
    changes = [
        [written(repository, table, files, f"{table}-{turn}") for turn in range(repeat)]
        for table, files in enumerate((number, 1))
    ]

    def commit(table: int, turn: int) -> None:
        repository.commit_tables("main", tables=(changes[table][turn],))

    times = timed(repeat, [lambda turn, table=table: commit(table, turn) for table in (0, 1)])  # type: ignore[misc]
    seconds, alone = map(median, times)
    each = (seconds - alone) / (number - 1)
    return [
        Line(
            f"commit of {number:,} new files",
            show(seconds),
            rate=f"{number / seconds:,.0f} files",
            beside=f"one file: {show(alone)}",
            goals=(Goal("µs a file", each * 1e6, 80),),
        )
    ]


def timed(repeat: int, works: Sequence[Callable[[int], None]]) -> list[list[float]]:
    """Return the seconds of each call of several works, by turns."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(repeat):
        for work, seconds in zip(works, times, strict=True):
            began = time.perf_counter()
            work(turn)
            seconds.append(time.perf_counter() - began)
    return times


def with_tables(place: Path, number: int) -> OpenRepository:
    """Return a repository with tables ``shop.t0``, ``shop.t1``, … on main. Takes a written file for each."""
    lake = create_folder_lake(place)
    repository = lake.create_repository(REPOSITORY, f"local://{REPOSITORY}")
    repository.create_namespace("main", namespace=NAMESPACE)
    for first in range(0, number, PAGE):
        names = [table_name(table) for table in range(first, min(number, first + PAGE))]
        repository.commit_tables("main", tables=tuple(creation(name) for name in names))
    return repository


def creation(table: Identifier) -> TableChange:
    """Return the change that creates a table."""
    schema = {**DEFINITION["schema"], "schema-id": 0}
    updates = (
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    return TableChange(table, ({"type": "assert-create"},), updates)


def table_name(number: int) -> Identifier:
    """Return the name of a table."""
    return Identifier(NAMESPACE, f"t{number}")


def property_update(change: int) -> Document:
    """Return the update of a property."""
    return {"action": "set-properties", "updates": {"number": str(change)}}


def commit_property(repository: OpenRepository, table: int, change: int) -> None:
    """Commit a property of a table."""
    repository.commit_tables("main", tables=(TableChange(table_name(table), (), (property_update(change),)),))


def written(repository: OpenRepository, table: int, number: int, name: str) -> TableChange:
    """Write new files of a table with their manifest and list, and return the change that makes them its snapshot."""
    document = CatalogReader(repository.parts, "main").load(table_name(table)).document
    objects, location = repository.parts.objects, document["location"]
    key = location[location.index("tables/") :]
    snapshot_id = abs(hash(name))
    entries = []
    for file in range(number):
        objects.put(f"{key}/data/{name}-{file}.parquet", b"rows")
        data_file = {
            "path": f"{location}/data/{name}-{file}.parquet",
            "format": "PARQUET",
            "partition": (),
            "record_count": 1,
            "size": 4,
        }
        fields = {"status": 1, "snapshot_id": snapshot_id, "sequence_number": None, "file_sequence_number": None}
        entries.append(entry_from({**fields, "data_file": data_file}, 0))
    path = f"metadata/{name}"
    contents, manifest = write_manifest(
        entries,
        f"{location}/{path}-m0.avro",
        schema=document["schemas"][0],
        spec=document["partition-specs"][0],
        format_version=2,
        content=0,
        snapshot_id=snapshot_id,
        sequence_number=1,
    )
    objects.put(f"{key}/{path}-m0.avro", contents)
    objects.put(
        f"{key}/{path}.avro",
        write_manifest_list(
            [manifest], format_version=2, snapshot_id=snapshot_id, parent_snapshot_id=None, sequence_number=1
        ),
    )
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": 1_000_000 + int(name.rpartition("-")[2]),
        "timestamp-ms": document["last-updated-ms"] + 1,
        "manifest-list": f"{location}/{path}.avro",
        "summary": {"operation": "overwrite"},
        "schema-id": 0,
    }
    reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    return TableChange(table_name(table), (), ({"action": "add-snapshot", "snapshot": snapshot}, reference))
