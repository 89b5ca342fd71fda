"""``python -m tests.functions.costs --write`` counts what verbs use, writes it down (``costs.json``), and makes the tables of
docs/deploy.md of it (:mod:`tests.functions.cost_table`).

Each verb is asked of its function, which runs from the built layer by Lambda's runtime client. Requests are counted on their way
to DynamoDB and S3, units by the sizes of the items in them; what the function computes is measured.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, Final

import msgspec

from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, Repository, SplitParameters
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.pinned_requests import MERGE
from graveler.operations.store import Operation
from graveler.requests.iceberg import Identifier
from graveler.storage.objects.s3 import S3Objects, S3Settings
from infra import prices
from tests.functions.cost_table import COUNTED, Costs, Used, table, transitions, write
from tests.functions.events import event
from tests.functions.runtime import Started
from tests.functions.served import NAME, Served, serving
from tests.lake.iceberg.support import SCHEMA, appended, creation_of
from tests.lake.support import NAMESPACE, World
from tests.storage.adapters import make_bucket
from tests.support.capacity import Units, units_of
from tests.support.pinned import pinned_merge
from tests.support.servers import REGION, s3proxy

OBJECTS: Final = 50_000
PART_RECORDS: Final = 20_000
LARGE: Final = 20_000
"""Changes of a commit that tells what each further one costs."""
_ROUNDS: Final = 20
"""How often a verb that changes nothing is asked, for the time that it takes."""
_TABLES: Final = 100
_BATCH: Final = 480
"""Events that the function of ingest gets at once: ``infra.ingest.BATCH``."""
_YOUNG: Final = "2100-01-31T14:05:06Z"
"""A time of events that are younger than any rule, as those of a rule that has been there for a while: no bucket is asked."""
_QUEUE_BATCH: Final = 10
"""Messages that Lambda takes from a queue or deletes, or that the function hides while it works, in one request."""


class Meter:
    """Counts what functions ask of the two servers, as the servers answer it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._lock = Lock()
        self._units: list[Units] = []
        self._requests: Counter[str] = Counter()
        tables, objects = served.proxies
        tables.answered, objects.answered = self._of_table, self._of_store

    def measure(self, function: Started, asked: dict[str, Any], *, rounds: int = 1) -> Used:
        """One verb; with ``rounds``, its share of so many. (That the key is looked at again now and then is nobody's share.)"""
        answers, used = self.measure_all(function, [asked] * rounds)
        assert all(answer["statusCode"] in (200, 201) for answer in answers), answers
        counts = {name: getattr(used, name) // rounds for name in used.__struct_fields__}
        return Used(**{**counts, "cpu": used.cpu / rounds})

    def measure_all(self, function: Started, asked: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], Used]:
        """Several events, one after the other: the answers, and what they used together."""
        with self._lock:
            self._units.clear()
            self._requests.clear()
        before = function.cpu_seconds()
        answers = [function.invoke(each) for each in asked]
        cpu = function.cpu_seconds() - before
        with self._lock:
            requests = Counter(self._requests)
            gets = requests.pop("GET", 0) + requests.pop("HEAD", 0)
            puts = requests.pop("PUT", 0) + requests.pop("LIST", 0)
            return answers, Used(
                read_units=sum(units.read for units in self._units),
                write_units=sum(units.write for units in self._units),
                table_requests=sum(requests.values()),
                gets=gets,
                puts=puts,
                cpu=round(cpu, 3),
                invocations=len(asked),
                requests=sum(_metered(answer) for answer in answers),
            )

    def _of_table(self, operation: str, request: bytes, answer: bytes) -> None:
        with self._lock:
            self._requests[operation] += 1
            self._units.append(units_of(operation, request, answer))

    def _of_store(self, operation: str, _: bytes, __: bytes) -> None:
        with self._lock:
            self._requests[operation] += 1


