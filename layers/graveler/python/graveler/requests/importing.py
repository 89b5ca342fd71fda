"""Requests that take objects over where they lie."""

from enum import Enum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from graveler.model import Commit, Totals
from graveler.requests.base import CommitInfo, Permission, Request


class AddressType(str, Enum):
    """What an address names: one object, or all whose address begins with it."""

    OBJECT = "object"
    COMMON_PREFIX = "common_prefix"


class ImportAddress(Struct, frozen=True):
    """One source of an import, ``address``, and where in the branch it goes: the object's path, or (for a prefix) a folder, with
    or without its slash; empty is the root."""

    type: AddressType
    address: str
    destination: str = ""


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


class ImportAddresses(Request[Imported], frozen=True, kw_only=True):
    """Take over objects and prefixes that are named by address, to destinations that do not overlap, as one commit.

    What the sources list replaces all that is at their destinations. Without a source, the commit has the head's tree.
    ``trust_mtime`` is for files alone: size and time of modification stand for their bytes. With ``dry_run`` there is no commit,
    and the result says what the import would change.

    Cost: n/r ranges, a metarange and a commit record written; the head's commit, its metarange and seams read; one transaction.

    :class:`NotFoundError` for an object that is not there; :class:`EmptySourceError` names each prefix without objects, unless
    ``allow_empty``; :class:`DirtyBranchError`, :class:`InvalidError`, :class:`UnavailableError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True

    branch: str
    sources: tuple[ImportAddress, ...]
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    trust_mtime: bool = False
