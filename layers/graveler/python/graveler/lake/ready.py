"""Commits of trees that lie ready: a metarange file that somebody built of ranges, without a branch."""

import re
from typing import Final

from graveler.errors import InvalidError, MovedError, NoChangesError, NotFoundError, PreconditionError
from graveler.history.cuts import split_of
from graveler.lake.clock import Clock
from graveler.lake.landing import Build, Draft, Lander, Landing
from graveler.lake.recut import whoever_cut
from graveler.lake.rules import Intent
from graveler.model import Commit, MetarangeName, SplitParameters
from graveler.requests.committing import CommitMetarange
from graveler.storage.files import FOLDER
from graveler.storage.objects import ObjectMissingError, Objects
from graveler.tree.files import METARANGES
from graveler.tree.tree import Tree, Trees

_NAME: Final = re.compile("[0-9a-f]{64}-[0-9a-f]{32}")


class ReadyCommitter:
    """Commits ready metaranges of one repository."""

    def __init__(
        self, split: SplitParameters, objects: Objects, lander: Lander, trees: Trees, clock: Clock, grace: float
    ) -> None:
        self._split = split
        self._objects = objects
        self._lander = lander
        self._trees = trees
        self._clock = clock
        self._grace = grace

    def commit(self, request: CommitMetarange) -> Commit:
        """See :class:`graveler.requests.committing.CommitMetarange`."""
        branch, name, parent = request.branch, request.metarange, request.parent
        if name and not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} is no name of a metarange: 64 hex digits, a dash, 32 hex digits")
        why = f"committing metarange {name[:16]!r} there"
        landing = Landing(branch, "commit", why, request.info, Intent(direct=True, force=request.force))

        def expect_parent(head: Commit) -> None:
            if parent is not None and head.id != parent:
                raise MovedError(branch, parent, head.id)

        def prepare() -> Build:
            if parent is None:
                self._check_age(name)
            else:
                head, _ = self._lander.look(landing)
                expect_parent(head)
                if name != head.metarange:  # else it is in use
                    self._check_age(name)
            ready = self._trees.load(name)
            cut: dict[SplitParameters, Tree] = {}
            """As the heads were that the branch has had meanwhile."""

            def build(head: Commit, before: Tree) -> Draft:
                expect_parent(head)
                split = split_of(head, self._split)
                if split not in cut:
                    cut[split] = ready if name == head.metarange else whoever_cut(ready, split, before)
                if cut[split].id() == before.id() and not request.allow_empty:
                    raise NoChangesError(f"nothing to commit: branch {branch!r} has the contents of metarange {name!r}")
                return Draft(cut[split])

            return build

        return self._lander.land(landing, prepare)

    def _check_age(self, name: MetarangeName) -> None:
        """One object read; none for the empty tree, which has no file."""
        if not name:
            return
        try:
            stored = self._objects.head(f"{FOLDER}/{METARANGES}/{name}")
        except ObjectMissingError:
            raise NotFoundError(f"metarange {name!r} does not exist; write it first") from None
        age = self._clock.now() - stored.modified
        if age > self._grace / 2:
            raise PreconditionError(
                f"metarange {name!r} was written {age / 3600:.0f} hours ago and may be collected as garbage; write it again"
            )
