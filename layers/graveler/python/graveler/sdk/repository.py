"""The handle on a repository, and its handles on branches, tags and commits."""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING

from graveler import requests
from graveler.errors import AlreadyExistsError, InvalidError
from graveler.files.repository import RepositoryAccess
from graveler.files.shared_lake import SharedLake
from graveler.model import Branch as BranchPosition
from graveler.model import Repository as RepositoryProperties
from graveler.model import Rule, Rules
from graveler.model import Tag as TagPosition
from graveler.remote.any_repository import AnyLake, AnyRepository
from graveler.sdk.branch import Branch
from graveler.sdk.listing import Listing, mapped
from graveler.sdk.page_size import page_size
from graveler.sdk.reference import Reference
from graveler.sdk.tag import Tag
from graveler.system.tracebacks import short_traceback, short_tracebacks

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository
    from graveler.sdk.log_graph import LogGraph
    from graveler.sdk.proposed_merges import PullRequests


@short_tracebacks("branch", "tag", "ref", "commit", "branches", "tags")
class Repository:
    """A repository, by name; ``lake.repository("sales")`` returns one. The first verb that needs the repository reads it, and may
    raise :class:`RepositoryNotFoundError`. Its handles share what it has read. Safe to share between threads."""

    def __init__(self, lake: SharedLake, repository_id: str, user: str = "") -> None:
        self._access = RepositoryAccess(lake, repository_id, user)

    def __getstate__(self) -> dict[str, object]:
        return {"_access": copy(self._access)}  # a copy may get a user of its own

    @property
    def id(self) -> str:
        """The repository's name."""
        return self._access.id

    @property
    def user(self) -> str:
        """The author of changes and commits."""
        return self._access.user

    @user.setter
    def user(self, user: str) -> None:
        self._access.user = user

    @property
    def verbs(self) -> AnyRepository:
        """The repository's operations, for whatever has no method here. Cost: one table read, the first time."""
        return self._access.repository

    @property
    def lake_verbs(self) -> AnyLake:
        """The operations of the lake that the repository is in. No request."""
        return self._access.lake

    @property
    def own(self) -> "OpenRepository":
        """The operations of a lake opened by this process, which are more than a server offers. :class:`InvalidError` for a
        repository behind a server. Cost as :attr:`verbs`."""
        from graveler.lake.repository import OpenRepository

        verbs = self.verbs
        if not isinstance(verbs, OpenRepository):
            raise InvalidError(
                f"repository {self.id!r} is behind a server, where this does not work; open the lake itself"
            )
        return verbs

    @property
    @short_traceback
    def properties(self) -> RepositoryProperties:
        """Namespace, default branch, creation time."""
        return self.verbs.repository

    @property
    @short_traceback
    def metadata(self) -> Mapping[str, str]:
        """The repository's metadata. Cost: one table read."""
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
        """Create the repository, with one branch and an empty first commit.

        Its objects go to the URL ``storage_namespace``, by default to the lake's own location. With ``exist_ok``, an existing
        repository is left as it is. Cost: two table reads, two object writes, one transaction. :class:`AlreadyExistsError`,
        :class:`InvalidError`.
        """
        lake = self._access.lake
        try:
            created = lake.create_repository(
                self.id,
                storage_namespace or f"{lake.home}{self.id}",
                default_branch=default_branch,
                by=self.user,
                metadata=metadata,
                read_only=read_only,
            )
            self._access.replace(created)
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Remove the repository from the lake; its objects stay in storage. Cost: one table read, one transaction."""
        self._access.lake.delete_repository(self.id)
        self._access.replace(None)

    def set_metadata(self, metadata: Mapping[str, str]) -> Mapping[str, str]:
        """Add or change metadata entries and return all of them. Cost and errors as :class:`SetMetadata`."""
        return self.verbs.run(requests.setting_changes.SetMetadata(metadata=metadata))

    def delete_metadata(self, keys: Iterable[str]) -> Mapping[str, str]:
        """Remove metadata keys and return the remaining entries. Cost and errors as :class:`DeleteMetadata`."""
        return self.verbs.run(requests.setting_changes.DeleteMetadata(keys=tuple(keys)))

    @property
    @short_traceback
    def protected(self) -> tuple[str, ...]:
        """The patterns of protected branches, which only merges, reverts and cherry-picks can change. Cost: one table read."""
        return self.verbs.protection()[0]

    def protect(self, *patterns: str) -> tuple[str, ...]:
        """Protect the branches that match the patterns (``*``, ``?``) and return all patterns. Cost and errors as
        :class:`Protect`."""
        return self.verbs.run(requests.setting_changes.Protect(patterns=patterns))

    def unprotect(self, *patterns: str) -> tuple[str, ...]:
        """Remove patterns and return the remaining ones. Cost and errors as :meth:`OpenRepository.unprotect`."""
        return self.verbs.run(requests.setting_changes.Unprotect(patterns=patterns))

    @property
    @short_traceback
    def rules(self) -> Rules:
        """The rules of branches and tags, with those of the lake that apply here. Cost: one table read."""
        return self.verbs.rules()

    def set_rules(self, rules: Iterable[Rule], if_match: int | None = None) -> Rules:
        """Replace the rules, but for those of the lake, which must not be among them. Cost and errors as :class:`SetRules`."""
        return self.verbs.run(requests.setting_changes.SetRules(rules=tuple(rules), if_match=if_match))

    def set_read_only(self, read_only: bool) -> None:
        """Refuse all changes, or allow them again. Cost as :class:`SetReadOnly`."""
        self.verbs.run(requests.setting_changes.SetReadOnly(read_only=read_only))

    def branch(self, branch_id: str) -> Branch:
        """Return a handle on a branch. It need not exist yet. No request."""
        return Branch(self._access, branch_id)

    def tag(self, tag_id: str) -> Tag:
        """Return a handle on a tag. It need not exist yet. No request."""
        return Tag(self._access, tag_id)

    def ref(self, ref_id: str) -> Reference:
        """Return a read handle on any ref: branch, tag or commit ID, optionally followed by ``~N``, ``^N`` or ``@``.
        No request."""
        return Reference(self._access, ref_id)

    def commit(self, commit_id: str) -> Reference:
        """Return a handle on a commit by its ID, or an abbreviated one. No request."""
        return Reference(self._access, commit_id)

    def branches(
        self, max_amount: int | None = None, after: str = "", prefix: str = "", *, show_hidden: bool = False
    ) -> Listing[Branch]:
        """List the branches by name, without those of transactions. Cost: about one table read for each of 16 shards, per
        thousand."""
        amount = page_size(max_amount)
        return mapped(
            f"branches of {self.id}",
            BranchPosition,
            lambda branch: self.branch(branch.name),
            lambda position: self.verbs.branches(prefix, position, amount, show_hidden=show_hidden),
            max_amount,
            after,
        )

    def tags(self, max_amount: int | None = None, after: str = "", prefix: str = "") -> Listing[Tag]:
        """List the tags by name. Cost: about one table read for each of 16 shards, per thousand."""
        amount = page_size(max_amount)
        return mapped(
            f"tags of {self.id}",
            TagPosition,
            lambda tag: self.tag(tag.name),
            lambda position: self.verbs.tags(prefix, position, amount),
            max_amount,
            after,
        )

    @property
    def pulls(self) -> "PullRequests":
        """The repository's pull requests. No request."""
        from graveler.sdk.proposed_merges import PullRequests  # few programs propose merges

        return PullRequests(self._access)

    def log_graph(self, ref_id: str = "", amount: int = 30) -> "LogGraph":
        """Draw the latest commits that a ref (the default branch) reaches, as SVG, which notebooks show. Cost: that of
        :meth:`Reference.log`."""
        from graveler.sdk.log_graph import LogGraph  # for notebooks

        commits = list(self.ref(ref_id or self.properties.default_branch).log(amount + 1))
        return LogGraph(commits[:amount], more=len(commits) > amount)

    def __repr__(self) -> str:
        return f"Repository({self.id!r})"

    def _repr_html_(self) -> str:
        from graveler.sdk.display_tables import repository_card  # for notebooks

        return repository_card(self._access)
