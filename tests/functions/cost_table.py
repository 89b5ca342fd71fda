"""The tables of costs in docs/deploy.md: what :mod:`tests.functions.costs` has counted (``costs.json``), at the prices of
infra/prices.py.

``python -m tests.functions.cost_table`` writes them again, as after a change of prices.
"""

from math import ceil
from pathlib import Path
from typing import Final

import msgspec

from graveler.api.settings import DEFAULT_REQUEST_SECONDS
from graveler.staging.changes import PAGE
from infra import prices
from infra.settings import Settings
from infra.state_machine import INLINE
from tests.infra.tools import ROOT

DOCUMENT: Final = ROOT / "docs" / "deploy.md"
COUNTED: Final = Path(__file__).parent / "costs.json"
BEGIN: Final = "<!-- costs: made by `python -m tests.functions.cost_table` -->\n"
END: Final = "<!-- end of costs -->\n"

TABLE_SECONDS: Final = 0.005
STORE_SECONDS: Final = 0.03
"""Assumptions: how long a function waits for each request to the table and to S3, one after the other."""

COLD_SECONDS: Final = 0.55
"""Of a start, as in the table of speed of the same document, the slowest.
https://aws.amazon.com/blogs/compute/aws-lambda-standardizes-billing-for-init-phase/"""

DEFAULTS: Final = Settings()
LONG: Final = 10_000_000
"""Objects of the long merge."""

_MEMORY_GB: Final = DEFAULTS.memory / 1024
_SCRATCH_GB: Final = (DEFAULTS.scratch - 512) / 1024
_SECOND: Final = _MEMORY_GB * prices.GB_SECOND + _SCRATCH_GB * prices.SCRATCH_GB_SECOND
_LOG_BYTES: Final = 1500
"""Of an invocation: its figures, what Lambda writes about it, and the gateway's line of the request."""
_TRANSITIONS: Final = 8
"""Of an execution without its parts: start, Plan, HowManyParts, Parts, Publish, AnotherRound, Ended, end."""
_HOURS: Final = 730
_ZONES: Final = 2


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What something uses: DynamoDB's units, requests to it and to S3, seconds of a core in functions, and what else is counted.
    ``requests`` are those through the gateway, as it counts them."""

    read_units: float = 0
    write_units: float = 0
    table_requests: float = 0
    gets: float = 0
    puts: float = 0
    cpu: float = 0
    invocations: float = 1
    requests: float = 1
    transitions: float = 0
    events: float = 0
    queue_requests: float = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def __mul__(self, times: float) -> "Used":
        return Used(**{name: getattr(self, name) * times for name in self.__struct_fields__})

    @property
    def seconds(self) -> float:
        """That functions are paid for: what they compute, and what they are assumed to wait."""
        return self.cpu + self.table_requests * TABLE_SECONDS + (self.gets + self.puts) * STORE_SECONDS

    @property
    def dollars(self) -> float:
        """All of it."""
        return (
            self.read_units * prices.READ_UNIT
            + self.write_units * prices.WRITE_UNIT
            + self.gets * prices.S3_GET
            + self.puts * prices.S3_PUT
            + self.seconds * _SECOND
            + self.requests * prices.HTTP_REQUEST
            + self.invocations * (prices.INVOCATION + _LOG_BYTES / 1e9 * prices.LOG_GB)
            + self.transitions * prices.TRANSITION
            + self.events * prices.OBJECT_EVENT
            + self.queue_requests * prices.QUEUE_REQUEST
        )


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted: of each verb; how many objects the lake had and a range has; seconds of a core for each
    further change of a large commit; of a long merge of all of them, with how
    many parts of how many records; bytes of an object at rest, imported and uploaded."""

    verbs: dict[str, Used]
    objects: int
    a_range: int
    change_cpu: float
    long_merge: Used
    parts: int
    part_records: int
    imported_bytes: float
    uploaded_bytes: float


def transitions(parts: int) -> int:
    """Changes of state of an execution with so many parts: beyond :data:`INLINE`, each has an execution of its own."""
    return _TRANSITIONS + (parts if parts <= INLINE else 3 * parts)


def counted() -> Costs:
    """As it was written down."""
    return msgspec.json.decode(COUNTED.read_bytes(), type=Costs)


