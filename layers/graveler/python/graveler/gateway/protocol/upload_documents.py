"""Multipart uploads: their parameters, and the documents of their requests and responses."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol

from msgspec import Struct

from graveler.gateway.protocol.bucket_listing import encodes_url, key_encoder, whole_number
from graveler.gateway.protocol.documents import etag_and_time, fields_of, local_name, malformed_xml, parsed
from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument
from graveler.gateway.protocol.xml_text import document, escape, iso_time, owner_element

MAX_PARTS: Final = 10_000
"""Most parts of an upload, and the highest number of one."""

MAX_PAGE: Final = 1000
"""Most parts or uploads of a page."""


class CompletedPart(Struct, frozen=True):
    """A part that completes an upload; ``etag`` without quotes."""

    number: int
    etag: str


class UploadedPart(Protocol):
    """A part in the store. ``size`` in bytes, ``modified`` in Unix seconds, ``etag`` without quotes."""

    @property
    def number(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def etag(self) -> str: ...
    @property
    def modified(self) -> float: ...


class PartListing(Struct, frozen=True):
    """The parameters of a ListParts: at most ``amount`` parts with numbers above ``after``."""

    upload_id: str
    after: int = 0
    amount: int = MAX_PAGE


class ListedUpload(Struct, frozen=True):
    """An upload in a listing; ``created`` in Unix seconds."""

    key: str
    upload_id: str
    created: int


class UploadListing(Struct, frozen=True):
    """The parameters of a ListMultipartUploads: at most ``amount`` uploads and common prefixes behind the key ``after_key``, and
    of that key those behind ``after_upload``."""

    prefix: str = ""
    delimiter: str = ""
    after_key: str = ""
    after_upload: str = ""
    amount: int = MAX_PAGE
    encoding_url: bool = False


def part_number(parameters: Mapping[str, str]) -> int:
    """Return the number of the part that an UploadPart writes. ``InvalidArgument`` outside of 1 to 10,000."""
    return _checked_number(parameters.get("partNumber", ""), "partNumber")


def _checked_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not 1 <= int(text) <= MAX_PARTS:
        raise invalid_argument(f"Part number must be an integer between 1 and {MAX_PARTS}, inclusive", name, text)
    return int(text)


def part_listing_of(parameters: Mapping[str, str]) -> PartListing:
    """Return the listing of parts that a query asks for. ``InvalidArgument``."""
    after = whole_number(parameters, "part-number-marker", 0)
    amount = min(whole_number(parameters, "max-parts", MAX_PAGE), MAX_PAGE)
    return PartListing(parameters.get("uploadId", ""), after, amount)


def upload_listing_of(parameters: Mapping[str, str]) -> UploadListing:
    """Return the listing of uploads that a query asks for. ``InvalidArgument``. Without a key, a marker of an upload is ignored,
    as S3 does."""
    after_key = parameters.get("key-marker", "")
    return UploadListing(
        prefix=parameters.get("prefix", ""),
        delimiter=parameters.get("delimiter", ""),
        after_key=after_key,
        after_upload=parameters.get("upload-id-marker", "") if after_key else "",
        amount=min(whole_number(parameters, "max-uploads", MAX_PAGE), MAX_PAGE),
        encoding_url=encodes_url(parameters),
    )


def completed_parts(body: bytes) -> tuple[CompletedPart, ...]:
    """Return the parts that the document of a CompleteMultipartUpload names. Checksums of parts are ignored: each part was
    compared with its own when it arrived.

    ``MalformedXML`` for anything but 1 to 10,000 parts with numbers and ETags, ``InvalidArgument`` for a number that no part has,
    ``InvalidPartOrder`` if the numbers do not rise.
    """
    parts: list[CompletedPart] = []
    for child in parsed(body, "CompleteMultipartUpload"):
        if local_name(child) != "Part":
            continue
        fields = fields_of(child)
        number, etag = fields.get("PartNumber", "").strip(), fields.get("ETag", "").strip().strip('"')
        if not etag or not number.removeprefix("-").isdigit() or len(parts) == MAX_PARTS:
            raise malformed_xml()
        parts.append(CompletedPart(_checked_number(number, "PartNumber"), etag))
    if not parts:
        raise malformed_xml()
    for part, following in pairwise(parts):
        if following.number <= part.number:
            raise S3Error(
                "InvalidPartOrder",
                "The list of parts was not in ascending order. Parts must be ordered by part number.",
                {"PartNumber": str(following.number)},
            )
    return tuple(parts)


def begun_document(bucket: str, key: str, upload_id: str) -> bytes:
    """Return the document of a CreateMultipartUpload."""
    return document(
        "InitiateMultipartUploadResult",
        f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{escape(upload_id)}</UploadId>",
    )


def completed_document(location: str, bucket: str, key: str, etag: str) -> bytes:
    """Return the document of a CompleteMultipartUpload. ``location`` is the object's URL; the ETag has no quotes."""
    return document(
        "CompleteMultipartUploadResult",
        f"<Location>{escape(location)}</Location><Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key>"
        f"<ETag>&quot;{escape(etag)}&quot;</ETag>",
    )


