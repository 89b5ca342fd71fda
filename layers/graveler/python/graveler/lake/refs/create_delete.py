"""Branches and tags: creating and removing them."""

from functools import partial

from graveler.history.expressions import resolve
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateKeeper, GateTerms
from graveler.lake.parts import RepositoryParts
from graveler.model import Branch, CommitID, Tag
from graveler.requests import refs as requests


def create_branch(repository: RepositoryParts, request: requests.CreateBranch, context: Context) -> Branch:
    """See :class:`graveler.requests.refs.CreateBranch`."""
    commit = _resolved(repository, request.source)
    gate = GateKeeper(repository, request.name, "create branch", GateTerms(request=request, actor=context.actor))
    branch = repository.branches.create(
        request.name,
        commit,
        context.by,
        hidden=request.hidden,
        force=request.force,
        owner=request.owner,
        only_while=context.only_while,
        admit=partial(gate.admission, commit=partial(repository.commits.get, commit)),
    )
    gate.report_admitted()
    return branch


def renew_branch(repository: RepositoryParts, request: requests.RenewBranch, _: Context) -> None:
    """See :class:`graveler.requests.refs.RenewBranch`."""
    repository.branches.renew(request.name, request.owner)


def release_branch(repository: RepositoryParts, request: requests.ReleaseBranch, _: Context) -> None:
    """See :class:`graveler.requests.refs.ReleaseBranch`."""
    repository.branches.owners.release(request.name, request.owner)


def delete_branch(repository: RepositoryParts, request: requests.DeleteBranch, context: Context) -> None:
    """See :class:`graveler.requests.refs.DeleteBranch`."""
    gate = GateKeeper(
        repository, request.name, "delete branch", GateTerms(request=request, actor=context.actor, removes=True)
    )
    repository.branches.delete(request.name, context.by, force=request.force, head_id=request.at, accept=gate.accept)


def create_tag(repository: RepositoryParts, request: requests.CreateTag, context: Context) -> Tag:
    """See :class:`graveler.requests.refs.CreateTag`."""
    commit = _resolved(repository, request.ref)
    gate = GateKeeper(repository, request.name, "create tag", GateTerms(request=request, actor=context.actor), "tag")
    tag = repository.branches.create_tag(
        request.name,
        commit,
        context.by,
        force=request.force,
        only_while=context.only_while,
        admit=partial(gate.admission, commit=partial(repository.commits.get, commit)),
    )
    gate.report_admitted()
    return tag


def delete_tag(repository: RepositoryParts, request: requests.DeleteTag, context: Context) -> None:
    """See :class:`graveler.requests.refs.DeleteTag`."""
    gate = GateKeeper(
        repository, request.name, "delete tag", GateTerms(request=request, actor=context.actor, removes=True), "tag"
    )
    repository.branches.delete_tag(request.name, context.by, force=request.force, admit=gate.admission)


def _resolved(repository: RepositoryParts, ref: str) -> CommitID:
    return resolve(ref, repository.refs, repository.commits).commit_id
