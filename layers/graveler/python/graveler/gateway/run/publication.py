"""The publication of a run: its hidden branch becomes a commit of the destination."""

from collections.abc import Mapping
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import GravelerError, MergeConflictError, NoChangesError, RuleError
from graveler.gateway.control import Tally
from graveler.lake.context import Context
from graveler.model import Application, Commit, MergeStrategies
from graveler.requests import committing, merging, staging
from graveler.requests.base import CommitInfo

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

PROGRAM: Final = "graveler.run.program"
ARGUMENTS: Final = "graveler.run.arguments"
SECONDS: Final = "graveler.run.seconds"
"""Keys of a commit's metadata: the program's name, its arguments as a shell takes them, and its duration. Those of what it read
and wrote are ``graveler.run.read_objects``, ``…read_bytes``, ``…written_objects``, ``…written_bytes``, ``…deleted_objects``."""

_NO_OBJECT: Final = "graveler.run/nothing"
"""The path of no object."""


class Publication(Struct, frozen=True, kw_only=True):
    """The terms of a publication: the branch that gets the commit, its message and metadata, who decides conflicts, and the
    numbered write that it is, if it is one."""

    branch: str
    message: str
    metadata: Mapping[str, str] = {}
    strategies: MergeStrategies = MergeStrategies()
    application: Application | None = None


def program_name(program: str) -> str:
    """Return a program's name without the folders in front of it."""
    return Path(program).name


def described(arguments: tuple[str, ...], seconds: float, tally: Tally, *, with_arguments: bool) -> dict[str, str]:
    """Return the metadata that tell of a run. The arguments may hold secrets: they are left out unless ``with_arguments``."""
    metadata = {
        PROGRAM: program_name(arguments[0]),
        SECONDS: f"{seconds:.3f}",
        "graveler.run.read_objects": str(tally.read.objects),
        "graveler.run.read_bytes": str(tally.read.bytes),
        "graveler.run.written_objects": str(tally.written.objects),
        "graveler.run.written_bytes": str(tally.written.bytes),
        "graveler.run.deleted_objects": str(tally.deleted),
    }
    return {**metadata, ARGUMENTS: join(arguments[1:])} if with_arguments else metadata


def publish(
    repository: "AnyRepository",
    hidden: str,
    terms: Publication,
    by: str,
    *,
    keep_conflict: bool = True,
    may_be_joined: bool = False,
) -> Commit | None:
    """Commit the hidden branch and merge it; None if nothing was written. Cost: a commit and a merge. The commit has everything
    that gateways acknowledged which have joined the run, if any ``may_be_joined``.

    Errors as of :class:`graveler.requests.merging.Merge`. The work is then to stay on the hidden branch, which is the error's
    ``kept``; a conflict has none without ``keep_conflict``, nor has a commit that waits for what rules need: it is a candidate.
    """
    info = CommitInfo(terms.message, by, terms.metadata)
    try:
        try:
            _commit(repository, committing.Commit(branch=hidden, info=info), may_be_joined=may_be_joined)
        except NoChangesError:
            return None
        merge = merging.Merge(
            source=hidden,
            destination=terms.branch,
            info=info,
            strategies=terms.strategies,
            application=terms.application,
        )
        try:
            return repository.run(merge, Context(by=by))
        except NoChangesError:
            return None  # the destination has the same objects by now
    except GravelerError as error:
        is_conflict = isinstance(error, MergeConflictError)
        waits = isinstance(error, RuleError) and error.waits
        error.kept = "" if waits or (is_conflict and not keep_conflict) else hidden
        raise


def _commit(repository: "AnyRepository", commit: committing.Commit, *, may_be_joined: bool) -> None:
    """Commit, and seal the branch in any case: a gateway that has joined acknowledges nothing from then on. A branch without
    changes is not sealed by a commit, so it gets one that changes nothing."""
    try:
        repository.run(commit)
    except NoChangesError:
        if not may_be_joined:
            raise
        repository.run(staging.Delete(branch=commit.branch, objects=(_NO_OBJECT,)))
        repository.run(commit)
