"""Names of tables, views and namespaces in a merge of trees: what both sides did to one name, or to the names of one table.

To a merge of trees a name is a key. That one table has two names, that a table and a view share one, or that a namespace is gone
which has a table, are conflicts that no key shows by itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from graveler.lake.iceberg.catalog_paths import entries_prefix, namespace_of, relation_key, relation_of
from graveler.lake.iceberg.linked_files import FOLDER_FIELD
from graveler.lake.iceberg.table_states import UUID_FIELD
from graveler.model import MergeStrategy
from graveler.tree.diff import diff
from graveler.tree.has_difference import covers_differ, differ
from graveler.tree.listing import prefix_end
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import END, FILES, RESERVED, is_table

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
    """Changes of one side to entries: all of them; the keys from which it removed a table or a view; the new key of each that it
    renamed, by the former one; and the keys of those that are new."""

    changes: dict[bytes, tuple[bytes | None, bytes | None]]
    removed: frozenset[bytes]
    renamed: dict[bytes, bytes]
    new_keys: "dict[_Identity, bytes]"

    def new(self, key: bytes) -> bytes | None:
        """Return the record of an entry that the side made."""
        before, after = self.changes.get(key, (None, None))
        return after if before is None else None

    def former(self, key: bytes) -> bytes | None:
        """Return the key at the base of what the side renamed to a key."""
        return next((former for former, new in self.renamed.items() if new == key), None)

    def without(self, key: bytes) -> Changes:
        """Return what takes back that the side made an entry: it is removed, or has its former name, if it was renamed."""
        former = self.former(key)
        return {key: None} if former is None else {key: None, former: self.new(key)}

    def renamings(self, key: bytes) -> set[bytes]:
        """Return a key, and all that the side's renamings connect with it."""
        keys = {key}
        step: bytes | None = self.renamed.get(key)
        while step is not None and step not in keys:
            keys.add(step)
            step = self.renamed.get(step)
        step = self.former(key)
        while step is not None and step not in keys:
            keys.add(step)
            step = self.former(step)
        return keys


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
        identities = {
            key: (self._identity(key, before), self._identity(key, after)) for key, (before, after) in changes.items()
        }
        removed, renamed = _renamed(identities)
        renamings = set(renamed.values())
        new_keys = {
            latter: key
            for key, (former, latter) in identities.items()
            if latter is not None and latter != former and key not in renamings
        }
        return _Side(changes, removed, renamed, new_keys)

    def _identity(self, key: bytes, packed: bytes | None) -> "_Identity | None":
        if packed is None or relation_of(key) is None:
            return None
        fields = self._codec.decode(key, packed).metadata
        return _Identity(fields.get(UUID_FIELD, ""), fields.get(FOLDER_FIELD, ""))

    def former_keys(self, key: bytes) -> set[bytes]:
        """Return the keys at the base of what the sides renamed to a key."""
        return {former for side in self._sides if (former := side.former(key)) is not None}

    def new_key(self, number: int, key: bytes) -> bytes | None:
        """Return the key that a side (0: the source) gave to what has this key at the base, if it renamed it."""
        return self._sides[number].renamed.get(key)

    def without(self, number: int, key: bytes) -> Changes:
        """Return what takes back that a side (0: the source) made an entry."""
        return self._sides[number].without(key)

    def renamings(self, number: int, key: bytes) -> set[bytes]:
        """Return a key, and all that the renamings of a side (0: the source) connect with it."""
        return self._sides[number].renamings(key)

    def renamed_tables(self) -> list[bytes]:
        """Return the keys of tables that both sides changed differently, and from or to which one of them renamed a table."""
        source, destination = self._sides
        renamings = {key for side in self._sides for renaming in side.renamed.items() for key in renaming}
        return sorted(
            key
            for key in renamings & source.changes.keys() & destination.changes.keys()
            if is_table(key) and source.changes[key][1] != destination.changes[key][1]
        )

    def conflicts(self) -> list[NameConflict]:
        """Return the conflicts of names, in key order."""
        return sorted(
            (*self._two_names(), *self._two_new_names(), *self._dropped(), *self._shared(), *self._orphans()),
            key=lambda part: part.key,
        )

    def _two_names(self) -> Iterator[NameConflict]:
        source, destination = self._sides
        for key, name in source.renamed.items():
            other_name = destination.renamed.get(key, name)
            if other_name == name:
                continue
            sentence = (
                f"{_name(key)}: the source renamed it to {_name(name)}, and the destination to {_name(other_name)}"
            )
            yield self._named_twice(name, other_name, sentence)

    def _two_new_names(self) -> Iterator[NameConflict]:
        """Yield the tables that are new on both sides, after a squash merge or a cherry-pick of one from the other, and that one
        side has renamed since."""
        source, destination = self._sides
        for identity, key in source.new_keys.items():
            other_key = destination.new_keys.get(identity, key)
            if other_key == key:
                continue
            sentence = f"{_name(key)}: the source has it under this name, and the destination as {_name(other_key)}"
            yield self._named_twice(key, other_key, sentence)

    def _named_twice(self, key: bytes, other_key: bytes, sentence: str) -> NameConflict:
        """Return the conflict of a table that the source has at a key, and the destination at another one."""
        source, destination = self._sides
        return NameConflict(
            key,
            sentence,
            {
                MergeStrategy.SOURCE_WINS: {other_key: None, key: source.changes[key][1]},
                MergeStrategy.DEST_WINS: {key: None, other_key: destination.changes[other_key][1]},
            },
        )

    def _dropped(self) -> Iterator[NameConflict]:
        for number, renamer in enumerate(self._sides):
            dropper = self._sides[1 - number]
            for key, new in renamer.renamed.items():
                if key not in dropper.removed or key in dropper.renamed:
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


