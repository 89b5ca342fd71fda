"""Writable refs: a branch, and the hidden branch of a transaction."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from graveler import requests
from graveler.errors import InvalidError
from graveler.model import Change, ObjectEntry
from graveler.sdk.listing import Listing, keys_behind, listing
from graveler.sdk.page_size import page_size
from graveler.sdk.reference import Reference
from graveler.sdk.stored import StoredObject, WriteableObject
from graveler.system.tracebacks import short_tracebacks

if TYPE_CHECKING:
    import pyarrow

    from graveler.gateway.run.block import GatewayAccess

ResetType: TypeAlias = Literal["reset", "object", "common_prefix"]
PathOrObject: TypeAlias = str | StoredObject | ObjectEntry


@short_tracebacks("object")
class WritableReference(Reference):
    """Operations on the objects of a branch, also inside a transaction. Reads show its uncommitted changes."""

    def object(self, path: str) -> WriteableObject:
        """Return a handle for reading and writing an object of this branch. No request."""
        return WriteableObject(self._access, self._id, path)

    def uncommitted(
        self, max_amount: int | None = None, after: str = "", prefix: str = "", delimiter: str = ""
    ) -> Listing[Change]:
        """List the staged changes relative to the last commit, by path. Cost: that of :meth:`OpenRepository.uncommitted` per
        thousand."""
        amount = page_size(max_amount)
        return listing(
            f"uncommitted changes of {self._url}",
            Change,
            lambda position: self._access.repository.uncommitted(
                self._id, prefix=prefix, after=position, delimiter=delimiter, amount=amount
            ),
            max_amount,
            after,
            whole=None if delimiter or max_amount is not None else partial(self._all_uncommitted, prefix, after),
        )

    def _all_uncommitted(self, prefix: str, after: str) -> "pyarrow.RecordBatchReader":
        from graveler.sql.arrow.tables import staged  # for those that use data frames

        return staged(self._access.repository, self._id, keys=keys_behind(prefix, after))

    def delete_objects(self, object_paths: PathOrObject | Iterable[PathOrObject]) -> None:
        """Remove objects; missing paths are no error. Cost: one table write per 25 paths, one table read per thousand."""
        if isinstance(object_paths, str | StoredObject | ObjectEntry):
            object_paths = [object_paths]
        paths = tuple(path if isinstance(path, str) else path.path for path in object_paths)
        self._access.repository.run(requests.staging.Delete(branch=self._id, objects=paths))

    def reset_changes(self, path_type: ResetType = "reset", path: str = "") -> None:
        """Discard uncommitted changes: all of them, those of one ``"object"``, or those under a ``"common_prefix"``.

        Cost and errors as :class:`Reset`.
        """
        if (path_type == "reset") == bool(path):
            raise InvalidError(
                f"path {path!r} does not go with {path_type!r}; give a path with 'object' or 'common_prefix', none with 'reset'"
            )
        request = requests.staging.Reset(
            branch=self._id,
            path=path if path_type == "object" else None,
            prefix=path if path_type == "common_prefix" else None,
        )
        self._access.repository.run(request, self._context)

    def gateway(self, *, own_keys: bool = False, also: Sequence[str] = ()) -> "AbstractContextManager[GatewayAccess]":
        """Serve the branch by S3's protocol for a ``with`` block, on this machine, by a process of its own: clients of S3
        read its objects, and stage others. In a transaction, all of their writes are published together. Clients sign by a pair
        of keys for the block, or with ``own_keys`` by the AWS credentials of this process. ``also`` are places of S3,
        ``s3://bucket/prefix``, that they may read, too, with the rights of this process. ::

            with main.transaction("Nightly") as tx, tx.gateway() as gateway:
                subprocess.run(["./load.sh"], env=gateway.environment, check=True)

        At the end of the block, writes that run have ten seconds to land. Cost: the requests of the clients.
        :class:`UnavailableError` without the extra ``server``, and if the gateway has ended before the block.
        """
        return self._gateway(self._id, read_only=False, own_keys=own_keys, also=also)

    def _repr_html_(self) -> str:
        from graveler.sdk.display_tables import branch_card  # for notebooks

        return branch_card(self._access, f"{type(self).__name__.lower()} {self._url}", self._id)
