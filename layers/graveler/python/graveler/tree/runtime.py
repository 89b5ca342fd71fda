"""The port through which the tree has work done around it: in worker processes, in other threads, in scratch files.

What runs in them belongs to the tree. Where they come from, how many there are, and what forks and Ctrl-C do to them is the
runtime's business (:mod:`graveler.runtime`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")
Found = TypeVar("Found", covariant=True)

Put = Callable[[str, str, bytes], None]
"""Writes a file (kind, name, contents); durable afterwards."""


class Crew(Protocol):
    """Worker processes. Intervals of the key space are independent, so each takes some."""

    def can(self, *values: object) -> bool:
        """Can these be sent to a worker? Not if they cannot be pickled, or if only this process knows their classes."""
        ...

    def run(self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]]) -> Iterator[T]:
        """``function(*task)`` for each task, in order; an error of one is raised here. Tasks are drawn, and results held, a few
        ahead of what was taken."""
        ...


class Writes(Protocol):
    """What one writer of a tree has put and not yet made sure of. Used by one thread."""

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Write a file, sooner or later. Raises what went wrong with an earlier one."""
        ...

    def settle(self) -> None:
        """Make all files durable. Raises the first error of one of them when none is under way any more."""
        ...


class Read(Protocol[Found]):
    """A read that another thread does."""

    @property
    def is_lost(self) -> bool:
        """Did this process begin as a fork of the one that began to read? Then no thread here will ever finish."""
        ...

    def result(self) -> Found:
        """Wait for the end of the read. Returns or raises what it did."""
        ...


class Scratch(Protocol):
    """Files that are there for a moment only. As text it says where, for messages."""

    def bytes_of(self, write: Callable[[str], None]) -> bytes:
        """The bytes of the file that ``write`` makes at the path it is given. The file is removed. ``OSError`` if it cannot be
        made."""
        ...


class Runtime(Protocol):
    """What a store's work is done with. Shared by threads, and picklable."""

    @property
    def workers(self) -> int:
        """How many processes may work for this one where very many ranges are concerned; 1 is none."""
        ...

    @property
    def reads_at_once(self) -> int:
        """How many ranges are worth fetching before they are opened; 1 is none."""
        ...

    @property
    def scratch(self) -> Scratch:
        """Where RocksDB writes its files."""
        ...

    def alone(self) -> "Runtime":
        """The same without worker processes."""
        ...

    def crew(self) -> Crew:
        """The worker processes. Starts some when first asked."""
        ...

    def writes(self, put: Put) -> Writes:
        """For a writer of many files, each of which ``put`` writes, in whatever thread."""
        ...

    def read(self, load: Callable[..., T], *what: object) -> Read[T]:
        """Have ``load(*what)`` called by another thread."""
        ...
