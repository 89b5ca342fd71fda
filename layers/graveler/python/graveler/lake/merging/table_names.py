"""Names of tables, views and namespaces in a merge of trees: what both sides did to one name, or to the names of one table.

To a merge of trees a name is a key. That one table has two names, that a table and a view share one, or that a namespace is gone
which has a table, are conflicts that no key shows by itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from graveler.lake.iceberg.catalog_paths import entries_prefix, namespace_of, relation_key, relation_of
from graveler.lake.iceberg.table_states import UUID_FIELD
from graveler.model import MergeStrategy
from graveler.tree.diff import diff
from graveler.tree.has_difference import covers_differ, differ
from graveler.tree.listing import prefix_end
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import END, FILES, RESERVED

_SIDES: Final = ("source", "destination")
_WINS: Final = (MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS)

Changes = dict[bytes, bytes | None]
"""Records by key; None removes one."""


class NameConflict(Struct, frozen=True):
    """A conflict of names at a ``key``, the reason as a sentence, and what the merged tree is to have by each strategy."""

    key: bytes
    sentence: str
    resolutions: Mapping[MergeStrategy, Changes]


class _Side(Struct, frozen=True):
    """Changes of one side to entries: all of them, and the keys of the tables that it removed and added, by UUID."""

    changes: dict[bytes, tuple[bytes | None, bytes | None]]
    removed: dict[str, bytes]
    added: dict[str, bytes]

    def new(self, key: bytes) -> bytes | None:
        """Return the record of an entry that the side made."""
        before, after = self.changes.get(key, (None, None))
        return after if before is None else None

    def without(self, key: bytes) -> Changes:
        """Return what takes back that the side made an entry: it is removed, or has its former name, if it was renamed."""
        former = next(
            (self.removed[uuid] for uuid, place in self.added.items() if place == key and uuid in self.removed), None
        )
        return {key: None} if former is None else {key: None, former: self.new(key)}


def both_changed_names(trees: tuple[Tree, Tree, Tree]) -> bool:
    """Return whether both sides of a merge changed entries of the catalog. Opens ranges only where both sides changed some."""
    base, *sides = trees
    return all(covers_differ(base, side, RESERVED, END) for side in sides) and all(
        differ(base, side, RESERVED, FILES) or differ(base, side, _end_of_files(), END) for side in sides
    )


def entry_differences(base: Tree, side: Tree) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Yield the differences of entries, leaving out the files of tables."""
    yield from diff(base, side, RESERVED, FILES)
    yield from diff(base, side, _end_of_files(), END)


def _end_of_files() -> bytes:
    end = prefix_end(FILES)
    assert end is not None
    return end


class TableNames:
    """The names at the three trees of a merge. Making one reads the entries in which a side differs from the base."""

    def __init__(self, codec: RecordCodec, trees: tuple[Tree, Tree, Tree]) -> None:
        self._codec = codec
        self._sides = [self._side(trees[0], side) for side in trees[1:]]

    def _side(self, base: Tree, side: Tree) -> _Side:
        changes = {key: (before, after) for key, before, after in entry_differences(base, side)}
        removed: dict[str, bytes] = {}
        added: dict[str, bytes] = {}
        for key, records in changes.items():
            former, latter = (self._uuid(key, packed) for packed in records)
            if former != latter:
                removed |= {former: key} if former else {}
                added |= {latter: key} if latter else {}
        return _Side(changes, removed, added)

    def _uuid(self, key: bytes, packed: bytes | None) -> str | None:
        if packed is None or relation_of(key) is None:
            return None
        return self._codec.decode(key, packed).metadata.get(UUID_FIELD)

    def former_key(self, uuid: str | None) -> bytes | None:
        """Return the key that a table had at the base, if a side gave it another name."""
        return next((side.removed[uuid] for side in self._sides if uuid in side.removed), None)

    def new_key(self, number: int, uuid: str | None) -> bytes | None:
        """Return the key that a table has at a side (0: the source), if it is new there."""
        return self._sides[number].added.get(uuid or "")

    def without(self, number: int, key: bytes) -> Changes:
        """Return what takes back that a side (0: the source) made an entry."""
        return self._sides[number].without(key)

    def conflicts(self) -> list[NameConflict]:
        """Return the conflicts of names, in key order."""
        return sorted(
            (*self._two_names(), *self._dropped(), *self._shared(), *self._orphans()), key=lambda part: part.key
        )

    def _two_names(self) -> Iterator[NameConflict]:
        source, destination = self._sides
        for uuid, key in source.removed.items():
            names = [side.added.get(uuid) for side in self._sides]
            if names[0] is None or names[1] is None or names[0] == names[1]:
                continue
            yield NameConflict(
                names[0],
                f"{_name(key)}: the source renamed it to {_name(names[0])}, and the destination to {_name(names[1])}",
                {
                    MergeStrategy.SOURCE_WINS: {names[1]: None, names[0]: source.changes[names[0]][1]},
                    MergeStrategy.DEST_WINS: {names[0]: None, names[1]: destination.changes[names[1]][1]},
                },
            )

    def _dropped(self) -> Iterator[NameConflict]:
        for number, renamer in enumerate(self._sides):
            dropper = self._sides[1 - number]
            for uuid, key in renamer.removed.items():
                new = renamer.added.get(uuid)
                if new is None or uuid not in dropper.removed or uuid in dropper.added:
                    continue
                yield NameConflict(
                    new,
                    f"{_name(key)}: the {_SIDES[number]} renamed it to {_name(new)}, and the {_SIDES[1 - number]} dropped it",
                    {_WINS[number]: {new: renamer.changes[new][1]}, _WINS[1 - number]: {new: None}},
                )

    def _shared(self) -> Iterator[NameConflict]:
        for number, side in enumerate(self._sides):
            for key in side.changes:
                relation = relation_of(key)
                if relation is None or relation[1] != "table" or side.new(key) is None:
                    continue
                view = relation_key(relation[0], "view")
                if self._sides[1 - number].new(view) is not None:
                    sides = _SIDES[number], _SIDES[1 - number]
                    yield NameConflict(
                        key,
                        f"{relation[0]}: the {sides[0]} has a new table, and the {sides[1]} a new view of this name",
                        {_WINS[number]: self._sides[1 - number].without(view), _WINS[1 - number]: side.without(key)},
                    )

    def _orphans(self) -> Iterator[NameConflict]:
        for number, dropper in enumerate(self._sides):
            other = self._sides[1 - number]
            for key, (before, after) in dropper.changes.items():
                namespace = namespace_of(key)
                if namespace is None or after is not None or other.changes.get(key, (None, b""))[1] is None:
                    continue
                prefix = entries_prefix(namespace)
                new = [place for place in other.changes if place.startswith(prefix) and other.new(place) is not None]
                if not new:
                    continue
                names = ", ".join(_name(place) for place in new[:3]) + (", …" if len(new) > 3 else "")
                sides = _SIDES[number], _SIDES[1 - number]
                yield NameConflict(
                    key,
                    f"namespace {'.'.join(namespace)}: the {sides[0]} dropped it, and the {sides[1]} made {names} in it",
                    {
                        _WINS[1 - number]: {key: before} | {place: other.new(place) for place in new},
                        _WINS[number]: dict(item for place in new for item in other.without(place).items()),
                    },
                )


def _name(key: bytes) -> str:
    relation, namespace = relation_of(key), namespace_of(key)
    return f"{relation[1]} {relation[0]}" if relation else f"namespace {'.'.join(namespace or ())}"
