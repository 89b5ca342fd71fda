"""Uploads in parts of which the table has a record (:mod:`graveler.lake.objects.upload_records`), as clients of S3 make them.

Parts go to the object store directly, under the record's ``key`` and ``store_id``: by ``objects.put_part`` or a stream of the
caller's own; ``objects.parts`` lists them. An upload belongs to the name of its branch: it is completed on the branch that has
that name then, and nowhere after a deletion or a rename. On a branch that is protected by then it is refused, and can still be
aborted.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from graveler.errors import UploadNotFoundError
from graveler.lake.objects.conditional import change_on, look, stage_change
from graveler.lake.objects.upload_records import (
    LIFETIME,
    StoredRecord,
    UploadRecord,
    new_upload_id,
)
from graveler.lake.objects.uploads import checksum_of_parts
from graveler.lake.parts import RepositoryParts
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.requests.staging import Condition
from graveler.storage.limits import check_parts
from graveler.storage.objects.port import (
    ObjectConditionError,
    ObjectMissingError,
    StoredObject,
    StoredPart,
    UploadMissingError,
)
from graveler.storage.tables.port import ConditionFailedError
from graveler.tree.record import encode_key

AFTER_ALL: Final = "\x7f"
"""Sorts after all IDs of uploads."""

_PAGE: Final = 1000
_OF_PARTS: Final = re.compile(r"[0-9a-f]{32}-[0-9]{1,5}", re.ASCII)


def create_upload(
    repository: RepositoryParts,
    branch: str,
    path: str,
    *,
    content_type: str = "",
    metadata: Mapping[str, str] | None = None,
    by: str = "",
) -> UploadRecord:
    """Begin an upload in parts, which can be continued for seven days. One object request, one table write; before them one table
    read if this process does not know the branch. :class:`RefNotFoundError`, :class:`ForbiddenError`, :class:`InvalidError`."""
    encode_key(path)
    repository.stager.expect(branch)
    now = repository.clock.now()
    key = repository.names.new(branch, path, now)
    kind, notes = content_type or DEFAULT_CONTENT_TYPE, dict(metadata or {})
    repository.pack(ObjectEntry(path, f"{repository.namespace}/{key}", 0, "", int(now), kind, notes))
    upload = UploadRecord(
        branch, path, new_upload_id(now), key, repository.objects.create_multipart(key), kind, notes, by, now
    )
    repository.upload_records.add(upload)
    return upload


def find_upload(repository: RepositoryParts, branch: str, path: str, upload_id: str) -> UploadRecord:
    """Return an upload that is neither completed nor aborted, nor older than seven days. One table read. A record never changes,
    so a process may keep it. :class:`UploadNotFoundError`."""
    return _open_record(repository, branch, path, upload_id).upload


def list_uploads(
    repository: RepositoryParts,
    branch: str,
    prefix: str = "",
    after: tuple[str, str] | None = None,
    amount: int = _PAGE,
) -> tuple[list[UploadRecord], bool]:
    """Return the uploads to a branch whose paths begin with ``prefix``, by path and then by time (those whose paths have the same
    first 700 bytes by time), behind the upload ``after``, given by its path and ID; and whether more follow. One table read for
    each thousand, also of those that were completed within a day."""
    records = repository.upload_records.of_branch(branch, prefix, after)
    uploads = list(islice((record.upload for record in records if _is_open(repository, record)), amount + 1))
    return uploads[:amount], len(uploads) > amount


def list_upload_branches(repository: RepositoryParts, prefix: str = "") -> list[str]:
    """Return the names with this prefix of branches, existing or not, that have records of uploads, in order. One table read for
    each thousand records, but no more than one for each branch."""
    return list(repository.upload_records.branches(prefix))


def list_parts(
    repository: RepositoryParts, branch: str, path: str, upload_id: str, after: int = 0, amount: int = _PAGE
) -> tuple[list[StoredPart], bool]:
    """Return the parts of an upload with numbers above ``after``, and whether more follow. One table read, one object request for
    each thousand. :class:`UploadNotFoundError`."""
    upload = find_upload(repository, branch, path, upload_id)
    parts = list(islice(repository.objects.parts(upload.key, upload.store_id, after), amount + 1))
    return parts[:amount], len(parts) > amount


def part_url(
    repository: RepositoryParts, branch: str, path: str, upload_id: str, number: int, expires_in: int
) -> tuple[str, str]:
    """Return the address that the object will have, and a URL with which anyone may upload one part (1 to 10,000) for some
    seconds. One table read. :class:`UploadNotFoundError`."""
    upload = find_upload(repository, branch, path, upload_id)
    url = repository.objects.presign_part(upload.key, upload.store_id, number, expires_in)
    return f"{repository.namespace}/{upload.key}", url


def complete_upload(
    repository: RepositoryParts,
    branch: str,
    path: str,
    upload_id: str,
    parts: Sequence[tuple[int, str]],
    condition: Condition | None = None,
) -> ObjectEntry:
    """Make the object of its parts, ``(number, ETag)`` in order, and stage it, if the condition holds; repeated within a day,
    return the object of the first time. Its checksum is that of object stores, ``<MD5 of the parts' MD5s>-<number of parts>``.

    One table read, one object request (two on S3), and the requests of :class:`graveler.requests.staging.Link` with a condition;
    one more object request if an earlier attempt made the object. Of several concurrent calls one makes and stages the object,
    and all return it; a call and :func:`abort_upload` exclude each other. If it fails, the upload can still be completed or
    aborted. :class:`UploadNotFoundError`; :class:`InvalidError` for parts that do not exist or are not in order;
    :class:`AlreadyExistsError`, :class:`ObjectNotFoundError` and :class:`ObjectChangedError` by the condition;
    :class:`RefNotFoundError`, :class:`ForbiddenError`, :class:`BusyError`.
    """
    records, key = repository.upload_records, encode_key(path)
    record = records.get(branch, path, upload_id)
    if record is not None and record.staged is not None:
        return repository.codec.decode(key, record.staged)
    check_parts(parts)
    record, deadline = _expect_open(repository, record, branch, path, upload_id), repository.deadlines.begin()
    basis = look(repository, branch, key)
    condition = condition or Condition()
    change_on(condition, repository, branch, path, key, b"")(basis.packed)
    upload = record.upload
    stored = _joined(repository, upload, parts)
    packed = repository.pack(
        ObjectEntry(
            path,
            f"{repository.namespace}/{upload.key}",
            stored.size,
            _checksum(stored, parts),
            int(repository.clock.now()),
            upload.content_type,
            upload.metadata,
        )
    )
    change = change_on(condition, repository, branch, path, key, packed)
    completed = records.completed_write(record, packed, repository.clock.now())
    try:
        stage_change(repository, branch, path, key, change, deadline, basis, also=(completed,))
    except ConditionFailedError:
        record = records.get(branch, path, upload_id)
        if record is None or record.staged is None:
            raise UploadNotFoundError(path, branch, upload_id) from None
        packed = record.staged
    return repository.codec.decode(key, packed)


def abort_upload(repository: RepositoryParts, branch: str, path: str, upload_id: str) -> None:
    """Abort an upload and remove its parts. One table read, one table write, one object request. What is left if this is killed
    in between goes with the next collection of garbage. :class:`UploadNotFoundError` if it was completed or aborted."""
    record = _open_record(repository, branch, path, upload_id)
    try:
        repository.upload_records.remove(record)
    except ConditionFailedError:
        raise UploadNotFoundError(path, branch, upload_id) from None
    repository.objects.abort_multipart(record.upload.key, record.upload.store_id)


def _joined(repository: RepositoryParts, upload: UploadRecord, parts: Sequence[tuple[int, str]]) -> StoredObject:
    """Return the object, made of its parts now or by an earlier attempt."""
    try:
        return repository.objects.complete_multipart(upload.key, upload.store_id, parts, if_absent=True)
    except (UploadMissingError, ObjectConditionError):
        try:
            return repository.objects.head(upload.key)
        except ObjectMissingError:
            raise UploadNotFoundError(upload.path, upload.branch, upload.upload_id) from None


def _checksum(stored: StoredObject, parts: Sequence[tuple[int, str]]) -> str:
    """Return the checksum of an object of parts: the store's, where it is one, since an earlier attempt may have had others."""
    return stored.etag if _OF_PARTS.fullmatch(stored.etag) else checksum_of_parts(parts) or stored.etag


def _open_record(repository: RepositoryParts, branch: str, path: str, upload_id: str) -> StoredRecord:
    return _expect_open(repository, repository.upload_records.get(branch, path, upload_id), branch, path, upload_id)


def _expect_open(
    repository: RepositoryParts, record: StoredRecord | None, branch: str, path: str, upload_id: str
) -> StoredRecord:
    if record is None or not _is_open(repository, record):
        raise UploadNotFoundError(path, branch, upload_id)
    return record


def _is_open(repository: RepositoryParts, record: StoredRecord) -> bool:
    return record.staged is None and repository.clock.now() - record.upload.created <= LIFETIME
