"""``python -m tests.functions.costs --write`` puts the tables of costs into docs/deploy.md, at the prices of infra/prices.py.

Each verb is asked of its function, which runs from the built layer by Lambda's runtime client. Requests are counted on their way
to DynamoDB and S3, units by the sizes of the items in them; what the function computes is measured. How long it waits is not
known here, so that is an assumption: :data:`TABLE_SECONDS` and :data:`STORE_SECONDS` for each request, one after the other.
"""

import sys
import tempfile
from collections import Counter
from hashlib import md5
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any, Final

import msgspec

from graveler.model import ObjectEntry, SplitParameters
from infra import prices
from tests.functions.events import event
from tests.functions.runtime import Started
from tests.functions.served import NAME, Served, serving
from tests.infra.tools import ROOT
from tests.lake.support import NAMESPACE, World
from tests.support.capacity import Units, units_of

DOCUMENT: Final = ROOT / "docs" / "deploy.md"
BEGIN: Final = "<!-- costs: made by `python -m tests.functions.costs --write` -->\n"
END: Final = "<!-- end of costs -->\n"

TABLE_SECONDS: Final = 0.005
STORE_SECONDS: Final = 0.03

_OBJECTS: Final = 50_000
_MEMORY_GB: Final = 1769 / 1024
_LOG_BYTES: Final = 1500
"""Of a request: its line of the gateway's log, its figures, and what Lambda writes about it."""
_ROUNDS: Final = 20
"""How often a verb that changes nothing is asked, for the time that it takes."""


class Used(msgspec.Struct, frozen=True):
    """What one verb uses: DynamoDB's units, requests to it and to S3, seconds of a core in a function."""

    read_units: float
    write_units: float
    table_requests: int
    gets: int
    puts: int
    cpu: float

    @property
    def seconds(self) -> float:
        """That the function is paid for: what it computes, and what it is assumed to wait."""
        return self.cpu + self.table_requests * TABLE_SECONDS + (self.gets + self.puts) * STORE_SECONDS

    @property
    def dollars(self) -> float:
        """What it costs, the gateway and the log included."""
        served = (
            prices.HTTP_REQUEST
            + prices.INVOCATION
            + self.seconds * _MEMORY_GB * prices.GB_SECOND
            + _LOG_BYTES / 1e9 * prices.LOG_GB
        )
        return (
            self.read_units * prices.READ_UNIT
            + self.write_units * prices.WRITE_UNIT
            + self.gets * prices.S3_GET
            + self.puts * prices.S3_PUT
            + served
        )


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
        """One verb; with ``rounds``, its share of so many."""
        with self._lock:
            self._units.clear()
            self._requests.clear()
        before = function.cpu_seconds()
        for _ in range(rounds):
            answer = function.invoke(asked)
            assert answer["statusCode"] in (200, 201), answer
        cpu = (function.cpu_seconds() - before) / rounds
        requests = {name: number / rounds for name, number in self._requests.items()}
        gets = requests.pop("GET", 0) + requests.pop("HEAD", 0)
        puts = requests.pop("PUT", 0) + requests.pop("LIST", 0)
        return Used(
            sum(units.read for units in self._units) / rounds,
            sum(units.write for units in self._units) / rounds,
            round(sum(requests.values())),
            round(gets),
            round(puts),
            cpu,
        )

    def _of_table(self, operation: str, request: bytes, answer: bytes) -> None:
        with self._lock:
            self._requests[operation] += 1
            self._units.append(units_of(operation, request, answer))

    def _of_store(self, operation: str, _: bytes, __: bytes) -> None:
        with self._lock:
            self._requests[operation] += 1


class Costs(msgspec.Struct, frozen=True):
    """Of the verbs, and how many objects a range has."""

    verbs: dict[str, Used]
    a_range: int


