"""Writable refs: a branch, and the hidden branch of a transaction."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from graveler.errors import InvalidError
from graveler.model import Change, Commit, ObjectEntry
from graveler.sdk.access import RepositoryAccess
from graveler.sdk.listing import Listing, keys_behind, listing
from graveler.sdk.page_size import page_size
from graveler.sdk.reference import Reference
from graveler.sdk.stored import StoredObject, WriteableObject
from graveler.sdk.tracebacks import short_tracebacks
from graveler.system.progress import ObjectProgress, no_object_progress

if TYPE_CHECKING:
    import pyarrow

ResetType: TypeAlias = Literal["reset", "object", "common_prefix"]
PathOrObject: TypeAlias = str | StoredObject | ObjectEntry


@short_tracebacks("object")
class WritableReference(Reference):
    """Operations on the objects of a branch, also inside a transaction. Reads show its uncommitted changes."""

    def object(self, path: str) -> WriteableObject:
        """Return a handle for reading and writing an object of this branch. No request."""
        return WriteableObject(self._repository, self._id, path)

    def uncommitted(
        self, max_amount: int | None = None, after: str = "", prefix: str = "", delimiter: str = ""
    ) -> Listing[Change]:
        """List the staged changes relative to the last commit, by path. Cost: that of :meth:`OpenRepository.uncommitted` per
        thousand."""
        amount = page_size(max_amount)
        return listing(
            f"uncommitted changes of {self._url}",
            Change,
            lambda position: self._repository.verbs.uncommitted(
                self._id, prefix=prefix, after=position, delimiter=delimiter, amount=amount
            ),
            max_amount,
            after,
            whole=None if delimiter or max_amount is not None else partial(self._all_uncommitted, prefix, after),
        )

    def _all_uncommitted(self, prefix: str, after: str) -> "pyarrow.RecordBatchReader":
        from graveler.sql.arrow.tables import staged  # for those that use data frames

        return staged(self._repository.verbs, self._id, keys=keys_behind(prefix, after))

    def delete_objects(self, object_paths: PathOrObject | Iterable[PathOrObject]) -> None:
        """Remove objects; missing paths are no error. Cost: one table write per 25 paths, one table read per thousand."""
        if isinstance(object_paths, str | StoredObject | ObjectEntry):
            object_paths = [object_paths]
        self._repository.verbs.delete(self._id, (path if isinstance(path, str) else path.path for path in object_paths))

    def reset_changes(self, path_type: ResetType = "reset", path: str = "") -> None:
        """Discard uncommitted changes: all of them, those of one ``"object"``, or those under a ``"common_prefix"``.

        Cost and errors as :class:`Reset`.
        """
        verbs, by = self._repository.verbs, self._repository.user
        if (path_type == "reset") == bool(path):
            raise InvalidError(
                f"path {path!r} does not go with {path_type!r}; give a path with 'object' or 'common_prefix', none with 'reset'"
            )
        if path_type == "object":
            verbs.reset(self._id, path=path, by=by)
        elif path_type == "common_prefix":
            verbs.reset(self._id, prefix=path, by=by)
        else:
            verbs.reset(self._id, by=by)

    def _repr_html_(self) -> str:
        from graveler.sdk.tables import branch_card  # for notebooks

        return branch_card(self._repository, f"{type(self).__name__.lower()} {self._url}", self._id)


def commit_branch(
    repository: RepositoryAccess,
    branch_id: str,
    message: str,
    metadata: Mapping[str, str] | None,
    *,
    allow_empty: bool = False,
    created: int | None = None,
    request_id: str = "",
    progress: ObjectProgress = no_object_progress,
) -> Commit:
    """Commit a branch. See :meth:`graveler.sdk.branch.Branch.commit`."""
    if not isinstance(message, str):
        raise TypeError(f"a commit message must be text, not {type(message).__name__}")
    return repository.verbs.commit(
        branch_id,
        message,
        committer=repository.user,
        metadata=metadata,
        allow_empty=allow_empty,
        created=created,
        request_id=request_id,
        progress=progress,
    )
