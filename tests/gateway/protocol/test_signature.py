"""Signatures of requests: those of AWS's documentation and of botocore hold, and no others."""

import time
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.signature import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_AND_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_AND_TRAILER,
    Payload,
    claim_of,
    verify,
)
from tests.gateway.protocol.support import (
    EMPTY_SHA256,
    KEY_ID,
    NOW,
    SECRET,
    head_of,
    presigned_by_botocore,
    signed_by_botocore,
)

_HOST = "https://examplebucket.s3.amazonaws.com"
_SCOPE = "20130524/us-east-1/s3/aws4_request"


def _checked(head: Head, now: float = NOW, secret: str = SECRET) -> Payload:
    return verify(head, claim_of(head), secret, now)


def _refused(head: Head, now: float = NOW, secret: str = SECRET) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        _checked(head, now, secret)
    return refusal.value


def _documented(
    method: str, path: str, headers: Mapping[str, str], signature: str, content_sha256: str = EMPTY_SHA256
) -> Head:
    """Return an example of "Signature Calculations for the Authorization Header" in the Amazon S3 API reference."""
    every = dict(headers) | {"x-amz-content-sha256": content_sha256, "x-amz-date": "20130524T000000Z"}
    names = ";".join(sorted({"host", *(name.lower() for name in every)}))
    every["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{_SCOPE},SignedHeaders={names},Signature={signature}"
    )
    return head_of(method, f"{_HOST}{path}", every)


_GET = _documented(
    "GET", "/test.txt", {"Range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
)
_PUT = _documented(
    "PUT",
    "/test%24file.text",
    {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
)
_LIFECYCLE = _documented("GET", "/?lifecycle", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
_LIST = _documented(
    "GET", "/?max-keys=2&prefix=J", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
)
_PRESIGNED = head_of(
    "GET",
    f"{_HOST}/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={KEY_ID}%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    {},
)


@pytest.mark.parametrize("head", [_GET, _PUT, _LIFECYCLE, _LIST, _PRESIGNED])
def test_the_documented_examples_hold(head: Head) -> None:
    payload = _checked(head)
    assert payload.content_sha256 == head.headers.get("x-amz-content-sha256", UNSIGNED)
    assert (payload.scope, payload.instant) == (_SCOPE, "20130524T000000Z")


@pytest.mark.parametrize("head", [_GET, _PUT, _LIFECYCLE, _LIST, _PRESIGNED])
def test_another_secret_does_not_match(head: Head) -> None:
    error = _refused(head, secret=f"{SECRET}x")
    assert (error.code, error.status) == ("SignatureDoesNotMatch", 403)
    assert error.fields["AWSAccessKeyId"] == KEY_ID
    assert error.fields["StringToSign"].startswith(f"AWS4-HMAC-SHA256\n20130524T000000Z\n{_SCOPE}\n")
    assert error.fields["CanonicalRequest"].startswith(f"{head.method}\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "DELETE"},
        {"path": "/test.txt2"},
        {"query": "max-keys=3&prefix=J"},
        {"query": "max-keys=2&prefix=J&acl"},
    ],
)
def test_a_changed_request_does_not_match(changes: Mapping[str, str]) -> None:
    assert _refused(msgspec.structs.replace(_LIST, **changes)).code == "SignatureDoesNotMatch"


def test_a_changed_header_does_not_match() -> None:
    head = msgspec.structs.replace(_GET, headers=dict(_GET.headers) | {"range": "bytes=0-99"})
    assert _refused(head).code == "SignatureDoesNotMatch"


_KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
_VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)


@given(
    st.sampled_from(["GET", "PUT", "HEAD", "DELETE", "POST"]),
    _KEYS,
    st.dictionaries(_KEYS.filter(bool), _KEYS, max_size=5),
    st.dictionaries(
        st.sampled_from(["x-amz-meta-a", "content-type", "range", "x-amz-copy-source"]), _VALUES, max_size=4
    ),
    st.booleans(),
)
def test_botocore_signs_what_holds(
    method: str, key: str, parameters: Mapping[str, str], headers: Mapping[str, str], presign: bool
) -> None:
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())
    url = f"http://localhost:9000/lake/{quote(key)}?{query}"
    presigned, signed = (
        presigned_by_botocore(method, url, headers, 60),
        signed_by_botocore(method, url, headers, b"abc"),
    )
    head = presigned if presign else signed
    assert _checked(head, time.time()).content_sha256 == (UNSIGNED if presign else sha256(b"abc").hexdigest())
    assert _refused(msgspec.structs.replace(head, path=f"{head.path}x"), time.time()).code == "SignatureDoesNotMatch"


