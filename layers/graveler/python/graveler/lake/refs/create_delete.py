"""Branches and tags: creating and removing them."""

from graveler.history.expressions import resolve
from graveler.lake.context import Context
from graveler.lake.parts import RepositoryParts
from graveler.model import Branch, CommitID, Tag
from graveler.requests import refs as requests


def create_branch(repository: RepositoryParts, request: requests.CreateBranch, context: Context) -> Branch:
    """See :class:`graveler.requests.refs.CreateBranch`."""
    commit = _resolved(repository, request.source)
    return repository.branches.create(
        request.name,
        commit,
        context.by,
        hidden=request.hidden,
        force=request.force,
        owner=request.owner,
        only_while=context.only_while,
    )


def renew_branch(repository: RepositoryParts, request: requests.RenewBranch, _: Context) -> None:
    """See :class:`graveler.requests.refs.RenewBranch`."""
    repository.branches.renew(request.name, request.owner)


def release_branch(repository: RepositoryParts, request: requests.ReleaseBranch, _: Context) -> None:
    """See :class:`graveler.requests.refs.ReleaseBranch`."""
    repository.branches.owners.release(request.name, request.owner)


def delete_branch(repository: RepositoryParts, request: requests.DeleteBranch, context: Context) -> None:
    """See :class:`graveler.requests.refs.DeleteBranch`."""
    repository.branches.delete(request.name, context.by, force=request.force, head_id=request.at)


def create_tag(repository: RepositoryParts, request: requests.CreateTag, context: Context) -> Tag:
    """See :class:`graveler.requests.refs.CreateTag`."""
    commit = _resolved(repository, request.ref)
    return repository.branches.create_tag(
        request.name, commit, context.by, force=request.force, only_while=context.only_while
    )


def delete_tag(repository: RepositoryParts, request: requests.DeleteTag, context: Context) -> None:
    """See :class:`graveler.requests.refs.DeleteTag`."""
    repository.branches.delete_tag(request.name, context.by, force=request.force)


def _resolved(repository: RepositoryParts, ref: str) -> CommitID:
    return resolve(ref, repository.refs, repository.commits).commit_id
