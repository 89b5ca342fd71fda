"""From what is asked for to the work in parts that does it."""

from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from graveler.lake.branches import Branches
from graveler.lake.clock import Clock
from graveler.lake.commit import Committer
from graveler.lake.deadline import Deadline
from graveler.lake.importing.importer import Importer, ImportSource, Terms, import_landing
from graveler.lake.importing.progress import Progress
from graveler.lake.in_parts.commits import CommitWork
from graveler.lake.in_parts.imports import ImportWork
from graveler.lake.in_parts.pinned import LongRequest, Pinned
from graveler.lake.in_parts.rewrites import RewriteWork
from graveler.lake.in_parts.three_ways import ThreeWayWork
from graveler.lake.in_parts.work import Work
from graveler.lake.landing import Lander
from graveler.lake.merge import Merger
from graveler.lake.publish import Publisher
from graveler.lake.replay import Replayer
from graveler.lake.rewrite import Rewriter, rewrite_landing
from graveler.lake.sealing import Sealer
from graveler.lake.sides import Sides
from graveler.lake.three_way import ThreeWayLander, Undertaking
from graveler.model import CommitID, MergeStrategies, SplitParameters
from graveler.requests.committing import Commit, Rewrite
from graveler.requests.importing import ImportAddress, ImportAddresses
from graveler.requests.merging import CherryPick, Merge, Revert
from graveler.staging.changes import StagedChanges
from graveler.storage.tables import Check
from graveler.tree.tree import Trees


class Tools(msgspec.Struct, frozen=True):
    """What the verbs of one repository work with."""

    split: SplitParameters
    branches: Branches
    staged: StagedChanges
    sealer: Sealer
    publisher: Publisher
    committer: Committer
    lander: Lander
    sides: Sides
    three_way: ThreeWayLander
    merger: Merger
    replayer: Replayer
    importer: Importer
    rewriter: Rewriter
    trees: Trees
    clock: Clock
    source_at: Callable[[ImportAddress, Progress], ImportSource]


def ticket_of(operation_id: str) -> str:
    """The name of the ticket by which all steps of an operation keep its turn at a branch (:mod:`graveler.lake.turns`)."""
    return sha256(operation_id.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def open_work(
    tools: Tools, pinned: Pinned[LongRequest], known_by: str, until: Deadline, only_while: Check | None, ticket: str
) -> Work:
    """The work that an operation of this request is, published on condition of ``only_while``; its commit is ``known_by`` this
    request ID, and ``ticket`` names that by which it keeps its turn at the branch. A cherry-pick reads its commit; no request
    otherwise."""
    request = replace(pinned.request, info=replace(pinned.request.info, request_id=known_by))
    if isinstance(request, Commit):
        return CommitWork(
            Pinned(request=request, owner=pinned.owner, begun=pinned.begun),
            tools.split,
            tools.branches,
            tools.staged,
            tools.sealer,
            tools.committer,
            tools.publisher,
            tools.sides,
            tools.trees,
            tools.clock,
            until,
            only_while,
        )
    if isinstance(request, ImportAddresses):
        landing = import_landing(request.branch, request.info, force=request.force)
        landing = replace(landing, only_while=only_while, ticket=ticket)
        terms = Terms(request.allow_empty, request.dry_run)
        return ImportWork(
            tools.importer, tools.lander, landing, request.sources, tools.source_at, tools.trees, until, terms
        )
    if isinstance(request, Rewrite):
        landing = replace(rewrite_landing(request), only_while=only_while, ticket=ticket)
        return RewriteWork(landing, request.split, tools.rewriter, tools.lander, tools.trees, until)
    strategies = request.strategies if isinstance(request, Merge) else MergeStrategies()
    undertaking = _undertaking(tools, request, pinned.refs)
    return ThreeWayWork(
        replace(undertaking, landing=replace(undertaking.landing, only_while=only_while, ticket=ticket)),
        strategies,
        tools.sides,
        tools.trees,
        tools.lander,
        tools.three_way,
        until,
        pinned.begun,
    )


def _undertaking(tools: Tools, request: Merge | Revert | CherryPick, refs: Mapping[str, CommitID]) -> Undertaking:
    if isinstance(request, Merge):
        return tools.merger.undertake(request, refs["source"])
    if isinstance(request, CherryPick):
        return tools.replayer.cherry_pick(request, refs["ref"])
    return tools.replayer.revert(request, refs["ref"])
