"""Uploads: of bytes that this process has, and of those that bypass it, by a URL or in parts.

Bytes that bypass the process go to an address that proves for which branch and path it was issued
(:mod:`graveler.lake.objects.issued_addresses`), so no record of an upload in progress is kept: any client with its address and
upload ID can continue it, on any machine.
"""

from collections.abc import Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.lake.context import UNLIMITED, Context
from graveler.lake.objects.conditional import change_on, look, stage_change
from graveler.lake.objects.linking import link
from graveler.lake.parts import RepositoryParts
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.requests.staging import Link, Upload
from graveler.storage.objects.port import (
    ObjectConditionError,
    ObjectMissingError,
    StoredObject,
    UploadMissingError,
)
from graveler.system.progress import no_object_progress
from graveler.tree.record import encode_key
from graveler.values.reserved_paths import expect_free

_PIECE: Final = 1 << 20


class PartedUpload(Struct, frozen=True):
    """An upload in parts in progress: ``address`` is where the object will be."""

    address: str
    upload_id: str


def upload(repository: RepositoryParts, request: Upload, context: Context) -> ObjectEntry:
    """See :class:`graveler.requests.staging.Upload`."""
    branch, path, data, force = request.branch, request.path, context.body, request.force
    key = encode_key(path)
    expect_free([key])
    deadline = repository.deadlines.begin()
    condition = request.condition
    basis = look(repository, branch, key, force=force) if condition else None
    if basis is not None:  # before any byte is written
        change_on(condition, repository, branch, path, key, b"")(basis.packed)
    else:
        repository.stager.expect(branch, force=force)
    name = repository.names.new(branch, path, repository.clock.now())
    size, checksum = size_and_md5(data)
    entry = ObjectEntry(
        path,
        f"{repository.namespace}/{name}",
        size,
        checksum,
        int(repository.clock.now()),
        request.content_type or DEFAULT_CONTENT_TYPE,
        request.metadata,
    )
    packed = repository.pack(entry)
    progress = context.progress
    sent = None if progress is no_object_progress else lambda size: progress(0, size)
    stored = repository.objects.put(name, data, sent=sent)
    if stored.size != size:
        raise UnavailableError(f"{str(data)!r} changed while it was being uploaded; nothing was staged, try again")
    if basis is None:
        repository.stager.stage(branch, [(key, packed)], deadline, force=force)
    else:
        change = change_on(condition, repository, branch, path, key, packed)
        stage_change(repository, branch, path, key, change, deadline, basis, force=force)
    progress(1, 0)
    return entry


def finish_upload(
    repository: RepositoryParts,
    branch: str,
    path: str,
    upload: PartedUpload,
    parts: Sequence[tuple[int, str]],
    *,
    content_type: str = "",
    metadata: Mapping[str, str] | None = None,
    if_absent: bool = False,
    if_match: str = "",
) -> ObjectEntry:
    """Make an object from its parts, ``(number, ETag)`` in order, and stage it. Repeated, it stages the same object again.
    Cost: one object request, and :class:`graveler.requests.staging.Link`, including its conditions.
    :class:`UploadMissingError`, :class:`InvalidError`."""
    repository.stager.expect(branch)  # before anything is completed
    stored = complete_upload(repository, branch, path, upload, parts)
    checksum = checksum_of_parts(parts) or stored.etag
    entry = ObjectEntry(
        path,
        upload.address,
        stored.size,
        checksum,
        int(repository.clock.now()),
        content_type or DEFAULT_CONTENT_TYPE,
        metadata or {},
    )
    link(repository, Link(branch=branch, entry=entry, if_absent=if_absent, if_match=if_match), UNLIMITED)
    return entry


def upload_url(repository: RepositoryParts, branch: str, path: str, address: str, expires_in: int) -> str:
    """Return a URL with which anyone may write the object at an address for some seconds. No request. :class:`InvalidError` for
    an address that was not issued for this path on this branch."""
    return repository.objects.presign(_key(repository, branch, path, address), "PUT", expires_in)


def begin_upload(repository: RepositoryParts, branch: str, path: str, address: str) -> PartedUpload:
    """Begin an upload in parts. One object request."""
    key = _key(repository, branch, path, address)
    return PartedUpload(address, repository.objects.create_multipart(key))


def part_url(
    repository: RepositoryParts, branch: str, path: str, upload: PartedUpload, number: int, expires_in: int
) -> str:
    """Return a URL with which anyone may upload one part (1 to 10,000). No request."""
    key = _key(repository, branch, path, upload.address)
    return repository.objects.presign_part(key, upload.upload_id, number, expires_in)


def upload_part(
    repository: RepositoryParts, branch: str, path: str, upload: PartedUpload, number: int, data: bytes
) -> str:
    """Upload one part and return its ETag. One object request."""
    return repository.objects.put_part(_key(repository, branch, path, upload.address), upload.upload_id, number, data)


def complete_upload(
    repository: RepositoryParts, branch: str, path: str, upload: PartedUpload, parts: Sequence[tuple[int, str]]
) -> StoredObject:
    """Make the object from its parts, ``(number, ETag)`` in order, without staging it. An object that is already at the address
    stays: it may be committed. One object request; one more if there is no such upload, or an object: an earlier attempt of the
    same request, whose response was lost, may have completed it. :class:`UploadMissingError`."""
    if not parts:
        raise InvalidError("a multipart upload needs at least one part")
    key = _key(repository, branch, path, upload.address)
    try:
        return repository.objects.complete_multipart(key, upload.upload_id, parts, if_absent=True)
    except (UploadMissingError, ObjectConditionError) as error:
        try:
            return repository.objects.head(key)
        except ObjectMissingError:
            raise error from None


def abort_upload(repository: RepositoryParts, branch: str, path: str, upload: PartedUpload) -> None:
    """Abort an upload and remove its parts; an unknown one counts as success. One object request."""
    repository.objects.abort_multipart(_key(repository, branch, path, upload.address), upload.upload_id)


def _key(repository: RepositoryParts, branch: str, path: str, address: str) -> str:
    """Return the key of an issued address. :class:`InvalidError` for one that was not issued for this path on this branch."""
    if not address.startswith(f"{repository.namespace}/"):
        raise InvalidError(f"address {address!r} was not issued by graveler; request an address for {path!r} first")
    key = address.removeprefix(f"{repository.namespace}/")
    repository.names.check(key, branch, path, repository.clock.now())
    return key


def checksum_of_parts(parts: Sequence[tuple[int, str]]) -> str | None:
    """Return the checksum that object stores give an object of parts, ``<MD5 of the parts' MD5s>-<number of parts>``; None if the
    ETags of the parts are not MD5s."""
    digests = [etag.strip('"') for _, etag in parts]
    if not all(len(digest) == 32 and set(digest) <= set("0123456789abcdef") for digest in digests):
        return None
    joined = b"".join(map(bytes.fromhex, digests))
    return f"{md5(joined, usedforsecurity=False).hexdigest()}-{len(parts)}"


def size_and_md5(data: bytes | Path) -> tuple[int, str]:
    """Return size and MD5. :class:`NotFoundError`, :class:`UnavailableError` for a file that cannot be read."""
    if isinstance(data, bytes):
        return len(data), md5(data, usedforsecurity=False).hexdigest()
    digest = md5(usedforsecurity=False)
    size = 0
    try:
        with data.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except FileNotFoundError:
        raise NotFoundError(f"file {str(data)!r} does not exist; check its name") from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(data)!r}: {error.strerror}; nothing was uploaded") from None
    return size, digest.hexdigest()
