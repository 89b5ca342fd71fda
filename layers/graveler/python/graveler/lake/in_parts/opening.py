"""From what is asked for to the work in parts that does it."""

from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from graveler.lake.branches import Branches
from graveler.lake.clock import Clock
from graveler.lake.commit import Committer
from graveler.lake.deadline import Deadline
from graveler.lake.importing.importer import Importer, ImportSource, Terms, import_landing
from graveler.lake.importing.prefix_listing import ImportAddress
from graveler.lake.importing.progress import Progress
from graveler.lake.in_parts.asks import Ask, CherryPickAsk, CommitAsk, ImportAsk, MergeAsk, RewriteAsk
from graveler.lake.in_parts.commits import CommitWork
from graveler.lake.in_parts.imports import ImportWork
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
from graveler.model import MergeStrategies, SplitParameters
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


def open_work(tools: Tools, ask: Ask, request_id: str, until: Deadline, only_while: Check | None, ticket: str) -> Work:
    """The work that an operation of this request is, published on condition of ``only_while``; ``ticket`` names that by which it
    keeps its turn at the branch. A cherry-pick reads its commit; no request otherwise."""
    if isinstance(ask, CommitAsk):
        return CommitWork(
            ask,
            request_id,
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
    if isinstance(ask, ImportAsk):
        landing = import_landing(
            ask.branch, ask.message, ask.committer, ask.metadata, request_id=request_id, force=ask.force
        )
        terms = Terms(ask.allow_empty, ask.dry_run)
        landing = replace(landing, only_while=only_while, ticket=ticket)
        return ImportWork(
            tools.importer, tools.lander, landing, ask.sources, tools.source_at, tools.trees, until, terms
        )
    if isinstance(ask, RewriteAsk):
        said = rewrite_landing(
            ask.branch,
            ask.split,
            ask.message,
            ask.committer,
            ask.metadata,
            request_id=request_id,
            created=ask.created,
            force=ask.force,
        )
        said = replace(said, only_while=only_while, ticket=ticket)
        return RewriteWork(said, ask.split, tools.rewriter, tools.lander, tools.trees, until)
    strategies = ask.strategies if isinstance(ask, MergeAsk) else MergeStrategies()
    undertaking = _undertaking(tools, ask, request_id)
    return ThreeWayWork(
        replace(undertaking, landing=replace(undertaking.landing, only_while=only_while, ticket=ticket)),
        strategies,
        tools.sides,
        tools.trees,
        tools.lander,
        tools.three_way,
        until,
        ask.begun,
    )


def _undertaking(tools: Tools, ask: Ask, request_id: str) -> Undertaking:
    if isinstance(ask, MergeAsk):
        return tools.merger.undertake(
            ask.source,
            ask.destination,
            ask.message,
            ask.committer,
            ask.metadata,
            ask.strategies,
            squash=ask.squash,
            allow_empty=ask.allow_empty,
            request_id=request_id,
            created=ask.created,
            force=ask.force,
            source_id=ask.source_id,
            untouched=ask.untouched,
            application=ask.application,
            beside_uncommitted=ask.beside_uncommitted,
        )
    assert not isinstance(ask, CommitAsk | ImportAsk | RewriteAsk)
    undertake = tools.replayer.cherry_pick if isinstance(ask, CherryPickAsk) else tools.replayer.revert
    return undertake(
        ask.branch,
        ask.ref,
        ask.parent_number,
        ask.message,
        ask.committer,
        ask.metadata,
        allow_empty=ask.allow_empty,
        request_id=request_id,
        created=ask.created,
        force=ask.force,
        ref_id=ask.ref_id,
    )
