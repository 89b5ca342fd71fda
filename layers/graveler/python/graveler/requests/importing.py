"""Requests for zero-copy imports: objects stay where they are."""

from enum import Enum
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from graveler.model import Commit, Totals
from graveler.requests.base import CommitInfo, Gated, Permission, Repetition


class AddressType(str, Enum):
    """The kind of an address: one object, or the common prefix of many objects' addresses."""

    OBJECT = "object"
    COMMON_PREFIX = "common_prefix"


class ImportAddress(Struct, frozen=True):
    """One source of an import, ``address``, and its destination in the branch: the object's path, or (for a prefix) a folder,
    with or without its slash; empty is the root."""

    type: AddressType
    address: str
    destination: str = ""


class ImportChanges(Struct, frozen=True):
    """The numbers of objects under an import's destinations that it adds, replaces, removes and leaves unchanged, and their
    bytes; of replaced objects before and after. ``excluded`` files and folders of the sources were left out by patterns, and
    ``left_out`` by default (:mod:`graveler.values.ignore_rules`); a folder counts as one."""

    added: int = 0
    added_bytes: int = 0
    replaced: int = 0
    replaced_bytes_before: int = 0
    replaced_bytes_after: int = 0
    removed: int = 0
    removed_bytes: int = 0
    unchanged: int = 0
    unchanged_bytes: int = 0
    excluded: int = 0
    left_out: int = 0

    @classmethod
    def of(cls, totals: Totals, objects: int, size: int) -> "ImportChanges":
        """Return the changes for these differences, given the ``objects`` and bytes (``size``) at the destinations afterwards."""
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
        """The number of objects at the destinations afterwards: those that the import lists."""
        return self.added + self.replaced + self.unchanged

    @property
    def bytes(self) -> int:
        """The bytes of those objects."""
        return self.added_bytes + self.replaced_bytes_after + self.unchanged_bytes


class Imported(Commit, frozen=True, kw_only=True):
    """The commit of an import, and what it changed. The result of a dry run has no ID, since it makes no commit. ``skipped`` are
    symbolic links in a folder that were not followed: they lead out of it, round in circles, or nowhere. ``special`` are pipes,
    sockets and devices in it, which cannot be objects. ``left_out`` are the first thousand of the files and folders that were
    left out by default, relative to the folder. All three are known only of a folder that was listed by this process."""

    changes: ImportChanges
    skipped: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @classmethod
    def by(cls, commit: Commit, changes: ImportChanges) -> "Imported":
        """Return a commit together with its changes."""
        return cls(**asdict(commit), changes=changes)

    def __eq__(self, other: object) -> bool:
        """Compare as the commit, also with one that is not an import."""
        if not isinstance(other, Commit):
            return NotImplemented
        if isinstance(other, Imported) and other.changes != self.changes:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in Commit.__struct_fields__)

    def __hash__(self) -> int:
        return hash(self.id)


