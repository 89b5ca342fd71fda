"""Rules of branches and tags: those of a repository, those of the lake, their trial and reports; and candidates, which wait."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.queries import AfterQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.model import Candidate, CandidateDetails, CheckTrial, LakeRules, Rule, Rules, RuleTrial
from graveler.requests.base import Permission
from graveler.requests.committing import PublishCandidate, WithdrawCandidate
from graveler.requests.setting_changes import SetRules
from graveler.requests.statuses import RunChecks
from graveler.wire.documents import Commit, Pagination, commit_document
from graveler.wire.error_documents import Error
from graveler.wire.rule_documents import CandidateList, LakeRuleChange, RuleChange, RuleReports, RuleTest

routes = Routes("rules")

_RULES: Final = "/repositories/{repository}/settings/rules"
_OF_LAKE: Final = "/settings/rules"
_CANDIDATES: Final = "/repositories/{repository}/candidates"
_MARGIN: Final = 2.0
"""Seconds that a request for checks leaves for their end and the response."""
_ETAG: Final = {"ETag": "the version of the rules, for `If-Match`"}


@routes.get(_RULES, "getRules", Permission.READ, responses={200: Rules, 404: Error}, response_headers=_ETAG)
def get_rules(call: Call, repository: str) -> Response:
    """Return the rules of the branches and tags of a repository, with those of the lake that apply to it."""
    settings = call.lake.repository(repository).repository.settings
    return _answer(settings.rules)


@routes.put(
    _RULES,
    "setRules",
    SetRules,
    responses={200: Rules, 400: Error, 403: Error, 404: Error, 412: Error},
    response_headers=_ETAG,
)
def set_rules(call: Call, repository: str, body: RuleChange) -> Response:
    """Replace the rules of a repository. They are in force when the response arrives, also for changes that are under way. With
    the header `If-Match`, or a ``version``, only if the present rules have that version."""
    _expect_lifetimes(call, body.rules)
    request = SetRules(rules=body.rules, if_match=_expected(call, body.version))
    return _answer(call.run(repository, request))


@routes.post(f"{_RULES}/test", "testRules", Permission.READ, responses={200: RuleTrial, 400: Error, 404: Error})
def test_rules(call: Call, repository: str, body: RuleTest) -> Response:
    """Return what a commit would lack for a branch or a tag. Nothing changes, and no check runs."""
    opened = call.lake.repository(repository)
    if body.rules is not None:
        call.identity.require(Permission.ADMIN, repository)
    kind: Literal["branch", "tag"] = "tag" if body.tag else "branch"
    name = body.tag or body.branch
    if not name or (body.tag and body.branch):
        raise bad_request("name either a branch or a tag, for which the commit is to be judged")
    return json_response(opened.gates.try_rules(body.ref, name, kind, body.rules))


@routes.run(RunChecks, responses={200: CheckTrial, 400: Error, 404: Error, 429: Error}, branch_in_body=True, scans=True)
def run_checks(call: Call, repository: str, request: RunChecks) -> Response:
    """Make the checks of a branch's rules on any commit. Nothing is published, and no status is posted. The response comes when
    all have ended; 429 if they take longer than the server may: the same request goes on with those that have no verdict yet."""
    if request.definitions:
        call.identity.require(Permission.ADMIN, repository)
    call.identity.require(Permission.WRITE, repository, request.branch)
    context = call.context()
    if call.is_bounded:
        context = replace(context, stop=lambda: call.seconds_left() <= _MARGIN)
    return json_response(call.lake.repository(repository, request.ref).run(request, context))


@routes.get(
    f"{_RULES}/reports", "listRuleReports", Permission.READ, responses={200: RuleReports, 400: Error, 404: Error}
)
def list_reports(call: Call, repository: str, query: AfterQuery) -> Response:
    """List the changes that rules with `observe` would have refused in the last 30 days, the newest first."""
    page = call.lake.repository(repository).gates.reports(query.after, query.limit)
    position = Pagination(page.next_after is not None, page.next_after or "", len(page.results))
    return json_response(RuleReports(position, page.results))


@routes.get(_OF_LAKE, "getLakeRules", Permission.ADMIN, responses={200: LakeRules}, response_headers=_ETAG)
def get_lake_rules(call: Call) -> Response:
    """Return the rules of the lake, which apply to all repositories whose names match their patterns."""
    return _answer(call.lake.rules())


@routes.put(
    _OF_LAKE,
    "setLakeRules",
    Permission.ADMIN,
    responses={200: LakeRules, 400: Error, 412: Error},
    response_headers=_ETAG,
)
def set_lake_rules(call: Call, body: LakeRuleChange) -> Response:
    """Replace the rules of the lake, and those copies of them that its repositories have. They are in force in each repository
    when the response arrives."""
    _expect_lifetimes(call, body.rules)
    return _answer(call.lake.set_rules(body.rules, _expected(call, body.version), by=call.committer))


def _expect_lifetimes(call: Call, rules: Sequence[Rule]) -> None:
    """Refuse checks by which an object would pass while somebody may still have a URL of this server to replace it."""
    from graveler.lake.gates.checks.definitions import LiveUploadsCheck  # only where rules are set

    longest, default = call.settings.presign_seconds, LiveUploadsCheck().seconds
    for rule in rules:
        for status in rule.statuses:
            check = status.check or {}
            seconds = check.get("seconds", default)
            if check.get("kind") == "live-uploads" and isinstance(seconds, int) and seconds < longest:
                raise bad_request(
                    f"check {status.name!r} of rule {rule.name!r} takes upload URLs for ended after {seconds:,} seconds, but "
                    f"those of this server live for {longest:,}; set its seconds to {longest} at least"
                )


def _answer(rules: Rules | LakeRules) -> Response:
    return json_response(rules, headers={"etag": f'"{rules.version}"'})


def _expected(call: Call, version: int | None) -> int | None:
    """Return the version that the client expects by `If-Match` or in its document, if it does."""
    condition = call.headers.get("if-match", "*").strip()
    if condition == "*":
        return version
    digits = condition.removeprefix("W/").strip('"')
    if not (digits.isascii() and digits.isdigit()) or version not in (None, int(digits)):
        raise bad_request(
            f"If-Match: {condition[:100]} is not the ETag of the rules that the document has; send one of them"
        )
    return int(digits)


@routes.get(_CANDIDATES, "listCandidates", Permission.READ, responses={200: CandidateList, 400: Error, 404: Error})
def list_candidates(call: Call, repository: str, query: AfterQuery) -> Response:
    """List candidates by ID: those that are open, and those that ended in the last 30 days."""
    page = call.lake.repository(repository).gates.candidates(query.after, query.limit)
    position = Pagination(page.next_after is not None, page.next_after or "", len(page.results))
    return json_response(CandidateList(position, tuple(map(_shown, page.results))))


@routes.get(
    f"{_CANDIDATES}/{{candidate}}",
    "getCandidate",
    Permission.READ,
    responses={200: CandidateDetails, 400: Error, 404: Error},
)
def get_candidate(call: Call, repository: str, candidate: str) -> Response:
    """Describe a candidate, and what it lacks now. It is named by its ID, or by its commit's."""
    details = call.lake.repository(repository).gates.candidate(candidate)
    return json_response(replace(details, candidate=_shown(details.candidate)))


