"""What the tasks of an import have built: trees of intervals of keys, and the rows that cannot be imported."""

from typing import Final

import msgspec
from msgspec import Struct

from graveler.tree.files import TreeStore
from graveler.tree.tree import Tree

Span = tuple[bytes, bytes]
"""The first and the last key of an interval."""


class BadRow(Struct, frozen=True):
    """A row that cannot be imported: its name in the listing, and why."""

    name: str
    why: str


class Subtree(Struct, frozen=True):
    """The tree of the records from key ``first`` on: last keys and packed descriptions of its ranges, which are written. It holds
    all that the listing has up to its last key. ``duplicates`` are rows that gave way to a later one of the same key.

    ``run`` and ``partition`` say which task built it, ``begins`` and ``ends`` whether it is that one's first, and its last.
    ``after`` is the last key of the nearest interval before it that the run left out (empty: there is none).
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
        """As a tree whose files are in ``store``."""
        return Tree(store, self.lasts, self.packed)


class Subtrees(Struct, frozen=True):
    """What one task did: trees of ascending intervals; how many rows cannot be imported, and some of these."""

    trees: list[Subtree]
    bad: int
    samples: list[BadRow]


pack: Final = msgspec.msgpack.Encoder().encode
unpack: Final = msgspec.msgpack.Decoder(Subtrees).decode
