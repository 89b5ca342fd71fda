"""Moving a branch to a commit that exists already: hard reset and undo."""

from hashlib import sha256

import msgspec

from graveler.errors import NotFoundError, PreconditionError, RefNotFoundError
from graveler.history.commits import CommitStore
from graveler.history.reflog import RefLog
from graveler.history.refs import Refs
from graveler.lake.branches import Branches
from graveler.lake.clean_heads import CleanHeads
from graveler.lake.rules import Intent
from graveler.lake.turns import Turns
from graveler.model import Branch, CommitID
from graveler.storage.tables import ConditionFailedError

_ROWS = 100
"""How far back in the reference log the newest move is looked for. Rows that moved nothing (resets) may stand before it, and rows
of machines whose clocks go before."""


class Mover:
    """Moves branches of one repository."""

    def __init__(
        self, refs: Refs, reflog: RefLog, commits: CommitStore, branches: Branches, heads: CleanHeads, turns: Turns
    ) -> None:
        self._refs = refs
        self._reflog = reflog
        self._commits = commits
        self._branches = branches
        self._heads = heads
        self._turns = turns

    def hard_reset(self, branch: str, commit_id: CommitID, by: str, *, force: bool = False) -> Branch:
        """See :meth:`graveler.lake.repository.OpenRepository.hard_reset`."""
        return self._move(branch, commit_id, "hard reset", by, force=force)

    def undo(self, branch: str, by: str, *, force: bool = False, request_id: str = "") -> Branch:
        """See :meth:`graveler.lake.repository.OpenRepository.undo`."""
        run = sha256(request_id.encode()).hexdigest()[:32] if request_id else ""
        now = self._branches.state(branch).commit_id
        entries = self._reflog.entries("branch", branch, _ROWS)
        done = next((e.new for e in entries if run and e.event.operation_id == run), None)
        if done is not None:
            return Branch(branch, done)
        newest = next((e for e in entries if e.new == now and e.old != now), None)
        if newest is None or newest.old is None:
            raise NotFoundError(
                f"the reference log of branch {branch!r} knows of nothing that moved it to where it is, so there is "
                "nothing to undo; name a commit in a hard reset"
            )
        return self._move(branch, newest.old, "undo", by, force=force, only_from=now, run=run)

    def _move(
        self,
        branch: str,
        commit_id: CommitID,
        verb: str,
        by: str,
        *,
        force: bool,
        only_from: CommitID | None = None,
        run: str = "",
    ) -> Branch:
        """Point the branch at the commit, if nothing is staged; with ``only_from``, only while it points there. ``run`` names
        this run in the reference log."""
        intent = Intent(direct=True, force=force)
        with self._turns.at(branch) as turn:
            while True:
                state = turn.state(intent)
                if state.commit_id != commit_id:
                    state, _, _ = self._heads.wait_for(turn, branch, f"moving it to {commit_id[:16]}", intent)
                if only_from is not None and state.commit_id != only_from:
                    raise PreconditionError(
                        f"branch {branch!r} was moved by somebody else while that was to be undone; nothing was changed. "
                        "Look at its reference log, and try again"
                    )
                if state.commit_id == commit_id:
                    return Branch(branch, commit_id)
                event = self._branches.event(verb, by, run)
                moved = msgspec.structs.replace(state, commit_id=commit_id)
                writes = [*self._refs.move_branch_writes(state, moved, event), self._commits.alive_check(commit_id)]
                try:
                    self._branches.change(branch, [*writes, *turn.leaving()], event)
                    turn.left()
                    return Branch(branch, commit_id)
                except ConditionFailedError as error:
                    if len(writes) - 1 in error.failures:
                        raise RefNotFoundError(commit_id, "the commit does not exist, or has expired") from None
                    turn.wait()
