"""A repository, and the handles on what is in it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from graveler.anywhere import AnyLake, AnyRepository
from graveler.errors import AlreadyExistsError, InvalidError
from graveler.model import Repository as RepositoryProperties
from graveler.paging import items
from graveler.sdk.branch import Branch
from graveler.sdk.page_size import page_size
from graveler.sdk.reference import Reference
from graveler.sdk.tag import Tag

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository


class Repository:
    """A repository by its name; ``lake.repository("sales")`` makes one. The first verb that needs the repository reads it, and
    :class:`RepositoryNotFoundError` comes from there. Handles made of it share what it has read. Safe to share between
    threads."""

    def __init__(self, lake: AnyLake, repository_id: str, user: str = "") -> None:
        self._lake = lake
        self._id = repository_id
        self._open: AnyRepository | None = None
        self.user = user

    @property
    def id(self) -> str:
        """The name."""
        return self._id

    @property
    def verbs(self) -> AnyRepository:
        """The use cases, for whatever has no word here. Cost: one table read, the first time."""
        if self._open is None:
            self._open = self._lake.repository(self._id)
        return self._open

    @property
    def own(self) -> "OpenRepository":
        """The use cases of a lake of this process, which have more than a server offers. :class:`InvalidError` for a repository
        behind one. Cost as :attr:`verbs`."""
        from graveler.lake.repository import OpenRepository

        verbs = self.verbs
        if not isinstance(verbs, OpenRepository):
            raise InvalidError(f"repository {self._id!r} is behind a server; open its lake itself for this")
        return verbs

    @property
    def properties(self) -> RepositoryProperties:
        """Namespace, default branch, time of creation."""
        return self.verbs.repository

    @property
    def metadata(self) -> Mapping[str, str]:
        """What its owners noted of it. Cost: one table read."""
        return self.verbs.metadata()

    def create(
        self,
        storage_namespace: str | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
        *,
        metadata: Mapping[str, str] | None = None,
        read_only: bool = False,
    ) -> "Repository":
        """Make the repository, with one branch and a first, empty commit.

        Its objects go to ``storage_namespace``, a URL; into the lake's own place without one. With ``exist_ok``, one that is
        there is left as it is. Cost: two table reads, two object writes, one transaction. :class:`AlreadyExistsError`,
        :class:`InvalidError`.
        """
        namespace = storage_namespace or f"{self._lake.home}{self._id}"
        try:
            self._open = self._lake.create_repository(
                self._id,
                namespace,
                default_branch=default_branch,
                by=self.user,
                metadata=metadata,
                read_only=read_only,
            )
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Forget the repository; its objects stay where they are. Cost: one table read, one transaction."""
        self._lake.delete_repository(self._id)
        self._open = None

    def set_metadata(self, metadata: Mapping[str, str]) -> Mapping[str, str]:
        """Add to the metadata, or change it; all of it then. Cost and errors as :class:`SetMetadata`."""
        return self.verbs.set_metadata(metadata)

    def delete_metadata(self, keys: Iterable[str]) -> Mapping[str, str]:
        """Remove keys from the metadata; what stays. Cost and errors as :class:`DeleteMetadata`."""
        return self.verbs.delete_metadata(keys)

    @property
    def protected(self) -> tuple[str, ...]:
        """The patterns of branches that only merges, reverts and cherry-picks change. Cost: one table read."""
        return self.verbs.protection()[0]

    def protect(self, *patterns: str) -> tuple[str, ...]:
        """Protect the branches that a pattern matches (``*``, ``?``); all patterns then. Cost and errors as
        :class:`Protect`."""
        return self.verbs.protect(patterns)

    def unprotect(self, *patterns: str) -> tuple[str, ...]:
        """Take patterns away; the ones that stay. Cost and errors as :meth:`OpenRepository.unprotect`."""
        return self.verbs.unprotect(patterns)

    def set_read_only(self, read_only: bool) -> None:
        """Refuse every change, or allow them again. Cost as :class:`SetReadOnly`."""
        self.verbs.set_read_only(read_only)

    def branch(self, branch_id: str) -> Branch:
        """A branch, which may be still to create. No request."""
        return Branch(self, branch_id)

    def tag(self, tag_id: str) -> Tag:
        """A tag, which may be still to create. No request."""
        return Tag(self, tag_id)

    def ref(self, ref_id: str) -> Reference:
        """Any ref, to read from: branch, tag or commit ID, with ``~N``, ``^N`` or ``@`` behind it. No request."""
        return Reference(self, ref_id)

    def commit(self, commit_id: str) -> Reference:
        """A commit by its ID, or the beginning of it. No request."""
        return Reference(self, commit_id)

    def branches(
        self, max_amount: int | None = None, after: str = "", prefix: str = "", *, show_hidden: bool = False
    ) -> Iterator[Branch]:
        """Branches by name; those of transactions are hidden. Cost: about one table read for each of 16 shards and thousand."""
        amount = page_size(max_amount)
        listing = items(
            lambda position: self.verbs.branches(prefix, position, amount, show_hidden=show_hidden), max_amount, after
        )
        return (self.branch(found.name) for found in listing)

    def tags(self, max_amount: int | None = None, after: str = "", prefix: str = "") -> Iterator[Tag]:
        """Tags by name. Cost: about one table read for each of 16 shards and thousand."""
        amount = page_size(max_amount)
        listing = items(lambda position: self.verbs.tags(prefix, position, amount), max_amount, after)
        return (self.tag(found.name) for found in listing)

    def __repr__(self) -> str:
        return f"Repository({self._id!r})"
