"""Ingest: rules about objects that arrive elsewhere, the status of their staged changes, reconciliation, and replay of recorded
events. Beyond lakeFS's API."""

import time
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import once, request_id
from graveler.api.ingest_commits import OperationCommits
from graveler.api.operation_documents import failure_document
from graveler.api.queries import PageQuery
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.api.staging import require_own
from graveler.errors import NotFoundError
from graveler.ingest.ingester import Ingester
from graveler.ingest.operation import KIND, ReconcileRequest
from graveler.ingest.reconcile import Reconciled
from graveler.ingest.results import Message
from graveler.ingest.rules import Rule, RuleStore
from graveler.ingest.status import IngestStatus
from graveler.ingest.status import status as ingest_status
from graveler.lake.repository import OpenRepository
from graveler.operations.report_documents import read_report
from graveler.operations.store import OperationState
from graveler.requests.base import Permission
from graveler.wire.documents import MAX_PER_PAGE, Pagination, commit_document
from graveler.wire.error_documents import Error
from graveler.wire.ingest_documents import (
    IngestMade,
    IngestNotMade,
    IngestReplay,
    IngestReplayed,
    IngestResult,
    IngestRule,
    IngestRuleList,
    Reconciliation,
    ReconciliationCreation,
    ReconciliationStarted,
    RefusedPath,
)

routes = Routes("ingest")

_RULES: Final = "/repositories/{repository}/ingest/rules"
_RULE: Final = "/repositories/{repository}/ingest/rules/{rule}"
_RECONCILIATIONS: Final = "/repositories/{repository}/ingest/reconciliations"


@routes.get(_RULES, "listIngestRules", Permission.READ, responses={200: IngestRuleList, 404: Error})
def list_rules(call: Call, repository: str, query: PageQuery) -> Response:
    """List ingest rules by name."""
    rules = sorted(
        (
            rule
            for rule in RuleStore(call.lake.tables).of(call.lake.repository(repository).repository).rules
            if rule.name.startswith(query.prefix) and rule.name > query.after
        ),
        key=lambda rule: rule.name,
    )
    page = rules[: query.limit]
    more = len(rules) > len(page)
    pagination = Pagination(more, page[-1].name if more else "", len(page), MAX_PER_PAGE)
    return json_response(IngestRuleList(pagination, [_document(rule) for rule in page]))


@routes.post(
    _RULES,
    "createIngestRule",
    Permission.ADMIN,
    responses={201: IngestRule, 400: Error, 403: Error, 404: Error, 409: Error},
)
def create_rule(call: Call, repository: str, body: IngestRule) -> Response:
    """Add an ingest rule, which applies to objects that arrive from then on. 409 if there is already one with this name."""
    opened, rule = _permitted_rule(call, repository, body)
    store = RuleStore(call.lake.tables)

    def created_earlier() -> Response | None:
        existing = store.get(opened.repository, rule.name)
        same = msgspec.structs.replace(existing, id="", since=0) == rule
        return json_response(_document(existing), 201) if same else None

    return once(call, lambda: json_response(_document(store.add(call.lake, repository, rule)), 201), created_earlier)


@routes.get(_RULE, "getIngestRule", Permission.READ, responses={200: IngestRule, 404: Error})
def get_rule(call: Call, repository: str, rule: str) -> Response:
    """Describe an ingest rule."""
    opened = call.lake.repository(repository)
    return json_response(_document(RuleStore(call.lake.tables).get(opened.repository, rule)))


@routes.put(_RULE, "setIngestRule", Permission.ADMIN, responses={200: IngestRule, 400: Error, 403: Error, 404: Error})
def set_rule(call: Call, repository: str, rule: str, body: IngestRule) -> Response:
    """Add an ingest rule, or replace the one with this name."""
    if body.name != rule:
        raise bad_request(
            f"the rule is named {rule!r} in the path and {body.name!r} in the body; a rule keeps its name"
        )
    _, changed_rule = _permitted_rule(call, repository, body)
    return json_response(_document(RuleStore(call.lake.tables).put(call.lake, repository, changed_rule)))


@routes.delete(_RULE, "deleteIngestRule", Permission.ADMIN, responses={204: None, 404: Error})
def delete_rule(call: Call, repository: str, rule: str) -> Response:
    """Remove an ingest rule; its staged changes stay."""
    RuleStore(call.lake.tables).remove(call.lake.repository(repository).repository, rule)
    return no_content()


@routes.get(f"{_RULE}/status", "getIngestStatus", Permission.READ, responses={200: IngestStatus, 404: Error})
def status(call: Call, repository: str, rule: str) -> Response:
    """Show what an ingest rule has staged but not committed, and the commit in progress."""
    opened = call.lake.repository(repository)
    stored_rule = RuleStore(call.lake.tables).get(opened.repository, rule)
    return json_response(ingest_status(call.lake.tables, opened, stored_rule))


