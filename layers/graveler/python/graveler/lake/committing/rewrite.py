"""Rewriting a branch: the same objects, split into ranges by other parameters, as one commit."""

from msgspec.structs import replace

from graveler.errors import NoChangesError, TooMuchWorkError
from graveler.history.split_parameters import spelled, split_of
from graveler.lake.committing.landing import Build, Draft, Landing, land
from graveler.lake.committing.resplit import recut
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, SplitParameters
from graveler.requests.committing import Rewrite
from graveler.tree.canonical import is_canonical
from graveler.tree.split import validate_split
from graveler.tree.tree import Tree


def rewrite(repository: RepositoryParts, request: Rewrite, context: Context) -> Commit:
    """See :class:`graveler.requests.committing.Rewrite`."""
    limit = context.limit
    split, landing = request.split, rewrite_landing(request).by(context)
    validate_split(split)

    def build(head: Commit, before: Tree) -> Draft:
        if limit is not None and split_of(head, repository.split) != split and (records := before.count()) > limit:
            raise TooMuchWorkError("rewriting", records, limit)
        expect_other_split(repository, landing.branch, head, before, split)
        return rewrite_draft(repository, recut(before, split), split)

    def prepare() -> Build:
        return build

    return land(repository, landing, prepare)


def expect_other_split(
    repository: RepositoryParts, branch: str, head: Commit, before: Tree, split: SplitParameters
) -> None:
    """Raise :class:`NoChangesError` if the head already has these split parameters. No request unless its commit says so: then
    all ranges are read, since earlier versions accepted trees that were split differently."""
    if split_of(head, repository.split) == split and is_canonical(before, split):
        raise NoChangesError(
            f"nothing to rewrite: branch {branch!r} already has min_size={split.min_size}, max_size={split.max_size}, "
            f"raggedness={split.raggedness}"
        )


def rewrite_draft(repository: RepositoryParts, tree: Tree, split: SplitParameters) -> Draft:
    """Return the draft of a tree, with its split parameters."""
    return Draft(tree, cuts=spelled(split, repository.split))


def rewrite_landing(request: Rewrite) -> Landing:
    """Return the landing of a rewrite. No object changes, so protection of the branch does not matter."""
    split = request.split
    message = request.info.message or (
        f"Rewrite with min_size={split.min_size}, max_size={split.max_size}, raggedness={split.raggedness}"
    )
    info = replace(request.info, message=message)
    intent, gate = Intent(direct=False, force=request.force), GateTerms(request=request)
    return Landing(request.branch, "rewrite", "rewriting it", info, intent, gate=gate)
