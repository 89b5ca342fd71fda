"""Trials of checks: those of a branch's rules, or any others, on a commit that nobody has proposed yet."""

from collections.abc import Mapping
from typing import Any

from graveler.errors import RefNotFoundError
from graveler.lake.gates.checks.run import check_definition, run_checks
from graveler.lake.gates.judgement import gate_of
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, Status


def checks_of_branch(repository: OpenRepository, branch: str) -> dict[str, Mapping[str, Any]]:
    """Return the definitions of the checks in the rules of a branch, by the names of their statuses. No request."""
    gate = gate_of(repository.repository.settings.rules, "branch", branch)
    return {
        required.name: required.check for rule in gate.rules for required in rule.statuses if required.check is not None
    }


def try_checks(
    repository: OpenRepository, ref: str, branch: str, definitions: Mapping[str, Mapping[str, Any]], base: str = ""
) -> tuple[Commit, Commit | None, dict[str, Status]]:
    """Make these checks on the commit of a ref, as if it were to be published on a branch; return the commit, its base, and the
    statuses by name. The base is the commit of ``base``, by default the branch's, or if that is the commit itself, its first
    parent. No status is posted; verdicts are used again, and kept, as those of a candidate. Cost: resolving, and as
    :func:`graveler.lake.gates.checks.run.run_checks`. :class:`InvalidError` for a definition that no rule can have."""
    for definition in definitions.values():
        check_definition(definition)
    commit = repository.commit_of(ref)
    previous = repository.commit_of(base) if base else _head(repository, branch)
    if not base and previous is not None and previous.id == commit.id:
        previous = repository.commit_of(commit.parents[0]) if commit.parents else None
    return commit, previous, run_checks(repository.parts, commit, previous, definitions)


def _head(repository: OpenRepository, branch: str) -> Commit | None:
    """Return the commit of a branch; None if it does not exist, as one that is yet to be made."""
    try:
        return repository.commit_of(repository.branch(branch).commit_id)
    except RefNotFoundError:
        return None