class _Identity(Struct, frozen=True):
    """The UUID of a table or a view, and the folder of a table's links: a rename leaves both, and of two names of one UUID each
    has a folder of its own."""

    uuid: str
    folder: str


def _renamed(
    identities: Mapping[bytes, tuple["_Identity | None", "_Identity | None"]],
) -> tuple[frozenset[bytes], dict[bytes, bytes]]:
    """Return the keys from which a table or a view was removed, and the new key of each that was renamed, by its former key; from
    the identities before and after at keys. One that was dropped and registered under another name was renamed, too, unless
    several have its UUID."""
    differing = {key: pair for key, pair in identities.items() if pair[0] != pair[1]}
    removed = {key: former for key, (former, _) in differing.items() if former is not None}
    added = {key: latter for key, (_, latter) in differing.items() if latter is not None}
    new_keys = {identity: key for key, identity in added.items()}
    renamed = {key: new_keys[identity] for key, identity in removed.items() if identity in new_keys}
    former_ones = {key: identity for key, identity in removed.items() if key not in renamed}
    new_ones = {key: identity for key, identity in added.items() if key not in renamed.values()}
    for key in former_ones.keys() & new_ones.keys():
        if former_ones[key].uuid == new_ones[key].uuid:  # it has its links in another folder since, and no other name
            del former_ones[key], new_ones[key], removed[key]
    new = _sole_keys(new_ones)
    renamed |= {key: new[uuid] for uuid, key in _sole_keys(former_ones).items() if uuid in new}
    return frozenset(removed), renamed


def _sole_keys(identities: Mapping[bytes, _Identity]) -> dict[str, bytes]:
    """Return the keys by UUID of those whose UUID no other has."""
    counts = Counter(identity.uuid for identity in identities.values())
    return {identity.uuid: key for key, identity in identities.items() if counts[identity.uuid] == 1}


def _name(key: bytes) -> str:
    relation, namespace = relation_of(key), namespace_of(key)
    return f"{relation[1]} {relation[0]}" if relation else f"namespace {'.'.join(namespace or ())}"
