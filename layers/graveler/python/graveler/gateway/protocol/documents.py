"""Documents of S3 about buckets and objects: those that requests send, and those that responses have.

Bodies of requests are at most :data:`graveler.gateway.protocol.body.MAX_DOCUMENT` long. They may have no document type, so no
entity of theirs grows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.xml_text import document, escape, iso_time, owner_element

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_DELETED: Final = 1000
"""Most keys of one DeleteObjects."""

_DEFAULT_REGION: Final = "us-east-1"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"


class Deletion(Struct, frozen=True):
    """The objects that a DeleteObjects names. If ``quiet``, only errors are reported."""

    keys: tuple[str, ...]
    quiet: bool


def deleted_objects(body: bytes) -> Deletion:
    """Return what the document of a DeleteObjects asks for.

    ``MalformedXML`` for anything but 1 to 1,000 keys; ``NoSuchVersion`` for a version, and ``NotImplemented`` for a condition of
    an object: nothing may then be deleted.
    """
    keys: list[str] = []
    quiet = False
    for child in parsed(body, "Delete"):
        if local_name(child) == "Quiet":
            quiet = (child.text or "").strip().lower() == "true"
        elif local_name(child) == "Object":
            keys.append(_deleted_key(fields_of(child)))
    if not 1 <= len(keys) <= MAX_DELETED:
        raise malformed_xml()
    return Deletion(tuple(keys), quiet)


def _deleted_key(fields: Mapping[str, str]) -> str:
    key = fields.get("Key", "")
    if not key:
        raise malformed_xml()
    if fields.get("VersionId", "null") != "null":
        raise S3Error("NoSuchVersion", "The specified version does not exist.", {"Key": key})
    for name in ("ETag", "LastModifiedTime", "Size"):
        if name in fields:
            raise S3Error(
                "NotImplemented", f"{name} of {key[:200]!r} is not implemented: delete it with If-Match", {"Key": key}
            )
    return key


def deleted_document(keys: Iterable[str], errors: Iterable[tuple[str, S3Error]]) -> bytes:
    """Return the result of a DeleteObjects: keys that are deleted, and those that are not with their errors."""
    deleted = [f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys]
    failed = [
        f"<Error><Key>{escape(key)}</Key><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
        for key, error in errors
    ]
    return document("DeleteResult", "".join(deleted + failed))


def bucket_list_document(buckets: Iterable[tuple[str, int]], owner: str) -> bytes:
    """Return the document of a ListBuckets: names, and times of creation in Unix seconds."""
    elements = [
        f"<Bucket><Name>{escape(name)}</Name><CreationDate>{iso_time(created)}</CreationDate></Bucket>"
        for name, created in buckets
    ]
    return document("ListAllMyBucketsResult", f"{owner_element(display=owner)}<Buckets>{''.join(elements)}</Buckets>")


def location_document(region: str) -> bytes:
    """Return the document of a GetBucketLocation. S3's oldest region has an empty name there."""
    return document("LocationConstraint", "" if region == _DEFAULT_REGION else escape(region))


def copied_document(etag: str, mtime: int) -> bytes:
    """Return the document of a CopyObject: the copy's ETag without quotes, and its time in Unix seconds."""
    return document("CopyObjectResult", etag_and_time(etag, mtime))


def acl_document(owner: str) -> bytes:
    """Return an access control list that gives all rights to the owner, as of a private bucket or object."""
    owner_fields = owner_element(display=owner)
    grantee = owner_fields.replace("<Owner>", f'<Grantee xmlns:xsi="{_XSI}" xsi:type="CanonicalUser">')
    grantee = grantee.replace("</Owner>", "</Grantee>")
    grant = f"<Grant>{grantee}<Permission>FULL_CONTROL</Permission></Grant>"
    return document("AccessControlPolicy", f"{owner_fields}<AccessControlList>{grant}</AccessControlList>")


def attributes_document(attributes: Sequence[str], etag: str, size: int) -> bytes:
    """Return the document of a GetObjectAttributes with the attributes that the header ``x-amz-object-attributes`` names.
    ``InvalidArgument`` for an unknown one. Checksums and parts of objects are not known."""
    elements = {
        "ETag": f"<ETag>{escape(etag)}</ETag>",
        "Checksum": "",
        "ObjectParts": "",
        "StorageClass": "<StorageClass>STANDARD</StorageClass>",
        "ObjectSize": f"<ObjectSize>{size}</ObjectSize>",
    }
    names = [name.strip() for name in attributes]
    for name in names:
        if name not in elements:
            raise S3Error(
                "InvalidArgument",
                "Invalid attribute name specified.",
                {"ArgumentName": "x-amz-object-attributes", "ArgumentValue": name[:1024]},
            )
    content = "".join(element for name, element in elements.items() if name in names)
    return document("GetObjectAttributesResponse", content)


def location_constraint(body: bytes) -> str:
    """Return the region that the document of a CreateBucket names; empty without one. ``MalformedXML``."""
    if not body.strip():
        return ""
    return fields_of(parsed(body, "CreateBucketConfiguration")).get("LocationConstraint", "").strip()


def parsed(body: bytes, root: str) -> "Element":
    """Return the root of a document, which must have this name in any namespace. ``MalformedXML``."""
    from xml.etree.ElementTree import ParseError  # a third of the room's import

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        element: Element = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        raise malformed_xml() from None
    if local_name(element) != root:
        raise malformed_xml()
    return element


def local_name(element: "Element") -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def fields_of(element: "Element") -> dict[str, str]:
    """Return the texts of an element's children by their names; of a repeated one the last."""
    return {local_name(child): child.text or "" for child in element}


def etag_and_time(etag: str, mtime: int) -> str:
    """Return the elements of an ETag and of a time."""
    return f"<LastModified>{iso_time(mtime)}</LastModified><ETag>&quot;{escape(etag)}&quot;</ETag>"


def malformed_xml() -> S3Error:
    """Return the error for a document that is malformed, or of another shape."""
    return S3Error(
        "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema"
    )
