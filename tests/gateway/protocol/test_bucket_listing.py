"""Listings: parameters as S3 reads them, documents as botocore reads them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import ParseError, fromstring

import pytest
from botocore.handlers import decode_list_object, decode_list_object_v2
from botocore.parsers import RestXMLParser
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.bucket_listing import ListedObject, Listing, listing_document, listing_of
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.xml_text import iso_time

_SERVICE = get_session().get_service_model("s3")
_VERSIONS = {1: "ListObjects", 2: "ListObjectsV2"}


def _parsed(document: bytes, version: int) -> dict[str, Any]:
    """Return a document as botocore parses it, without decoding its keys."""
    shape = _SERVICE.operation_model(_VERSIONS[version]).output_shape
    assert shape is not None
    parsed: dict[str, Any] = RestXMLParser().parse({"body": document, "headers": {}, "status_code": 200}, shape)
    return parsed


def _refused(parameters: Mapping[str, str], version: int = 2) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        listing_of(parameters, version)
    assert (refusal.value.code, refusal.value.status) == ("InvalidArgument", 400)
    return refusal.value


def test_defaults() -> None:
    assert listing_of({}, 1) == Listing(version=1, fetch_owner=True)
    assert listing_of({}, 2) == Listing(version=2)
    assert listing_of({"max-keys": "", "encoding-type": ""}, 2) == Listing(version=2)


def test_all_parameters() -> None:
    parameters = {
        "prefix": "a/",
        "delimiter": "/",
        "max-keys": "5",
        "marker": "a/m",
        "start-after": "a/s",
        "encoding-type": "url",
        "fetch-owner": "true",
    }
    common = {"prefix": "a/", "delimiter": "/", "max_keys": 5, "encoding_url": True, "fetch_owner": True}
    assert listing_of(parameters, 1) == Listing(version=1, after="a/m", **common)  # type: ignore[arg-type]
    assert listing_of(parameters, 2) == Listing(version=2, after="a/s", start_after="a/s", **common)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "amount"), [("0", 0), ("1000", 1000), ("1001", 1000), ("2147483647", 1000)])
def test_max_keys(text: str, amount: int) -> None:
    assert listing_of({"max-keys": text}, 2).max_keys == amount


@pytest.mark.parametrize("text", ["-1", "abc", "1.5", "2147483648", "9" * 5000, "\u0661", "+5", "-"])
def test_max_keys_that_are_refused(text: str) -> None:
    assert _refused({"max-keys": text}).fields["ArgumentName"] == "max-keys"


def test_an_unknown_encoding_is_refused() -> None:
    assert _refused({"encoding-type": "base64"}).message == "Invalid Encoding Method specified in Request"


_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(_KEYS.filter(bool), _KEYS)
def test_a_token_leads_to_the_next_page(position: str, start_after: str) -> None:
    page = _parsed(listing_document("b", listing_of({}, 2), [], [], position), 2)
    assert page["IsTruncated"]
    token = page["NextContinuationToken"]
    assert token.isascii()
    parameters = {"continuation-token": token, "start-after": start_after, "encoding-type": "url"}
    listing = listing_of(parameters, 2)
    assert (listing.after, listing.token) == (position, token)
    assert _parsed(listing_document("b", listing, [], [], ""), 2)["ContinuationToken"] == token


@pytest.mark.parametrize("token", ["abc", "a", "bWFpbg==", "MTr_", "\u0661", "1:main"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    assert _refused({"continuation-token": token}).message == "The continuation token provided is incorrect"


@given(st.text())
def test_any_token_is_read_or_refused(token: str) -> None:
    with suppress(S3Error):
        assert listing_of({"continuation-token": token}, 2).token == token


def test_an_empty_token_begins_at_the_start() -> None:
    listing = listing_of({"continuation-token": "", "start-after": "m"}, 2)
    assert (listing.after, listing.token) == ("m", "")


_OBJECT = ListedObject("a/b.csv", 5, "5d41402abc4b2a76b9719d911017c592", 1369353600)


def test_a_document_of_version_2() -> None:
    listing = Listing(version=2, prefix="a/", delimiter="/", max_keys=2, after="a/a", start_after="a/a")
    document = listing_document("sales", listing, [_OBJECT], ["a/c/"], "a/c/")
    assert document.decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>sales</Name><Prefix>a/</Prefix>'
        "<KeyCount>2</KeyCount><StartAfter>a/a</StartAfter><NextContinuationToken>MTphL2Mv</NextContinuationToken>"
        "<MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated>"
        "<Contents><Key>a/b.csv</Key><LastModified>2013-05-24T00:00:00.000Z</LastModified>"
        "<ETag>&quot;5d41402abc4b2a76b9719d911017c592&quot;</ETag><Size>5</Size><StorageClass>STANDARD</StorageClass></Contents>"
        "<CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes></ListBucketResult>"
    )


def test_a_document_of_version_1() -> None:
    listing = listing_of({"marker": "a/a", "max-keys": "1", "prefix": "a/"}, 1)
    page = _parsed(listing_document("sales", listing, [_OBJECT], [], "a/b.csv"), 1)
    assert page["Marker"] == "a/a"
    assert page["IsTruncated"]
    assert "NextMarker" not in page
    assert page["Contents"] == [
        {
            "Key": "a/b.csv",
            "LastModified": datetime(2013, 5, 24, tzinfo=UTC),
            "ETag": '"5d41402abc4b2a76b9719d911017c592"',
            "Size": 5,
            "StorageClass": "STANDARD",
            "Owner": {"DisplayName": "graveler", "ID": "graveler"},
        }
    ]
    listing = listing_of({"delimiter": "/"}, 1)
    assert _parsed(listing_document("sales", listing, [_OBJECT], ["b/"], "b/"), 1)["NextMarker"] == "b/"
    assert "NextMarker" not in _parsed(listing_document("sales", listing, [_OBJECT], ["b/"], ""), 1)


def test_an_empty_page() -> None:
    for version in (1, 2):
        page = _parsed(listing_document("sales", listing_of({"max-keys": "0"}, version), [], [], ""), version)
        assert (page["IsTruncated"], page["MaxKeys"], page["Prefix"]) == (False, 0, "")
        assert "Contents" not in page
        assert "Delimiter" not in page
        assert page.get("KeyCount", 0) == 0


@given(st.lists(_KEYS, max_size=4), st.lists(_KEYS, max_size=4), _KEYS, _KEYS, _KEYS, st.sampled_from([1, 2]))
def test_botocore_reads_every_key(
    keys: Sequence[str], prefixes: Sequence[str], prefix: str, delimiter: str, after: str, version: int
) -> None:
    """With ``encoding-type=url``, which it asks for by itself."""
    parameters = {
        "prefix": prefix,
        "delimiter": delimiter,
        "marker": after,
        "start-after": after,
        "encoding-type": "url",
    }
    listing = listing_of(parameters, version)
    contents = [ListedObject(key, 1, "0" * 32, 0) for key in keys]
    page = _parsed(listing_document("b", listing, contents, prefixes, ""), version)
    context = {"encoding_type_auto_set": True}
    (decode_list_object if version == 1 else decode_list_object_v2)(page, context)
    assert [item["Key"] for item in page.get("Contents", [])] == keys
    assert [item["Prefix"] for item in page.get("CommonPrefixes", [])] == prefixes
    if version == 2:  # of version 1 it decodes the marker only
        assert page["Prefix"] == prefix
        assert page.get("Delimiter", "") == delimiter
    assert page["Marker" if version == 1 else "StartAfter"] == after


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")))
def test_keys_without_control_characters_need_no_encoding(key: str) -> None:
    listing = Listing(version=2, prefix=key)
    page = _parsed(listing_document("b", listing, [ListedObject(key, 1, "", 0)], [key], ""), 2)
    assert (page["Contents"][0]["Key"], page["CommonPrefixes"][0]["Prefix"], page["Prefix"]) == (key, key, key)


def test_keys_with_control_characters_are_never_other_keys() -> None:
    """XML 1.0 has no place for them, so a parser refuses the document."""
    document = listing_document("b", Listing(version=2), [ListedObject("a\x01b", 1, "", 0)], [], "")
    with pytest.raises(ParseError):
        fromstring(document)
    document = listing_document("b", Listing(version=2), [ListedObject("a\rb", 1, "", 0)], [], "")
    assert _parsed(document, 2)["Contents"][0]["Key"] == "a\rb"


@given(st.integers(min_value=-62_135_596_800, max_value=253_402_300_799))
def test_times(seconds: int) -> None:
    whole = datetime.fromtimestamp(0, UTC).fromisoformat(iso_time(seconds))
    assert int(whole.timestamp()) == seconds
    assert iso_time(10**15) == "9999-12-31T23:59:59.000Z"