def table(costs: Costs) -> str:
    """The tables of the document, in Markdown."""
    one, thousand = costs.verbs["commit of 1 change"], costs.verbs["commit of 1,000 changes"]
    touched = 1_000_000 // costs.a_range
    each = (thousand.read_units - one.read_units) / 999
    million = Used(
        read_units=one.read_units + 1e6 * each,
        write_units=one.write_units,
        table_requests=one.table_requests + 1e6 / PAGE,
        gets=one.gets + touched,
        puts=one.puts + touched,
        cpu=one.cpu + 1e6 * costs.change_cpu,
    )
    scale = LONG / costs.objects
    parts = ceil(costs.parts * costs.part_records * scale / DEFAULTS.part_records)
    by_part = costs.long_merge * (parts / costs.parts)
    long_merge = msgspec.structs.replace(
        costs.long_merge * scale,
        read_units=by_part.read_units,
        write_units=by_part.write_units,
        table_requests=by_part.table_requests,
        invocations=parts + 2,
        requests=1,
        transitions=transitions(parts),
    )
    rows = [
        *((f"1,000,000 × {name}", used, 1e6) for name, used in costs.verbs.items() if name[0] in "sl"),
        *((name, used, 1.0) for name, used in costs.verbs.items() if name[0] in "cm"),
        ("commit of 1,000,000 neighbours (estimate)", million, 1.0),
        (f"long merge of {costs.objects:,} objects, in {costs.parts} parts", costs.long_merge, 1.0),
        (f"long merge of {LONG:,} objects, in {parts} parts (estimate)", long_merge, 1.0),
        *((f"1,000,000 × {name}", used, 1e6) for name, used in costs.verbs.items() if name[0] == "i"),
    ]
    lines = [
        f"Prices of {prices.DATE}.",
        "",
        "| what | read units | write units | S3 reads | S3 writes | of a core | US dollars |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {what} | {_number(used.read_units)} | {_number(used.write_units)} | {_number(used.gets)} | {_number(used.puts)} "
        f"| {_time(used.cpu)} | {_money(used.dollars * times)} |"
        for what, used, times in rows
    ]
    clean = 1_000_000 * (each * prices.READ_UNIT + prices.WRITE_UNIT)
    waiting = DEFAULT_REQUEST_SECONDS * _SECOND
    note = (
        f"All but the dollars are of one verb. The clean-up of 1,000,000 staged changes: {_money(clean)}. In the long merges "
        "each side has changed every tenth object. Who asks for one and waits, instead of saying `Prefer: respond-async`, pays "
        f"{_money(waiting)} for {DEFAULT_REQUEST_SECONDS:.0f} s of a function that waits with them. What lands comes in "
        "batches of 480; the commits that its rule asks for come besides."
    )
    lines += ["", note, "", "| at rest | in ranges | US dollars a month |", "|---|---|---|"]
    for kind, size in (("imported", costs.imported_bytes), ("uploaded", costs.uploaded_bytes)):
        for amount in (1_000_000, 1_000_000_000):
            gigabytes = amount * size / 1e9
            what = f"{amount:,} {kind} objects, {size:.0f} B each"
            lines.append(f"| {what} | {gigabytes:.2f} GB | {_money(gigabytes * prices.S3_GB_MONTH)} |")
    lines += ["", "| besides | US dollars |", "|---|---|"]
    lines += [f"| {what} | {dollars} |" for what, dollars in _besides()]
    return "\n".join(lines) + "\n"


def _month(gb_second: float) -> str:
    """Of a function's memory, all the time."""
    return f"{_MEMORY_GB * gb_second * _HOURS * 3600:.2f}"


def _besides() -> list[tuple[str, str]]:
    zones = prices.INTERFACE_ENDPOINT_HOUR * _HOURS * _ZONES
    shared = (
        f"{prices.SHARED_GB_MONTH:.2f} a GB and month, {prices.SHARED_READ_GB:.2f} a GB read, "
        f"{prices.SHARED_WRITE_GB:.2f} a GB written"
    )
    job = prices.JOB_CPU_HOUR + 8 * prices.JOB_GB_HOUR
    restores = _money(1000 * _MEMORY_GB * prices.RESTORED_GB)
    running = prices.READY_RUN_GB_SECOND / prices.GB_SECOND
    return [
        ("1,000 cold starts: Lambda asks for the time of the start, too", _money(1000 * COLD_SECONDS * _SECOND)),
        (
            "`snap_start`: the snapshot of a function",
            f"{_month(prices.SNAPSHOT_GB_SECOND)} a month, and {restores} for 1,000 starts from it",
        ),
        (
            "`provisioned`: a process that is kept ready",
            f"{_month(prices.READY_GB_SECOND)} a month; its time in events costs {running:.0%} of what it costs otherwise",
        ),
        (
            "what is in the table",
            f"{prices.TABLE_GB_MONTH:.2f} a GB and month, and {prices.RESTORE_GB_MONTH:.2f} for its backups",
        ),
        ("what is in the buckets, objects and older versions too", f"{prices.S3_GB_MONTH} a GB and month"),
        ("`shared_cache`: the file system", shared),
        (
            "`shared_cache`: the endpoints for Step Functions and KMS",
            f"{2 * zones:.2f} a month; those for S3 and DynamoDB are free",
        ),
        (
            "the key that seals the secrets in the table",
            f"{prices.KMS_KEY_MONTH:.2f} a month, and {1e4 * prices.KMS_REQUEST:.2f} for 10,000 cold starts that check a token",
        ),
        (
            "`encryption_key`: `own`",
            f"{prices.KMS_KEY_MONTH:.2f} a month, and {1e4 * prices.KMS_REQUEST:.2f} for 10,000 requests of S3, DynamoDB and SQS",
        ),
        ("the secret with the first access key", f"{prices.SECRET_MONTH:.2f} a month"),
        ("`web_acl`: each secret that CloudFront sends", f"{prices.SECRET_MONTH:.2f} a month"),
        ("`spark`: a processor with 8 GB, while jobs run", f"{job:.3f} an hour"),
    ]


def write(costs: Costs) -> None:
    """Put the tables into the document."""
    head, rest = DOCUMENT.read_text().split(BEGIN)
    DOCUMENT.write_text(head + BEGIN + table(costs) + END + rest.split(END)[1])


def _number(value: float) -> str:
    return f"{round(value, 1):,g}" if value < 1000 else f"{value:,.0f}"


def _money(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars >= 0.1 else f"{dollars:.2g}" if dollars >= 1e-4 else f"{dollars:.6f}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.0f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else f"{seconds * 1000:.1f} ms"


if __name__ == "__main__":
    write(counted())
