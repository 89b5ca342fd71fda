"""The results of an import's tasks: trees of key intervals, and the rows that cannot be imported."""

from typing import Final

import msgspec
from msgspec import Struct

from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree

Span = tuple[bytes, bytes]
"""The first and the last key of an interval."""


class BadRow(Struct, frozen=True):
    """A row that cannot be imported: its name in the listing, and the reason."""

    name: str
    why: str


class Subtree(Struct, frozen=True):
    """The tree of the records from key ``first`` on: last keys and packed descriptions of its ranges, which are written. It holds
    everything that the listing has up to its last key. ``duplicates`` are rows superseded by a later one of the same key.

    ``run`` and ``partition`` name the task that built it, ``begins`` and ``ends`` mark the task's first and last tree. ``after``
    is the last key of the nearest preceding interval that the run skipped (empty: none).
    """

    first: bytes
    lasts: list[bytes]
    packed: list[bytes]
    duplicates: int
    run: str
    partition: int
    begins: bool
    ends: bool
    after: bytes

    @property
    def last(self) -> bytes:
        """Its last key."""
        return self.lasts[-1]

    def tree(self, store: TreeStore) -> Tree:
        """Return it as a tree whose files are in ``store``."""
        return Tree(store, self.lasts, self.packed)


class Subtrees(Struct, frozen=True):
    """The result of one task: trees of ascending intervals, the number of rows that cannot be imported, and a sample of these."""

    trees: list[Subtree]
    bad: int
    samples: list[BadRow]


pack: Final = msgspec.msgpack.Encoder().encode
unpack: Final = msgspec.msgpack.Decoder(Subtrees).decode
