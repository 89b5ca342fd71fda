"""Documents as botocore writes and reads them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest
from botocore.parsers import RestXMLParser
from botocore.serialize import RestXMLSerializer
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.documents import (
    Deletion,
    attributes_document,
    bucket_list_document,
    copied_document,
    deleted_document,
    deleted_objects,
    location_constraint,
    location_document,
)
from graveler.gateway.protocol.operation_names import OPERATIONS
from graveler.gateway.protocol.plain_bucket import plain_bucket_answer
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.upload_documents import (
    CompletedPart,
    ListedUpload,
    PartListing,
    UploadListing,
    begun_document,
    completed_document,
    completed_parts,
    copied_part_document,
    part_listing_of,
    part_number,
    parts_document,
    upload_listing_of,
    uploads_document,
)

_SERVICE = get_session().get_service_model("s3")
_TIME: Final = datetime(2013, 5, 24, tzinfo=UTC)
_SECONDS: Final = int(_TIME.timestamp())
_MD5: Final = "5d41402abc4b2a76b9719d911017c592"
_KEYS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1, max_size=20
)


def _sent(operation: str, parameters: Mapping[str, Any]) -> bytes:
    """Return the body of a request as botocore writes it."""
    serialized = RestXMLSerializer().serialize_to_request(parameters, _SERVICE.operation_model(operation))
    body = serialized["body"]
    return body if isinstance(body, bytes) else body.encode()


def _read(operation: str, document: bytes) -> dict[str, Any]:
    """Return a document as botocore reads it."""
    shape = _SERVICE.operation_model(operation).output_shape
    assert shape is not None
    parsed: dict[str, Any] = RestXMLParser().parse({"body": document, "headers": {}, "status_code": 200}, shape)
    return {name: value for name, value in parsed.items() if name != "ResponseMetadata"}


def _refused(work: Callable[[], object], code: str) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        work()
    assert refusal.value.code == code
    return refusal.value


@given(st.lists(_KEYS, min_size=1, max_size=5), st.booleans())
def test_deletions(keys: list[str], quiet: bool) -> None:
    objects = [{"Key": key} for key in keys]
    body = _sent("DeleteObjects", {"Bucket": "b", "Delete": {"Objects": objects, "Quiet": quiet}})
    assert deleted_objects(body) == Deletion(tuple(keys), quiet)
    result = _read("DeleteObjects", deleted_document(keys, [(key, S3Error("AccessDenied", key)) for key in keys]))
    assert result["Deleted"] == objects
    assert result["Errors"] == [{"Key": key, "Code": "AccessDenied", "Message": key} for key in keys]


def test_a_deletion_without_a_namespace() -> None:
    body = b"<Delete><Object><Key>a &amp; b</Key><VersionId>null</VersionId></Object></Delete>"
    assert deleted_objects(body) == Deletion(("a & b",), False)


def _deletion(count: int) -> bytes:
    return b"<Delete>%b</Delete>" % (b"<Object><Key>a</Key></Object>" * count)


_BOMB: Final = b"""<!DOCTYPE Delete [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<Delete><Object><Key>&b;</Key></Object></Delete>"""
_FILE: Final = b"""<!DOCTYPE Delete [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<Delete><Object><Key>&a;</Key></Object></Delete>"""
_MALFORMED: Final = (
    b"",
    b"Delete",
    b"<Delete>",
    b"<Remove/>",
    b"\xff",
    b"<?xml version='1.0' encoding='none'?><Delete/>",
)


@pytest.mark.parametrize(
    "body",
    [
        *_MALFORMED,
        _BOMB,
        _FILE,
        _deletion(0),
        _deletion(1001),
        b"<Delete><Object/></Delete>",
        b"<Delete>&#x1;</Delete>",
    ],
)
def test_malformed_deletions(body: bytes) -> None:
    assert _refused(lambda: deleted_objects(body), "MalformedXML").status == 400


def test_the_most_keys_of_a_deletion() -> None:
    assert len(deleted_objects(_deletion(1000)).keys) == 1000


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (b"<VersionId>abc</VersionId>", "NoSuchVersion"),
        (b"<ETag>abc</ETag>", "NotImplemented"),
        (b"<Size>5</Size>", "NotImplemented"),
    ],
)
def test_deletions_of_versions_or_with_conditions(field: bytes, code: str) -> None:
    _refused(lambda: deleted_objects(b"<Delete><Object><Key>a</Key>%b</Object></Delete>" % field), code)


@given(st.sets(st.integers(1, 10_000), min_size=1, max_size=20), st.booleans())
def test_completed_parts(numbers: set[int], quoted: bool) -> None:
    etag = f'"{_MD5}"' if quoted else _MD5
    parts = [{"PartNumber": number, "ETag": etag, "ChecksumCRC32": "AAAAAA=="} for number in sorted(numbers)]
    parameters = {"Bucket": "b", "Key": "k", "UploadId": "u", "MultipartUpload": {"Parts": parts}}
    expected = tuple(CompletedPart(number, _MD5) for number in sorted(numbers))
    assert completed_parts(_sent("CompleteMultipartUpload", parameters)) == expected


def _completion(*numbers: object) -> bytes:
    parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{_MD5}</ETag></Part>" for number in numbers)
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


@pytest.mark.parametrize(
    "body",
    [
        *_MALFORMED,
        _completion(),
        _completion("a"),
        _completion(""),
        _completion(*range(1, 10_002)),
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
    ],
)
def test_malformed_completions(body: bytes) -> None:
    _refused(lambda: completed_parts(body), "MalformedXML")


def test_other_elements_of_a_completion_are_ignored() -> None:
    body = _completion(1).replace(b"<Part>", b"<Comment>a</Comment><Part>")
    assert completed_parts(body) == (CompletedPart(1, _MD5),)


def test_the_most_parts_of_an_upload() -> None:
    assert len(completed_parts(_completion(*range(1, 10_001)))) == 10_000


@pytest.mark.parametrize("numbers", [(2, 1), (1, 1), (1, 3, 2)])
def test_parts_out_of_order(numbers: tuple[int, ...]) -> None:
    _refused(lambda: completed_parts(_completion(*numbers)), "InvalidPartOrder")


@pytest.mark.parametrize("number", ["0", "-1", "10001", "9" * 5000, "\u0661"])
def test_numbers_that_no_part_has(number: str) -> None:
    assert _refused(lambda: completed_parts(_completion(number)), "InvalidArgument").status == 400
    _refused(lambda: part_number({"partNumber": number}), "InvalidArgument")


def test_part_numbers() -> None:
    assert part_number({"partNumber": "10000"}) == 10_000
    _refused(lambda: part_number({"uploadId": "a"}), "InvalidArgument")


class _Part(NamedTuple):
    number: int
    size: int
    etag: str
    modified: float


def test_parts_of_an_upload() -> None:
    listing = part_listing_of({"uploadId": "u/1", "part-number-marker": "1", "max-parts": "2000"})
    assert listing == PartListing("u/1", 1, 1000)
    parts = [_Part(2, 5, _MD5, _SECONDS + 0.7), _Part(3, 6, _MD5, _SECONDS)]
    page = _read("ListParts", parts_document("b", "a&b", listing, parts, True))
    assert page["Parts"] == [
        {"PartNumber": part.number, "LastModified": _TIME, "ETag": f'"{_MD5}"', "Size": part.size} for part in parts
    ]
    expected = {
        "Bucket": "b",
        "Key": "a&b",
        "UploadId": "u/1",
        "PartNumberMarker": 1,
        "NextPartNumberMarker": 3,
        "MaxParts": 1000,
    }
    assert {name: page[name] for name in expected} == expected
    assert page["IsTruncated"]
    page = _read("ListParts", parts_document("b", "a", listing, [], False))
    assert (page["IsTruncated"], page["NextPartNumberMarker"]) == (False, 1)
    _refused(lambda: part_listing_of({"part-number-marker": "x"}), "InvalidArgument")


def test_uploads_of_a_bucket() -> None:
    parameters = {
        "prefix": "a b",
        "delimiter": "/",
        "key-marker": "a b/1",
        "upload-id-marker": "u",
        "encoding-type": "url",
    }
    listing = upload_listing_of(parameters)
    assert listing == UploadListing("a b", "/", "a b/1", "u", 1000, True)
    uploads = [ListedUpload("a b/2", "u2", _SECONDS)]
    page = _read("ListMultipartUploads", uploads_document("b", listing, uploads, ["a b/c/"], ("a b/c/", "")))
    assert [upload["Key"] for upload in page["Uploads"]] == ["a%20b/2"]
    assert (page["Uploads"][0]["UploadId"], page["Uploads"][0]["Initiated"]) == ("u2", _TIME)
    assert page["CommonPrefixes"] == [{"Prefix": "a%20b/c/"}]
    assert (page["IsTruncated"], page["NextKeyMarker"], page["Prefix"]) == (True, "a%20b/c/", "a%20b")
    page = _read("ListMultipartUploads", uploads_document("b", upload_listing_of({"upload-id-marker": "u"}), []))
    assert (page["IsTruncated"], page["KeyMarker"], page["UploadIdMarker"]) == (False, "", "")
    assert "Uploads" not in page


def test_documents_of_an_upload() -> None:
    assert _read("CreateMultipartUpload", begun_document("b", "a&b", "u")) == {
        "Bucket": "b",
        "Key": "a&b",
        "UploadId": "u",
    }
    completed = completed_document("http://localhost/b/a", "b", "a", f"{_MD5}-2")
    assert _read("CompleteMultipartUpload", completed) == {
        "Location": "http://localhost/b/a",
        "Bucket": "b",
        "Key": "a",
        "ETag": f'"{_MD5}-2"',
    }
    copied = _read("UploadPartCopy", copied_part_document(_MD5, _SECONDS))
    assert copied["CopyPartResult"] == {"ETag": f'"{_MD5}"', "LastModified": _TIME}


def test_documents_of_buckets_and_objects() -> None:
    copied = _read("CopyObject", copied_document(_MD5, _SECONDS))
    assert copied["CopyObjectResult"] == {"ETag": f'"{_MD5}"', "LastModified": _TIME}
    listed = _read("ListBuckets", bucket_list_document([("sales", _SECONDS)], "anna & co"))
    assert listed == {
        "Buckets": [{"Name": "sales", "CreationDate": _TIME}],
        "Owner": {"ID": "graveler", "DisplayName": "anna & co"},
    }
    assert b">eu-south-1</LocationConstraint>" in location_document("eu-south-1")
    assert b"></LocationConstraint>" in location_document("us-east-1")


def test_attributes() -> None:
    page = _read("GetObjectAttributes", attributes_document(["ETag", " ObjectSize", "Checksum"], _MD5, 5))
    assert page == {"ETag": _MD5, "ObjectSize": 5}
    _refused(lambda: attributes_document(["Colour"], _MD5, 5), "InvalidArgument")


def test_the_region_of_a_new_bucket() -> None:
    configuration = {"LocationConstraint": "eu-south-1"}
    body = _sent("CreateBucket", {"Bucket": "b", "CreateBucketConfiguration": configuration})
    assert location_constraint(body) == "eu-south-1"
    assert location_constraint(b"") == ""
    assert location_constraint(b"<CreateBucketConfiguration/>") == ""
    _refused(lambda: location_constraint(b"<Bucket/>"), "MalformedXML")


_UNKNOWN: Final = ("GetBucketLocation", "GetBucketMetadata", "GetObjectTorrent")
_READS: Final = sorted(
    name
    for name in OPERATIONS
    if name.startswith(("GetBucket", "GetPublic", "GetObjectL", "GetObjectT", "ListBucket"))
    and not name.startswith((*_UNKNOWN, "ListBuckets"))
)


@pytest.mark.parametrize("operation", _READS)
def test_reads_of_what_a_lake_has_not(operation: str) -> None:
    """As a plain bucket answers; botocore reads each document."""
    try:
        document = plain_bucket_answer(operation, "b", "anna")
    except S3Error as error:
        status = error.status
    else:
        _read(operation, document)
        status = 200
    assert status in (200, 400, 404)


def test_plain_answers() -> None:
    assert _read("GetBucketVersioning", plain_bucket_answer("GetBucketVersioning", "b", "anna")) == {}
    assert _read("GetObjectTagging", plain_bucket_answer("GetObjectTagging", "b", "anna")) == {"TagSet": []}
    acl = _read("GetBucketAcl", plain_bucket_answer("GetBucketAcl", "b", "anna"))
    owner = {"ID": "graveler", "DisplayName": "anna"}
    assert acl["Owner"] == owner
    assert acl["Grants"] == [{"Grantee": owner | {"Type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}]
    blocked = _read("GetPublicAccessBlock", plain_bucket_answer("GetPublicAccessBlock", "b", "anna"))
    assert set(blocked["PublicAccessBlockConfiguration"].values()) == {True}
    assert _refused(lambda: plain_bucket_answer("GetBucketTagging", "b", "anna"), "NoSuchTagSet").status == 404


@pytest.mark.parametrize(
    "operation", sorted(name for name in OPERATIONS if name.startswith(("PutBucket", "DeleteBucket")))
)
def test_writes_of_what_a_lake_has_not(operation: str) -> None:
    assert _refused(lambda: plain_bucket_answer(operation, "b", "anna"), "NotImplemented").status == 501
