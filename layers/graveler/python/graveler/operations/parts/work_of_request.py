"""The work in parts of each request."""

from collections.abc import Callable, Mapping
from hashlib import sha256

from msgspec.structs import replace

from graveler.lake.committing.rewrite import rewrite_landing
from graveler.lake.context import Context
from graveler.lake.deadline import Deadline
from graveler.lake.gates.gate import GateTerms
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.importer import ImportSource, Terms, import_landing
from graveler.lake.importing.prefix_listing import source_at
from graveler.lake.merging.merge import plan_merge
from graveler.lake.merging.replay import plan_cherry_pick, plan_revert
from graveler.lake.merging.three_way import MergePlan
from graveler.lake.parts import RepositoryParts
from graveler.model import CommitID
from graveler.operations.parts.commit_work import CommitWork
from graveler.operations.parts.division import PartedWork
from graveler.operations.parts.import_work import ImportWork
from graveler.operations.parts.rewrite_work import RewriteWork
from graveler.operations.parts.three_way_work import ThreeWayWork
from graveler.operations.pinned_requests import LongRequest, Pinned
from graveler.requests.committing import Commit, Rewrite
from graveler.requests.importing import ImportAddress, ImportAddresses
from graveler.requests.merging import CherryPick, Merge, Revert
from graveler.storage.tables.port import Check
from graveler.system.progress import ObjectProgress


def ticket_of(operation_id: str) -> str:
    """Return the name of the ticket by which all steps of an operation keep its turn at a branch (:mod:`graveler.lake.turns`)."""
    return sha256(operation_id.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def open_work(
    repository: RepositoryParts,
    pinned: Pinned[LongRequest],
    known_by: str,
    deadline: Deadline,
    only_while: Check | None,
    ticket: str,
) -> PartedWork:
    """Open the work of an operation for this request, published on condition of ``only_while``. ``known_by`` is the request ID of
    its commit, and ``ticket`` the name by which it keeps its turn at the branch. A cherry-pick reads its commit; no request
    otherwise."""
    request = replace(pinned.request, info=replace(pinned.request.info, request_id=known_by))
    context = Context(by=pinned.actor.name, actor=pinned.actor)
    if isinstance(request, Commit):
        again = Pinned(request=request, owner=pinned.owner, begun=pinned.begun, actor=pinned.actor)
        return CommitWork(repository, again, deadline, only_while)
    if isinstance(request, ImportAddresses):
        landing = import_landing(
            request.branch, request.info, GateTerms(request=request, direct=True), force=request.force
        ).by(context)
        landing = replace(landing, only_while=only_while, ticket=ticket)
        terms = Terms(request.allow_empty, request.dry_run)
        return ImportWork(repository, landing, request.sources, _source_at(repository, request), deadline, terms)
    if isinstance(request, Rewrite):
        landing = replace(rewrite_landing(request).by(context), only_while=only_while, ticket=ticket)
        return RewriteWork(repository, landing, request.split, deadline)
    plan = _undertaking(repository, request, pinned.refs)
    landing = replace(plan.landing.by(context), only_while=only_while, ticket=ticket)
    return ThreeWayWork(repository, replace(plan, landing=landing), request.strategies, deadline, pinned.begun)


def _source_at(
    repository: RepositoryParts, request: ImportAddresses
) -> Callable[[ImportAddress, ObjectProgress], ImportSource]:
    def source(address: ImportAddress, progress: ObjectProgress) -> ImportSource:
        return source_at(
            address,
            repository.codec,
            Gate(repository.namespace, repository.locate_external),
            progress,
            repository.workers,
            trust_mtime=request.trust_mtime,
            folders=request.folders,
            exclude=request.exclude,
            ignore=request.ignore,
        )

    return source


def _undertaking(
    repository: RepositoryParts, request: Merge | Revert | CherryPick, refs: Mapping[str, CommitID]
) -> MergePlan:
    if isinstance(request, Merge):
        return plan_merge(repository, request, refs["source"])
    if isinstance(request, CherryPick):
        return plan_cherry_pick(repository, request, refs["ref"])
    return plan_revert(repository, request, refs["ref"])