def test_a_path_that_is_no_text_is_named() -> None:
    head = signed_by_botocore("GET", "http://localhost/lake/%EF%BF%BD", {})
    assert _checked(head, time.time()).content_sha256 == EMPTY_SHA256
    error = _refused(signed_by_botocore("GET", "http://localhost/lake/%FF", {}), time.time())
    assert (error.code, error.status) == ("InvalidURI", 400)


def test_a_session_token_is_part_of_the_claim() -> None:
    head = signed_by_botocore("GET", "http://localhost/lake/a", {}, token="token+/=")
    assert claim_of(head).session_token == "token+/="
    assert _checked(head, time.time()).content_sha256 == EMPTY_SHA256


def test_the_spelling_of_the_query_does_not_matter() -> None:
    head = signed_by_botocore("GET", "http://localhost/lake?prefix=a%2Fb%20c~&max-keys=2&delimiter=%2F", {})
    respelled = msgspec.structs.replace(head, query="max-keys=2&&delimiter=/&prefix=%61%2fb+c%7E")
    assert _checked(respelled, time.time()).content_sha256 == EMPTY_SHA256


@pytest.mark.parametrize("separator", [", ", ",", " , "])
def test_separators_of_the_components(separator: str) -> None:
    authorization = _GET.headers["authorization"].replace(",", separator)
    head = msgspec.structs.replace(_GET, headers=dict(_GET.headers) | {"authorization": authorization})
    assert _checked(head).content_sha256 == EMPTY_SHA256


@pytest.mark.parametrize("skew", [-901, 901])
def test_a_skewed_clock(skew: int) -> None:
    assert _checked(_GET, NOW + skew - (1 if skew > 0 else -1)).seed == claim_of(_GET).signature
    error = _refused(_GET, NOW + skew)
    assert (error.code, error.status) == ("RequestTimeTooSkewed", 403)
    assert error.fields["RequestTime"] == "20130524T000000Z"
    assert error.fields["MaxAllowedSkewMilliseconds"] == "900000"


def test_a_presigned_url_expires() -> None:
    assert _checked(_PRESIGNED, NOW + 86400).content_sha256 == UNSIGNED
    error = _refused(_PRESIGNED, NOW + 86401)
    assert (error.code, error.message) == ("AccessDenied", "Request has expired")
    assert error.fields == {
        "X-Amz-Expires": "86400",
        "Expires": "2013-05-25T00:00:00Z",
        "ServerTime": "2013-05-25T00:00:01Z",
    }
    assert _refused(_PRESIGNED, NOW - 901).message == "Request is not valid yet"


def _with_parameter(name: str, value: str) -> Head:
    pairs = [pair for pair in _PRESIGNED.query.split("&") if not pair.startswith(f"{name}=")]
    return msgspec.structs.replace(_PRESIGNED, query="&".join([*pairs, f"{name}={value}"]))


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("X-Amz-Expires", "604801", "less than a week"),
        ("X-Amz-Expires", "-1", "non-negative"),
        ("X-Amz-Expires", "9" * 5000, "should be a number"),
        ("X-Amz-Expires", "1.5", "should be a number"),
        ("X-Amz-Expires", "\u0661", "should be a number"),
        ("X-Amz-Expires", "", "requires the X-Amz-Algorithm"),
        ("X-Amz-Signature", "", "requires the X-Amz-Algorithm"),
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA512", "only supports"),
        ("X-Amz-Date", "20130524T000000", "ISO8601"),
        ("X-Amz-Date", "20130524T250000Z", "ISO8601"),
        ("X-Amz-Date", "20130525T000000Z", "Invalid credential date"),
        ("X-Amz-Credential", "a/b", "the Credential is mal-formed"),
        ("X-Amz-Credential", "a/20130524/us-east-1/sts/aws4_request", "incorrect service"),
        ("X-Amz-Credential", "a/20130524/us-east-1/s3/aws3_request", "incorrect terminal"),
        ("X-Amz-Credential", "a/2013-5-24/us-east-1/s3/aws4_request", "incorrect date format"),
    ],
)
def test_malformed_presigned_urls(name: str, value: str, part: str) -> None:
    error = _refused(_with_parameter(name, value))
    assert (error.code, error.status) == ("AuthorizationQueryParametersError", 400)
    assert part in error.message