class ImportAddresses(Gated[Imported], frozen=True, kw_only=True):
    """Import objects and prefixes, named by address, to destinations that do not overlap, as one commit: a zero-copy import.

    The sources replace everything at their destinations. Without a source, the commit has the head's tree.
    Below a prefix, folder markers are left out unless ``folders``: objects of size 0 whose key ends with ``/``, which consoles
    of S3 create. ``trust_mtime`` is for files alone: size and time of modification stand for their bytes. ``exclude`` and
    ``ignore`` apply to folders of files, as in :class:`ImportFolder`. With ``dry_run`` there is no commit, and the result says
    what the import would change.

    Cost: n/r ranges, a metarange and a commit record written; the head's commit, its metarange and seams read; one transaction.

    :class:`NotFoundError` for a missing object; :class:`EmptySourceError` names each prefix without objects, unless
    ``allow_empty``; :class:`DirtyBranchError`, :class:`InvalidError`, :class:`UnavailableError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "importing.imports:import_addresses"

    branch: str
    sources: tuple[ImportAddress, ...]
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    trust_mtime: bool = False
    folders: bool = False
    exclude: tuple[str, ...] = ()
    ignore: bool = False


class ListingOptions(Struct, frozen=True):
    """The rules by which rows of a listing become records.

    ``source``: only rows whose key begins with this prefix count, and it is removed. If it contains ``://``, it is a prefix of
    addresses. ``destination``: the prefix to add, empty or ending with ``/``. ``base``: a URL; an object's address is this and
    its key. Without it, the address is in the column ``physical_address``, or ``s3://<Bucket>/<Key>``. ``columns``: the names of
    the columns of CSV files without a header, in order. ``url_encoded``: whether keys are URL-encoded; by default, those of CSV
    files without a header that have a column ``Bucket``, as S3 Inventory writes them. ``folders``: include objects of size 0
    whose key ends with ``/``. ``last_wins``: of several rows with one key the last one counts; otherwise they are an error.
    """

    source: str = ""
    destination: str = ""
    base: str = ""
    columns: tuple[str, ...] = ()
    url_encoded: bool | None = None
    folders: bool = False
    last_wins: bool = False


class ImportFolder(Gated[Imported], frozen=True, kw_only=True):
    """Import the files of a folder, where they lie, as one commit: a zero-copy import. They replace everything under
    ``destination``, a prefix, empty or ending with ``/``. With a server, the folder is on the machine that serves the lake.

    Changing or deleting a file afterwards damages the commits that have it. With ``copy``, the bytes are copied into the
    repository's storage, and the files are free to change. If the import fails or is interrupted, the copies are removed. A
    server copies nothing: :class:`InvalidError`.

    Files and folders that a pattern of ``exclude`` names are left out. With ``ignore``, so are those that ``.gravelerignore``
    files in the folder name, and what is never data, such as ``.git`` and ``.env``. Patterns are those of ``.gitignore``
    (:mod:`graveler.values.ignore_rules`).

    Symbolic links to files count as files; links to folders are followed inside the folder, and other ones are reported. Files
    that no reader may read, or links to such files, are refused, named and counted. Each
    file is read once, for its MD5. With ``trust_mtime`` none is: size and time of modification stand for the bytes, and the
    record notes this (:mod:`graveler.lake.objects.noted_times`).

    Cost: n/r ranges, a metarange and a commit record written; the head's commit, its metarange and seams read; one transaction.
    Two table reads, before the listing, to see that nothing is staged; again each time the head moves. To report what it
    adds, replaces and removes: the ranges at the destination read that differ from the new ones and overlap them.

    A folder without files is an :class:`EmptySourceError`, unless ``allow_empty``: it would remove everything under the
    destination. With ``dry_run`` the branch stays as it is, and the result says what the import would change; the tree built for
    that is garbage, and costs as much. :class:`DirtyBranchError`, :class:`InvalidError`, :class:`ForbiddenError`,
    :class:`UnavailableError`: nothing was changed then, nor if the folder cannot be read to its end.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "importing.imports:import_folder"

    branch: str
    folder: Path
    destination: str = ""
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    trust_mtime: bool = False
    copy: bool = False
    exclude: tuple[str, ...] = ()
    ignore: bool = False


class ImportListing(Gated[Imported], frozen=True, kw_only=True):
    """Import the objects that a listing names, where they lie, as one commit. They replace everything under the options'
    destination. The objects themselves are not read.

    ``listing`` is a CSV or Parquet file, several, a folder of them, or an S3 Inventory's ``manifest.json``. Several files (or row
    groups of Parquet) in order are shared among worker processes, if the lake has some. ``label`` is its name in messages.
    Cost: as :class:`ImportFolder`, and two passes over the listing. :class:`InvalidError` names file, row and column; also for a
    truncated file.

    With a server, the listing is read here, and its entries are sent; Ctrl-C ends the import. Cost: four requests, one object
    write, and one for each progress query; on disk about 50 bytes an object. A dry run takes two requests more.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "importing.imports:import_listing"

    branch: str
    listing: tuple[Path, ...]
    options: ListingOptions = ListingOptions()
    info: CommitInfo = CommitInfo()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    label: str = ""
