"""Candidates whose time is over: the collector ends them, so that they no longer hold their commits."""

from graveler.history.refs import Refs
from graveler.lake.gates.candidates import Candidates
from graveler.lake.leases import LeaseWatch
from graveler.model import CandidateState


def end_overdue_candidates(candidates: Candidates, refs: Refs, now: float, leases: LeaseWatch) -> int:
    """End the candidates that have expired, whose process has died, or that depend on a branch which is gone; return their
    number. One table read for each thousand, one for each branch that an open one depends on, and a write for each that ends.

    A process counts as dead once another run of this process has seen the same beat for long enough."""
    ended = 0
    for row in candidates.all():
        if not row.in_progress:
            continue
        end = candidates.over(row, now, leases)
        if end is None and (reason := candidates.gone(row, refs)):
            end = CandidateState.GONE, reason
        if end is not None:
            candidates.end(row, *end, now)
            ended += 1
    return ended
