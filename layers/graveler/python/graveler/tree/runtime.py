"""The port through which the tree delegates work: to worker processes, other threads and scratch files.

The tree defines the work. Where processes, threads and files come from, how many exist, and how they handle forks and Ctrl-C is
up to the runtime (:mod:`graveler.runtime`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")
Loaded = TypeVar("Loaded", covariant=True)

Put = Callable[[str, str, bytes], None]
"""Writes a file (kind, name, contents); durable afterwards."""


class Crew(Protocol):
    """Worker processes. Intervals of the key space are independent, so each worker takes some."""

    def can(self, *values: object) -> bool:
        """Return whether these values can be sent to a worker: they must be picklable, of classes that other processes know
        too."""
        ...

    def run(self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]]) -> Iterator[T]:
        """Yield ``function(*task)`` for each task, in order; an error of one is raised here. Tasks are drawn, and results held, a
        few ahead of the consumer."""
        ...


class Writes(Protocol):
    """The pending writes of one tree writer. Used by one thread."""

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Write a file, now or later. Raises the error of an earlier write."""
        ...

    def settle(self) -> None:
        """Make all files durable. Raises the first error of one of them once none is in progress any more."""
        ...


class Read(Protocol[Loaded]):
    """A read in another thread."""

    @property
    def is_lost(self) -> bool:
        """True if this process is a fork of the one that started the read: then no thread here will ever finish it."""
        ...

    def result(self) -> Loaded:
        """Wait for the end of the read, and return its result or raise its error."""
        ...


class Scratch(Protocol):
    """Short-lived files. ``str()`` of it names the location, for messages."""

    def bytes_of(self, write: Callable[[str], None]) -> bytes:
        """Return the bytes of the file that ``write`` makes at the path it receives, and remove the file. ``OSError`` if it
        cannot be made."""
        ...


class Runtime(Protocol):
    """The means with which a store does its work. Shared by threads, and picklable."""

    @property
    def workers(self) -> int:
        """Number of processes that may share the work on very many ranges; 1 means none besides this one."""
        ...

    @property
    def reads_at_once(self) -> int:
        """Number of ranges worth fetching before they are opened; 1 means none."""
        ...

    @property
    def scratch(self) -> Scratch:
        """The place of RocksDB's temporary files."""
        ...

    def alone(self) -> "Runtime":
        """Return the same runtime without worker processes."""
        ...

    @property
    def has_crew(self) -> bool:
        """True if all worker processes are running, so that sharing work with them does not wait for their start."""
        ...

    def crew(self) -> Crew:
        """Return the worker processes. The first call starts them."""
        ...

    def writes(self, put: Put) -> Writes:
        """Return a writer of many files, each of which ``put`` writes, in any thread."""
        ...

    def read(self, load: Callable[..., T], *arguments: object) -> Read[T]:
        """Start ``load(*what)`` in another thread."""
        ...
