"""How many requests of each verb wait for one another, and how long that takes: the table in docs/performance.md.

``python -m tests.lake.depth`` writes it again, for a reason that its author has to know.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Final, NamedTuple

from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from tests.lake.support import NAME, World
from tests.support.critical_path import CriticalPath, Latency, TimedObjects, TimedTables, one

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN: Final = "<!-- depth: made by `python -m tests.lake.depth` -->\n"
END: Final = "<!-- end of depth -->\n"

AT_ONCE: Final = 8
"""As :func:`graveler.lake.opening.aws.open_lake` has it for ranges that are read ahead, and for files that are written."""
FOLDERS: Final = 40
FILES: Final = 2000
WIDE: Final = SplitParameters(min_size=200, max_size=1600, raggedness=4)
_TABLE: Final = frozenset(("read", "write", "transact"))


def usual(kind: str) -> float:
    """Seconds, as docs/deploy.md assumes them for costs."""
    return 0.005 if kind in _TABLE else 0.03


def slow(kind: str) -> float:
    """Seconds: the upper end of what AWS says of small requests.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Introduction.html (single-digit milliseconds),
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html (roughly 100 to 200 milliseconds)
    """
    return 0.01 if kind in _TABLE else 0.2


Verb = Callable[[OpenRepository], object]


class Measured(NamedTuple):
    """``table`` and ``store`` count requests, ``depth`` those that wait for one another; seconds of waiting."""

    name: str
    table: int
    store: int
    depth: int
    usual: float
    slow: float


def _path_of(number: int) -> str:
    return f"d{number % FOLDERS:02}/k{number:04}"


def _external(path: str, version: int = 1) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{version}/{path}", 1, "00" * 16, 0)


def _world() -> World:
    world = World(WIDE)
    world.main.link_many("main", [_external(_path_of(number)) for number in range(FILES)])
    world.main.commit("main", "all")
    return world


def _spread(world: World, amount: int) -> list[str]:
    """The first paths of so many ranges, spread evenly."""
    tree = world.main.tree("main")
    step = len(tree) // amount
    return [tree.info(number).first.decode() for number in range(0, len(tree), step)][:amount]


def _branch(world: World, name: str, paths: list[str], version: int, *, commit: bool) -> None:
    world.main.create_branch(name, "main")
    world.main.link_many(name, [_external(path, version) for path in paths])
    if commit:
        world.main.commit(name, "m")


def _verbs(world: World) -> Iterator[tuple[str, Verb, bool]]:
    """Each with its name, and whether the function has done it before."""
    yield "create a branch", lambda r: r.create_branch("new", "main"), False
    yield "stat on a branch, warm", lambda r: r.stat("main", _path_of(7)), True
    yield "stat on a branch", lambda r: r.stat("main", _path_of(7)), False
    yield "stat on a commit, warm", lambda r: r.stat("main@", _path_of(7)), True
    yield "link, warm", lambda r: r.link("new", _external("x")), True
    yield "upload, warm", lambda r: r.upload("new", "y", b"1"), True
    paths = [f"n{number:04}" for number in range(1000)]
    yield "link 1,000, warm", lambda r: r.link_many("new", [_external(path) for path in paths]), True
    yield "stat 1,000 on a branch", lambda r: r.stat_many("new", [*paths[:500], *map(_path_of, range(500))]), False
    yield "list what 135 ranges hold", lambda r: r.list_objects("main", amount=1000), False
    yield "list 40 prefixes", lambda r: r.list_objects("main", delimiter="/", amount=1000), False
    for amount in (1, 40):
        _branch(world, f"staged{amount}", _spread(world, amount), 2, commit=False)
        of = f"{amount} of 255 ranges"
        name = f"staged{amount}"
        yield f"uncommitted changes in {of}", methodcaller("uncommitted", name), False
        yield f"commit, {of} change", methodcaller("commit", name, "m"), False
        yield f"diff, {of} differ", methodcaller("diff", "main", name), False
    changed = _spread(world, 40)
    _branch(world, "ours", [path + "a" for path in changed], 2, commit=True)
    _branch(world, "theirs", [path + "b" for path in changed], 2, commit=True)
    yield "merge, both sides changed the same 40 ranges", lambda r: r.merge("ours", "theirs"), False
    yield "merge of one side's changes", lambda r: r.merge("staged1", "main"), False
    yield "log of 100", lambda r: r.log("main", amount=100), False
    yield "list branches", lambda r: r.branches(), False
    yield "delete a branch", lambda r: r.delete_branch("new"), False
    one, two, other = _spread(world, 3)
    for number in (1, 2):  # the first of each is to warm up
        _branch(world, f"warm{number}", [f"{one}-{number}"], 2, commit=False)
        world.main.create_branch(f"still{number}", "main")
        _branch(world, f"source{number}", [f"{two}-{number}"], 2, commit=True)
        _branch(world, f"moved{number}", [f"{other}-{number}"], 2, commit=True)
    pairs = ("source1", "still1"), ("source2", "still2")
    moved = ("source1", "moved1"), ("source2", "moved2")
    yield "commit, 1 of 255 ranges changes, warm", _in_turn("commit", [("warm1", "m"), ("warm2", "m")]), True
    yield "merge into a branch that has not changed, warm", _in_turn("merge", pairs), True
    yield "merge, each side changed another range, warm", _in_turn("merge", moved), True


def _in_turn(verb: str, calls: Sequence[tuple[str, str]]) -> Verb:
    """A verb that is done to others each time."""
    left = iter(calls)
    return lambda repository: getattr(repository, verb)(*next(left))


def _timed(world: World, verb: Verb, latency: Latency, *, is_warm: bool) -> tuple[int, int, float]:
    path = CriticalPath(latency)
    tables, objects = TimedTables(world.tables, path), TimedObjects(world.objects(), path)
    lake = Lake(
        tables, lambda _: objects, clock=world.clock, trees=TreeSettings(reads_at_once=AT_ONCE, writes_at_once=AT_ONCE)
    )
    repository = lake.repository(NAME)
    if is_warm:
        verb(repository)
    tables.reset()
    objects.reset()
    with path:
        verb(repository)
    return tables.requests, objects.requests, path.now


def measure() -> list[Measured]:
    """All of them, each in the same lake as it is after those before it."""
    found: dict[str, dict[Latency, tuple[int, int, float]]] = {}
    for latency in (one, usual, slow):
        world = _world()
        for name, verb, is_warm in _verbs(world):
            found.setdefault(name, {})[latency] = _timed(world, verb, latency, is_warm=is_warm)
    return [
        Measured(name, *each[one][:2], round(each[one][2]), each[usual][2], each[slow][2])
        for name, each in found.items()
    ]


def table() -> str:
    """As it stands in the document."""
    rows = [
        "| | requests to the table | to S3 | one after another | waiting, usually | slowly |",
        "|---|--:|--:|--:|--:|--:|",
        *(
            f"| {each.name} | {each.table} | {each.store} | {each.depth} | {each.usual * 1000:,.0f} ms "
            f"| {each.slow * 1000:,.0f} ms |"
            for each in measure()
        ),
    ]
    return "\n".join(rows) + "\n"


def documented() -> str:
    """The table that stands there."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    text = DOCUMENT.read_text()
    before, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
