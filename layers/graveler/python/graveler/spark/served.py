"""A repository whose refs are managed by a server of the HTTP API, and whose files this job reads and writes itself.

The server resolves refs, checks permissions by the access key, and makes the commits. That of an import is of a ready metarange
(``source_metarange``), and only if the branch is still at the commit that it was built on; those of a transaction are of files
that were linked to its hidden branch. Files of trees and of data go straight to the object store, with the job's own credentials
there; no permission for the table is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, MovedError, NoChangesError, PreconditionError, UnavailableError
from graveler.history.commits import decode_commit
from graveler.history.split_parameters import split_of
from graveler.lake.clock import GRACE, Backoff, Clock, SystemClock
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.committing.resplit import as_cut
from graveler.lake.importing.importer import Comparison, ImportSource, expect_objects, replaced, sorted_sources
from graveler.lake.opening.repositories import Repositories
from graveler.location.environment import ServedLake
from graveler.model import Commit, CommitID, MetarangeName, Repository, SplitParameters
from graveler.remote.connection import Connection
from graveler.remote.opening import connect
from graveler.remote.repository import RemoteRepository, not_made
from graveler.requests.base import CommitInfo
from graveler.requests.importing import Imported
from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.namespaces import locate, open_namespace
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.canonical import ends_by
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.wire import documents, object_documents

if TYPE_CHECKING:
    from graveler.storage.objects.s3 import S3Settings

_LOCAL: Final = "local://"


class ServedRepository(RemoteRepository):
    """The verbs of a repository behind a server, and what imports, exports, transactions and reads in tasks need besides:
    ``namespace`` is its object store, ``grace`` the collector's grace period in seconds.

    One request, one object read. The server does not expose the repository's ``split`` parameters: only repositories created from
    Python with their own parameters differ. :class:`graveler.errors.NotFoundError`, :class:`InvalidError` for a namespace in a
    folder of the server alone; :class:`PreconditionError` if something else is at that location.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        s3: "S3Settings | None" = None,
        *,
        split: SplitParameters | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(connection, name)
        document = connection.get(self._base, documents.Repository).value()
        if document.namespace.startswith(_LOCAL):
            raise InvalidError(
                f"repository {name!r} is in the server's own folder ({document.namespace}), which executors cannot write to; "
                "name that folder itself as the lake, or use a repository whose namespace is an s3:// or file:/// URL"
            )
        self.locate_outside: Callable[[str], tuple[Objects, str]] = partial(locate, s3=s3)
        """Returns the object store and key of an address outside the namespace. Picklable for tasks."""
        self.namespace: Objects = open_namespace(document.namespace, s3=s3)
        self.grace: float = GRACE
        self.clock: Clock = clock or SystemClock()
        self._trees = TreeStore(ImmutableFiles(self.namespace, None, self.grace), LocalRuntime())
        try:
            uid = Repositories.uid_at(self.namespace)
        except ObjectMissingError:
            raise PreconditionError(
                f"repository {name!r} is not at {document.namespace} as seen by this job; point the job to the server's object "
                "store: its region, its s3_endpoint_url"
            ) from None
        self._repository = replace(document, uid=uid, split=split or SplitParameters())

    def close(self) -> None:
        """Close the connections to the server."""
        self._connection.close()

    @property
    def repository(self) -> Repository:
        """The repository, as of the creation of this object. No request."""
        return self._repository

    def commit_of(self, ref: str) -> Commit:
        """Return the commit that a ref points at, as stored in the object store. One request, one object read."""
        commit_id = CommitID(super().commit_of(ref).id)
        return decode_commit(commit_id, self.namespace.get(f"{COMMITS_FOLDER}/{commit_id}"))

    def tree(self, ref: str) -> Tree:
        """Return the tree of a ref's commit. Cost as :meth:`commit_of`, and one object read more."""
        return Tree.load(self._trees, self.commit_of(ref).metarange)

    def store_at(self, address: str) -> tuple[Objects, str]:
        """Return the object store of an address, and its key there. No request. :class:`InvalidError` if no store has its
        scheme."""
        inside = f"{self._repository.namespace}/"
        if address.startswith(inside):
            return self.namespace, address.removeprefix(inside)
        return self.locate_outside(address)

    def expect_kept(self, ref: str) -> None:
        """Refuse a ref whose commit has expired. One request. :class:`graveler.errors.ExpiredCommitError`."""
        self._connection.get((*self._base, "commits", ref), documents.Commit, {"kept": True})

    def expect_permitted(self, branch: str) -> None:
        """Check that the access key may change the branch, before any work starts. One request.
        :class:`graveler.errors.ForbiddenError`, :class:`graveler.errors.RefNotFoundError`."""
        path = (*self._base, "branches", branch, "objects", "stage_allowed")
        self._connection.call("GET", path, {"path": "any"})

    def new_address(self, branch: str, path: str) -> str:
        """Return an address as :meth:`graveler.lake.repository.OpenRepository.new_address`. One request."""
        location = (*self._base, "branches", branch, "staging", "backing")
        address = self._connection.get(location, object_documents.StagingLocation, {"path": path}).physical_address
        if address is None:
            raise UnavailableError(f"the server returned no address for {path!r}")
        return address

    def import_sources(
        self,
        branch: str,
        sources: Sequence[ImportSource],
        message: str,
        *,
        committer: str = "",  # noqa: ARG002 - the server notes whose access key it is
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
    ) -> Imported:
        """Import as :meth:`graveler.lake.repository.OpenRepository.import_sources`, for sources whose trees are built elsewhere.

        The server is asked first whether such a commit is permitted. Then, and again if the branch moved meanwhile: the head's
        metarange read, one written, and one request. ``committer`` is the access key's owner.

        :class:`MovedError` never; :class:`BusyError` if the branch keeps moving.
        """
        if request_id:
            raise InvalidError("a request ID works only on the lake itself; through a server, import again")
        ordered = sorted_sources(sources)
        document = {"message": message, "metadata": dict(metadata or {}), "date": created, "force": force}
        head = self.commit_of(self.branch(branch).commit_id)
        with suppress(NoChangesError):  # the head's own tree: everything is checked, and nothing needs a commit
            self._commit(branch, head, head.metarange, document)
        imported: list[tuple[ImportSource, Tree]] = []
        for source in ordered:
            if source.tree is None:
                raise InvalidError("through a server, only trees that tasks have built can be imported")
            imported.append((source, source.tree()))
        expect_objects(imported, allow_empty=allow_empty)
        comparison = Comparison()
        backoff = Backoff(self.clock)
        while True:
            head = self.commit_of(self.branch(branch).commit_id)
            changes = comparison.changes(Tree.load(self._trees, head.metarange), imported)
            tree = self._replaced(head, imported)
            if dry_run:
                return Imported.by(not_made(head, CommitInfo(message, metadata=metadata or {}), tree.name()), changes)
            try:
                return Imported.by(self._commit(branch, head, tree.save(), {**document, "allow_empty": True}), changes)
            except MovedError:
                if not backoff.wait():
                    raise BusyError(f"branch {branch!r} keeps moving; import again later") from None

    def _replaced(self, head: Commit, imported: Sequence[tuple[ImportSource, Tree]]) -> Tree:
        """Return the tree for the server to commit. Its split parameters are those of the head: those recorded in its commit,
        else in its metarange, else the repository's. If the head's ranges contradict them, the new metarange does not record
        them, and the server checks it."""
        before = Tree.load(self._trees, head.metarange)
        repository_split = self._repository.split
        split = split_of(head, before.cut_by or repository_split)
        tree = replaced(
            before,
            split,
            [(source, as_cut(imported_tree, repository_split, split)) for source, imported_tree in imported],
        )
        if before.cut_by != split and not ends_by(before, split):
            tree.cut_by = None
        return tree

    def _commit(self, branch: str, head: Commit, name: MetarangeName, document: Mapping[str, object]) -> Commit:
        """Commit ``name`` on top of ``head``. :class:`MovedError` if the branch has another head by now."""
        path = (*self._base, "branches", branch, "commits")
        query = {"source_metarange": name, "parent": head.id}
        response = self._connection.call("POST", path, query, document, passing=(409,))
        if response.status == 409:
            raise MovedError(branch, head.id, self.branch(branch).commit_id)
        commit_id = CommitID(response.read(documents.Commit).id)
        return decode_commit(commit_id, self.namespace.get(f"{COMMITS_FOLDER}/{commit_id}"))


def served_at(location: ServedLake, name: str, s3: "S3Settings | None" = None) -> ServedRepository:
    """Return a repository behind a server, for tasks of this session. Cost and errors as :class:`ServedRepository`."""
    return ServedRepository(connect(location), name, s3)


def served_by(verbs: object, name: str, s3: "S3Settings | None" = None) -> ServedRepository:
    """Return the same on the connection of a handle's verbs, which stays open. Cost and errors as :class:`ServedRepository`."""
    assert isinstance(verbs, RemoteRepository)
    return ServedRepository(verbs.connection, name, s3)
