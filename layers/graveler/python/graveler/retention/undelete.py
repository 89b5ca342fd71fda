"""Recovery of what a collector deleted for good, from the versions that the bucket keeps.

It is for a table that was restored to an earlier moment, whose files may have been collected since. First the table, then this:
the collector deletes what no ref needs, and recovered files are as old as they were.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.repository import OpenRepository
from graveler.storage.objects.tree_files import FOLDER
from graveler.tree.store import METARANGES, RANGES

if TYPE_CHECKING:
    from graveler.storage.objects.s3_versions import DeletedObject

_LEFT_OUT: Final = (f"{FOLDER}/quarantine/", f"{FOLDER}/gc/")
"""The collector's own files, which it deletes when their time is over."""

_S3: Final = "s3://"
_TOGETHER: Final = 1000


class Undeleted(Struct, frozen=True):
    """The number of recovered files and bytes, and the reasons why others were not recovered."""

    files: int = 0
    bytes: int = 0
    wrong: tuple[str, ...] = ()

    def __add__(self, other: "Undeleted") -> "Undeleted":
        return Undeleted(self.files + other.files, self.bytes + other.bytes, self.wrong + other.wrong)


class Undelete:
    """The recovery of deleted files of one repository. :class:`InvalidError` if its namespace keeps no versions. One request."""

    def __init__(self, repository: OpenRepository) -> None:
        self._repository = repository
        objects = repository.namespace
        if not objects.namespace.startswith(_S3):
            raise InvalidError(
                f"{objects.namespace} keeps no versions of deleted files, which only S3 buckets do; files that a run moved to "
                "quarantine come back with `graveler gc restore`"
            )
        from graveler.storage.objects.s3 import S3Objects  # a lake in a folder works without boto3

        assert isinstance(objects, S3Objects)
        self._versions = objects.versions()
        self._versions.check()

    def deleted(self, since: float) -> "Iterator[DeletedObject]":
        """Return what was deleted since then (Unix seconds). One request per 1,000 versions of the namespace."""
        return (entry for entry in self._versions.deleted(since=since) if not entry.key.startswith(_LEFT_OUT))

    def bring_back(self, deleted: "Iterable[DeletedObject]", *, dry_run: bool = False) -> Undeleted:
        """Recover these, or with ``dry_run`` only report what would be. May be repeated; what was recovered before an error
        stays. One request per 1,000, none with ``dry_run``."""
        rest, total = iter(deleted), Undeleted()
        while some := list(islice(rest, _TOGETHER)):
            wrong = {entry.key: "no version of it is left" for entry in some if entry.size is None}
            restorable = [entry for entry in some if entry.size is not None]
            if restorable and not dry_run:
                wrong |= self._versions.bring_back(restorable)
            sizes = [entry.size or 0 for entry in some if entry.key not in wrong]
            total += Undeleted(len(sizes), sum(sizes), tuple(f"{key}: {reason}" for key, reason in wrong.items()))
        return total

    def of_commit(self, ref: str) -> Undeleted:
        """Recover what the commit of a ref needs: its metarange, its ranges, and its objects in the repository's namespace. One
        request per 1,000 versions in the namespace; one per 1,000 that are recovered; and those of a scan."""
        repository = self._repository
        commit = repository.commit_of(ref)
        deleted = {deleted_object.key: deleted_object for deleted_object in self._versions.deleted()}

        def bring(keys: Iterable[str]) -> Undeleted:
            return self.bring_back(deleted.pop(key) for key in keys if key in deleted)

        done = bring([f"{COMMITS_FOLDER}/{commit.id}", f"{FOLDER}/{METARANGES}/{commit.metarange}"])
        tree = repository.tree(commit.id)
        done += bring(f"{FOLDER}/{RANGES}/{tree.info(number).name}" for number in range(len(tree)))
        namespace = f"{repository.repository.namespace}/"
        addresses = (entry.address for entry in repository.objects(commit.id))
        return done + bring(address.removeprefix(namespace) for address in addresses if address.startswith(namespace))
