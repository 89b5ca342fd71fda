"""Lakes of both kinds as handlers use them: on this machine or on AWS, and behind a server. What has the same name in both, they
call themselves; the functions here are the rest.

Of a lake behind a server each is one request of the HTTP API, unless it says otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from graveler.lake.lake import Lake
from graveler.lake.objects import copying, recorded_uploads
from graveler.lake.objects.upload_records import UploadRecord
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.requests.staging import Condition, Copy
from graveler.storage.objects.port import StoredPart

if TYPE_CHECKING:
    from graveler.gateway.server_lake import ServerLake, ServerRepository  # urllib3: not for a lake of one's own

_PAGE: Final = 1000

AnyLake: TypeAlias = "Lake | ServerLake"
Opened: TypeAlias = "OpenRepository | ServerRepository"
"""A repository, for the time of a request."""


def created(repository: Opened) -> int:
    """Return the time of a repository's creation, in Unix seconds. No request of a lake of one's own.
    :class:`RepositoryNotFoundError`."""
    return repository.repository.created if isinstance(repository, OpenRepository) else repository.created


def expect_kept(repository: Opened, ref: str) -> None:
    """Refuse a ref whose commit has expired, as the reason why bytes are gone. Cost and errors as of
    :meth:`OpenRepository.expect_kept`. Behind a server that is not told apart from bytes that somebody removed."""
    if isinstance(repository, OpenRepository):
        repository.expect_kept(ref)


def stat_to_read(lake: AnyLake, repository: str, ref: str, path: str) -> tuple[Opened, ObjectEntry]:
    """Return a repository, and one of its objects, whose bytes can be read from its address. Cost: a stat."""
    if isinstance(lake, Lake):
        return lake.stat(repository, ref, path)
    return lake.stat_to_read(repository, ref, path)


def copy_under_condition(
    repository: Opened,
    request: Copy,
    condition: Condition,
    *,
    source_etag: str = "",
    content_type: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> ObjectEntry:
    """See :func:`graveler.lake.objects.copying.copy_under_condition`."""
    copied = (
        partial(copying.copy_under_condition, repository.parts)
        if isinstance(repository, OpenRepository)
        else repository.copy_under_condition
    )
    return copied(request, condition, source_etag=source_etag, content_type=content_type, metadata=metadata)


def create_upload(
    repository: Opened, branch: str, path: str, *, content_type: str, metadata: Mapping[str, str], by: str
) -> UploadRecord:
    """See :func:`graveler.lake.objects.recorded_uploads.create_upload`. A server knows itself who begins it."""
    if isinstance(repository, OpenRepository):
        return recorded_uploads.create_upload(
            repository.parts, branch, path, content_type=content_type, metadata=metadata, by=by
        )
    return repository.create_upload(branch, path, content_type=content_type, metadata=metadata)


def find_upload(repository: Opened, branch: str, path: str, upload_id: str) -> UploadRecord:
    """See :func:`graveler.lake.objects.recorded_uploads.find_upload`. No request of a lake behind a server, which
    finds it when a part is written."""
    if isinstance(repository, OpenRepository):
        return recorded_uploads.find_upload(repository.parts, branch, path, upload_id)
    return repository.find_upload(branch, path, upload_id)


def list_uploads(
    repository: Opened, branch: str, prefix: str = "", after: tuple[str, str] | None = None
) -> tuple[list[UploadRecord], bool]:
    """See :func:`graveler.lake.objects.recorded_uploads.list_uploads`."""
    if isinstance(repository, OpenRepository):
        return recorded_uploads.list_uploads(repository.parts, branch, prefix, after)
    return repository.list_uploads(branch, prefix, after)


def list_upload_branches(repository: Opened, prefix: str = "") -> list[str]:
    """See :func:`graveler.lake.objects.recorded_uploads.list_upload_branches`. Buckets of a lake behind a server show one branch
    each, so nobody asks this of them."""
    assert isinstance(repository, OpenRepository)
    return recorded_uploads.list_upload_branches(repository.parts, prefix)


def list_parts(
    repository: Opened, branch: str, path: str, upload_id: str, after: int, amount: int
) -> tuple[list[StoredPart], bool]:
    """See :func:`graveler.lake.objects.recorded_uploads.list_parts`."""
    if isinstance(repository, OpenRepository):
        return recorded_uploads.list_parts(repository.parts, branch, path, upload_id, after, amount)
    return repository.list_parts(branch, path, upload_id, after, amount)


def all_parts(repository: Opened, branch: str, path: str, upload_id: str) -> Iterator[StoredPart]:
    """Yield all parts of an upload. Cost: :func:`list_parts` for each thousand."""
    after, more = 0, True
    while more:
        parts, more = list_parts(repository, branch, path, upload_id, after, _PAGE)
        yield from parts
        after = parts[-1].number if parts else after


def complete_upload(
    repository: Opened,
    branch: str,
    path: str,
    upload_id: str,
    parts: Sequence[tuple[int, str]],
    condition: Condition,
) -> ObjectEntry:
    """See :func:`graveler.lake.objects.recorded_uploads.complete_upload`."""
    if isinstance(repository, OpenRepository):
        return recorded_uploads.complete_upload(repository.parts, branch, path, upload_id, parts, condition)
    return repository.complete_upload(branch, path, upload_id, parts, condition)


def abort_upload(repository: Opened, branch: str, path: str, upload_id: str) -> None:
    """See :func:`graveler.lake.objects.recorded_uploads.abort_upload`."""
    if isinstance(repository, OpenRepository):
        recorded_uploads.abort_upload(repository.parts, branch, path, upload_id)
    else:
        repository.abort_upload(branch, path, upload_id)
