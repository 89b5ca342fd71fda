"""The JSON bodies of the API, under the names its clients know, and the conversion of the lake's values to them.

Numbers are plain integers, and maps are present even if empty: the published clients are strict about both.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from graveler import model
from graveler.model import CommitID, MetarangeID, MetarangeName, RepositoryUID

MAX_PER_PAGE: Final = 1000
COMMIT_VERSION: Final = 1


class Pagination(Struct, frozen=True):
    """The position of a page in its listing. ``next_offset`` is empty on the last page; pass it as ``after`` to get the next
    one."""

    has_more: bool
    next_offset: str
    results: int
    max_per_page: int = MAX_PER_PAGE

    @property
    def next_after(self) -> str | None:
        """The position that continues the listing; None on the last page."""
        return self.next_offset if self.has_more else None


class Ref(Struct, frozen=True):
    """A branch or a tag."""

    id: str
    commit_id: str

    def branch(self, *, hidden: bool = False) -> model.Branch:
        """Return it as a branch of the lake."""
        return model.Branch(self.id, CommitID(self.commit_id), hidden)

    def tag(self) -> model.Tag:
        """Return it as a tag of the lake."""
        return model.Tag(self.id, CommitID(self.commit_id))


class RefList(Struct, frozen=True):
    """A page of branches or tags."""

    pagination: Pagination
    results: list[Ref]


class Commit(Struct, frozen=True):
    """A commit. ``creation_date`` is in Unix seconds."""

    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    meta_range_id: MetarangeID
    metadata: Mapping[str, str]
    generation: int
    version: int = COMMIT_VERSION

    def value(self) -> model.Commit:
        """Return it as a commit of the lake; the part of the metarange's name that pins addresses is not included."""
        return model.Commit(
            CommitID(self.id),
            tuple(map(CommitID, self.parents)),
            MetarangeName(self.meta_range_id),
            self.committer,
            self.message,
            self.creation_date,
            self.generation,
            "",
            self.metadata,
        )


class CommitList(Struct, frozen=True):
    """A page of commits."""

    pagination: Pagination
    results: list[Commit]


class CommitRef(Struct, frozen=True):
    """A branch or a tag that points at a commit."""

    type: Literal["branch", "tag"]
    id: str


class LoggedCommit(Struct, frozen=True):
    """A commit of a log: all members but the last two, or with ``fields`` those that it names. Then a message of more than 200
    characters is cut, and ``message_truncated`` is there."""

    id: str | UnsetType = UNSET
    parents: list[str] | UnsetType = UNSET
    committer: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    creation_date: int | UnsetType = UNSET
    meta_range_id: MetarangeID | UnsetType = UNSET
    metadata: Mapping[str, str] | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    version: int | UnsetType = UNSET
    message_truncated: Literal[True] | UnsetType = UNSET
    refs: list[CommitRef] | UnsetType = UNSET


class CommitLog(Struct, frozen=True):
    """A page of a log. ``more_refs`` is there if the page has ``refs``, and the repository has branches or tags that were not
    looked at: only the first thousand of each, by name, were."""

    pagination: Pagination
    results: list[LoggedCommit]
    more_refs: Literal[True] | UnsetType = UNSET


class Repository(Struct, frozen=True):
    """A repository. ``creation_date`` is in Unix seconds."""

    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    storage_id: str = ""
    read_only: bool = False

    def value(self, settings: model.Settings | None = None) -> model.Repository:
        """Return it as a repository of the lake. Its permanent namespace stands in for its UID, which is not included."""
        return model.Repository(
            self.id,
            RepositoryUID(self.storage_namespace),
            self.storage_namespace,
            self.default_branch,
            self.creation_date,
            settings=settings or model.Settings(self.read_only),
        )


class ListedRepository(Repository, frozen=True, kw_only=True):
    """A repository, with the details that the request names: the last commit of its default branch (null if there is none), and
    its metadata."""

    commit: Commit | UnsetType | None = UNSET
    metadata: Mapping[str, str] | UnsetType = UNSET


class ListedRepositories(Struct, frozen=True):
    """A page of repositories, with details."""

    pagination: Pagination
    results: list[ListedRepository]


class RepositoryList(Struct, frozen=True):
    """A page of repositories."""

    pagination: Pagination
    results: list[Repository]


COMMIT_HEADER: Final = "x-graveler-commit"
LEFT_COMMIT_HEADER: Final = "x-graveler-left-commit"
STATE_HEADER: Final = "x-graveler-state"
SAYS_COMMIT: Final = {
    COMMIT_HEADER: "the commit that was read; use it as the ref of further pages to see the same state"
}
SAYS_STATE: Final = {
    **SAYS_COMMIT,
    STATE_HEADER: "for a branch, its commit and where its uncommitted changes are; give it as `state` for further pages to see "
    "no commit, merge or reset in between. It is valid for ten minutes",
}
SAYS_COMMITS: Final = {**SAYS_COMMIT, LEFT_COMMIT_HEADER: "the commit on the left side, to be used in the same way"}

T = TypeVar("T")
D = TypeVar("D")


def pagination(page: model.Page[T]) -> Pagination:
    """Return the pagination of a page of the lake."""
    return Pagination(page.next_after is not None, page.next_after or "", len(page.results))


def commit_headers(page: model.Page[T]) -> dict[str, str]:
    """Return the headers naming the commits that a page was read from."""
    if len(page.commits) > 1:
        return {COMMIT_HEADER: page.commits[-1], LEFT_COMMIT_HEADER: page.commits[0]}
    return {COMMIT_HEADER: page.commits[0]} if page.commits else {}


def results(page: model.Page[T], render: Callable[[T], D]) -> list[D]:
    """Return the results of a page, each as a document."""
    return [render(item) for item in page.results]


def commit_document(commit: model.Commit) -> Commit:
    """Return a commit as clients read it."""
    return Commit(
        commit.id,
        list(commit.parents),
        commit.committer,
        commit.message,
        commit.created,
        commit.metarange_id,
        commit.metadata,
        commit.generation,
    )


def ref_document(ref: model.Branch | model.Tag) -> Ref:
    """Return a branch or tag as clients read it."""
    return Ref(ref.name, ref.commit_id)


def repository_document(repository: model.Repository) -> Repository:
    """Return a repository as clients read it."""
    return Repository(
        repository.name,
        repository.created,
        repository.default_branch,
        repository.namespace,
        read_only=repository.settings.read_only,
    )


def commits_read(headers: Mapping[str, str]) -> tuple[CommitID, ...]:
    """Return the commits that a page was read from; for a difference, the left one first."""
    commits = (headers.get(LEFT_COMMIT_HEADER), headers.get(COMMIT_HEADER))
    return tuple(CommitID(commit) for commit in commits if commit)
