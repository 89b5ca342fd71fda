"""Rewriting a branch: the same objects, cut into ranges by other split parameters, as one commit."""

from collections.abc import Mapping

from graveler.errors import NoChangesError, TooMuchWorkError
from graveler.history.cuts import spelled, split_of
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.recut import recut
from graveler.lake.rules import Intent
from graveler.model import Commit, SplitParameters
from graveler.tree.canonical import is_canonical
from graveler.tree.split import validate_split
from graveler.tree.tree import Tree


class Rewriter:
    """Rewrites branches of one repository, whose own parameters are ``own``."""

    def __init__(self, own: SplitParameters, lander: Lander) -> None:
        self._own = own
        self._lander = lander

    def run(self, landing: Landing, split: SplitParameters, limit: int | None = None) -> Commit:
        """See :meth:`graveler.lake.repository.OpenRepository.rewrite`."""
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


def rewrite_landing(
    branch: str,
    split: SplitParameters,
    message: str,
    committer: str,
    metadata: Mapping[str, str],
    *,
    request_id: str = "",
    created: int | None = None,
    force: bool = False,
) -> Landing:
    """What the commit of a rewriting says. No object changes, so protection of the branch does not matter."""
    said = message or (
        f"Rewrite with min_size={split.min_size}, max_size={split.max_size}, raggedness={split.raggedness}"
    )
    return Landing(
        branch,
        "rewrite",
        "rewriting it",
        said,
        committer,
        metadata,
        request_id,
        created,
        Intent(direct=False, force=force),
    )