def _with_authorization(authorization: str, **headers: str) -> Head:
    return msgspec.structs.replace(_GET, headers=dict(_GET.headers) | {"authorization": authorization} | headers)


@pytest.mark.parametrize(
    ("authorization", "part"),
    [
        ("AWS4-HMAC-SHA256", "the authorization component '' is malformed"),
        ("AWS4-HMAC-SHA256 abc", "the authorization component 'abc' is malformed"),
        ("AWS4-HMAC-SHA256 SignedHeaders=host,Signature=0", "missing Credential"),
        (f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{_SCOPE},Signature=0", "missing SignedHeaders"),
        (f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{_SCOPE},SignedHeaders=host,Signature=", "missing Signature"),
        (f"AWS4-HMAC-SHA256 Credential={_SCOPE},SignedHeaders=host,Signature=0", "the Credential is mal-formed"),
        (f"AWS4-HMAC-SHA256 Credential=/{_SCOPE},SignedHeaders=host,Signature=0", "the Credential is mal-formed"),
        (
            "AWS4-HMAC-SHA256 Credential=a/20130525/r/s3/aws4_request,SignedHeaders=host,Signature=0",
            "Invalid credential date",
        ),
    ],
)
def test_malformed_authorizations(authorization: str, part: str) -> None:
    error = _refused(_with_authorization(authorization))
    assert (error.code, error.status) == ("AuthorizationHeaderMalformed", 400)
    assert part in error.message


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (_with_authorization(f"AWS {KEY_ID}:frJIUN8DYpKDtOLCwo//yllqDzg="), "Signature Version 2"),
        (
            _with_authorization(f"AWS4-ECDSA-P256-SHA256 Credential={KEY_ID}/20130524/s3/aws4_request"),
            "Signature Version 4A",
        ),
        (
            Head("GET", "/a/b", f"AWSAccessKeyId={KEY_ID}&Expires=1141889120&Signature=vjby", {"host": "localhost"}),
            "Signature Version 2",
        ),
        (_with_parameter("X-Amz-Algorithm", "AWS4-ECDSA-P256-SHA256"), "Signature Version 4A"),
        (
            msgspec.structs.replace(
                _GET, headers=dict(_GET.headers) | {"x-amz-content-sha256": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}
            ),
            "Signature Version 4A",
        ),
    ],
)
def test_other_versions_are_refused_by_name(head: Head, part: str) -> None:
    error = _refused(head)
    assert (error.code, error.status) == ("InvalidRequest", 400)
    assert part in error.message


def test_other_authorizations() -> None:
    error = _refused(_with_authorization("Bearer secret-token"))
    assert (error.code, error.message) == ("InvalidArgument", "Unsupported Authorization Type")
    assert "secret-token" not in str(error.fields)


def test_anonymous_requests_are_refused() -> None:
    error = _refused(Head("GET", "/a/b", "list-type=2", {"host": "localhost"}))
    assert (error.code, error.status) == ("AccessDenied", 403)


def test_a_request_is_signed_once_only() -> None:
    head = msgspec.structs.replace(_GET, query=_PRESIGNED.query)
    assert "Only one auth mechanism allowed" in _refused(head).message


