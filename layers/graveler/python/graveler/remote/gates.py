"""Reads about the rules of a repository behind the HTTP API: trials, reports, and the candidates that wait."""

from collections.abc import Sequence
from typing import Literal

from graveler.model import Candidate, CandidateDetails, Page, Rule, RuleReport, RuleTrial
from graveler.remote.connection import PAGE, Connection
from graveler.wire.rule_documents import CandidateList, RuleReports, RuleTest


class RemoteGates:
    """The reads of :class:`graveler.lake.gates.gate_reader.GateReader`. Each is one request."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._base = ("repositories", name)

    def try_rules(
        self,
        ref: str,
        name: str,
        kind: Literal["branch", "tag"] = "branch",
        rules: Sequence[Rule] | None = None,
    ) -> RuleTrial:
        """Return what the commit of ``ref`` would lack for a branch or a tag; by these ``rules``, as an admin only."""
        document = RuleTest(
            ref,
            name if kind == "branch" else None,
            name if kind == "tag" else None,
            None if rules is None else tuple(rules),
        )
        return self._connection.call("POST", (*self._base, "settings", "rules", "test"), None, document).read(RuleTrial)

    def reports(self, after: str = "", amount: int = 100) -> Page[RuleReport]:
        """Return what rules with ``observe`` would have refused, the newest first."""
        path = (*self._base, "settings", "rules", "reports")
        page = self._connection.get(path, RuleReports, {"after": after, "amount": min(amount, PAGE)})
        return Page(page.results, page.pagination.next_after)

    def candidates(self, after: str = "", amount: int = 100) -> Page[Candidate]:
        """Return candidates by ID, also those that ended in the last 30 days."""
        path = (*self._base, "candidates")
        page = self._connection.get(path, CandidateList, {"after": after, "amount": min(amount, PAGE)})
        return Page(page.results, page.pagination.next_after)

    def candidate(self, name: str) -> CandidateDetails:
        """Return a candidate, which is named by its ID or by its commit's, and what it lacks."""
        return self._connection.get((*self._base, "candidates", name), CandidateDetails)
