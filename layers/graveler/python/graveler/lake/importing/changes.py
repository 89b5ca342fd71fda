"""The effect of an import on its destinations: how many objects it adds, replaces, removes, and leaves as they are."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import asdict

from graveler.model import Commit, Totals
from graveler.tree.listing import prefix_end
from graveler.tree.record import identity
from graveler.tree.summary import TotalsCounter, total_between
from graveler.tree.tree import Tree

Compare = Callable[[Tree, Tree], Totals]
"""How much turns what the first tree has at an import's destination into the second tree, all of which lies there."""


class ImportChanges(Struct, frozen=True):
    """How many objects under an import's destinations it adds, replaces by others of the same path, removes, and leaves as they
    are; with their bytes, of replaced ones before and after."""

    added: int = 0
    added_bytes: int = 0
    replaced: int = 0
    replaced_bytes_before: int = 0
    replaced_bytes_after: int = 0
    removed: int = 0
    removed_bytes: int = 0
    unchanged: int = 0
    unchanged_bytes: int = 0

    @classmethod
    def of(cls, totals: Totals, objects: int, size: int) -> "ImportChanges":
        """Of these differences, if there are so many ``objects`` with ``size`` bytes at the destinations afterwards."""
        return cls(
            totals.added,
            totals.added_bytes,
            totals.changed,
            totals.changed_bytes_before,
            totals.changed_bytes_after,
            totals.removed,
            totals.removed_bytes,
            objects - totals.added - totals.changed,
            size - totals.added_bytes - totals.changed_bytes_after,
        )

    @property
    def objects(self) -> int:
        """Objects at the destinations afterwards: those that the import lists."""
        return self.added + self.replaced + self.unchanged

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return self.added_bytes + self.replaced_bytes_after + self.unchanged_bytes


class Imported(Commit, frozen=True, kw_only=True):
    """The commit of an import, and what it changed. That of a dry run has no ID: it was not made."""

    changes: ImportChanges

    @classmethod
    def by(cls, commit: Commit, changes: ImportChanges) -> "Imported":
        """A commit that changed this much."""
        return cls(**asdict(commit), changes=changes)

    def __eq__(self, other: object) -> bool:
        """It is the commit, whoever reads that."""
        if not isinstance(other, Commit):
            return NotImplemented
        if isinstance(other, Imported) and other.changes != self.changes:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in Commit.__struct_fields__)

    def __hash__(self) -> int:
        return hash(self.id)


def compare_here(destination: bytes, is_prefix: bool) -> Compare:
    """Compares what is at a destination in this process. Cost: the ranges there that differ and overlap others; of one object a
    block or two."""

    def compare_object(before: Tree, tree: Tree) -> Totals:
        old, new = before.get(destination), tree.get(destination)
        counter = TotalsCounter()
        if old is None or new is None or identity(old) != identity(new):
            counter.add(old, new)
        return counter.totals()

    def compare_prefix(before: Tree, tree: Tree) -> Totals:
        return total_between(before, tree, destination, prefix_end(destination))

    return compare_prefix if is_prefix else compare_object
