"""Commits of trees that exist already: a metarange file that a client built of ranges, without a branch."""

import re
from typing import Final

from graveler.errors import InvalidError, MovedError, NoChangesError, NotFoundError, PreconditionError
from graveler.history.split_parameters import split_of
from graveler.lake.committing.landing import Build, Draft, Landing, land, look_at_head
from graveler.lake.committing.resplit import whoever_cut
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, MetarangeName, SplitParameters
from graveler.requests.committing import CommitMetarange
from graveler.storage.objects.port import ObjectMissingError
from graveler.storage.objects.tree_files import FOLDER
from graveler.tree.has_difference import differ
from graveler.tree.store import METARANGES
from graveler.tree.tree import Tree
from graveler.values.reserved_paths import END, RESERVED, TablePathError

_NAME: Final = re.compile("[0-9a-f]{64}-[0-9a-f]{32}")


def commit_metarange(repository: RepositoryParts, request: CommitMetarange, context: Context) -> Commit:
    """See :class:`graveler.requests.committing.CommitMetarange`."""
    branch, name, parent = request.branch, request.metarange, request.parent
    if name and not _NAME.fullmatch(name):
        raise InvalidError(f"{name!r} is not the name of a metarange: 64 hex digits, a dash, 32 hex digits")
    doing = f"committing metarange {name[:16]!r} there"
    gate = GateTerms(request=request, actor=context.actor, direct=True)
    landing = Landing(branch, "commit", doing, request.info, Intent(direct=True, force=request.force), gate=gate)

    def expect_parent(head: Commit) -> None:
        if parent is not None and head.id != parent:
            raise MovedError(branch, parent, head.id)

    def prepare() -> Build:
        if parent is None:
            _check_age(repository, name)
        else:
            head, _ = look_at_head(repository, landing)
            expect_parent(head)
            if name != head.metarange:  # else it is in use
                _check_age(repository, name)
        ready = repository.trees.load(name)
        cut: dict[SplitParameters, Tree] = {}
        """The tree by the split parameters of the heads that the branch has had meanwhile."""

        def build(head: Commit, before: Tree) -> Draft:
            expect_parent(head)
            split = split_of(head, repository.split)
            if split not in cut:
                cut[split] = ready if name == head.metarange else whoever_cut(ready, split, before)
            if cut[split].id() == before.id() and not request.allow_empty:
                raise NoChangesError(
                    f"nothing to commit: branch {branch!r} already has the contents of metarange {name!r}"
                )
            if differ(before, cut[split], RESERVED, END):
                raise TablePathError(RESERVED.decode())
            return Draft(cut[split])

        return build

    return land(repository, landing, prepare)


def _check_age(repository: RepositoryParts, name: MetarangeName) -> None:
    """Check the age of the file. One object read; none for the empty tree, which has no file."""
    if not name:
        return
    try:
        stored = repository.objects.head(f"{FOLDER}/{METARANGES}/{name}")
    except ObjectMissingError:
        raise NotFoundError(f"metarange {name!r} does not exist; write it first") from None
    age = repository.clock.now() - stored.modified
    if age > repository.grace / 2:
        raise PreconditionError(
            f"metarange {name!r} was written {age / 3600:.0f} hours ago and may be garbage-collected; write it again"
        )
