"""Rewriting a branch: the same objects, cut into ranges by other split parameters, as one commit."""

from msgspec.structs import replace

from graveler.errors import NoChangesError, TooMuchWorkError
from graveler.history.cuts import spelled, split_of
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.recut import recut
from graveler.lake.rules import Intent
from graveler.model import Commit, SplitParameters
from graveler.requests.committing import Rewrite
from graveler.tree.canonical import is_canonical
from graveler.tree.split import validate_split
from graveler.tree.tree import Tree


class Rewriter:
    """Rewrites branches of one repository, whose own parameters are ``own``."""

    def __init__(self, own: SplitParameters, lander: Lander) -> None:
        self._own = own
        self._lander = lander

    def run(self, request: Rewrite, limit: int | None = None) -> Commit:
        """See :class:`graveler.requests.committing.Rewrite`. ``limit`` as of :class:`graveler.lake.context.Context`."""
        split, landing = request.split, rewrite_landing(request)
        validate_split(split)

        def build(head: Commit, before: Tree) -> Draft:
            if limit is not None and split_of(head, self._own) != split and (records := before.count()) > limit:
                raise TooMuchWorkError("rewriting", records, limit)
            self.expect_other(landing.branch, head, before, split)
            return self.draft(recut(before, split), split)

        def prepare() -> Build:
            return build

        return self._lander.land(landing, prepare)

    def expect_other(self, branch: str, head: Commit, before: Tree, split: SplitParameters) -> None:
        """:class:`NoChangesError` if the head is cut by these parameters already. No request unless its commit says so: then all
        ranges are read, since earlier versions let trees pass that were cut otherwise."""
        if split_of(head, self._own) == split and is_canonical(before, split):
            raise NoChangesError(
                f"nothing to rewrite: branch {branch!r} is cut with min_size={split.min_size}, max_size={split.max_size}, "
                f"raggedness={split.raggedness} already"
            )

    def draft(self, tree: Tree, split: SplitParameters) -> Draft:
        """A tree by these parameters, and that it is."""
        return Draft(tree, cuts=spelled(split, self._own))


def rewrite_landing(request: Rewrite) -> Landing:
    """What the commit of a rewriting says. No object changes, so protection of the branch does not matter."""
    split = request.split
    message = request.info.message or (
        f"Rewrite with min_size={split.min_size}, max_size={split.max_size}, raggedness={split.raggedness}"
    )
    info = replace(request.info, message=message)
    return Landing(request.branch, "rewrite", "rewriting it", info, Intent(direct=False, force=request.force))
