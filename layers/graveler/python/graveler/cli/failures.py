"""Errors of the command line itself, and what it says about those of the lake."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from graveler.errors import MergeConflictError, ObjectNotFoundError

if TYPE_CHECKING:
    from graveler.model import Conflict, TableMerge

WHAT_DECIDES: Final = "`--strategy` decides all conflicts, `--strategy-for PREFIX=WHO` those below a prefix"
"""What to do about conflicts of a merge."""


class ReplayConflictError(MergeConflictError):
    """Conflicts of a revert or a cherry-pick."""

    def __init__(
        self, doing: str, source: str, destination: str, conflicts: "Sequence[Conflict]", tables: "Sequence[TableMerge]"
    ) -> None:
        super().__init__(source, destination, conflicts, tables)
        number = f"{len(self.conflicts)} conflict{'s' if len(self.conflicts) != 1 else ''}"
        self.args = (f"{doing}: {number}, because the branch has other versions of these objects; nothing was changed",)


class NothingBelowError(ObjectNotFoundError):
    """No object of a ref has a path that starts with this."""

    def __init__(self, path: str, ref: str) -> None:
        super().__init__(path, ref)
        self.args = (f"no path in {ref!r} starts with {path!r}" if path else f"there is no object in {ref!r}",)
