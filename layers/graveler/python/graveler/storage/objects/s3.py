"""The objects port on S3, through boto3: a bucket and a prefix, of AWS or of another server that speaks S3.

Bytes are checked in both directions: a put carries their CRC-32, a part its MD5, and the result of a get is compared with the
checksum that the object was put with, if the store has one of the whole object. Ranges are not (S3 keeps no checksum of them);
the formats of the tree check their own blocks.

An ETag is S3's own. Unless the bucket encrypts with SSE-KMS it depends on the contents alone, so two puts of the same bytes have
one ETag, and a conditional delete cannot tell the second from the first.
"""

import builtins
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ClientError

from graveler.errors import BusyError, GravelerError, InvalidError, UnavailableError
from graveler.storage.aws_requests import (
    CONDITION_CODES,
    FAILURES,
    Outcome,
    error_code,
    explained,
    judge,
    send,
)
from graveler.storage.durable_files import unavailable
from graveler.storage.limits import (
    MAX_OBJECT_KEY_BYTES,
    MAX_PARTS,
    check_byte_range,
    check_foreign_key,
    check_object_key,
    check_part_number,
    check_parts,
)
from graveler.storage.objects.port import (
    Noted,
    ObjectConditionError,
    ObjectMissingError,
    Page,
    Sent,
    StoredObject,
    StoredPart,
    UnfinishedUpload,
    UploadMissingError,
)
from graveler.storage.objects.presigned import check_presigning, has_opaque_etag
from graveler.storage.objects.s3_clients import CLIENTS, credentials_of
from graveler.storage.objects.s3_clients import S3Settings as S3Settings

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

    from graveler.storage.objects.s3_versions import S3Versions

SCHEME: Final = "s3://"

_PIECE: Final = 1 << 20
_PART_BYTES: Final = 16 << 20
_WHOLE_BYTES: Final = 64 << 20
_DELETED_AT_ONCE: Final = 1000
_COPIED_BYTES: Final = 5 << 30
"""S3 copies no more in one request."""
_COPIED_PART: Final = 1 << 30
"""A file up to this size is put in one request."""
_THREADS: Final = 4
_BUCKET: Final = re.compile(r"[a-zA-Z0-9._-]{3,255}", re.ASCII)
_MISSING: Final = frozenset(("NoSuchKey", "404", "NotFound"))

T = TypeVar("T")


