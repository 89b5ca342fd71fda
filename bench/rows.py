"""What is measured: one function for each row. Each runs in a process of its own, on a copy of a lake that was imported before.

A row prepares, calls :meth:`Run.timed` several times, and leaves the rest to :mod:`bench.__main__`. "Warm" is said where the
process has opened the ranges before.
"""

import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from shutil import rmtree
from threading import Lock, get_ident
from typing import Any, TypeVar

from bench import keys
from graveler.history.commits import CommitStore, new_commit
from graveler.history.graph import log, merge_base
from graveler.lake.importing.importer import ImportSource
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, MergeStrategy, MetarangeName, RepositoryUID
from graveler.runtime.crew import Crew
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.tables.sqlite import SqliteTables
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree

T = TypeVar("T")
REPOSITORY = "bench"
NAMESPACE = "local://bench"


class Run:
    """One row's run: where the lake is, the keys, and what was measured. Times in seconds."""

    def __init__(self, folder: Path, keys_file: Path, repeat: int) -> None:
        self.folder = folder
        self.keys_file = keys_file
        self.repeat = repeat
        self.seconds: list[float] = []
        self.amount = 1
        """Records or operations in one timed call."""
        self.note = ""
        self.random = random.Random(7)
        self.requests: Counter[str] = Counter()
        """Of all timed calls together, those of worker processes included, by port and method."""
        self.workers: dict[int, int] = {}
        """Worker processes, and bytes of each at its largest."""
        self._watched = Requests()
        self._watched.watch_workers()
        self._key_count = 0

    @property
    def lake(self) -> Lake:
        """The imported lake."""
        return open_folder_lake(self.folder)

    @property
    def repository(self) -> OpenRepository:
        """Its repository, freshly opened."""
        return self.lake.repository(REPOSITORY)

    @property
    def count(self) -> int:
        """How many keys there are."""
        if not self._key_count:
            self._key_count = sum(1 for _ in keys.read(self.keys_file))
        return self._key_count

    def some(self, amount: int) -> list[bytes]:
        """So many keys, in their order, from everywhere. (All of them would be most of the memory that is measured.)"""
        wanted = set(self.random.sample(range(self.count), amount))
        return [key for number, key in enumerate(keys.read(self.keys_file)) if number in wanted]

    def shuffled(self, amount: int) -> list[bytes]:
        """So many keys from everywhere, in any order."""
        found = self.some(amount)
        self.random.shuffle(found)
        return found

    def adjacent(self, start: int, amount: int) -> list[bytes]:
        """Keys that follow one another."""
        return list(islice(keys.read(self.keys_file), start, start + amount))

    def timed(self, call: Callable[[], T]) -> T:
        """Call it, and keep how long it took."""
        before = self._watched.counted.copy()
        start = time.perf_counter()
        result = call()
        self.seconds.append(time.perf_counter() - start)
        self.requests += self._watched.counted - before
        self.workers.update((process, peak_memory(process)) for process in children())
        return result

    def forget(self) -> None:
        """What was timed until now was to warm up."""
        self.seconds.clear()
        self.requests.clear()


