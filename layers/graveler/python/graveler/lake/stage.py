"""Staging: putting changes where the next commit finds them.

The order of the calls keeps promise C1: put the item, *then* read the branch and repository again; only when the token is still
the open one is the change acknowledged. A late item stays where it is, since taking it back could lose an older,
acknowledged value that it replaced.
"""

from collections.abc import Sequence

from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadline
from graveler.lake.rules import Intent
from graveler.model import Token
from graveler.staging.changes import StagedChanges, StagedRecord


class Stager:
    """Stages records on branches of one repository. Remembers open tokens between calls, and never believes them unchecked."""

    def __init__(self, branches: Branches, staged: StagedChanges, clock: Clock) -> None:
        self._branches = branches
        self._staged = staged
        self._clock = clock
        self._open: dict[str, Token] = {}

    def expect(self, branch: str, *, force: bool = False) -> None:
        """Be sure that the branch exists and may be staged on, or did and might when this process last looked. One table read
        the first time, which :meth:`stage` then need not make. :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        if branch not in self._open:
            state = self._branches.state(branch, Intent(direct=True, force=force))
            if not force:
                self._open[branch] = state.open

    def forget(self) -> None:
        """Read a branch before the next staging on it: the rules have changed."""
        self._open.clear()

    def stage(self, branch: str, records: Sequence[StagedRecord], until: Deadline, *, force: bool = False) -> None:
        """Stage records of distinct keys; None for the packed bytes writes a tombstone. ``until`` is the deadline of the work
        that found or made their objects: :class:`BusyError` past it.

        One table write for one record, one for each 25 of several; then one table read. Before that another read, if this process
        did not know the branch's open token; if it turns out to be sealed, once more from the start. :class:`ForbiddenError`;
        a token is remembered only where that did not have to be forced, so what is refused is refused before it is put, except
        at the very moment when the rule comes (:mod:`graveler.lake.settings`).
        """
        intent = Intent(direct=True, force=force)
        token = self._open.get(branch)
        if token is None:
            token = self._branches.state(branch, intent).open
        backoff = Backoff(self._clock)
        while True:
            until.check(f"staging {len(records):,} changes on branch {branch!r}")
            if len(records) == 1:
                self._staged.put(token, *records[0])
            else:
                self._staged.put_many(token, records)
            self._open.pop(branch, None)
            state = self._branches.state(branch, intent)
            if not force:
                self._open[branch] = state.open
            if state.open == token:
                return
            token = state.open
            if not backoff.wait():
                raise busy(branch)
