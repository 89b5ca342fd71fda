"""The gate of a branch or tag: what a verb does where rules guard the name that it changes (``docs/design/0023-gates.md``).

:meth:`GateKeeper.accept` sees the rules with each read of the branch, and refuses at once what no verdict could allow.
:meth:`GateKeeper.judge` compares a commit with the rules. A name that is pointed at a commit which exists, as by a hard reset,
needs no more than :meth:`GateKeeper.admit`; a new commit passes as a candidate (:mod:`graveler.lake.gates.passage`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import GravelerError, RuleError
from graveler.lake.gates.judgement import Approval, Gate, RefKind, Terms, gate_of, judge, observed
from graveler.lake.gates.standing import counting
from graveler.lake.gates.statuses import Statuses, TreeStatuses
from graveler.lake.gates.touched import touched
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import Admission
from graveler.model import Actor, Application, Commit, Lack, MergeStrategies, MetarangeName, Rules, Settings
from graveler.requests.base import CommitInfo, Gated, Request
from graveler.storage.tables.port import Check
from graveler.tree.tree import Tree
from graveler.tree.writer import Stop

_ROWS: Final = 100
"""The number of rows of the reference log in which a tree counts as one that the branch had."""

NO_STATUSES: Final = TreeStatuses(MetarangeName(""))

_encode: Final = msgspec.json.Encoder(enc_hook=str, order="deterministic").encode


class GateTerms(Struct, frozen=True, kw_only=True):
    """The account that a verb gives of itself: the ``request`` and its ``actor``. ``source`` is the ref that a merge brings, as
    the caller wrote it; ``direct``, ``removes`` and ``strategies`` as of :class:`Terms`; ``approvals`` are those of the pull
    request with this number, 0 for none. ``stop`` tells that the time of the call is over. ``may_roll_back``: a rule may let the
    verb return to a tree that the branch had."""

    request: Request[Any] | None = None
    actor: Actor = Actor()
    strategies: MergeStrategies | None = None
    source: str = ""
    direct: bool = False
    removes: bool = False
    may_roll_back: bool = False
    stop: Stop | None = None
    pull_request: int = 0
    approvals: Callable[[], Sequence[Approval]] | None = None

    @property
    def bypass(self) -> str:
        """The reason for which the caller asks to pass by the rules."""
        return self.request.bypass if isinstance(self.request, Gated) else ""

    @property
    def request_id(self) -> str:
        """The ID of the request, if it has one."""
        info = getattr(self.request, "info", None)
        return info.request_id if isinstance(info, CommitInfo) else ""

    @property
    def application(self) -> Application | None:
        """The numbered write of an application that the request is, if it is one."""
        application = getattr(self.request, "application", None)
        return application if isinstance(application, Application) else None

    @property
    def digest(self) -> str:
        """The text that identifies the request, whoever repeats it, so that the same one finds its candidate: all that it asks
        for and who asks, without the ID of one try and the reason to bypass. Random without a request."""
        if self.request is None:
            return token_hex(16)
        changes: dict[str, Any] = {"bypass": ""} if isinstance(self.request, Gated) else {}
        info = getattr(self.request, "info", None)
        if isinstance(info, CommitInfo):
            changes["info"] = replace(info, request_id="")
        plain = type(self.request).__name__, replace(self.request, **changes), self.actor.principal
        return sha256(_encode(plain)).hexdigest()[:32]


class GateKeeper:
    """The gate before one branch or tag, for one verb of one caller. Not safe to share between threads."""

    def __init__(
        self,
        repository: RepositoryParts,
        name: str,
        verb: str,
        terms: GateTerms,
        kind: RefKind = "branch",
    ) -> None:
        self.repository = repository
        self.name = name
        self.verb = verb
        self.terms = terms
        self.kind = kind
        self.statuses = Statuses(repository.tables, repository.uid)
        self.rules = Rules()
        """The rules of the repository, as they were read last."""
        self.gate: Gate = gate_of(self.rules, kind, name)
        """Those that guard the name; falsy without any."""
        self.admitted: tuple[Commit, Commit | None, tuple[Tree, Tree] | None, TreeStatuses] | None = None
        """The commit that may be, or was, published, with the one before it, their trees, and the statuses that were judged."""

    def accept(self, settings: Settings) -> None:
        """Take the rules that were read just now, as :attr:`Intent.accept`. :class:`RuleError` if no verdict and no approval
        could let this verb pass. No request."""
        if settings.rules == self.rules:
            return
        self.gate = gate_of(settings.rules, self.kind, self.name)
        if self.gate:
            lacks = judge(self.gate, self._terms(None, None), NO_STATUSES, frozenset())
            self.refuse([lack for lack in lacks if not lack.passing and lack.requirement != "status"])
        self.rules = settings.rules  # at the end, so that rules which refuse are never taken for accepted ones

    def judge(
        self, commit: Commit, trees: tuple[Tree, Tree] | None, statuses: TreeStatuses | None = None
    ) -> tuple[TreeStatuses, tuple[Lack, ...]]:
        """Return the statuses of the commit's tree, and what it lacks. ``trees`` are those of the name's present commit and of
        this one, None for a new name. One table read for the ``statuses``, unless they were read before, and one for each
        hundred credentials that posted."""
        statuses = statuses or self.statuses.read(commit.metarange)
        terms = self._terms(commit, trees)
        keys = {status.key_id for status in statuses.statuses} | {item.key_id for item in terms.approvals or ()}
        return statuses, judge(self.gate, terms, statuses, counting(self.repository.tables, keys))

    def admit(self, commit: Commit, head: Commit | None) -> list[Check]:
        """Return the conditions on which the name may be pointed at a commit that exists, for that transaction; ``head`` is what
        it names now, None if it is new. Runs graveler's own checks whose verdicts are missing. :class:`RuleError`. No request
        without rules; else as :meth:`judge`, and what the checks cost."""
        if not self.gate:
            return []
        load = self.repository.trees.load_many
        before, after = load([commit.metarange if head is None else head.metarange, commit.metarange])
        trees = None if head is None else (before, after)
        statuses, lacks = self.judge(commit, trees)
        definitions = checks_of(self.gate, lacks)
        if definitions:
            self.run_checks(commit, head, definitions, lambda: None)
            statuses, lacks = self.judge(commit, trees)
        self.refuse(lacks)
        self.admitted = commit, head, trees, statuses
        return [self.statuses.unchanged_check(statuses)]

    def report_admitted(self) -> None:
        """Report what rules that only observe would have refused of the commit to which the name points by now. Runs graveler's
        own checks whose verdicts these rules miss. A failure fails nothing, since the name was changed. No request without such
        rules."""
        if self.admitted is None or not any(rule.observe for rule in self.gate.rules):
            return
        # Only where a rule observes.
        from graveler.lake.gates.reports import report

        commit, head, trees, statuses = self.admitted
        with suppress(GravelerError):
            lacks = self._observed(commit, trees, statuses)
            if definitions := checks_of(self.gate, lacks):
                self.run_checks(commit, head, definitions, lambda: None)
                lacks = self._observed(commit, trees, self.statuses.read(commit.metarange))
            if lacks:
                report(self.repository, self.name, commit, lacks, self.kind)

    def admission(self, settings: Settings, commit: Callable[[], Commit] | None = None) -> Admission:
        """Return the leave to point a new name at a commit, or without one to remove the name, by the rules in these settings:
        :data:`graveler.lake.refs.branches.Admit`. :class:`RuleError`. Cost: as :meth:`admit`, and the commit."""
        self.accept(settings)
        if not self.gate:
            return Admission()
        return Admission(() if commit is None else self.admit(commit(), None), self.rules.version)

    def run_checks(
        self,
        commit: Commit,
        head: Commit | None,
        definitions: Mapping[str, Mapping[str, Any]],
        stop: Callable[[], None],
    ) -> None:
        """Run checks of graveler's own and post their verdicts. ``stop`` raises if nobody needs them any more."""
        # Only where a rule names a check.
        from graveler.lake.gates.checks.run import run_checks

        verdicts = run_checks(self.repository, commit, head, definitions, stop)
        self.statuses.post(commit.metarange, list(verdicts.values()))

    def refuse(self, lacks: Sequence[Lack], candidate: str = "") -> None:
        """Raise :class:`RuleError` for what is lacking, if anything is."""
        if lacks:
            raise RuleError(self.name, lacks, candidate)

    def _observed(self, commit: Commit, trees: tuple[Tree, Tree] | None, statuses: TreeStatuses) -> tuple[Lack, ...]:
        """Return what rules that only observe would refuse."""
        keys = {status.key_id for status in statuses.statuses}
        return observed(self.gate, self._terms(commit, trees), statuses, counting(self.repository.tables, keys))

    @property
    def log_words(self) -> str:
        """The operation for the reference log."""
        if not self.terms.bypass or not self.gate:
            return self.verb
        return f"{self.verb}, bypassing {', '.join(rule.name for rule in self.gate.rules)}: {self.terms.bypass}"

    def _terms(self, commit: Commit | None, trees: tuple[Tree, Tree] | None) -> Terms:
        """Return the terms of a judgement."""

        def changes_below(prefixes: Sequence[str]) -> bool:
            return trees is None or touched(*trees, prefixes)

        terms = self.terms
        return Terms(
            kind=self.kind,
            name=self.name,
            verb=self.verb,
            actor=terms.actor,
            commit=commit,
            base=MetarangeName("") if trees is None else trees[0].name(),
            strategies=terms.strategies,
            touched=changes_below,
            approvals=None if terms.approvals is None else tuple(terms.approvals()),
            direct=terms.direct,
            removes=terms.removes,
            rollback=terms.may_roll_back and self._may_return(commit),
            bypass=terms.bypass,
            now=self.repository.clock.now(),
        )

    def _may_return(self, commit: Commit | None) -> bool:
        """Return whether a rule may let the branch return to the commit's tree, because it had it. One or two table reads, none
        if no rule permits returning, or the commit is not built yet."""
        if commit is None:
            return True
        if not any(rule.rollback for rule in self.gate.rules):
            return False
        rows = self.repository.reflog.entries("branch", self.name, _ROWS)
        ids = dict.fromkeys(row.new for row in rows if row.new is not None)
        trees = {cached.commit.metarange for cached in self.repository.commits.read(list(ids)).values()}
        return commit.metarange in trees


def checks_of(gate: Gate, lacks: Sequence[Lack]) -> dict[str, Mapping[str, Any]]:
    """Return the checks of graveler's own whose verdicts are missing, by the name of their status."""
    missing = {lack.name for lack in lacks if lack.requirement == "status" and lack.state != "failure"}
    return {
        status.name: status.check
        for rule in gate.rules
        for status in rule.statuses
        if status.check is not None and status.name in missing
    }
