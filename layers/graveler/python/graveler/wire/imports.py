"""Documents about imports."""

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from graveler.requests.importing import AddressType, ImportChanges
from graveler.wire.documents import Commit
from graveler.wire.errors import Error


class ImportLocation(Struct, frozen=True):
    """One source: an object, or all that begin with a prefix, and where it goes."""

    type: AddressType
    path: str
    destination: str


class CommitCreation(Struct, frozen=True):
    """What the commit of an import says."""

    message: str = ""
    metadata: Mapping[str, str] | None = None


class ImportTerms(Struct, frozen=True, kw_only=True):
    """The options of an import."""

    commit: CommitCreation = CommitCreation()
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False


class ImportCreationResponse(Struct, frozen=True):
    """The import's ID, to ask after it."""

    id: str


class ImportStatus(Struct, frozen=True):
    """How far an import is. When it is completed, ``changes`` says what it added, replaced and removed, or would if it were no
    dry run, which has no commit; if it failed, ``error_kind`` what kind of error that was (``EmptySourceError``, …)."""

    completed: bool
    update_time: str
    ingested_objects: int
    metarange_id: str | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET
    error: Error | UnsetType = UNSET
    error_kind: str | UnsetType = UNSET
    changes: ImportChanges | UnsetType = UNSET