@routes.run(
    PublishCandidate,
    responses={200: Commit, 400: Error, 403: Error, 404: Error, 409: Error, 412: Error},
    branch_in_body=True,
)
def publish_candidate(call: Call, repository: str, request: PublishCandidate) -> Response:
    """Point the branch at a candidate. What it still lacks is a 412."""
    _require_branch(call, repository, request.candidate)
    return json_response(commit_document(call.run(repository, request)))


@routes.run(
    WithdrawCandidate, responses={204: None, 400: Error, 403: Error, 404: Error, 409: Error}, branch_in_body=True
)
def withdraw_candidate(call: Call, repository: str, request: WithdrawCandidate) -> Response:
    """End a candidate. Those who may are its maker and admins."""
    _require_branch(call, repository, request.candidate)
    call.run(repository, request)
    return no_content()


def _shown(candidate: Candidate) -> Candidate:
    """Return a candidate as readers see it: without its maker's key, and the table's names for what it holds."""
    return replace(candidate, key_id="", tokens=(), lives=())


def _require_branch(call: Call, repository: str, candidate: str) -> None:
    """Require that the caller may change the branch that a candidate is for."""
    branch = ""
    try:
        branch = call.lake.repository(repository).gates.branch_of(candidate)
    finally:  # who may change nothing does not learn what there is
        call.identity.require(Permission.WRITE, repository, branch)
