"""Requests as operations keep them, in one call: for tests of work in parts."""

from collections.abc import Mapping
from typing import Any

from graveler.model import CommitID, PartialResult, SplitParameters
from graveler.operations.pinned_requests import LongRequest, Pinned
from graveler.requests.base import CommitInfo
from graveler.requests.committing import Commit, Rewrite
from graveler.requests.importing import ImportAddress, ImportAddresses
from graveler.requests.merging import CherryPick, Merge, Revert

Asked = Pinned[LongRequest]


def pinned_merge(
    *,
    source: str,
    source_id: CommitID,
    destination: str,
    message: str = "",
    committer: str = "",
    metadata: Mapping[str, str] | None = None,
    created: int | None = None,
    begun: PartialResult | None = None,
    **more: Any,
) -> Asked:
    """A merge of what the source was."""
    info = CommitInfo(message, committer, metadata or {}, created)
    request = Merge(source=source, destination=destination, info=info, **more)
    return Pinned(request=request, refs={"source": source_id}, begun=begun)


def pinned_revert(*, branch: str, ref: str, ref_id: CommitID, begun: PartialResult | None = None, **more: Any) -> Asked:
    """A revert of what the ref was."""
    return Pinned(request=Revert(branch=branch, ref=ref, **more), refs={"ref": ref_id}, begun=begun)


def pinned_cherry_pick(
    *, branch: str, ref: str, ref_id: CommitID, begun: PartialResult | None = None, **more: Any
) -> Asked:
    """A cherry-pick of what the ref was."""
    return Pinned(request=CherryPick(branch=branch, ref=ref, **more), refs={"ref": ref_id}, begun=begun)


def pinned_commit(
    *,
    branch: str,
    message: str,
    committer: str = "",
    owner: str = "",
    begun: PartialResult | None = None,
    **more: Any,
) -> Asked:
    """A commit, of what ``owner`` has sealed already, if anybody."""
    request = Commit(branch=branch, info=CommitInfo(message, committer), **more)
    return Pinned(request=request, owner=owner, begun=begun)


def pinned_import(
    branch: str,
    sources: tuple[ImportAddress, ...],
    message: str = "",
    committer: str = "",
    metadata: Mapping[str, str] | None = None,
    **more: Any,
) -> Asked:
    """An import of addresses."""
    info = CommitInfo(message, committer, metadata or {})
    return Pinned(request=ImportAddresses(branch=branch, sources=sources, info=info, **more))


def pinned_rewrite(*, branch: str, split: SplitParameters) -> Asked:
    """A rewriting."""
    return Pinned(request=Rewrite(branch=branch, split=split))