@routes.post(
    _RECONCILIATIONS,
    "startReconciliation",
    Permission.WRITE,
    responses={202: ReconciliationStarted, 400: Error, 403: Error, 404: Error},
    branch_in_body=True,  # it is in the rule
)
def start_reconciliation(call: Call, repository: str, body: ReconciliationCreation) -> Response:
    """Start comparing a rule's source with its branch and repairing differences. With an Idempotency-Key, a repeated request
    returns what the first one started.
    """
    opened = call.lake.repository(repository)
    try:
        rule = RuleStore(call.lake.tables).get(opened.repository, body.rule)
    except NotFoundError:
        call.identity.require(Permission.WRITE, repository)
        raise
    call.identity.require(Permission.WRITE, repository, rule.branch)
    require_own(call, rule.source, prefix=True)
    key = request_id(call)
    operation = call.runner.start(
        opened,
        KIND,
        msgspec.json.encode(ReconcileRequest(body.rule, body.dry_run, body.exclude, body.ignore)),
        sha256(f"reconcile {key}".encode()).hexdigest()[:32] if key else "",
        branch=rule.branch,
    )
    return json_response(ReconciliationStarted(operation.id), 202)


@routes.get(
    f"{_RECONCILIATIONS}/{{id}}", "getReconciliation", Permission.READ, responses={200: Reconciliation, 404: Error}
)
def reconciliation(call: Call, repository: str, id: str) -> Response:  # noqa: A002 - as the path says
    """Show the progress and results of a reconciliation. If the process working on it has died, this process takes over."""
    opened = call.lake.repository(repository)
    operation = call.runner.look(opened, id)
    if operation.kind != KIND:
        raise ApiError(404, f"not found: operation {id!r} does not reconcile a rule")
    request = msgspec.json.decode(operation.request, type=ReconcileRequest)
    if operation.state is not OperationState.COMPLETED:
        error = failure_document(operation) if operation.is_finished else UNSET
        return json_response(Reconciliation(operation.is_finished, request.rule, request.dry_run, error=error))
    report = read_report(opened, operation.id, Reconciled)
    return json_response(
        Reconciliation(
            True,
            request.rule,
            request.dry_run,
            report.objects,
            report.linked_count,
            report.deleted_count,
            list(report.linked),
            list(report.deleted),
            [RefusedPath(refused.path, refused.reason) for refused in report.refused],
            [commit.id for commit in report.commits],
        )
    )


@routes.post(
    "/repositories/{repository}/ingest/replay",
    "replayIngest",
    Permission.WRITE,
    function="commit",
    responses={200: IngestReplayed, 400: Error, 403: Error, 404: Error},
    branch_in_body=True,  # it is in the rules
)
def replay(call: Call, repository: str, body: IngestReplay) -> Response:
    """Process recorded events, for example from a dead-letter queue, with the rules of this repository; events that were already
    processed change nothing. Commits that are due are made, even without any message; those that do not fit in the request's time
    are left to the next request, or to the deployment's schedule.
    """
    opened = call.lake.repository(repository)
    rules = RuleStore(call.lake.tables).of(opened.repository).rules
    for branch in {rule.branch for rule in rules} or {""}:
        call.identity.require(Permission.WRITE, repository, branch)
    for rule in rules:
        require_own(call, rule.source, prefix=True)
    long = OperationCommits(call.runner, call.settings.operation_records, call.seconds_left)
    ingester = Ingester(call.lake, opened.clock, long)
    messages = [Message(str(number), text) for number, text in enumerate(body.messages)]
    deadline = time.monotonic() + call.settings.request_seconds

    def go_on() -> bool:
        return time.monotonic() < deadline

    results, batch = ingester.process_messages(messages, opened.repository, go_on)
    due = ingester.commit_due(opened.repository, go_on)
    commits, failures = (*batch.commits, *due.commits), (*batch.commits_failed, *due.commits_failed)
    return json_response(
        IngestReplayed(
            [IngestResult(result.outcome, result.reason) for result in results],
            [IngestMade(landed.rule, commit_document(landed.commit)) for landed in commits],
            [IngestNotMade(failure.rule, failure.reason) for failure in failures],
        )
    )


def _permitted_rule(call: Call, repository: str, body: IngestRule) -> tuple[OpenRepository, Rule]:
    """Return the repository and the rule, if the deployment and the key may read its source. Else 403."""
    opened = call.lake.repository(repository)
    sources = call.settings.ingest_sources or call.settings.import_sources
    narrowing = opened.repository.settings.import_sources
    (sources if narrowing is None else sources.narrowed(narrowing)).require(body.source)
    require_own(call, body.source, prefix=True)
    return opened, msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(body, id="")), Rule)


def _document(rule: Rule) -> IngestRule:
    return msgspec.convert(msgspec.to_builtins(rule), IngestRule)
