"""Documents about imports."""

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from graveler.requests.importing import AddressType, ImportChanges
from graveler.wire.documents import Commit
from graveler.wire.error_documents import Error


class ImportLocation(Struct, frozen=True):
    """One source of an import, an object or all objects whose address begins with a prefix, and its destination."""

    type: AddressType
    path: str
    destination: str


class CommitCreation(Struct, frozen=True):
    """The message and metadata of an import's commit."""

    message: str = ""
    metadata: Mapping[str, str] | None = None


class ImportTerms(Struct, frozen=True, kw_only=True):
    """The options of an import."""

    commit: CommitCreation = CommitCreation()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False


class ImportCreationResponse(Struct, frozen=True):
    """The ID of the import, for status requests."""

    id: str


class ImportStatus(Struct, frozen=True):
    """The progress of an import. Once it is completed, ``changes`` has what it added, replaced and removed, or what it would
    change if it was a dry run, which has no commit. If it failed, ``error_kind`` is the kind of error (``EmptySourceError``,
    …)."""

    completed: bool
    update_time: str
    ingested_objects: int
    metarange_id: str | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET
    error: Error | UnsetType = UNSET
    error_kind: str | UnsetType = UNSET
    changes: ImportChanges | UnsetType = UNSET