class S3Objects:
    """Objects of ``bucket`` whose key begins with ``prefix`` and a slash (with an empty prefix: all).

    Cheap to create, picklable, shared by threads and usable after a fork: the client is made on first use. A request that is
    slowed down, fails in the service or loses its response is retried for a few seconds. If the condition of a put or delete
    fails after a response was lost, that is :class:`UnavailableError`, since the first try may have met it. ``foreign``: others
    choose the keys, and any key valid in S3 is accepted.
    """

    def __init__(
        self, bucket: str, prefix: str = "", settings: S3Settings | None = None, *, foreign: bool = False
    ) -> None:
        if not _BUCKET.fullmatch(bucket):
            raise InvalidError(f"{bucket!r} is not the name of a bucket; write {SCHEME}<bucket>/<prefix>")
        if prefix:
            check_object_key(prefix)
        self._bucket = bucket
        self._base = f"{prefix}/" if prefix else ""
        self._settings = settings or S3Settings()
        self._foreign = foreign

    def __reduce__(self) -> tuple[object, ...]:
        create = partial(S3Objects, foreign=self._foreign)
        return create, (self._bucket, self._base.rstrip("/"), self._settings)

    def __repr__(self) -> str:
        return f"S3Objects({self.namespace!r})"

    @property
    def namespace(self) -> str:
        """``s3://<bucket>/<prefix>``."""
        return f"{SCHEME}{self._bucket}/{self._base}".rstrip("/")

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self._bucket

    @property
    def settings(self) -> S3Settings:
        """The settings that it was made with."""
        return self._settings

    def connect(self) -> None:
        """Make the client now, to save time at the first request. No request of the bucket."""
        self._client()

    def get(self, key: str) -> bytes:
        """Return the whole object, checked. Cost: one request."""
        return self._read(key, None)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``start``, which counts from the end if negative. Cost: one request."""
        check_byte_range(start, length)
        if length == 0:
            self.head(key)
            return b""
        byte_range = f"bytes={start}-{start + length - 1}" if start >= 0 else f"bytes={start}"
        return self._read(key, byte_range)[:length]

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the object, or a part of it, in pieces of at most 1 MiB. Cost: one request; one more each time that the
        connection breaks on the way."""
        check_byte_range(start, length)
        if length == 0 or start < 0:
            # A suffix has no offset to resume from: read it whole, which is at most what was requested.
            data = self.get_range(key, start, length) if length is not None else self._read(key, f"bytes={start}")
            for begin in range(0, len(data), _PIECE):
                yield data[begin : begin + _PIECE]
            return
        subject, position = self._what("get", key), start
        end = None if length is None else start + length
        etag, pauses = "", self._settings.retries.pauses()
        while True:
            body, etag = self._open(key, position, end, etag)
            if body is None:
                return
            with closing(body):
                try:
                    while piece := body.read(_PIECE):
                        position += len(piece)
                        yield piece
                    return
                except FAILURES as error:
                    pause = next(pauses, None)
                    if pause is None or judge(error) is not Outcome.LOST:
                        raise explained(error, subject) from error
            time.sleep(pause)

    def head(self, key: str) -> StoredObject:
        """Return size, ETag and time. Cost: one request."""
        response = self._send("head", key, lambda s3, s3_key: s3.head_object(Bucket=self._bucket, Key=s3_key))
        encrypted = has_opaque_etag(response.get("ServerSideEncryption", ""), response.get("SSECustomerAlgorithm", ""))
        modified = response["LastModified"].timestamp()
        return StoredObject(key, response["ContentLength"], _bare(response["ETag"]), modified, encrypted)

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        """Write an object. The result's ``modified`` is the time of the response, from which S3's own may differ by a second or
        two.

        Cost: one request; a file of more than 64 MiB goes up in parts of 16 MiB or more, four at once, and costs two requests
        more, and one to read the result.
        """
        self.key_in_bucket(key)
        try:
            size = len(data) if isinstance(data, bytes) else data.stat().st_size
            if not isinstance(data, bytes) and size > _WHOLE_BYTES:
                return self._put_in_parts(key, data, size, if_absent, sent)
            contents = data if isinstance(data, bytes) else data.read_bytes()
        except OSError as error:
            raise unavailable(error, f"reading {data!s}") from error
        stored = self._put(key, contents, size, if_absent)
        if sent is not None:
            sent(size)
        return stored

    def copy(self, source: str, destination: str) -> None:
        """Write an object with the bytes of another one, inside S3. Cost: two requests; for more than 5 GiB two more, and one for
        each 1 GiB."""
        size = self.head(source).size
        copy_source: Any = {"Bucket": self._bucket, "Key": self.key_in_bucket(source)}
        if size <= _COPIED_BYTES:
            self._send(
                "copy",
                destination,
                lambda s3, key: s3.copy_object(Bucket=self._bucket, Key=key, CopySource=copy_source),
            )
            return
        upload_id = self.create_multipart(destination)

        def copy_part(number: int) -> tuple[int, str]:
            begin = (number - 1) * _COPIED_PART
            part = f"bytes={begin}-{min(begin + _COPIED_PART, size) - 1}"
            response = self._send(
                "copy_part",
                destination,
                lambda s3, key: s3.upload_part_copy(
                    Bucket=self._bucket,
                    Key=key,
                    UploadId=upload_id,
                    PartNumber=number,
                    CopySource=copy_source,
                    CopySourceRange=part,
                ),
                upload_id=upload_id,
            )
            return number, _bare(response["CopyPartResult"]["ETag"])

        try:
            with ThreadPoolExecutor(_THREADS, "graveler-s3") as threads:
                parts = list(threads.map(copy_part, range(1, -(-size // _COPIED_PART) + 1)))
            self.complete_multipart(destination, upload_id, parts)
        except GravelerError:
            with suppress(GravelerError):  # the bucket's lifecycle rule removes what stays
                self.abort_multipart(destination, upload_id)
            raise

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object. Cost: one request. Even with ``if_match`` a missing one is success: S3 does not tell."""
        condition: Any = {} if if_match is None else {"IfMatch": f'"{if_match}"'}
        with suppress(ObjectMissingError):  # other servers do tell
            self._send(
                "delete",
                key,
                lambda s3, s3_key: s3.delete_object(Bucket=self._bucket, Key=s3_key, **condition),
                condition="its ETag is different",
            )

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        """Remove objects. Cost: one request for each 1,000."""
        errors: list[GravelerError | None] = []
        for begin in range(0, len(objects), _DELETED_AT_ONCE):
            errors += self._delete_some(objects[begin : begin + _DELETED_AT_ONCE])
        return errors

    def _delete_some(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        members: Any = [{"Key": self.key_in_bucket(key), "ETag": f'"{etag}"'} for key, etag in objects]
        subject = f"{self.namespace}: delete_many"
        response = self._request(
            subject, lambda s3: s3.delete_objects(Bucket=self._bucket, Delete={"Objects": members, "Quiet": True})
        )
        failed = {failure["Key"].removeprefix(self._base): failure for failure in response.get("Errors", ())}
        return [self._not_deleted(key, failed[key]) if key in failed else None for key, _ in objects]

    def _not_deleted(self, key: str, failure: Any) -> GravelerError | None:
        code = failure.get("Code", "")
        if code in _MISSING:
            return None
        if code in CONDITION_CODES:
            return ObjectConditionError(self.namespace, key, "its ETag is different")
        error = ClientError({"Error": {"Code": code, "Message": failure.get("Message", "")}}, "DeleteObjects")
        subject = self._what("delete", key)
        if judge(error) is Outcome.BUSY:
            return BusyError(f"{subject}: the service stayed busy; nothing was written; try again ({error})")
        return explained(error, subject)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Yield objects in the order of their keys. Cost: one request for each 1,000. :class:`UnavailableError` if the store
        reports more without saying how to go on: a listing that ends is complete."""
        if "\0" in prefix:
            return  # no key has one, and stores dislike such requests
        after = after.partition("\0")[0]
        last = self._base + after if after else ""
        token = ""
        while True:
            response = self._page(self._base + prefix, last, token)
            contents = response.get("Contents", ())
            for entry in contents:
                key = entry["Key"].removeprefix(self._base)
                if key:
                    yield StoredObject(key, entry["Size"], _bare(entry["ETag"]), entry["LastModified"].timestamp())
            if not response["IsTruncated"]:
                return
            if contents and contents[-1]["Key"] > last:
                # Not the continuation token: a key means the same to every server, whatever happened in between.
                last, token = contents[-1]["Key"], ""
                continue
            if contents:
                raise self._incomplete(last)
            token = self._following(response, last, token)

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        """Return the first names of a listing. Cost: one request, and one more for each page without names, which S3 may return
        where objects were deleted. Errors as of :meth:`list`."""
        if "\0" in prefix:
            return Page([], False)
        after = after.partition("\0")[0]
        last = self._base + after if after else ""
        token = ""
        while True:
            response = self._page(self._base + prefix, last, token, "/" if folders else "")
            keys = [entry["Key"] for entry in response.get("Contents", ())]
            keys += [entry["Prefix"] for entry in response.get("CommonPrefixes", ())]
            names = sorted(key.removeprefix(self._base) for key in keys if key != self._base)
            if names or not response["IsTruncated"]:
                return Page(names, response["IsTruncated"])
            token = self._following(response, last, token)

    def versions(self) -> "S3Versions":
        """Return the deleted objects of this namespace, for a bucket that keeps versions. No request."""
        from graveler.storage.objects.s3_versions import S3Versions

        return S3Versions(
            self._bucket, self._base, self._client(), retries=self._settings.retries, list_page=self._settings.list_page
        )

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:  # noqa: ARG002
        """Return a URL of S3 itself, in the settings' region, in which nothing but the host is signed besides the query. It ends
        no later than the credentials that signed it; its ``X-Amz-Expires`` says when. No request."""
        s3_key = self.key_in_bucket(key)
        check_presigning(method, expires_in)
        return self._presigned("get_object" if method == "GET" else "put_object", {"Key": s3_key}, expires_in)

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        """Return a URL for one part of an upload, like :meth:`presign`."""
        s3_key = self.key_in_bucket(key)
        check_part_number(number)
        check_presigning("PUT", expires_in)
        return self._presigned("upload_part", {"Key": s3_key, "UploadId": upload_id, "PartNumber": number}, expires_in)

    def create_multipart(self, key: str) -> str:
        """Begin an upload. Cost: one request."""
        response = self._send(
            "create_multipart", key, lambda s3, s3_key: s3.create_multipart_upload(Bucket=self._bucket, Key=s3_key)
        )
        return response["UploadId"]

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Upload one part. Cost: one request."""
        check_part_number(number)
        digest = b64encode(md5(data, usedforsecurity=False).digest()).decode()
        response = self._send(
            "put_part",
            key,
            lambda s3, s3_key: s3.upload_part(
                Bucket=self._bucket, Key=s3_key, UploadId=upload_id, PartNumber=number, Body=data, ContentMD5=digest
            ),
            upload_id=upload_id,
        )
        return _bare(response["ETag"])

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        """Yield the parts of an upload. Cost: one request for each 1,000."""
        page: Any = {"MaxParts": self._settings.list_page}
        more = True
        while more:
            if after:
                page["PartNumberMarker"] = after
            response = self._send(
                "list_parts",
                key,
                lambda s3, s3_key: s3.list_parts(Bucket=self._bucket, Key=s3_key, UploadId=upload_id, **page),
                upload_id=upload_id,
            )
            for part in response.get("Parts", ()):
                after = part["PartNumber"]
                yield StoredPart(after, part["Size"], _bare(part["ETag"]), part["LastModified"].timestamp())
            more = response["IsTruncated"] and bool(response.get("Parts"))

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Join the parts. S3 requires 5 MiB in each but the last. Cost: two requests, the second for the size."""
        check_parts(parts)
        condition: Any = {"IfNoneMatch": "*"} if if_absent else {}
        members: list[Any] = [{"PartNumber": number, "ETag": f'"{etag}"'} for number, etag in parts]
        self._send(
            "complete_multipart",
            key,
            lambda s3, s3_key: s3.complete_multipart_upload(
                Bucket=self._bucket, Key=s3_key, UploadId=upload_id, MultipartUpload={"Parts": members}, **condition
            ),
            condition="it already exists",
            upload_id=upload_id,
        )
        return self.head(key)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Remove an upload. Cost: one request."""
        with suppress(UploadMissingError):
            self._send(
                "abort_multipart",
                key,
                lambda s3, s3_key: s3.abort_multipart_upload(Bucket=self._bucket, Key=s3_key, UploadId=upload_id),
                upload_id=upload_id,
            )

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield uploads that were neither completed nor aborted. Cost: one request for each 1,000."""
        subject = f"{self.namespace}: list_uploads"
        marker: Any = {}
        while True:
            response = self._request(
                subject,
                lambda s3: s3.list_multipart_uploads(Bucket=self._bucket, Prefix=self._base, **marker),  # noqa: B023
            )
            for entry in response.get("Uploads", ()):
                key = entry["Key"].removeprefix(self._base)
                yield UnfinishedUpload(key, entry["UploadId"], entry["Initiated"].timestamp())
            if not response["IsTruncated"]:
                return
            marker = {"KeyMarker": response["NextKeyMarker"], "UploadIdMarker": response["NextUploadIdMarker"]}

    def _put(self, key: str, data: bytes, size: int, if_absent: bool) -> StoredObject:
        condition: Any = {"IfNoneMatch": "*"} if if_absent else {}
        response = self._send(
            "put",
            key,
            lambda s3, s3_key: s3.put_object(
                Bucket=self._bucket, Key=s3_key, Body=data, ChecksumAlgorithm="CRC32", **condition
            ),
            condition="it already exists",
        )
        return StoredObject(key, size, _bare(response["ETag"]), _date(response["ResponseMetadata"]["HTTPHeaders"]))

    def _put_in_parts(self, key: str, file: Path, size: int, if_absent: bool, sent: Sent | None) -> StoredObject:
        step = max(_PART_BYTES, -(-size // MAX_PARTS))
        upload_id = self.create_multipart(key)

        def put_part(number: int) -> tuple[int, str]:
            with file.open("rb") as opened:
                opened.seek((number - 1) * step)
                part = opened.read(step)
            etag = self.put_part(key, upload_id, number, part)
            if sent is not None:
                sent(len(part))
            return number, etag

        try:
            with ThreadPoolExecutor(_THREADS, "graveler-s3") as threads:
                parts = list(threads.map(put_part, range(1, -(-size // step) + 1)))
            return self.complete_multipart(key, upload_id, parts, if_absent=if_absent)
        except (GravelerError, OSError):
            with suppress(GravelerError):  # the bucket's lifecycle rule removes what stays
                self.abort_multipart(key, upload_id)
            raise

    def _read(self, key: str, byte_range: str | None) -> bytes:
        options: Any = {} if byte_range is None else {"Range": byte_range}

        def read(s3: "S3Client", s3_key: str) -> bytes:
            response = s3.get_object(Bucket=self._bucket, Key=s3_key, ChecksumMode="ENABLED", **options)
            with closing(response["Body"]) as body:
                return body.read()

        return self._send("get", key, read, empty=b"")

    def _open(self, key: str, begin: int, end: int | None, etag: str) -> tuple[Any, str]:
        """Return the body from ``begin`` on and its ETag; no body if nothing is there. With an ``etag``, only of that version."""
        options: Any = {}
        if begin or end is not None:
            options["Range"] = f"bytes={begin}-{'' if end is None else end - 1}"
        if etag:
            options["IfMatch"] = f'"{etag}"'

        def open_(s3: "S3Client", s3_key: str) -> tuple[Any, str]:
            response = s3.get_object(Bucket=self._bucket, Key=s3_key, ChecksumMode="ENABLED", **options)
            return response["Body"], _bare(response["ETag"])

        return self._send("get", key, open_, condition="it was replaced while it was being read", empty=(None, etag))

    def _following(self, response: Mapping[str, Any], last: str, token: str) -> str:
        """Return the token of the page behind this one, which has the other ``token`` and no key. :class:`UnavailableError`
        without."""
        following: str = response.get("NextContinuationToken", "")
        if following in ("", token):
            raise self._incomplete(last)
        return following

    def _incomplete(self, last: str) -> UnavailableError:
        return UnavailableError(
            f"{self.namespace}: list: the store says that there are more objects after {last!r}, but returns none of "
            "them and no way to continue; the listing is incomplete. Try again; if it fails again, the store is at fault"
        )

    def _page(self, prefix: str, after: str, token: str, delimiter: str = "") -> Mapping[str, Any]:
        options: Any = {"ContinuationToken": token} if token else {"StartAfter": after} if after else {}
        if delimiter:
            options["Delimiter"] = delimiter
        subject = f"{self.namespace}: list"
        return self._request(
            subject,
            lambda s3: s3.list_objects_v2(
                Bucket=self._bucket, Prefix=prefix, MaxKeys=self._settings.list_page, **options
            ),
        )

    def _request(self, subject: str, request: "Callable[[S3Client], T]") -> T:
        """Return the response to ``request``, given the client. ``subject`` names it in errors."""
        try:
            s3 = self._client()
            return send(lambda: request(s3), subject, self._settings.retries)
        except FAILURES as error:
            raise explained(error, subject) from error

    def _send(
        self,
        verb: str,
        key: str,
        request: "Callable[[S3Client, str], T]",
        *,
        condition: str = "",
        upload_id: str | None = None,
        empty: T | None = None,
    ) -> T:
        """Return the response to ``request``, given the client and the key in the bucket. ``condition`` is the error text if its
        condition fails; ``empty`` is the result for a range behind the end."""
        s3_key = self.key_in_bucket(key)
        if upload_id == "":
            raise UploadMissingError(self.namespace, key, upload_id)
        subject = self._what(verb, key)
        try:
            s3 = self._client()
            return send(lambda: request(s3, s3_key), subject, self._settings.retries)
        except FAILURES as error:
            if empty is not None and error_code(error) in ("InvalidRange", "416"):
                return empty
            raise self.explain(error, verb, key, condition=condition, upload_id=upload_id) from error

    def explain(
        self, error: Exception, verb: str, key: str, *, condition: str = "", upload_id: str | None = None
    ) -> GravelerError:
        """Return the error to raise for one of the SDK in a request of an object: of an upload with ``upload_id``, with a
        condition whose failure the text ``condition`` describes."""
        code = error_code(error)
        if upload_id is not None and code in ("NoSuchUpload", "404"):
            return UploadMissingError(self.namespace, key, upload_id)
        if code in _MISSING:
            return ObjectMissingError(self.namespace, key)
        if code in CONDITION_CODES:
            return ObjectConditionError(self.namespace, key, condition)
        return explained(error, self._what(verb, key))

    def _presigned(self, operation: str, parameters: dict[str, object], expires_in: int) -> str:
        subject = f"{self.namespace}: presign"
        try:
            s3 = self._client()
            lifetime = min(expires_in, credentials_of(self._settings, subject).seconds_left)
            return s3.generate_presigned_url(operation, {"Bucket": self._bucket, **parameters}, ExpiresIn=lifetime)
        except FAILURES as error:
            raise explained(error, subject) from error

    def key_in_bucket(self, key: str) -> str:
        """Return an object's key in the bucket. InvalidError for one that no object can have."""
        (check_foreign_key if self._foreign else check_object_key)(key)
        s3_key = self._base + key
        if len(s3_key.encode()) > MAX_OBJECT_KEY_BYTES:
            raise InvalidError(
                f"object key {s3_key[:80]!r} has more than {MAX_OBJECT_KEY_BYTES:,} bytes including its namespace"
            )
        return s3_key

    def _client(self) -> "S3Client":
        return CLIENTS.get(self._settings)

    def _what(self, verb: str, key: str) -> str:
        return f"{self.namespace}/{key}: {verb}"


def _bare(etag: str) -> str:
    return etag.strip('"')


def _date(headers: Mapping[str, str]) -> float:
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return time.time()
