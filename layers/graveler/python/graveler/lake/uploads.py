"""Bytes that do not pass through us: URLs to read and write objects with, and uploads in parts.

Where the bytes go is an address that proves for which branch and path it was handed out (:mod:`graveler.lake.addresses`), so no
record of an upload under way is kept: whoever has its address and upload ID goes on with it, on any machine.
"""

from collections.abc import Callable, Sequence
from hashlib import md5

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.addresses import DataNames
from graveler.storage.objects import (
    ObjectConditionError,
    ObjectMissingError,
    Objects,
    StoredObject,
    UploadMissingError,
)


class PartedUpload(Struct, frozen=True):
    """An upload in parts under way: ``address`` is where the object will be."""

    address: str
    upload_id: str


class Uploads:
    """Uploads to the namespace of one repository. ``names`` checks addresses, ``now`` is Unix seconds."""

    def __init__(self, objects: Objects, namespace: str, names: DataNames, now: Callable[[], float]) -> None:
        self._objects = objects
        self._inside = namespace + "/"
        self._names = names
        self._now = now

    def put_url(self, branch: str, path: str, address: str, expires_in: int) -> str:
        """URL that lets anybody write the object at an address for some seconds. No request. :class:`InvalidError` for an address
        that was not handed out for this path on this branch."""
        return self._objects.presign(self._key(branch, path, address), "PUT", expires_in)

    def begin(self, branch: str, path: str, address: str) -> PartedUpload:
        """Begin an upload in parts. One object request."""
        key = self._key(branch, path, address)
        return PartedUpload(address, self._objects.create_multipart(key))

    def part_url(self, branch: str, path: str, upload: PartedUpload, number: int, expires_in: int) -> str:
        """URL that lets anybody upload one part (1 to 10,000). No request."""
        key = self._key(branch, path, upload.address)
        return self._objects.presign_part(key, upload.upload_id, number, expires_in)

    def put_part(self, branch: str, path: str, upload: PartedUpload, number: int, data: bytes) -> str:
        """Upload one part; returns its ETag. One object request."""
        return self._objects.put_part(self._key(branch, path, upload.address), upload.upload_id, number, data)

    def complete(self, branch: str, path: str, upload: PartedUpload, parts: Sequence[tuple[int, str]]) -> StoredObject:
        """Make the object of its parts, ``(number, ETag)`` in order. Not staged yet. An object that is at the address stays: it
        may be committed. One object request; one more if there is no such upload, or an object: another try of the same request,
        whose answer was lost, may have completed it. :class:`UploadMissingError`."""
        if not parts:
            raise InvalidError("an upload in parts needs at least one part to be completed")
        key = self._key(branch, path, upload.address)
        try:
            return self._objects.complete_multipart(key, upload.upload_id, parts, if_absent=True)
        except (UploadMissingError, ObjectConditionError) as error:
            try:
                return self._objects.head(key)
            except ObjectMissingError:
                raise error from None

    def abort(self, branch: str, path: str, upload: PartedUpload) -> None:
        """Forget an upload and its parts; an unknown one is success. One object request."""
        self._objects.abort_multipart(self._key(branch, path, upload.address), upload.upload_id)

    def _key(self, branch: str, path: str, address: str) -> str:
        if not address.startswith(self._inside):
            raise InvalidError(
                f"address {address!r} is not one that was handed out; ask for an address for {path!r} first"
            )
        key = address.removeprefix(self._inside)
        self._names.check(key, branch, path, self._now())
        return key


def checksum_of_parts(parts: Sequence[tuple[int, str]]) -> str | None:
    """The checksum that object stores give an object of parts, ``<MD5 of the parts' MD5s>-<number of parts>``; None if the ETags
    of the parts are no MD5s."""
    digests = [etag.strip('"') for _, etag in parts]
    if not all(len(digest) == 32 and set(digest) <= set("0123456789abcdef") for digest in digests):
        return None
    joined = b"".join(map(bytes.fromhex, digests))
    return f"{md5(joined, usedforsecurity=False).hexdigest()}-{len(parts)}"
