"""Requests that take objects over where they lie."""

from enum import Enum
from pathlib import Path
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


class ListingOptions(Struct, frozen=True):
    """How the rows of a listing become records.

    ``source``: rows count whose key begins so, and it is taken off. With ``://`` in it, it is the addresses that begin so.
    ``destination``: what is put in front, empty or ending with ``/``.
    ``base``: a URL; objects are at this and their key. Without it, they are where the column ``physical_address`` says, or at
    ``s3://<Bucket>/<Key>``.
    ``columns``: the names of the columns of CSV files without a header, in order.
    ``url_encoded``: whether keys are; by default, those of CSV files without a header that have a column ``Bucket``, as S3
    Inventory writes them.
    ``folders``: take objects of size 0 whose key ends with ``/`` too.
    ``last_wins``: of several rows with one key the last one counts; otherwise they are an error.
    """

    source: str = ""
    destination: str = ""
    base: str = ""
    columns: tuple[str, ...] = ()
    url_encoded: bool | None = None
    folders: bool = False
    last_wins: bool = False


class ImportFolder(Request[Imported], frozen=True, kw_only=True):
    """Import the files of a folder, where they lie, as one commit: a zero-copy import. They replace all that is under
    ``destination``, a prefix, empty or ending with ``/``. Behind a server it is a folder of the machine that serves the lake.

    Each file is read once, for its MD5. With ``trust_mtime`` none is: size and time of modification stand for the bytes, and the
    record says so (:mod:`graveler.lake.objects.noted_times`).

    Cost: n/r ranges, a metarange and a commit record written; the head's commit, its metarange and seams read; one transaction.
    Two table reads, before the listing, to see that nothing is staged; again for each time that the head moves. To say what it
    adds, replaces and removes: the ranges at the destination read that differ from what comes and overlap it.

    A folder without files is an :class:`EmptySourceError`, unless ``allow_empty``: it would remove all that is under the
    destination. With ``dry_run`` the branch stays as it is, and the result says what the import would change; what was built for
    that is garbage, and costs as much. :class:`DirtyBranchError`, :class:`InvalidError`, :class:`UnavailableError`: then nothing
    was changed, and so it is if the folder cannot be read to its end.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)

    branch: str
    folder: Path
    destination: str = ""
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    trust_mtime: bool = False


class ImportListing(Request[Imported], frozen=True, kw_only=True):
    """Import the objects that a listing names, where they lie, as one commit. They replace all that is under the options'
    destination. Nothing looks at the objects themselves.

    ``listing`` is a CSV or Parquet file, several, a folder of them, or an S3 Inventory's ``manifest.json``. Several files (or row
    groups of Parquet) in order are shared among worker processes, where the lake has some. ``label`` is what messages call it.
    Cost: as :class:`ImportFolder`, and two passes over the listing. :class:`InvalidError` names file, row and column; also for a
    file that was cut short.

    Behind a server the listing is read here, and what it names is sent; Ctrl-C ends the import. Cost: four requests, one object
    write, and one for each look at how far it is; on disk about 50 bytes an object. Of a dry run two requests more.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)

    branch: str
    listing: tuple[Path, ...]
    options: ListingOptions = ListingOptions()
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    label: str = ""
