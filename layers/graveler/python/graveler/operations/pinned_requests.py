"""The requests of operations in parts: their kinds, and their stored form."""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from graveler.errors import LaterVersionError
from graveler.model import Actor, CommitID, PartialResult
from graveler.requests.committing import Commit, Rewrite
from graveler.requests.importing import ImportAddresses
from graveler.requests.merging import CherryPick, Merge, Revert

LongRequest = Merge | Revert | CherryPick | Commit | ImportAddresses | Rewrite
"""The requests that can be done in parts."""

MERGE: Final = "merge"
REVERT: Final = "revert"
CHERRY_PICK: Final = "cherry-pick"
COMMIT: Final = "commit"
IMPORT: Final = "import"
REWRITE: Final = "rewrite"

REQUESTS: Final[Mapping[str, type[LongRequest]]] = {
    MERGE: Merge,
    REVERT: Revert,
    CHERRY_PICK: CherryPick,
    COMMIT: Commit,
    IMPORT: ImportAddresses,
    REWRITE: Rewrite,
}
"""The requests of operations in parts, by kind."""

KINDS: Final[Mapping[type[LongRequest], str]] = {request: kind for kind, request in REQUESTS.items()}
"""The kinds of the requests of operations in parts."""

R_co = TypeVar("R_co", bound=LongRequest, covariant=True)

VERSION: Final = 1
UNRECORDED: Final = Actor(role="writer")
"""The actor of requests that a version without rules has pinned."""


class Pinned(Struct, Generic[R_co], frozen=True, kw_only=True):
    """A request as it was when it became an operation. ``refs`` are the IDs of the commits that its refs named then, by field.
    ``owner`` has already sealed the changes of a commit, if a call found them too many. ``begun`` is what a call had built when
    its time was up. ``actor`` is whose request it was, for the rules of branches. ``version`` is that of this document."""

    request: R_co
    refs: Mapping[str, CommitID] = {}
    owner: str = ""
    begun: PartialResult | None = None
    actor: Actor = UNRECORDED
    version: int = VERSION


class _Version(Struct, frozen=True):
    version: int = 0


def decode_pinned(document: bytes, kind: type[LongRequest]) -> Pinned[LongRequest]:
    """Decode a pinned request of this kind, including one written before version 1. :class:`LaterVersionError`,
    :class:`msgspec.ValidationError`."""
    as_pinned: type[Pinned[LongRequest]] = Pinned[kind]  # type: ignore[valid-type]
    version = msgspec.json.decode(document, type=_Version).version
    if version > VERSION:
        raise LaterVersionError("the request of this operation", version, VERSION)
    if version:
        return msgspec.json.decode(document, type=as_pinned)
    return msgspec.convert(_of_version_0(msgspec.json.decode(document)), as_pinned)


def _of_version_0(document: dict[str, Any]) -> dict[str, Any]:
    """Convert version 0, which had the fields of the request, of the commit, and what is pinned side by side."""
    info = {"message": "message", "author": "committer", "metadata": "metadata", "created": "created"}
    refs = {"source": "source_id", "ref": "ref_id"}
    pinned: dict[str, Any] = {name: document.pop(name) for name in ("owner", "begun") if name in document}
    request = {"info": {name: document.pop(before) for name, before in info.items() if before in document}}
    if "untouched" in document:
        request["unchanged_prefixes"] = document.pop("untouched")
    named = {name: document.pop(before) for name, before in refs.items() if before in document}
    return {"request": {**document, **request}, "refs": named, **pinned}
