"""Changing the rules of a repository, so that they are in force when the call returns (``docs/design/0023-gates.md``)."""

from itertools import islice
from typing import Final

from msgspec.structs import replace

from graveler.errors import InvalidError, PreconditionError, UnavailableError
from graveler.history.reflog import Event
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff
from graveler.lake.context import Context
from graveler.lake.gates.judgement import gate_of
from graveler.lake.gates.rule_validation import check_rules
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.change import branch_states, change_settings
from graveler.model import Rule, Rules, Settings
from graveler.requests.setting_changes import SetRules
from graveler.storage.tables.port import MAX_TRANSACTION_WRITES, Check, ConditionFailedError, Write

_TOGETHER: Final = MAX_TRANSACTION_WRITES // 2
"""The number of branches in one transaction; each takes two writes."""


def set_rules(repository: RepositoryParts, request: SetRules, context: Context) -> Rules:
    """See :class:`graveler.requests.setting_changes.SetRules`."""
    for rule in request.rules:
        if rule.of_lake:
            raise InvalidError(f"rule {rule.name!r} is of the lake, and no repository can change it; omit it")
    rules = replace_rules(repository, request.rules, if_match=request.if_match)
    stamp_branches(repository, rules, context.by)
    return rules


def replace_rules(
    repository: RepositoryParts,
    rules: tuple[Rule, ...],
    *,
    of_lake: bool = False,
    if_match: int | None = None,
    condition: Check | None = None,
) -> Rules:
    """Replace the rules that the repository has of its own, or those ``of_lake``, and return all. With ``if_match``, only if all
    rules still have that version: :class:`PreconditionError`, unless they are these already. They are in force after
    :func:`stamp_branches`. One table read, one write. :class:`InvalidError` for rules that cannot be;
    :class:`ConditionFailedError` if the ``condition`` does not hold."""

    def change(settings: Settings) -> Settings:
        before = settings.rules
        unaffected = [rule for rule in before.rules if rule.of_lake is not of_lake]
        changed = [replace(rule, of_lake=of_lake) for rule in rules]
        after = check_rules([*unaffected, *changed] if not of_lake else [*changed, *unaffected])
        if after == before.rules:
            return settings
        if if_match is not None and before.version != if_match:
            raise PreconditionError(
                f"the rules of repository {repository.name!r} have version {before.version} by now, and not {if_match}: someone "
                "else changed them. Read them again"
            )
        return replace(settings, rules=Rules(before.version + 1, after))

    return change_settings(repository, change, force=of_lake, condition=condition).rules


def stamp_branches(repository: RepositoryParts, rules: Rules, by: str) -> None:
    """Write the version of the rules into each branch that they guard: from then on, no change that was judged by older rules can
    be published. Lists the branches; for those that have an older version, one transaction for each 50. If one of these meets a
    concurrent change, its branches have a transaction each, and a table read and another one after each such change. May be
    repeated after it died at any point: a repetition finishes the work."""
    outdated = (
        state
        for state in branch_states(repository)
        if state.rules < rules.version and gate_of(rules, "branch", state.name)
    )
    while states := list(islice(outdated, _TOGETHER)):
        changes = [_stamping(repository, state, rules.version, by) for state in states]
        try:
            repository.tables.transact([write for _, writes in changes for write in writes])
        except (ConditionFailedError, UnavailableError):
            for state in states:
                _stamp(repository, repository.refs.branch(state.name), rules.version, by)


def _stamping(repository: RepositoryParts, state: BranchState, version: int, by: str) -> tuple[Event, list[Write]]:
    """Return the event of writing the version of the rules into a branch, and the two writes."""
    event = repository.branches.event("rules", by)
    stamped = replace(state, rules=version)
    return event, repository.refs.move_branch_writes(state, stamped, event, amid_conditional=True)


def _stamp(repository: RepositoryParts, state: BranchState | None, version: int, by: str) -> None:
    """Write the version of the rules into a branch, which makes each publication fail that was judged by older ones. One
    transaction, and a table read and another one after each concurrent change."""
    backoff = Backoff(repository.clock)
    while state is not None and state.rules < version:
        event, writes = _stamping(repository, state, version, by)
        try:
            repository.branches.change(state.name, writes, event)
            return
        except ConditionFailedError:
            if not backoff.wait():
                raise busy(state.name) from None
        state = repository.refs.branch(state.name)
