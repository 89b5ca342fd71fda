"""Judgement: a commit is compared with the rules that match a branch or tag.

Nothing here sends a request: the rules, the statuses, the approvals and the credentials that count have been read before.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from graveler.lake.gates.statuses import GRAVELER, TreeStatuses, is_current
from graveler.model import (
    Actor,
    Commit,
    Lack,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    MovedHead,
    RequiredApprovals,
    RequiredStatus,
    Rule,
    Rules,
    Status,
    StatusState,
)

RefKind = Literal["branch", "tag"]

_TRANSACTION: Final = re.compile(r"tx-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""The names of transactions' branches, as :func:`graveler.lake.refs.hidden_branch.hidden_name` makes them."""

_SHOWN: Final = 5
"""The number of patterns or names that a lack lists."""

_DESCRIPTION: Final = 300
"""The number of characters of a status's description that a lack repeats."""


class Approval(Protocol):
    """The fields of an approval of a pull request that are judged: who gave it, with which credential."""

    @property
    def principal(self) -> str: ...
    @property
    def key_id(self) -> str: ...


class Gate(Struct, frozen=True):
    """The rules that match one branch or tag; false if none does. ``version`` is that of all rules of the repository."""

    version: int = 0
    rules: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def enforced(self) -> tuple[Rule, ...]:
        """The rules that refuse changes, and do not only report what they would refuse."""
        return tuple(rule for rule in self.rules if not rule.observe)

    @property
    def moved_head(self) -> MovedHead:
        """The meaning of a moved head for a candidate: ``exact`` if any rule says so."""
        is_exact = any(rule.moved_head is MovedHead.EXACT for rule in self.enforced)
        return MovedHead.EXACT if is_exact else MovedHead.APART

    @property
    def hold(self) -> int:
        """The number of seconds for which a candidate may keep the branch's turn: the most of the rules that need statuses; 0 if
        none does."""
        return max((rule.hold for rule in self.enforced if rule.statuses), default=0)


class Terms(Struct, frozen=True, kw_only=True):
    """The change that is judged: ``verb`` of ``actor`` points the branch or tag ``name`` to ``commit``, or ``removes`` the name.
    A commit that is not built yet is None: then statuses are not judged, nor what depends on the paths that change.

    ``now`` is in Unix seconds. ``strategies`` are those of a merge, a revert or a cherry-pick; None if the verb merges nothing.
    ``base`` is the tree that the name has now, empty for a new name; ``touched`` returns whether the commit changes anything of
    it below one of some prefixes. ``approvals`` are the valid ones of the
    pull request: of this commit's source, base and strategies, and not by the author of the request or of any of its commits;
    None without a pull request. ``direct``: the verb does not bring commits of elsewhere. ``rollback``: the branch had this tree,
    and it passed then. ``bypass`` is the reason for which the actor asks to pass by the rules."""

    kind: RefKind
    name: str
    verb: str
    actor: Actor
    now: float
    commit: Commit | None
    base: MetarangeName = MetarangeName("")
    strategies: MergeStrategies | None = None
    touched: Callable[[Sequence[str]], bool]
    approvals: Sequence[Approval] | None = None
    direct: bool = False
    removes: bool = False
    rollback: bool = False
    bypass: str = ""


def gate_of(rules: Rules, kind: RefKind, name: str) -> Gate:
    """Return the gate of a branch or tag. Names of transactions' branches match no pattern."""
    if kind == "branch" and is_transaction(name):
        return Gate(rules.version)
    patterns = [(rule, rule.branches if kind == "branch" else rule.tags) for rule in rules.rules]
    return Gate(rules.version, tuple(rule for rule, names in patterns if matches(name, names)))


