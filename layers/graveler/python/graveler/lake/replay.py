"""Revert and cherry-pick: one commit's changes taken back, or made again, on a branch.

Both are three-way merges into the branch. To revert commit ``c`` with parent ``p``: base ``c``, source ``p``. To pick it: base
``p``, source ``c``.
"""

from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.landing import Landing
from graveler.lake.rules import Intent
from graveler.lake.sides import Sides
from graveler.lake.three_way import Choose, ThreeWay, Undertaking
from graveler.model import Commit, CommitID
from graveler.requests.merging import CherryPick, Revert

ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


class Replayer:
    """Replays commits on branches of one repository."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides

    def revert(self, request: Revert, ref_id: CommitID | None = None) -> Undertaking:
        """See :class:`graveler.requests.merging.Revert`. ``ref_id`` is what the ref was when this was asked for, if that was
        earlier. No request yet."""
        branch, ref = request.branch, request.ref
        info = replace(request.info, message=request.info.message or f"Revert {ref}")
        landing = Landing(branch, "revert", f"reverting {ref!r} on it", info, Intent(direct=False, force=request.force))
        nothing = f"nothing to revert: branch {branch!r} holds nothing of what {ref!r} changed"

        def begin() -> Choose:
            commit = self._at(ref, ref_id)
            return _always(ThreeWay(commit, self._parent(commit, ref, request.parent_number)))

        return Undertaking(landing, begin, ref, branch, "" if request.allow_empty else nothing)

    def cherry_pick(self, request: CherryPick, ref_id: CommitID | None = None) -> Undertaking:
        """See :class:`graveler.requests.merging.CherryPick`. ``ref_id`` as for :meth:`revert`. Reads the commit."""
        branch, ref = request.branch, request.ref
        commit = self._at(ref, ref_id)
        parent = self._parent(commit, ref, request.parent_number)
        metadata = {
            **commit.metadata,
            **request.info.metadata,
            ORIGIN_KEY: commit.id,
            COMMITTER_KEY: commit.committer,
        }
        info = replace(request.info, message=request.info.message or commit.message, metadata=metadata)
        landing = Landing(
            branch, "cherry-pick", f"picking {ref!r} onto it", info, Intent(direct=False, force=request.force)
        )
        nothing = f"nothing to pick: branch {branch!r} has all that {ref!r} changed"
        chosen = _always(ThreeWay(parent, commit))
        return Undertaking(landing, lambda: chosen, ref, branch, "" if request.allow_empty else nothing)

    def _at(self, ref: str, ref_id: CommitID | None) -> Commit:
        return self._sides.at(ref) if ref_id is None else self._sides.commit(ref_id)

    def _parent(self, commit: Commit, ref: str, number: int) -> Commit | None:
        """The parent to compare with: the only one, or the one named; None for the first commit of a history."""
        count = len(commit.parents)
        if number == 0 and count > 1:
            raise InvalidError(
                f"{ref!r} is a merge of {count} commits; say against which parent, 1 (the branch merged into) to {count}"
            )
        if number < 0 or number > count:
            raise InvalidError(f"{ref!r} has {count} parent{'s' if count != 1 else ''}, so there is no parent {number}")
        return self._sides.commit(commit.parents[max(number - 1, 0)]) if count else None


def _always(chosen: ThreeWay) -> Choose:
    """Whatever the head is. Objects of the source come back, which may be a commit whose objects are going."""
    alive = () if chosen.source is None else (chosen.source.id,)
    return lambda _: replace(chosen, alive=alive)