def copied_part_document(etag: str, mtime: int) -> bytes:
    """Return the document of an UploadPartCopy: the part's ETag without quotes, and its time in Unix seconds."""
    return document("CopyPartResult", etag_and_time(etag, mtime))


def parts_document(
    bucket: str, key: str, listing: PartListing, parts: Sequence[UploadedPart], is_truncated: bool
) -> bytes:
    """Return the document of a ListParts: a page of an upload's parts, in the order of their numbers."""
    elements = [
        f"<Part><PartNumber>{part.number}</PartNumber>{etag_and_time(part.etag, int(part.modified))}"
        f"<Size>{part.size}</Size></Part>"
        for part in parts
    ]
    last = parts[-1].number if parts else listing.after
    return document(
        "ListPartsResult",
        f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{escape(listing.upload_id)}</UploadId>"
        f"{owner_element('Initiator')}{owner_element()}<StorageClass>STANDARD</StorageClass>"
        f"<PartNumberMarker>{listing.after}</PartNumberMarker><NextPartNumberMarker>{last}</NextPartNumberMarker>"
        f"<MaxParts>{listing.amount}</MaxParts><IsTruncated>{'true' if is_truncated else 'false'}</IsTruncated>"
        + "".join(elements),
    )


def uploads_document(
    bucket: str,
    listing: UploadListing,
    uploads: Iterable[ListedUpload],
    prefixes: Iterable[str] = (),
    next_upload: tuple[str, str] | None = None,
) -> bytes:
    """Return the document of a ListMultipartUploads: a page of uploads and common prefixes, each in the order of their keys.
    ``next_upload`` is the last of them all if others follow: its key and upload ID, or a common prefix and an empty text."""
    encode = key_encoder(listing.encoding_url)
    owner = f"{owner_element('Initiator')}{owner_element()}<StorageClass>STANDARD</StorageClass>"
    parts = [
        f"<Bucket>{escape(bucket)}</Bucket>",
        f"<KeyMarker>{encode(listing.after_key)}</KeyMarker>",
        f"<UploadIdMarker>{escape(listing.after_upload)}</UploadIdMarker>",
    ]
    if next_upload is not None:
        parts.append(f"<NextKeyMarker>{encode(next_upload[0])}</NextKeyMarker>")
        parts.append(f"<NextUploadIdMarker>{escape(next_upload[1])}</NextUploadIdMarker>")
    parts.append(f"<Prefix>{encode(listing.prefix)}</Prefix>")
    if listing.delimiter:
        parts.append(f"<Delimiter>{encode(listing.delimiter)}</Delimiter>")
    if listing.encoding_url:
        parts.append("<EncodingType>url</EncodingType>")
    parts.append(f"<MaxUploads>{listing.amount}</MaxUploads>")
    parts.append(f"<IsTruncated>{'false' if next_upload is None else 'true'}</IsTruncated>")
    parts += [
        f"<Upload><Key>{encode(upload.key)}</Key><UploadId>{escape(upload.upload_id)}</UploadId>{owner}"
        f"<Initiated>{iso_time(upload.created)}</Initiated></Upload>"
        for upload in uploads
    ]
    parts += [f"<CommonPrefixes><Prefix>{encode(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes]
    return document("ListMultipartUploadsResult", "".join(parts))
