"""Documents about ingest."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from graveler.ingest.rules import MESSAGE, CommitPolicy, Deletes, Overwrites
from graveler.wire.documents import Commit, Pagination
from graveler.wire.errors import Error


class IngestRule(Struct, frozen=True):
    """What is taken (objects below ``source`` whose key ends with one of ``suffixes``), where it goes, and when it is committed.
    ``message`` and the values of ``metadata`` are templates. ``id`` names this creation of the rule, and is given to it."""

    name: str
    source: str
    branch: str
    destination: str = ""
    suffixes: list[str] = []
    deletes: Deletes = Deletes.APPLY
    overwrites: Overwrites = Overwrites.REPLACE
    commit: CommitPolicy = CommitPolicy()
    message: str = MESSAGE
    metadata: Mapping[str, str] = {}
    verify: bool = False
    id: str = ""


class IngestRuleList(Struct, frozen=True):
    """A page of rules, by name."""

    pagination: Pagination
    results: list[IngestRule]


class ReconciliationCreation(Struct, frozen=True):
    """Which rule's source to compare with its branch; with ``dry_run`` nothing is repaired."""

    rule: str
    dry_run: bool = False


class ReconciliationStarted(Struct, frozen=True):
    """The operation's ID, to ask after it."""

    id: str


class RefusedPath(Struct, frozen=True):
    """A path that stays as it is against the source, and why."""

    path: str
    reason: str


class Reconciliation(Struct, frozen=True):
    """How far it is, and what came of it: how many objects the source has, paths that were missing or different and that are
    gone (counted all, a thousand of each named), what could not be repaired, and commits that were due then."""

    completed: bool
    rule: str
    dry_run: bool
    objects: int | UnsetType = UNSET
    linked_count: int | UnsetType = UNSET
    deleted_count: int | UnsetType = UNSET
    linked: list[str] | UnsetType = UNSET
    deleted: list[str] | UnsetType = UNSET
    refused: list[RefusedPath] | UnsetType = UNSET
    commits: list[str] | UnsetType = UNSET
    error: Error | UnsetType = UNSET


MAX_MESSAGES: Final = 480
"""Recorded messages per request: as many as a batch of a deployment's queue has."""


class IngestReplay(Struct, frozen=True):
    """Recorded messages, as a queue had them: each the text of a notification of S3, of an event of EventBridge, or of a plain
    line."""

    messages: Annotated[list[str], Meta(max_length=MAX_MESSAGES)]


class IngestResult(Struct, frozen=True):
    """What became of a message: ``staged``, ``stale``, ``skipped``, ``retry`` or ``poison``, and why."""

    outcome: str
    reason: str


class IngestMade(Struct, frozen=True):
    """A commit that a rule's policy asked for."""

    rule: str
    commit: Commit


class IngestNotMade(Struct, frozen=True):
    """Why a commit that is due could not be made; the next request tries again."""

    rule: str
    reason: str


class IngestReplayed(Struct, frozen=True):
    """What became of each message, in their order; all commits of this repository that were due, and why others could not be
    made."""

    results: list[IngestResult]
    commits: list[IngestMade]
    commits_failed: list[IngestNotMade]
