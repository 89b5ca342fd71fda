"""Reads about the rules of a repository: trials, reports, and the candidates that wait."""

from collections.abc import Sequence
from typing import Literal

from graveler.errors import RuleError
from graveler.history.expressions import resolve
from graveler.lake.gates.candidate_verbs import terms_of
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.judgement import Terms, gate_of, judge, observed
from graveler.lake.gates.passage import Passage
from graveler.lake.gates.reports import reports
from graveler.lake.gates.rule_validation import check_rules
from graveler.lake.gates.standing import counting
from graveler.lake.gates.statuses import Statuses
from graveler.lake.gates.touched import touched
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.state_reader import at_least_one
from graveler.lake.settings.change import read_settings
from graveler.model import Actor, Candidate, CandidateDetails, MetarangeName, Page, Rule, RuleReport, Rules, RuleTrial


class GateReader:
    """The reads of one repository about what its rules let pass. Creating it sends no request."""

    def __init__(self, parts: RepositoryParts) -> None:
        self._parts = parts
        self._candidates = Candidates(parts.tables, parts.uid)

    def try_rules(
        self,
        ref: str,
        name: str,
        kind: Literal["branch", "tag"] = "branch",
        rules: Sequence[Rule] | None = None,
    ) -> RuleTrial:
        """Judge the commit of ``ref`` as if a pull request without approvals brought it to the branch ``name``, or a tag of this
        name were made there. ``rules`` are tried instead of those in force. A branch or tag need not exist: then all of the
        commit counts as changed. No check is run, and uncommitted changes stay out.

        Cost: one table read for the rules, resolving the ref, the name and the statuses one each; two object reads where rules
        have paths. Errors of resolving; :class:`InvalidError` for rules that cannot be set.
        """
        parts = self._parts
        in_force = read_settings(parts).rules if rules is None else Rules(0, check_rules(rules))
        gate = gate_of(in_force, kind, name)
        commit = parts.commits.get(resolve(ref, parts.refs, parts.commits).commit_id)
        named = parts.refs.branch(name) if kind == "branch" else parts.refs.tag(name)
        head = None if named is None else parts.commits.get(named.commit_id)

        def changes_below(prefixes: Sequence[str]) -> bool:
            if head is None:
                return True
            before, after = parts.trees.load_many([head.metarange, commit.metarange])
            return touched(before, after, prefixes)

        statuses = Statuses(parts.tables, parts.uid).read(commit.metarange)
        counted = counting(parts.tables, {status.key_id for status in statuses.statuses})
        terms = Terms(
            kind=kind,
            name=name,
            verb="merge",
            actor=Actor(),
            now=parts.clock.now(),
            commit=commit,
            base=MetarangeName("") if head is None else head.metarange,
            touched=changes_below,
            approvals=(),
        )
        return RuleTrial(
            tuple(rule.name for rule in gate.rules),
            judge(gate, terms, statuses, counted),
            observed(gate, terms, statuses, counted),
        )

    def reports(self, after: str = "", amount: int = 100) -> Page[RuleReport]:
        """Return what rules with ``observe`` would have refused in the last 30 days, the newest first; ``after`` is the position
        that the previous page ended with. Cost: one table read. :class:`InvalidError` for another position."""
        return reports(self._parts, after, at_least_one(amount))

    def candidates(self, after: str = "", amount: int = 100) -> Page[Candidate]:
        """Return a page of candidates by ID: those that are open, and those that ended in the last 30 days. Cost: one table
        read."""
        return self._candidates.page(after, at_least_one(amount))

    def candidate(self, name: str) -> CandidateDetails:
        """Return a candidate, which is named by its ID or by its commit's, and what it lacks now; nothing for one that has ended,
        that belongs to a pull request, or whose branch has moved since. Cost: one or two table reads; for an open one as
        :class:`PublishCandidate` without checks. :class:`RefNotFoundError`, :class:`InvalidError`."""
        row = self._candidates.find(name, self._parts.commits)
        candidate = row.candidate
        if not row.in_progress or candidate.pull_request:
            return CandidateDetails(candidate)
        terms = terms_of(candidate, None, Actor())
        passage = Passage(self._parts, candidate.destination, candidate.verb, terms)
        try:
            attempt = passage.reopen(row)
        except RuleError as error:
            return CandidateDetails(candidate, error.lacks)
        lacks = () if attempt is None else passage.judge(attempt.commit, attempt.trees)[1]
        return CandidateDetails(candidate, lacks)

    def branch_of(self, name: str) -> str:
        """Return the branch that a candidate is for. Cost: one or two table reads."""
        return self._candidates.find(name, self._parts.commits).candidate.destination
