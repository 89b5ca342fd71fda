"""Finding a branch's head for operations that must not mix with uncommitted changes: merge and import.

Usually that is a head on which nothing is staged. A merge may also land *beside* staged changes: as long as it changes no staged
key, neither hides the other, and the staged changes stay where they are. A key that is staged after that check is a later
write on top of the merge.
"""

from collections.abc import Sequence
from enum import Enum
from secrets import token_hex

from graveler.errors import ChangesHeldError, DirtyBranchError
from graveler.history.refs import BranchState
from graveler.lake.committing.publish import HeadMovedError, drop_tokens
from graveler.lake.committing.sealing import holding, seal_in, take_sealed
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.differences import changes_anything
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.text import utf8
from graveler.lake.turns import Turn
from graveler.model import Commit, Token
from graveler.tree.has_difference import differ
from graveler.tree.tree import Tree


class Staging(Enum):
    """The effect of a branch's staged records."""

    NOTHING = 1
    NO_CHANGE = 2
    CHANGES = 3


def wait_for_clean_head(
    repository: RepositoryParts, turn: Turn, branch: str, operation: str, intent: Intent | None = None
) -> tuple[BranchState, Commit, Tree]:
    """Return the branch, its head and the head's tree, once this ``turn`` has come, no commit is in progress and nothing is
    staged.

    One table read of the branch, as :meth:`Turn.state`, one for each token and shard to see that nothing is staged.
    :class:`DirtyBranchError` if a staged record changes the head. Staged records without effect (tombstones for missing
    objects, values that the head already has) are put aside first: they are older than what the operation brings, and must not
    hide it. That costs two transactions more. With an ``intent``, :class:`ForbiddenError` if the repository's settings
    refuse it.
    """
    state, head, tree, staging = wait_for_head(repository, turn, branch, intent, beside_held=False)
    if staging is Staging.CHANGES:
        raise DirtyBranchError(branch, operation)
    return state, head, tree


def wait_for_head(
    repository: RepositoryParts, turn: Turn, branch: str, intent: Intent | None = None, *, beside_held: bool = True
) -> tuple[BranchState, Commit, Tree, Staging]:
    """Like :func:`wait_for_clean_head`, but report staged changes of the head instead of refusing them; see
    :func:`expect_apart`. Those that a candidate holds are reported, too, unless they are not to stay ``beside_held``:
    :class:`ChangesHeldError`."""
    while True:
        state = turn.state(intent)
        try:
            may_take = take_sealed(repository, state.sealed) is not None
        except ChangesHeldError:
            if not beside_held:
                raise
            return state, *_head(repository, state), Staging.CHANGES
        if may_take:
            head, tree = _head(repository, state)
            staging = _look(repository, (state.open, *state.sealed[::-1]), tree)
            if staging is not Staging.NO_CHANGE:
                return state, head, tree, staging
            turn.wait(ticket=not _put_aside(repository, turn, branch))
        else:
            turn.wait()


def expect_apart(
    repository: RepositoryParts,
    state: BranchState,
    before: Tree,
    after: Tree,
    operation: str,
    replaced: Sequence[str] = (),
) -> None:
    """Check that no staged key is one in which the trees differ, and that no staged change lies below one of the prefixes
    ``replaced``. One table read for each token, shard and thousand staged; ranges that differ, as far as staged keys lie in
    them. :class:`DirtyBranchError` names the first.

    A staged record without effect counts, too, where the trees differ: left in place, it would hide the merge's change.
    """
    prefixes = tuple(utf8("prefix", prefix) for prefix in replaced)
    for key, packed in repository.staged.scan((state.open, *state.sealed[::-1])):
        changed = key.startswith(prefixes) and changes_anything(before.get(key), packed)
        if changed or differ(before, after, key, key + b"\0"):
            raise DirtyBranchError(state.name, operation, key.decode("utf-8", "backslashreplace"))


def _put_aside(repository: RepositoryParts, turn: Turn, branch: str) -> bool:
    """Take tokens without changes from the branch. Seals first, so that a change that is staged concurrently goes to the
    new token and is not lost with the old one (promise C1). Returns False, and does nothing, if there is a change after all."""
    operation = token_hex(16)
    sealed = seal_in(repository, turn, operation)
    try:
        with holding(repository, sealed.own_token, operation):
            state = repository.branches.state(branch)
            foreign = tuple(token for token in sealed.tokens if token != sealed.own_token)
            if state.sealed[: len(sealed.tokens)] != sealed.tokens or take_sealed(repository, foreign) is None:
                raise HeadMovedError
            _, tree = _head(repository, state)
            if _look(repository, sealed.tokens[::-1], tree) is Staging.CHANGES:
                raise HeadMovedError
            drop_tokens(repository, state, sealed.tokens, operation)
            return True
    except HeadMovedError:
        return False  # look again


def _head(repository: RepositoryParts, state: BranchState) -> tuple[Commit, Tree]:
    head = repository.branches.commit(state.commit_id)
    return head, repository.trees.load(head.metarange)


def _look(repository: RepositoryParts, tokens: tuple[Token, ...], tree: Tree) -> Staging:
    """Return the effect of what is staged under tokens (the newest first). Stops at the first change."""
    staging = Staging.NOTHING
    for key, packed in repository.staged.scan(tokens):
        if changes_anything(tree.get(key), packed):
            return Staging.CHANGES
        staging = Staging.NO_CHANGE
    return staging
