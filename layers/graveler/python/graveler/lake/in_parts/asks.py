"""What a verb in parts is asked for. Refs are those that were named, for messages; their IDs say what they were then.
``begun`` is what a call had built already, when its time was up."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from graveler.lake.importing.prefix_listing import ImportAddress
from graveler.model import Application, Begun, CommitID, MergeStrategies, SplitParameters


class MergeAsk(Struct, frozen=True, kw_only=True):
    """See :meth:`graveler.lake.repository.OpenRepository.merge`."""

    source: str
    source_id: CommitID
    destination: str
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    strategies: MergeStrategies = MergeStrategies()
    squash: bool = False
    allow_empty: bool = False
    created: int | None = None
    force: bool = False
    untouched: tuple[str, ...] = ()
    application: Application | None = None
    beside_uncommitted: bool = False
    begun: Begun | None = None


class ReplayAsk(Struct, frozen=True, kw_only=True):
    """See :meth:`graveler.lake.repository.OpenRepository.revert` and ``cherry_pick``."""

    branch: str
    ref: str
    ref_id: CommitID
    parent_number: int = 0
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    allow_empty: bool = False
    created: int | None = None
    force: bool = False
    begun: Begun | None = None


class RevertAsk(ReplayAsk, frozen=True, kw_only=True):
    """A revert."""


class CherryPickAsk(ReplayAsk, frozen=True, kw_only=True):
    """A cherry-pick."""


class CommitAsk(Struct, frozen=True, kw_only=True):
    """See :meth:`graveler.lake.repository.OpenRepository.commit`. ``owner`` is who has sealed the changes already: the call that
    found them too many."""

    branch: str
    message: str
    committer: str = ""
    metadata: Mapping[str, str] = {}
    allow_empty: bool = False
    created: int | None = None
    force: bool = False
    owner: str = ""
    begun: Begun | None = None


class ImportAsk(Struct, frozen=True):
    """See :meth:`graveler.lake.repository.OpenRepository.import_addresses`."""

    branch: str
    sources: tuple[ImportAddress, ...]
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    force: bool = False
    allow_empty: bool = False
    dry_run: bool = False
    trust_mtime: bool = False


class RewriteAsk(Struct, frozen=True, kw_only=True):
    """See :meth:`graveler.lake.repository.OpenRepository.rewrite`."""

    branch: str
    split: SplitParameters
    message: str = ""
    committer: str = ""
    metadata: Mapping[str, str] = {}
    created: int | None = None
    force: bool = False


Ask: TypeAlias = MergeAsk | RevertAsk | CherryPickAsk | CommitAsk | ImportAsk | RewriteAsk
