"""Documents about ingest."""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from graveler.ingest.results import Outcome
from graveler.ingest.rules import MESSAGE, CommitPolicy, Deletes, Overwrites
from graveler.wire.documents import Commit, Pagination
from graveler.wire.error_documents import Error


class IngestRule(Struct, frozen=True):
    """A rule of ingest: which objects it takes (those below ``source`` whose key ends with one of ``suffixes``; without suffixes
    all), where they go, and when they are committed. ``message`` and the values of ``metadata`` are templates. The server assigns
    ``id``, which identifies this creation of the rule."""

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
    """A page of rules of ingest, by name."""

    pagination: Pagination
    results: list[IngestRule]


class ReconciliationCreation(Struct, frozen=True):
    """The rule whose source is compared with its branch. With ``dry_run``, nothing is repaired. Files of the source that a
    pattern of ``exclude`` names (as a line of a ``.gitignore``) are left alone; with ``ignore``, also those that
    ``.gravelerignore`` files name, and what is never data, such as ``.git`` and ``.env``."""

    rule: str
    dry_run: bool = False
    exclude: tuple[str, ...] = ()
    ignore: bool = True


class ReconciliationStarted(Struct, frozen=True):
    """The ID of the operation, for status requests."""

    id: str


class RefusedPath(Struct, frozen=True):
    """A path that was not repaired and still differs from the source, and the reason."""

    path: str
    reason: str


class Reconciliation(Struct, frozen=True):
    """The progress and the results of a reconciliation: the number of objects in the source; the paths that were missing or
    different (``linked``), and those whose object is gone (``deleted``; all are counted, a thousand of each are listed); those
    that were not repaired (``refused``); and the commits that were due afterwards."""

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
    """Recorded messages of a queue, each the text of an S3 notification, an EventBridge event or a plain line."""

    messages: Annotated[list[str], Meta(max_length=MAX_MESSAGES)]


class IngestResult(Struct, frozen=True):
    """The outcome of a message (``staged``, ``stale``, ``skipped``, ``retry`` or ``poison``), and the reason."""

    outcome: Outcome
    reason: str


class IngestMade(Struct, frozen=True):
    """A commit that a rule's policy made due."""

    rule: str
    commit: Commit


class IngestNotMade(Struct, frozen=True):
    """The reason why a due commit could not be made. The next request tries again."""

    rule: str
    reason: str


class IngestReplayed(Struct, frozen=True):
    """The results of the messages, in their order; the commits of this repository that were due; and those that could not be
    made, with the reasons."""

    results: list[IngestResult]
    commits: list[IngestMade]
    commits_failed: list[IngestNotMade]
