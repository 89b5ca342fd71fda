"""Builders for tests of the tree: files in memory that count requests, and records out of plain values."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5
from typing import Final

from graveler.errors import NotFoundError
from graveler.model import ObjectEntry, SplitParameters
from graveler.runtime.local import LocalRuntime
from graveler.tree.record import RecordCodec
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build

NAMESPACE = "mem://test"
CODEC = RecordCodec(NAMESPACE)

TINY = SplitParameters(min_size=100, max_size=800, raggedness=3)
"""Ranges of a few records each, so that small examples have many cuts."""

ALONE: Final = LocalRuntime()
"""Writes one file after another, and has no worker processes."""


class MemoryFiles:
    """The tree's port, in memory. ``requests`` counts ``get ranges``, ``put metaranges`` and so on."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.requests: Counter[str] = Counter()

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        self.requests[f"get {kind}"] += 1
        try:
            return self.files[kind, name]
        except KeyError:
            raise NotFoundError(f"no {kind} {name}") from None

    def put(self, kind: str, name: str, data: bytes) -> None:
        self.requests[f"put {kind}"] += 1
        self.files[kind, name] = data


class StoredNotes:
    """Notes that outlive a process, in memory."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        return self.notes.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.notes[name] = data


def new_store(files: MemoryFiles | None = None) -> TreeStore:
    return TreeStore(files or MemoryFiles(), ALONE)


@lru_cache(maxsize=10_000)
def packed(value: int | str, *, mtime: int = 0, address: str = "") -> bytes:
    """A record's bytes; equal values have equal identities, whatever the time and the address."""
    checksum = md5(str(value).encode(), usedforsecurity=False).hexdigest()
    return CODEC.encode(
        ObjectEntry("x", address or f"{NAMESPACE}/some/{value}", len(str(value)), checksum, mtime),
    )


def build_tree(store: TreeStore, contents: Mapping[bytes, int | str], split: SplitParameters = TINY) -> Tree:
    return build(store, split, ((key, packed(contents[key])) for key in sorted(contents)))


def as_dict(tree: Tree) -> dict[bytes, bytes]:
    return dict(tree.records())


def packed_dict(contents: Mapping[bytes, int | str]) -> dict[bytes, bytes]:
    return {key: packed(value) for key, value in sorted(contents.items())}


def changes(items: Mapping[bytes, int | str | None]) -> list[tuple[bytes, bytes | None]]:
    return [(key, None if (value := items[key]) is None else packed(value)) for key in sorted(items)]