def _metered(answer: dict[str, Any]) -> int:
    """As how many requests the gateway counts one with this answer."""
    return max(1, -(-len(answer.get("body", "")) // prices.HTTP_METERED))


@contextmanager
def counting(folder: Path, objects: int) -> Iterator[tuple[Served, Meter, OpenRepository]]:
    """Functions on a lake of so many objects, all on ``main``, until the end of the block."""
    with serving(folder) as served:
        repository = served.lake.repository(NAME)
        repository.link_many("main", [_imported(number) for number in range(objects)])
        repository.commit("main", "all")
        yield served, Meter(served), repository


def costs(folder: Path) -> Costs:
    """Asked functions, and count."""
    with counting(folder, OBJECTS) as (served, meter, repository):
        found = {
            **of_requests(served, meter, repository),
            **_of_commits(served, meter, repository),
            "ingest of an object that lands": _of_ingest(served, meter, repository),
        }
        large = _of_commit(served, meter, repository, LARGE)
        thousand = found["commit of 1,000 changes"]
        parts, long_merge = _of_a_long_merge(served, meter, repository)
        return Costs(
            verbs=found,
            objects=OBJECTS,
            a_range=OBJECTS // len(repository.tree("main")),
            change_cpu=(large.cpu - thousand.cpu) / (LARGE - 1000),
            long_merge=long_merge,
            parts=parts,
            part_records=PART_RECORDS,
            imported_bytes=_bytes_per_object(uploaded=False),
            uploaded_bytes=_bytes_per_object(uploaded=True),
        )


def of_requests(served: Served, meter: Meter, repository: OpenRepository) -> dict[str, Used]:
    """Verbs that are as dear in any lake, however large: looking, linking, a commit and a merge of one change."""
    found: dict[str, Used] = {}
    look = served.asked("GET", "/refs/main/objects/stat", query=f"path={_path(7)}")
    with served.function("read") as read:
        _warm(served, read)
        found["stat, nothing in the cache"] = meter.measure(read, look)
        found["stat, tree in the cache"] = meter.measure(read, look, rounds=_ROUNDS)
        page = served.asked("GET", "/refs/main/objects/ls", query="amount=1000")
        read.invoke(page)
        found["list, a page of 1,000"] = meter.measure(read, page, rounds=_ROUNDS)
    with served.function("write") as write_:
        body = {"physical_address": "s3://raw/a", "checksum": "0" * 32, "size_bytes": 1}
        link = served.asked("PUT", "/branches/main/objects", query="path=linked", body=body)
        _warm(served, write_)
        write_.invoke(link)
        found["link of an object"] = meter.measure(write_, link, rounds=_ROUNDS)
    repository.reset("main")
    found["commit of 1 change"] = _of_commit(served, meter, repository, 1)
    repository.create_branch("dev", "main")
    repository.link("dev", _imported(3, "on dev"))
    repository.commit("dev", "on dev")
    with served.function("merge") as function:
        _warm(served, function)
        merge = served.asked("POST", "/refs/dev/merge/main", body={"message": "merged"})
        found["merge of a branch with 1 change"] = meter.measure(function, merge)
    return {**found, **of_tables(served, meter, repository)}


def of_tables(served: Served, meter: Meter, repository: OpenRepository) -> dict[str, Used]:
    """Verbs of the catalog of Iceberg tables, in a process that knows the branch."""

    def asked(method: str, path: str, body: Any = None, *, warehouse: str = NAME) -> dict[str, Any]:
        return event(method, f"/iceberg/v1/{warehouse}/main/{path}", body=body, authorization=served.authorization)

    warm = served.lake.create_repository("warm", f"{served.environment['GRAVELER_OBJECTS']}/warm")
    for opened in (warm, repository):
        opened.create_namespace("main", namespace=("shop",))
        opened.commit_tables(
            "main", tables=[creation_of(Identifier(("shop",), f"t{number}")) for number in range(_TABLES)]
        )
    tables, table = "namespaces/shop/tables", "namespaces/shop/tables/t0"
    properties = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    definition = {"name": "new", "schema": SCHEMA}
    with served.function("catalog") as function:

        def append(opened: OpenRepository) -> dict[str, Any]:
            """The commit of a client that has written a data file, a manifest and a list of manifests."""
            parts = opened.parts
            document = CatalogReader(parts, "main").load(Identifier(("shop",), "t0")).document
            parts.objects.put(f"{document['location'].removeprefix(f'{parts.namespace}/')}/data/a", b"rows")
            change = appended(parts, document, "data/a")
            body = {"requirements": change.requirements, "updates": change.updates}
            return asked("POST", table, body, warehouse=opened.repository.name)

        for name, opened in (("warm", warm), (NAME, repository)):
            load = meter.measure(function, asked("GET", table, warehouse=name))
            loads = meter.measure(function, asked("GET", table, warehouse=name), rounds=_ROUNDS)
            page = meter.measure(function, asked("GET", tables, warehouse=name), rounds=_ROUNDS)
            change = meter.measure(function, asked("POST", table, properties, warehouse=name))
            addition = meter.measure(function, append(opened))
            creation = meter.measure(function, asked("POST", tables, definition, warehouse=name))
    return {
        "load of an Iceberg table, nothing in the cache": load,
        "load of an Iceberg table, tree in the cache": loads,
        f"list of {_TABLES} Iceberg tables": page,
        "commit of an Iceberg table's properties": change,
        "commit of a file that was appended to an Iceberg table": addition,
        "creation of an Iceberg table": creation,
    }


def _of_commits(served: Served, meter: Meter, repository: OpenRepository) -> dict[str, Used]:
    return {"commit of 1,000 changes": _of_commit(served, meter, repository, 1000)}


def _of_commit(served: Served, meter: Meter, repository: OpenRepository, amount: int) -> Used:
    repository.link_many("main", [_imported(number, f"changed {amount}") for number in range(amount)])
    with served.function("commit") as function:
        _warm(served, function)
        return meter.measure(function, served.asked("POST", "/branches/main/commits", body={"message": "m"}))


def _of_ingest(served: Served, meter: Meter, repository: OpenRepository) -> Used:
    """Of one object's event, in a full batch."""
    settings = S3Settings(REGION, s3proxy())
    bucket = f"landing-{token_hex(6)}"
    make_bucket(bucket, settings)
    rules = RuleStore(served.lake.tables)
    policy = CommitPolicy(objects=1_000_000)
    rules.add(served.lake, NAME, Rule("landing", f"s3://{bucket}/", "main", "landed/", commit=policy))
    store = S3Objects(bucket, "", settings)

    def batch(first: int) -> dict[str, Any]:
        records = []
        for number in range(first, first + _BATCH):
            etag = store.put(_path(number), b"x").etag
            landed = {"key": _path(number), "size": 1, "etag": etag, "sequencer": f"{number:016X}"}
            detail = {"bucket": {"name": bucket}, "object": landed}
            body = {"detail-type": "Object Created", "time": _YOUNG, "detail": detail}
            records.append({"messageId": str(number), "body": msgspec.json.encode(body).decode()})
        return {"Records": records}

    with served.function("ingest") as function:
        function.invoke(batch(0))
        asked = batch(_BATCH)
        answers, used = meter.measure_all(function, [asked])
    assert answers == [{"batchItemFailures": []}]
    repository.reset("main")
    share = used * (1 / _BATCH)
    return msgspec.structs.replace(share, requests=0, events=1, queue_requests=1 + 3 / _QUEUE_BATCH)


class _Nobody:
    """Its steps are taken here."""

    def begin(self, repository: str, operation: Operation) -> None:
        """Nothing."""


def _of_a_long_merge(served: Served, meter: Meter, repository: OpenRepository) -> tuple[int, Used]:
    """Of two branches of which each has changed a tenth of the objects, all over: how many parts it had, and what it used."""
    repository.create_branch("left", "main")
    repository.create_branch("right", "main")
    for first, branch in ((0, "left"), (5, "right")):
        repository.link_many(branch, [_imported(number, branch) for number in range(first, OBJECTS, 10)])
        repository.commit(branch, branch)
    small = served.lake.create_repository("small", f"{served.environment['GRAVELER_OBJECTS']}/small")
    for branch in ("right", "left"):
        small.create_branch(branch, "main")
        small.link(branch, _imported(0 if branch == "left" else 1))
        small.commit(branch, branch)
    smaller = msgspec.structs.replace(
        served, environment={**served.environment, "GRAVELER_PART_RECORDS": str(PART_RECORDS)}
    )
    with smaller.function("operate") as function:
        _merged_in_parts(served, meter, function, small)
        parts, used = _merged_in_parts(served, meter, function, repository)
    assert repository.stat("right@", _path(10)).checksum == _imported(10, "left").checksum
    return parts, msgspec.structs.replace(used, requests=1, transitions=transitions(parts))


def _merged_in_parts(served: Served, meter: Meter, function: Started, repository: OpenRepository) -> tuple[int, Used]:
    source = repository.branch("left").commit_id
    ask = pinned_merge(source="left", source_id=source, destination="right", message="merged")
    starter = Dispatcher(served.lake.tables, {MERGE: _Nobody()})
    operation = starter.start(repository, MERGE, msgspec.json.encode(ask))
    named: Repository = repository.repository
    ids = {"repository": named.name, "operation": operation.id, "attempt": operation.attempt, "round": 0}
    (planned,), used = meter.measure_all(function, [{"step": "plan", **ids}])
    assert planned["state"] == "parts", planned
    steps = [{"step": "part", "number": number, **ids} for number in planned["numbers"]]
    answers, more = meter.measure_all(function, [*steps, {"step": "publish", **ids}])
    assert answers[-1]["state"] == "ended", answers
    return len(steps), used + more


def _warm(served: Served, function: Started) -> None:
    """Have a function do once in another repository what is measured: so it has its clients, and knows the key."""
    name = f"warm-{token_hex(4)}"
    repository = served.lake.create_repository(name, f"{served.environment['GRAVELER_OBJECTS']}/{name}")
    for number, branch in enumerate(("main", "dev", "main")):
        if branch == "dev":
            repository.create_branch(branch, "main")
        repository.link(branch, _imported(number))
        if number < 2:
            repository.commit(branch, "m")
    for method, path, body in (
        ("POST", "branches/main/commits", {"message": "m"}),
        ("POST", "refs/dev/merge/main", {"message": "m"}),
        ("GET", "refs/main/objects/ls", None),
    ):
        asked = event(method, f"/api/v1/repositories/{name}/{path}", body=body, authorization=served.authorization)
        assert function.invoke(asked)["statusCode"] in (200, 201)


def _bytes_per_object(*, uploaded: bool) -> float:
    world = World(SplitParameters())

    def entry(number: int) -> ObjectEntry:
        made = _imported(number)
        if not uploaded:
            return made
        name = world.main.parts.names.new("main", made.path, world.clock.now() + number / 100)
        return msgspec.structs.replace(made, address=f"{NAMESPACE}/{name}")

    world.main.link_many("main", [entry(number) for number in range(OBJECTS)])
    world.main.commit("main", "all")
    return sum(stored.size for stored in world.objects().list("_graveler/ranges/")) / OBJECTS


def _path(number: int) -> str:
    return f"events/day={number % 365:03}/part-{number:08}.parquet"


def _imported(number: int, version: str = "1") -> ObjectEntry:
    """An object where it lies. Digests and sizes are as hard to compress as real ones; without that, a range is far smaller."""
    path = _path(number)
    digest = md5(f"{path} {version}".encode(), usedforsecurity=False)
    size = int.from_bytes(digest.digest()[:3])
    return ObjectEntry(path, f"s3://raw/{path}", size, digest.hexdigest(), 1_700_000_000 + number)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        made = costs(Path(temporary))
    if "--write" in sys.argv[1:]:
        COUNTED.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
        write(made)
    else:
        sys.stdout.write(table(made))
