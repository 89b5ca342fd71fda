"""Documents about objects: entries, staging, linking, multipart uploads."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType

from graveler.model import DEFAULT_CONTENT_TYPE, CommonPrefix, ObjectEntry
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import ObjectError


class ObjectStats(Struct, frozen=True, kw_only=True, gc=False):
    """An object or, if ``path_type`` is ``common_prefix``, all objects whose path begins with ``path``. ``mtime`` and
    ``physical_address_expiry`` are in Unix seconds. ``physical_address`` is a URL if the request asked for one."""

    path: str
    path_type: str = "object"
    physical_address: str = ""
    checksum: str = ""
    mtime: int = 0
    size_bytes: int | UnsetType = UNSET
    physical_address_expiry: int | UnsetType = UNSET
    metadata: Mapping[str, str] | UnsetType = UNSET
    content_type: str | UnsetType = UNSET

    def entry(self) -> ObjectEntry:
        """Return it as an object of the lake."""
        return ObjectEntry(
            self.path,
            self.physical_address,
            0 if self.size_bytes is UNSET else self.size_bytes,
            self.checksum,
            self.mtime,
            DEFAULT_CONTENT_TYPE if self.content_type is UNSET else self.content_type,
            {} if self.metadata is UNSET else self.metadata,
        )

    def item(self) -> ObjectEntry | CommonPrefix:
        """Return it as an item of a listing."""
        return CommonPrefix(self.path) if self.path_type == "common_prefix" else self.entry()


class ListedObject(
    Struct,
    frozen=True,
    gc=False,
    tag_field="path_type",
    tag="object",
    rename={"address": "physical_address", "size": "size_bytes"},
):
    """An :class:`ObjectStats` of an object with its address, with the fields of an :class:`ObjectEntry` in their order, since
    listings have many."""

    path: str
    address: str
    size: int
    checksum: str
    mtime: int
    content_type: str
    metadata: Mapping[str, str]


class ObjectStatsList(Struct, frozen=True):
    """A page of objects and prefixes."""

    pagination: Pagination
    results: list[ObjectStats]


class ListedPage(Struct, frozen=True):
    """An :class:`ObjectStatsList` of listed objects."""

    pagination: Pagination
    results: Sequence[ObjectStats | ListedObject]


def prefix_document(prefix: CommonPrefix) -> ObjectStats:
    """Return the document of a common prefix."""
    return ObjectStats(path=prefix.path, path_type="common_prefix")


def object_document(entry: ObjectEntry, *, metadata: bool = True) -> ObjectStats:
    """Return the document of an object, with its address."""
    return ObjectStats(
        path=entry.path,
        physical_address=entry.address,
        checksum=entry.checksum,
        mtime=entry.mtime,
        size_bytes=entry.size,
        metadata=entry.metadata if metadata else UNSET,
        content_type=entry.content_type,
    )


class PathList(Struct, frozen=True):
    """Paths of objects."""

    paths: list[str]


class ObjectErrorList(Struct, frozen=True):
    """The errors of a request for many objects."""

    errors: list[ObjectError]


class ObjectCopyCreation(Struct, frozen=True):
    """The object to copy, from any ref; a null ``src_ref`` means the branch itself. With ``src_checksum`` it is copied only if
    that is its checksum. ``content_type`` and ``user_metadata`` are those of the copy, by default the object's own."""

    src_path: str
    src_ref: str | None = None
    force: bool = False
    shallow: bool | None = None
    src_checksum: str | None = None
    content_type: str | None = None
    user_metadata: Mapping[str, str] | None = None


class ObjectStageCreation(Struct, frozen=True):
    """An object whose bytes are already stored."""

    physical_address: str
    checksum: str
    size_bytes: int
    mtime: int | None = None
    metadata: Mapping[str, str] | None = None
    content_type: str | None = None
    force: bool = False


class UnderlyingObjectProperties(Struct, frozen=True):
    """The properties of an object in the object store."""

    storage_class: str | None


class StatsOfMany(Struct, frozen=True):
    """The properties of many objects, and the errors of those that have none."""

    results: list[ObjectStats]
    errors: list[ObjectError]


class StagingLocation(Struct, frozen=True):
    """The location to write an object's bytes to. ``presigned_url_expiry`` is in Unix seconds."""

    physical_address: str | None = None
    presigned_url: str | None = None
    presigned_url_expiry: int | None = None


class StagingMetadata(Struct, frozen=True):
    """An object that was written to a staging location. ``mtime`` is in Unix seconds."""

    staging: StagingLocation
    checksum: str
    size_bytes: int
    user_metadata: Mapping[str, str] | None = None
    content_type: str | None = None
    mtime: int | None = None
    force: bool = False


class PathLink(StagingMetadata, frozen=True, kw_only=True):
    """An object that was written to a staging location, and its path."""

    path: str


class Links(Struct, frozen=True):
    """The objects to link. Their paths must be distinct."""

    objects: list[PathLink]
    force: bool = False


class LinkedObjects(Struct, frozen=True):
    """The objects that were linked."""

    results: list[ObjectStats]


class PresignMultipartUpload(Struct, frozen=True):
    """A new multipart upload, with a URL for each requested part."""

    upload_id: str
    physical_address: str
    presigned_urls: list[str] | UnsetType = UNSET


class UploadPart(Struct, frozen=True):
    """An uploaded part."""

    part_number: int
    etag: str


class CompletePresignMultipartUpload(Struct, frozen=True):
    """All parts of an upload, and the properties of the new object."""

    physical_address: str
    parts: list[UploadPart]
    user_metadata: Mapping[str, str] | None = None
    content_type: str | None = None


class AbortPresignMultipartUpload(Struct, frozen=True):
    """The upload to abort, by its address."""

    physical_address: str


class UploadPartFrom(Struct, frozen=True):
    """The address of the upload."""

    physical_address: str


class UploadPartCopyFrom(Struct, frozen=True):
    """The address of the upload, and the object or byte range to copy as a part of it."""

    physical_address: str
    copy_source: "CopySource"


class CopySource(Struct, frozen=True):
    """An object at a ref, or a range of its bytes (``bytes=0-1023``)."""

    path: str
    ref: str = ""
    range: str | None = None


class UploadTo(Struct, frozen=True):
    """A URL to upload a part to."""

    presigned_url: str


class UploadCreation(Struct, frozen=True):
    """The properties of the object that an upload will make."""

    content_type: str | None = None
    user_metadata: Mapping[str, str] | None = None


class RecordedUpload(Struct, frozen=True, kw_only=True):
    """An upload in parts that is in progress, with the properties of its object. ``creation_date`` is in Unix seconds."""

    upload_id: str
    path: str
    creation_date: int
    creator: str
    content_type: str
    user_metadata: Mapping[str, str]


class RecordedUploadList(Struct, frozen=True):
    """A page of uploads, by path, then by time. The next page begins after the path and the ID of the last one."""

    pagination: Pagination
    results: list[RecordedUpload]


class StoredPart(Struct, frozen=True):
    """A part that the object store has. ``mtime`` is in Unix seconds."""

    part_number: int
    size_bytes: int
    etag: str
    mtime: float


class StoredPartList(Struct, frozen=True):
    """A page of parts, by number."""

    pagination: Pagination
    results: list[StoredPart]


class PartList(Struct, frozen=True):
    """The parts of an object, in order."""

    parts: list[UploadPart]
