"""The work that grows with the lake: reading ranges, comparing listings, removing files.

The collector decides on the work and its order; an engine only distributes it. This one has the threads of one process;
:mod:`graveler.spark.garbage_tasks` has the executors of a cluster. Both run the same code on the same files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct

from graveler.lake.clock import Clock
from graveler.retention.live_listing import EVERYTHING, Comparison, Unknown, candidates
from graveler.retention.marks import MOST_FILES, merge_rows, write_rows
from graveler.retention.rate_limit import Pace
from graveler.retention.rowfiles import read_rows
from graveler.retention.runs import CHUNK, Candidate, Mode, Runs, Tally
from graveler.retention.sweeper import Sweeper
from graveler.retention.threads import THREADS
from graveler.storage.objects.port import Objects

Told = Callable[[int, int], None]
"""A progress callback: the amount done and the total, as far as it is known."""


class Written(Struct):
    """Candidates that were written: in chunks of these ``numbers``, counted by kind."""

    numbers: list[int] = []
    tallies: dict[str, Tally] = {}

    def merge(self, other: "Written") -> None:
        """Add another one's candidates."""
        self.numbers += other.numbers
        for kind, tally in other.tallies.items():
            tally_so_far = self.tallies.get(kind, Tally())
            self.tallies[kind] = Tally(tally_so_far.files + tally.files, tally_so_far.bytes + tally.bytes)


class Engine(Protocol):
    """The distribution of the work. Up to ``most_files`` files of rows are not worth merging."""

    most_files: int

    def mark(self, objects: Objects, ranges: Sequence[tuple[int, str]], progress: Told) -> list[str]:
        """Read ranges, each with its number, and write the names in them; return the written files of rows."""
        ...

    def merge(self, objects: Objects, files: Sequence[str], alive: bytes, progress: Told) -> list[str]:
        """Rewrite files of rows without the rows of dead ranges; return the written files."""
        ...

    def compare(
        self, work: Comparison, names: Iterator[bytes], run: str, start: int, unknown: Unknown, progress: Told
    ) -> Written:
        """Write the unneeded objects, in chunks from number ``start`` on, in the order of their keys. ``names`` (sorted) are
        needed besides those in the rows."""
        ...

    def sweep(
        self, objects: Objects, run: str, mode: Mode, numbers: Sequence[int], rate: float, progress: Told
    ) -> None:
        """Remove the candidates of these chunks, and write their outcomes; chunks with known outcomes are skipped. ``rate`` files
        per second in total."""
        ...


class InProcess:
    """The threads of this process."""

    most_files = MOST_FILES

    def __init__(self, clock: Clock, threads: int = THREADS) -> None:
        self._clock = clock
        self._threads = threads

    def mark(self, objects: Objects, ranges: Sequence[tuple[int, str]], progress: Told) -> list[str]:
        """See :meth:`Engine.mark`. One object read per range, one write for all; memory for 256 MiB of rows."""
        return [write_rows(objects, ranges, self._threads, progress)]

    def merge(self, objects: Objects, files: Sequence[str], alive: bytes, progress: Told) -> list[str]:
        """See :meth:`Engine.merge`. All rows once, into one file."""
        progress(0, 1)
        return [merge_rows(objects, (read_rows(objects, key).rest() for key in files), alive)]

    def compare(
        self, work: Comparison, names: Iterator[bytes], run: str, start: int, unknown: Unknown, progress: Told
    ) -> Written:
        """See :meth:`Engine.compare`. One listing."""
        unneeded = candidates(work, EVERYTHING, names, unknown, lambda done: progress(done, done))
        return write_chunks(Runs(work.objects), run, start, unneeded)

    def sweep(
        self, objects: Objects, run: str, mode: Mode, numbers: Sequence[int], rate: float, progress: Told
    ) -> None:
        """See :meth:`Engine.sweep`."""
        pace = Pace(self._clock, rate)
        for done, number in enumerate(numbers):
            progress(done, len(numbers))
            sweep_chunk(
                objects, run, mode, number, Sweeper(objects, self._clock, self._threads, pace), lambda: progress(-1, 0)
            )


def write_chunks(runs: Runs, run: str, start: int, unneeded: Iterable[Candidate]) -> Written:
    """Write candidates, some thousand at a time, in chunks from number ``start`` on. One object write each."""
    source = iter(unneeded)
    written = Written()
    while some := list(islice(source, CHUNK)):
        number = start + len(written.numbers)
        for candidate in some:
            kind = candidate.kind.value
            written.tallies[kind] = written.tallies.get(kind, Tally()).plus(candidate.size)
        runs.put_candidates(run, number, some)
        written.numbers.append(number)
    return written


def sweep_chunk(
    objects: Objects, run: str, mode: Mode, number: int, sweeper: Sweeper, done: Callable[[], None]
) -> None:
    """Remove the candidates of one chunk, unless that was done before. An object read, those of the sweeper, one write."""
    runs = Runs(objects)
    if runs.outcomes(run, number) is None:
        runs.put_outcomes(run, number, sweeper.sweep(run, mode, runs.candidates(run, number), done))