class Requests:
    """Counts calls of the adapters' methods in this process, by port and method."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self._lock = Lock()
        self._inside: set[int] = set()
        """The threads that are in a method."""
        self._watch(FolderObjects, "objects", ("get", "put"))
        self._watch(SqliteTables, "table", ("get", "get_many", "query", "put", "write_many", "transact"))

    def _watch(self, adapter: type, port: str, methods: tuple[str, ...]) -> None:
        """The process measures one row, or works for one that does, and ends: nothing is put back."""
        for method in methods:
            original = getattr(adapter, method)

            def counted(*args: Any, _original: Any = original, _name: str = f"{port} {method}", **kwargs: Any) -> Any:
                thread = get_ident()
                if thread in self._inside:  # one method of an adapter may use another
                    return _original(*args, **kwargs)
                with self._lock:
                    self.counted[_name] += 1
                    self._inside.add(thread)
                try:
                    return _original(*args, **kwargs)
                finally:
                    self._inside.discard(thread)

            setattr(adapter, method, counted)

    def watch_workers(self) -> None:
        """Count what worker processes ask for too."""
        original = Crew.run

        def run(crew: Crew, function: Callable[..., T], tasks: Iterable[tuple[object, ...]]) -> Iterator[T]:
            for result, requests in original(crew, in_worker, ((function, *task) for task in tasks)):
                self.counted += requests
                yield result

        Crew.run = run  # type: ignore[method-assign, assignment]


@cache
def _requests_of_worker() -> Requests:
    return Requests()


def in_worker(function: Callable[..., T], *arguments: object) -> tuple[T, Counter[str]]:
    """A task, and what it asked for."""
    requests = _requests_of_worker()
    before = requests.counted.copy()
    result = function(*arguments)
    return result, requests.counted - before


def peak_memory(process: int | str = "self") -> int:
    """Bytes of a process at its largest. (``ru_maxrss`` would be the parent's, if that was larger when it made us.)"""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found, f"process {process} tells nothing of its memory"
    return int(found.group(1)) * 1024


def children() -> list[int]:
    """The processes that this one has started and that are still there."""
    return [int(number) for file in Path("/proc/self/task").glob("*/children") for number in file.read_text().split()]


Row = Callable[[Run], None]
ROWS: dict[str, Row] = {}


def row(title: str) -> Callable[[Row], Row]:
    """Registers a row under its title."""

    def register(function: Row) -> Row:
        ROWS[title] = function
        return function

    return register


def records(keys_file: Path, start: int = 0, stop: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """What an import of a ready listing does for each object: make the entry, and its record. Of a part of the file, in bytes."""
    encode = RecordCodec(NAMESPACE).encode
    for key in keys.read(keys_file, start, stop):
        yield key, encode(keys.entry(key))


def import_all(repository: OpenRepository, keys_file: Path, branch: str = "main") -> Commit:
    """Import every key as one commit."""
    return repository.import_sources(
        branch, [ImportSource(b"", is_prefix=True, records=partial(records, keys_file))], "import", committer="bench"
    )


def change(repository: OpenRepository, branch: str, changed: list[bytes], version: int) -> None:
    """Stage another version of each key."""
    repository.link_many(branch, (keys.entry(key, version) for key in changed))


@row("import, one process")
def import_one(run: Run) -> None:
    run.amount = sum(1 for _ in keys.read(run.keys_file))
    for number in range(min(3, run.repeat)):
        folder = run.folder.with_name(f"import-{number}")
        repository = create_folder_lake(folder).create_repository(REPOSITORY, NAMESPACE)
        run.timed(lambda repository=repository: import_all(repository, run.keys_file))  # type: ignore[misc]
        rmtree(folder)


@row("import, two processes")
def import_two(run: Run) -> None:
    run.amount = sum(1 for _ in keys.read(run.keys_file))
    parts = [partial(records, run.keys_file, start, stop) for start, stop in keys.parts(run.keys_file, 2)]
    source = ImportSource(b"", is_prefix=True, records=partial(records, run.keys_file), parts=lambda: parts)
    for number in range(min(3, run.repeat)):
        folder = run.folder.with_name(f"parallel-{number}")
        repository = create_folder_lake(folder).create_repository(REPOSITORY, NAMESPACE)
        run.timed(partial(repository.import_sources, "main", [source], "import", committer="bench"))
        rmtree(folder)


def _commits(run: Run, changed: Callable[[int], list[bytes]], *, warm: bool = True) -> None:
    repository = run.repository
    for number in range(run.repeat + warm):
        branch = f"c{time.time_ns()}"
        repository.create_branch(branch, "main")
        mine = changed(number)
        run.amount = len(mine)
        change(repository, branch, mine, 1 + number)
        call = partial(repository.commit, branch, "change", committer="bench")
        if warm and number == 0:
            call()
            continue
        if not warm:
            fresh = run.repository
            call = partial(fresh.commit, branch, "change", committer="bench")
        run.timed(call)
    run.note = "warm" if warm else "cold process"


@row("commit of 1 change")
def commit_one(run: Run) -> None:
    run.repeat *= 3
    some = run.shuffled(run.repeat + 1)
    _commits(run, lambda number: [some[number]])


@row("commit of 1,000 adjacent changes")
def commit_adjacent(run: Run) -> None:
    _commits(run, lambda number: run.adjacent(run.count * (number + 1) // (run.repeat + 3), 1000))


@row("commit of 20,000 adjacent changes")
def commit_many_adjacent(run: Run) -> None:
    _commits(run, lambda number: run.adjacent(run.count * (number + 1) // (run.repeat + 3), 20_000))


@row("commit of 1,000 spread changes")
def commit_spread(run: Run) -> None:
    run.repeat = min(run.repeat, 3)
    _commits(run, lambda _: run.some(1000))


@row("commit of 100,000 spread changes")
def commit_many_spread(run: Run) -> None:
    run.repeat = min(run.repeat, 3)
    _commits(run, lambda _: run.some(100_000))


@row("commit of 100,000 objects on an empty branch")
def commit_first(run: Run) -> None:
    all_keys = run.adjacent(0, 100_000)
    run.amount = len(all_keys)
    for number in range(min(3, run.repeat)):
        folder = run.folder.with_name(f"first-{number}")
        repository = create_folder_lake(folder).create_repository(REPOSITORY, NAMESPACE)
        change(repository, "main", all_keys, 1)
        run.timed(partial(repository.commit, "main", "first", committer="bench"))
        rmtree(folder)


def _changed_branch(repository: OpenRepository, changed: list[bytes], version: int) -> str:
    branch = f"d{time.time_ns()}"
    repository.create_branch(branch, "main")
    change(repository, branch, changed, version)
    repository.commit(branch, "change", committer="bench")
    return branch


def _diffs(run: Run, changed: list[bytes]) -> None:
    repository = run.repository
    branch = _changed_branch(repository, changed, 1)
    run.amount = len(changed)
    for number in range(run.repeat + 1):
        call = partial(repository.diff, "main", branch, amount=len(changed) + 1)
        found = run.timed(call)
        assert len(found.results) == len(changed)
        del found  # two of them at once would be the bench's own memory
        if number == 0:
            run.forget()
    run.note = "warm"


@row("diff, 1 change")
def diff_one(run: Run) -> None:
    _diffs(run, run.some(1))


@row("diff, 1,000 spread changes")
def diff_spread(run: Run) -> None:
    _diffs(run, run.some(1000))


@row("diff, 100,000 spread changes")
def diff_many(run: Run) -> None:
    run.repeat = min(run.repeat, 3)
    _diffs(run, run.some(100_000))


def _merges(run: Run, ours: list[bytes], theirs: list[bytes]) -> None:
    repository = run.repository
    run.amount = len(ours) + len(theirs)
    source = _changed_branch(repository, theirs, 1)
    for number in range(run.repeat + 1):
        destination = _changed_branch(repository, ours, 2)
        call = partial(repository.merge, source, destination, strategy=MergeStrategy.SOURCE_WINS)
        run.timed(call)
        if number == 0:
            run.forget()
    run.note = "warm"


@row("merge, 1 change against 100 spread")
def merge_one(run: Run) -> None:
    _merges(run, run.some(100), run.some(1))


@row("merge, 1,000 spread against 100 others")
def merge_spread(run: Run) -> None:
    run.repeat = min(run.repeat, 3)
    _merges(run, run.some(100), run.some(1000))


@row("merge, 100,000 on each side in different places")
def merge_apart(run: Run) -> None:
    run.repeat = min(run.repeat, 3)
    _merges(run, run.adjacent(0, 100_000), run.adjacent(2 * run.count // 3, 100_000))


@row("stage, one at a time")
def stage_one(run: Run) -> None:
    repository = run.repository
    repository.create_branch("one", "main")
    some = run.shuffled(1000)
    run.amount = len(some)
    for number in range(run.repeat):

        def stage(version: int = number) -> None:
            for key in some:
                repository.link("one", keys.entry(key, version))

        run.timed(stage)
    run.note = "durable against power loss"


@row("stage, batches of 1,000")
def stage_batches(run: Run) -> None:
    repository = run.repository
    repository.create_branch("batches", "main")
    entries = [keys.entry(key, 3) for key in run.adjacent(0, 50_000)]
    run.amount = len(entries)
    for _ in range(run.repeat):
        run.timed(partial(repository.link_many, "batches", entries))


@row("list a page of 1,000")
def list_page(run: Run) -> None:
    repository = run.repository
    main = repository.branch("main").commit_id
    for after in run.shuffled(run.repeat * 5):
        run.timed(partial(repository.list_objects, main, after=after.decode(), amount=1000))


@row("list with a delimiter, top level")
def list_prefixes(run: Run) -> None:
    repository = run.repository
    for _ in range(run.repeat * 5):
        page = run.timed(partial(repository.list_objects, "main", delimiter="/", amount=1000))
        run.amount = max(1, len(page.results))


@row("scan of everything, records")
def scan(run: Run) -> None:
    repository = run.repository
    tree = repository.tree("main")
    run.amount = run.count
    for _ in range(min(run.repeat, 3)):
        assert run.timed(lambda: sum(len(found) for found, _ in tree.blocks())) == run.amount


@row("scan of everything, as Arrow, all columns")
def scan_arrow(run: Run) -> None:
    from graveler.sql.arrow import tables  # which other rows' processes do not load

    repository = run.repository
    run.amount = run.count
    for _ in range(min(run.repeat, 3)):
        assert run.timed(lambda: sum(batch.num_rows for batch in tables.objects(repository, "main"))) == run.amount


@row("scan of everything, as entries")
def scan_entries(run: Run) -> None:
    repository = run.repository
    run.amount = run.count
    for _ in range(min(run.repeat, 3)):
        assert run.timed(lambda: sum(1 for _ in repository.objects("main"))) == run.amount


@row("point lookup, warm")
def lookup(run: Run) -> None:
    tree = run.repository.tree("main")
    some = run.shuffled(20_000)
    run.amount = len(some)
    for key in some:
        tree.get(key)
    for _ in range(run.repeat):
        assert None not in run.timed(lambda: [tree.get(key) for key in some])
    run.note = "records, in the library"


@row("point lookup, warm, all in 200,000 objects")
def lookup_near(run: Run) -> None:
    tree = run.repository.tree("main")
    some = run.adjacent(run.count // 2, min(200_000, run.count // 2))[::10]
    run.random.shuffle(some)
    run.amount = len(some)
    for key in some:
        tree.get(key)
    for _ in range(run.repeat):
        assert None not in run.timed(lambda: [tree.get(key) for key in some])
    run.note = "records, in the library; all their blocks are kept"


@row("lookup of sorted keys, 100,000 adjacent")
def lookup_many(run: Run) -> None:
    tree = run.repository.tree("main")
    some = run.adjacent(run.count // 2, 100_000)
    run.amount = len(some)
    for _ in range(run.repeat):
        assert None not in run.timed(lambda: list(tree.get_many(some)))
    run.note = "records, in the library"


@row("lookup of sorted keys, 100,000 spread")
def lookup_many_spread(run: Run) -> None:
    tree = run.repository.tree("main")
    some = run.some(100_000)
    run.amount = len(some)
    for _ in range(run.repeat):
        assert None not in run.timed(lambda: list(tree.get_many(some)))
    run.note = "one in 16 records, so all blocks are read"


@row("point lookup, cold process")
def lookup_cold(run: Run) -> None:
    some = run.shuffled(run.repeat * 3)
    for key in some:
        repository = run.repository
        run.timed(partial(repository.stat, "main", key.decode()))
    run.note = "a fresh library, files in the system's cache"


@row("create a branch")
def branch(run: Run) -> None:
    repository = run.repository
    run.amount = 100
    for number in range(run.repeat):

        def create(number: int = number) -> None:
            for each in range(100):
                repository.create_branch(f"b{number}-{each}", "main")

        run.timed(create)


@row("import graveler and one lookup, fresh process")
def fresh_process(run: Run) -> None:
    (key,) = (key.decode() for key in run.some(1))
    program = (
        "import sys; from pathlib import Path; from graveler.lake.opening.folder import open_folder_lake; "
        f"open_folder_lake(Path(sys.argv[1])).repository({REPOSITORY!r}).stat('main', sys.argv[2])"
    )
    bare: list[float] = []
    for _ in range(run.repeat * 2):
        run.timed(lambda: subprocess.run([sys.executable, "-c", program, str(run.folder), key], check=True))
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - start)
    run.note = f"of which the bare interpreter {sorted(bare)[len(bare) // 2] * 1e3:.0f} ms"


@row("log of 1,000, history of 100,000 with merges")
def log_long(run: Run) -> None:
    tables, uid, head, _ = _history(run)
    run.amount = 1000
    for _ in range(run.repeat):
        commits = CommitStore(tables, uid)
        assert len(run.timed(lambda commits=commits: list(log(commits, head.id, limit=1000)))) == 1000  # type: ignore[misc]


@row("merge base in a history of 100,000 with merges")
def base_long(run: Run) -> None:
    tables, uid, head, side = _history(run)
    for _ in range(run.repeat):
        commits = CommitStore(tables, uid)
        assert run.timed(lambda commits=commits: merge_base(commits, head.id, side.id))  # type: ignore[misc]


def _history(run: Run) -> tuple[SqliteTables, RepositoryUID, Commit, Commit]:
    """100,000 commits, every tenth a merge of a branch of five; and a side branch that left 50 commits ago."""
    uid = RepositoryUID("history")
    tables = SqliteTables(run.folder.with_name("history.sqlite"))
    commits = CommitStore(tables, uid, capacity=300_000)
    writes = []
    main = side = new_commit([], MetarangeName(""), "bench", "0", 0, {}, "0")
    writes.append(commits.put_write(main, main.created))
    commits.decode(main.id, writes[0].item)
    for number in range(1, 100_000):
        parents = [main, side] if number % 10 == 0 and side.id != main.id else [side if number % 10 > 4 else main]
        commit = new_commit(parents, MetarangeName(""), "bench", str(number), number, {}, str(number))
        put = commits.put_write(commit, commit.created)
        commits.decode(commit.id, put.item)
        writes.append(put)
        if number % 10 > 4:
            side = commit
        else:
            main = commit
            if number % 10 == 4:
                side = main
    for at in range(0, len(writes), 5000):
        tables.write_many([type(write)(write.key, write.item) for write in writes[at : at + 5000]])
    return tables, uid, main, side


def bytes_per_record(folder: Path, records: int) -> float:
    """Bytes on disk of ranges and metaranges, a record."""
    files = (folder / "objects" / "bench" / "_graveler").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file()) / records


def tree_shape(tree: Tree) -> str:
    """How many ranges a tree has, and how long they are."""
    counts = sorted(tree.info(number).count for number in range(len(tree)))
    return f"{len(counts)} ranges of {counts[len(counts) // 2]:,} records in the median, {counts[-1]:,} at most"