def costs(folder: Path) -> Costs:
    """Ask functions, and count."""
    with serving(folder) as served:
        meter = Meter(served)
        repository = served.lake.repository(NAME)
        repository.link_many("main", [_imported(number) for number in range(_OBJECTS)])
        repository.commit("main", "all")
        found: dict[str, Used] = {}
        look = served.asked("GET", "/refs/main/objects/stat", query=f"path={_path(7)}")
        with served.function("read") as read:
            _warm(served, read)
            found["stat, nothing in the cache"] = meter.measure(read, look)
            found["stat, tree in the cache"] = meter.measure(read, look, rounds=_ROUNDS)
            page = served.asked("GET", "/refs/main/objects/ls", query="amount=1000")
            read.invoke(page)
            found["list, a page of 1,000"] = meter.measure(read, page, rounds=_ROUNDS)
        with served.function("write") as write:
            body = {"physical_address": "s3://raw/a", "checksum": "0" * 32, "size_bytes": 1}
            link = served.asked("PUT", "/branches/main/objects", query="path=linked", body=body)
            _warm(served, write)
            write.invoke(link)
            found["link of an object"] = meter.measure(write, link, rounds=_ROUNDS)
        repository.reset("main")
        for amount in (1, 1000):
            repository.link_many("main", [_imported(number, f"changed {amount}") for number in range(amount)])
            with served.function("commit") as function:
                _warm(served, function)
                changes = served.asked("POST", "/branches/main/commits", body={"message": "m"})
                found[f"commit of {amount:,} change{'s' * (amount > 1)}"] = meter.measure(function, changes)
        repository.create_branch("dev", "main")
        repository.link("dev", _imported(3, "on dev"))
        repository.commit("dev", "on dev")
        with served.function("merge") as function:
            _warm(served, function)
            merge = served.asked("POST", "/refs/dev/merge/main", body={"message": "merged"})
            found["merge of a branch with 1 change"] = meter.measure(function, merge)
        return Costs(found, _OBJECTS // len(repository.tree("main")))


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


def table(measured: Costs) -> str:
    """The tables of the document, in Markdown."""
    one = measured.verbs["commit of 1 change"]
    touched = 1_000_000 // measured.a_range
    thousand = measured.verbs["commit of 1,000 changes"]
    each = (thousand.read_units - one.read_units) / 999
    million = Used(
        round(one.read_units + 1e6 * each),
        one.write_units,
        round(one.table_requests + 1e6 * each * 4096 / (1 << 20)),
        one.gets + touched,
        one.puts + touched,
        (thousand.cpu - one.cpu) * 1000,
    )
    rows = [
        *((f"1,000,000 × {name}", measured.verbs[name], 1e6) for name in measured.verbs if name[0] in "sl"),
        *((name, used, 1.0) for name, used in measured.verbs.items() if name[0] in "cm"),
        ("commit of 1,000,000 neighbours (estimate)", million, 1.0),
    ]
    lines = [
        f"Prices of {prices.DATE}.",
        "",
        "| what | read units | write units | S3 reads | S3 writes | of a core | US dollars |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {what} | {round(used.read_units, 1):g} | {round(used.write_units, 1):g} | {used.gets} | {used.puts} "
        f"| {_time(used.cpu)} | {_money(used.dollars * times)} |"
        for what, used, times in rows
    ]
    clean = 1_000_000 * (each * prices.READ_UNIT + prices.WRITE_UNIT)
    lines += [
        "",
        f"All but the dollars are of one verb. The clean-up of 1,000,000 staged changes: {_money(clean)}.",
        "",
    ]
    lines += ["| at rest | in ranges | US dollars a month |", "|---|---|---|"]
    for kind, size in (("imported", _bytes_per_object(uploaded=False)), ("uploaded", _bytes_per_object(uploaded=True))):
        for amount in (1_000_000, 1_000_000_000):
            gigabytes = amount * size / 1e9
            what = f"{amount:,} {kind} objects, {size:.0f} B each"
            lines.append(f"| {what} | {gigabytes:.2f} GB | {_money(gigabytes * prices.S3_GB_MONTH)} |")
    return "\n".join(lines) + "\n"


def _bytes_per_object(*, uploaded: bool) -> float:
    world = World(SplitParameters())

    def entry(number: int) -> ObjectEntry:
        made = _imported(number)
        if not uploaded:
            return made
        name = world.main._names.new("main", made.path, world.clock.now() + number / 100)
        return msgspec.structs.replace(made, address=f"{NAMESPACE}/{name}")

    world.main.link_many("main", [entry(number) for number in range(_OBJECTS)])
    world.main.commit("main", "all")
    return sum(stored.size for stored in world.objects().list("_graveler/ranges/")) / _OBJECTS


def _path(number: int) -> str:
    return f"events/day={number % 365:03}/part-{number:08}.parquet"


def _imported(number: int, version: str = "1") -> ObjectEntry:
    """An object where it lies. Digests and sizes are as hard to compress as real ones; without that, a range is far smaller."""
    path = _path(number)
    digest = md5(f"{path} {version}".encode(), usedforsecurity=False)
    size = int.from_bytes(digest.digest()[:3])
    return ObjectEntry(path, f"s3://raw/{path}", size, digest.hexdigest(), 1_700_000_000 + number)


def _money(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars >= 0.1 else f"{dollars:.2g}" if dollars >= 1e-4 else f"{dollars:.6f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.0f} s"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        made = table(costs(Path(temporary)))
    if "--write" in sys.argv[1:]:
        text = DOCUMENT.read_text()
        head, rest = text.split(BEGIN)
        DOCUMENT.write_text(head + BEGIN + made + END + rest.split(END)[1])
    else:
        sys.stdout.write(made)