def test_headers_of_amazon_must_be_signed() -> None:
    error = _refused(msgspec.structs.replace(_GET, headers=dict(_GET.headers) | {"x-amz-acl": "private"}))
    assert (error.code, error.status, error.fields) == ("AccessDenied", 403, {"HeadersNotSigned": "x-amz-acl"})
    error = _refused(msgspec.structs.replace(_PRESIGNED, headers={"host": "localhost", "x-amz-meta-a": "b"}))
    assert error.fields == {"HeadersNotSigned": "x-amz-meta-a"}
    error = _refused(_with_parameter("X-Amz-SignedHeaders", "date"))
    assert error.fields == {"HeadersNotSigned": "host"}


def test_a_signed_header_must_arrive() -> None:
    headers = {name: value for name, value in _GET.headers.items() if name != "range"}
    assert "'range' did not arrive" in _refused(msgspec.structs.replace(_GET, headers=headers)).message


def test_the_hash_of_the_body_is_required() -> None:
    headers = {name: value for name, value in _GET.headers.items() if name != "x-amz-content-sha256"}
    error = _refused(msgspec.structs.replace(_GET, headers=headers))
    assert error.message == "Missing required header for this request: x-amz-content-sha256"


@pytest.mark.parametrize("value", ["", "abc", EMPTY_SHA256.upper(), "STREAMING-AWS4-HMAC-SHA512-PAYLOAD"])
def test_the_hash_of_the_body_must_be_one(value: str) -> None:
    error = _refused(msgspec.structs.replace(_GET, headers=dict(_GET.headers) | {"x-amz-content-sha256": value}))
    assert (error.code, error.fields["ArgumentName"]) == ("InvalidArgument", "x-amz-content-sha256")


@pytest.mark.parametrize(
    "date", ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 02:00:00 +0200", "20130524T000000Z"]
)
def test_the_date_may_be_that_of_http(date: str) -> None:
    headers = {name: value for name, value in _GET.headers.items() if name != "x-amz-date"}
    assert claim_of(msgspec.structs.replace(_GET, headers=headers | {"date": date})).instant == "20130524T000000Z"


@pytest.mark.parametrize(
    "date", ["", "yesterday", "20130524", "Fri, 99 May 2013 00:00:00 GMT", "Fri, 24 May 2013 99:00:00 GMT"]
)
def test_a_request_without_a_date(date: str) -> None:
    headers = {name: value for name, value in _GET.headers.items() if name != "x-amz-date"}
    error = _refused(msgspec.structs.replace(_GET, headers=headers | {"date": date}))
    assert error.message == "AWS authentication requires a valid Date or x-amz-date header"
    assert _refused(msgspec.structs.replace(_GET, headers=headers | {"x-amz-date": date})).code == "AccessDenied"


@pytest.mark.parametrize(
    ("kind", "signed_chunks", "trailer"),
    [
        (SIGNED_CHUNKS, True, False),
        (SIGNED_CHUNKS_AND_TRAILER, True, True),
        (UNSIGNED_CHUNKS_AND_TRAILER, False, True),
    ],
)
def test_kinds_of_chunked_bodies(kind: str, signed_chunks: bool, trailer: bool) -> None:
    payload = Payload(kind, b"", "", "", "")
    assert payload.is_chunked
    assert (payload.has_signed_chunks, payload.has_trailer) == (signed_chunks, trailer)
    assert not Payload(UNSIGNED, b"", "", "", "").is_chunked


@given(st.text(max_size=200), st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5))
def test_no_claim_breaks_the_parser(authorization: str, parameters: Mapping[str, str]) -> None:
    query = "&".join(
        f"{quote(name, errors='replace')}={quote(value, errors='replace')}" for name, value in parameters.items()
    )
    for text in (authorization, f"AWS4-HMAC-SHA256 {authorization}"):
        _refused(Head("GET", "/", query, {"authorization": text, "x-amz-date": "20130524T000000Z"}))
    _refused(Head("GET", "/", f"X-Amz-Algorithm=AWS4-HMAC-SHA256&{query}", {}))