def is_transaction(name: str) -> bool:
    """Return whether this is the name of a transaction's branch."""
    return _TRANSACTION.fullmatch(name) is not None


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns: ``*`` (also slashes), ``?`` and ``[…]``. No name, no match."""
    return bool(name) and any(fnmatchcase(name, pattern) for pattern in patterns)


def judge(gate: Gate, terms: Terms, statuses: TreeStatuses, counting: frozenset[str]) -> tuple[Lack, ...]:
    """Return what the change lacks for the rules of the gate that refuse changes; nothing if it may be made. ``counting`` are
    the credentials of statuses and approvals that still count."""
    judgement = _Judgement(terms, statuses.statuses, counting)
    return tuple(lack for rule in gate.enforced for lack in judgement.lacks_of(rule))


def observed(gate: Gate, terms: Terms, statuses: TreeStatuses, counting: frozenset[str]) -> tuple[Lack, ...]:
    """Return what the change lacks for the rules of the gate that only report. As :func:`judge`."""
    judgement = _Judgement(terms, statuses.statuses, counting)
    return tuple(lack for rule in gate.rules if rule.observe for lack in judgement.lacks_of(rule))


class _Judgement:
    """The judgement of one change by one rule after another."""

    def __init__(self, terms: Terms, statuses: Sequence[Status], counting: frozenset[str]) -> None:
        self._terms = terms
        self._statuses = statuses
        self._counting = counting

    def lacks_of(self, rule: Rule) -> Sequence[Lack]:
        """Return what the change lacks for a rule, also if that rule only reports."""
        terms = self._terms
        lacks = [
            *self._frozen(rule),
            *(self._removal(rule) if terms.removes else self._needs(rule)),
        ]
        if not lacks or not terms.bypass.strip():
            return lacks
        if matches(terms.actor.principal, rule.bypass):
            return [lack for lack in lacks if lack.requirement == "permission"]
        words = f"{_who(terms.actor)} may not bypass it; {_those(rule.bypass)} may"
        return [Lack(rule.name, "permission", words=words, passing=False), *lacks]

    def _frozen(self, rule: Rule) -> Iterator[Lack]:
        if rule.frozen:
            yield Lack(rule.name, "frozen", words=f"nothing may change: {rule.frozen}", passing=False)

    def _removal(self, rule: Rule) -> Iterator[Lack]:
        """Yield what a removal of the name lacks: it takes the name out of the rule's reach, so it is up to an admin."""
        if self._terms.actor.role != "admin":
            words = f"only an admin may {self._terms.verb} {self._terms.name!r}, which has rules; ask one"
            yield Lack(rule.name, "permission", words=words, passing=False)

    def _needs(self, rule: Rule) -> Iterator[Lack]:
        """Yield what the commit, and the way in which it comes, lack."""
        returns = self._terms.rollback and matches(self._terms.actor.principal, rule.rollback)
        if not returns:
            yield from self._pull_request(rule)
        yield from self._strategies(rule)
        for required in rule.statuses:
            lack = self._status(rule, required)
            if lack is not None and not (returns and lack.passing):
                yield lack

    def _pull_request(self, rule: Rule) -> Iterator[Lack]:
        needed = [required for required in rule.approvals if self._applies(required.paths)]
        if self._terms.approvals is not None:
            for required in needed:
                yield from self._approvals(rule, required, self._terms.approvals)
        elif needed or rule.pull_requests_only:
            verb = "a direct change" if self._terms.direct else f"a {self._terms.verb} without one"
            reason = f"it needs {_counted(needed[0].number)}" if needed else "only pull requests change it"
            words = f"{reason}, and this is {verb}: make the change on another branch, and propose it by a pull request"
            yield Lack(rule.name, "pull-request", words=words, passing=False)

    def _approvals(self, rule: Rule, required: RequiredApprovals, approvals: Sequence[Approval]) -> Iterator[Lack]:
        people = {
            approval.principal
            for approval in approvals
            if approval.principal
            and (not approval.key_id or approval.key_id in self._counting)
            and (not required.by or matches(approval.principal, required.by))
        }
        if len(people) < required.number:
            by = f" of {_those(required.by)}" if required.by else ""
            below = f" for changes below {_listed(required.paths)}" if required.paths else ""
            words = f"it has {len(people)} of {_counted(required.number)}{by}{below}; ask for more"
            yield Lack(rule.name, "approvals", state=f"{len(people)}/{required.number}", words=words)

    def _strategies(self, rule: Rule) -> Iterator[Lack]:
        if self._terms.strategies is None or self._terms.direct or rule.strategies is None:
            return
        used = {self._terms.strategies.default, *(strategy for _, strategy in self._terms.strategies.by_prefix)}
        for strategy in sorted(used.difference(rule.strategies)):
            allowed = _listed([strategy_name(strategy) for strategy in rule.strategies])
            words = f"the merge strategy {strategy_name(strategy)} is not allowed; choose from {allowed}"
            yield Lack(rule.name, "strategy", strategy_name(strategy), words=words, passing=False)
        if self._terms.strategies.isolation == "snapshot":
            words = (
                "no merge may override the isolation levels of tables by snapshot; leave the isolation out, or set "
                "write.*.isolation-level of a table"
            )
            yield Lack(rule.name, "strategy", "snapshot", words=words, passing=False)

    def _status(self, rule: Rule, required: RequiredStatus) -> Lack | None:
        """Return the lack of a required status, if it is one. Of each principal's verdicts that count, the newest does: a failure
        among them refuses, else the newest of all decides."""
        commit = self._terms.commit
        if commit is None or not self._applies(required.paths):
            return None
        refusals: list[str] = []
        valid: list[Status] = []
        for status in self._statuses:
            if status.name == required.name:
                refusal = self._refusal(required, status, commit)
                if refusal:
                    refusals.append(refusal)
                else:
                    valid.append(status)
        if not valid:
            remedy = "graveler runs it" if required.check is not None else f"{_those(required.posters)} may post it"
            words = f"status {required.name!r} is missing; {remedy}"
            if refusals:
                words += f" ({'; '.join(refusals[:_SHOWN])})"
            return Lack(rule.name, "status", required.name, words=words)
        of_principal = {status.principal: status for status in valid}
        failures = [status for status in of_principal.values() if status.state is StatusState.FAILURE]
        newest = failures[-1] if failures else valid[-1]
        if newest.state is StatusState.SUCCESS:
            return None
        description = newest.description[:_DESCRIPTION]
        words = f"status {required.name!r} {_VERDICTS[newest.state]}{': ' if description else ''}{description}"
        passing = newest.state is not StatusState.FAILURE
        return Lack(rule.name, "status", required.name, newest.state.value, words, newest.url, passing)

    def _applies(self, paths: Sequence[str]) -> bool:
        """Return whether a requirement applies: it has no paths, or something below one of them changes."""
        return not paths or (self._terms.commit is not None and self._terms.touched(paths))

    def _refusal(self, required: RequiredStatus, status: Status, commit: Commit) -> str:
        """Return why a status does not count; empty if it does."""
        is_own = required.check is not None and status.principal == GRAVELER and not status.key_id
        if required.check is not None and not is_own and not required.posters:
            return f"graveler runs this check itself, so that of {status.principal!r} does not count"
        # Posters follow a webhook or a function that only accepted the commit.
        if not is_own and not matches(status.principal, required.posters):
            return f"{status.principal!r} posted one, and may not"
        if status.commit_id and status.commit_id != commit.id:
            return f"that of {status.by or status.principal!r} is about commit {status.commit_id[:16]}, and not about this one"
        if is_own and required.check is not None and not self._is_about(required.check, status):
            return "that of graveler is of an earlier definition of the check, or compares the commit with another one"
        if status.key_id and status.key_id not in self._counting:
            return f"that of {status.principal!r} counts no more, since its key or rule was revoked"
        if not is_current(status, self._terms.now):
            return f"that of {status.principal!r} expired on {_time(status.expires)}"
        return ""

    def _is_about(self, check: Mapping[str, Any], status: Status) -> bool:
        """Return whether this very check gave the verdict, and if it reads what a commit changes, about the same base."""
        # Only where a rule names a check.
        from graveler.lake.gates.checks.definitions import check_digest

        return status.check == check_digest(check, self._terms.base if status.commit_id else None)


_VERDICTS: Final = {
    StatusState.PENDING: "is pending",
    StatusState.FAILURE: "failed",
    StatusState.ERROR: "could not be determined",
}


def strategy_name(strategy: MergeStrategy) -> str:
    """Return the name of a merge strategy as people read and write it."""
    return strategy.value or "none"


def _counted(approvals: int) -> str:
    return f"{approvals} approval{'' if approvals == 1 else 's'}"


def _who(actor: Actor) -> str:
    return repr(actor.principal) if actor.principal else "the caller"


def _those(patterns: Sequence[str]) -> str:
    return _listed(patterns) if patterns else "nobody"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
