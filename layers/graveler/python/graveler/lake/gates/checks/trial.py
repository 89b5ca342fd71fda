"""Trials of checks: those of a branch's rules, or any others, on a commit that nobody has proposed yet."""

from collections.abc import Callable, Mapping
from typing import Any

from graveler.errors import BusyError, InvalidError
from graveler.history.expressions import resolve
from graveler.lake.context import Context
from graveler.lake.gates.checks.run import check_definition, run_checks
from graveler.lake.gates.judgement import gate_of
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.change import read_settings
from graveler.model import CheckOutcome, CheckTrial, Commit
from graveler.requests.statuses import RunChecks
from graveler.tree.writer import Stop


def try_checks(repository: RepositoryParts, request: RunChecks, context: Context) -> CheckTrial:
    """See :class:`graveler.requests.statuses.RunChecks`."""
    definitions = request.definitions or checks_of_branch(repository, request.branch)
    if request.checks:
        definitions = {name: _expect_check(name, definitions) for name in request.checks}
    if not definitions:
        raise InvalidError(
            f"the rules of branch {request.branch!r} have no checks that graveler runs; name another branch, or give a definition"
        )
    for definition in definitions.values():
        check_definition(definition)
    commit, base = _sides(repository, request)
    statuses = run_checks(repository, commit, base, definitions, _stop(context.stop, commit))
    outcomes = [CheckOutcome(status.name, status.state, status.description, status.url) for status in statuses.values()]
    return CheckTrial(commit.id, None if base is None else base.id, tuple(outcomes))


def checks_of_branch(repository: RepositoryParts, branch: str) -> dict[str, Mapping[str, Any]]:
    """Return the definitions of the checks in the rules of a branch, by the names of their statuses. One table read."""
    gate = gate_of(read_settings(repository).rules, "branch", branch)
    return {
        required.name: required.check for rule in gate.rules for required in rule.statuses if required.check is not None
    }


def _expect_check(name: str, definitions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if name not in definitions:
        raise InvalidError(f"there is no check {name[:100]!r}, but: {', '.join(sorted(definitions)) or 'none'}")
    return definitions[name]


def _sides(repository: RepositoryParts, request: RunChecks) -> tuple[Commit, Commit | None]:
    """Return the commit that is checked, and the one that it is compared with, None for a branch that does not exist yet."""
    names = [name for name in (request.ref, request.base) if name]
    ids = [resolve(name, repository.refs, repository.commits).commit_id for name in names]
    if not request.base and (state := repository.branches.find(request.branch)) is not None:
        ids.append(state.commit_id)
    commit, *bases = (repository.branches.commit(commit_id) for commit_id in ids)
    base = bases[0] if bases else None
    if not request.base and base is not None and base.id == commit.id:
        base = repository.branches.commit(commit.parents[0]) if commit.parents else None
    return commit, base


def _stop(is_over: Stop | None, commit: Commit) -> Callable[[], None]:
    """Return the question whether the call has time left, which raises :class:`BusyError` if it has not."""

    def expect_time() -> None:
        if is_over is not None and is_over():
            raise BusyError(
                f"the checks of commit {commit.id[:16]} take longer than this call may. Send the request again, which goes on "
                "with those that have no verdict yet; one that takes so long by itself can be tried on a lake that "
                "`graveler serve` or this machine opens"
            )

    return expect_time
