"""Bodies of requests: plain and aws-chunked, as AWS's documentation and botocore encode them, whole or damaged."""

import io
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5, sha256
from hmac import digest as hmac_digest
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import pytest
from botocore.httpchecksum import (
    AwsChunkedWrapper,
    BaseChecksum,
    Crc32Checksum,
    Sha1Checksum,
    Sha256Checksum,
    Sha512Checksum,
)
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.body import DOCUMENTS, MAX_DOCUMENT, MAX_OBJECT, OBJECTS, BodyDecoder
from graveler.gateway.protocol.checksums import ALGORITHMS, digest_of, encoded
from graveler.gateway.protocol.chunks import MAX_LINE, MAX_TRAILER
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
from tests.gateway.protocol.support import EMPTY_SHA256, KEY_ID, NOW, SECRET, head_of, signed_by_botocore

_BOTOCORE: Final[Mapping[str, type[BaseChecksum]]] = {
    "crc32": Crc32Checksum,
    "sha1": Sha1Checksum,
    "sha256": Sha256Checksum,
    "sha512": Sha512Checksum,
}
"""Botocore's own checksums. It takes the others from awscrt, by which it would then sign too, and has none of MD5."""

_HELLO: Final[Mapping[str, str]] = {
    "crc32c": "mnG7TA==",
    "crc64nvme": "M3eFcAZSQlc=",
    "md5": "XUFAKrxLKna5cZ2REBfFkg==",
    "xxhash128": "tenBrQcbPn/Hec+qXlI4GA==",
    "xxhash3": "lVXoVVxi3P0=",
    "xxhash64": "JseCfYifbaM=",
}
"""The others of ``hello``: as awscrt 0.38.1 computes them, and MD5's as in its headers."""

_A: Final = b"a" * 66560
"""The object of AWS's examples."""

_SEED: Final = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
_TRAILER_SEED: Final = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"


def _decoder(headers: Mapping[str, str], content_sha256: str, **options: Any) -> BodyDecoder:
    return BodyDecoder(Head("PUT", "/a/b", "", headers), Payload(content_sha256, b"", "", "", ""), **options)


def _decode(decoder: BodyDecoder, pieces: Sequence[bytes]) -> bytes:
    data = b"".join(map(decoder.feed, pieces))
    decoder.finish()
    return data


def _refused(work: Callable[[], object]) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        work()
    return refusal.value


def _cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    positions = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[begin:end] for begin, end in pairwise(positions)]


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _example(seed: str, headers: Mapping[str, str]) -> tuple[Head, Payload]:
    """Return a documented example of an upload in chunks, verified."""
    every = {
        "x-amz-date": "20130524T000000Z",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        "Content-Encoding": "aws-chunked",
        "x-amz-decoded-content-length": "66560",
    } | dict(headers)
    names = ";".join(sorted({"host", *(name.lower() for name in every)}))
    every["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={KEY_ID}/20130524/us-east-1/s3/aws4_request,SignedHeaders={names},Signature={seed}"
    )
    head = head_of("PUT", "https://s3.amazonaws.com/examplebucket/chunkObject.txt", every)
    return head, verify(head, claim_of(head), SECRET, NOW)


def _signed_example() -> tuple[BodyDecoder, bytes]:
    head, payload = _example(_SEED, {"x-amz-content-sha256": SIGNED_CHUNKS, "Content-Length": "66824"})
    body = (
        b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n%b\r\n"
        b"400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n%b\r\n"
        b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
    ) % (_A[:65536], _A[65536:])
    assert len(body) == 66824
    return BodyDecoder(head, payload), body


def _trailer_example(trailer: bytes | None = None) -> tuple[BodyDecoder, bytes]:
    head, payload = _example(
        _TRAILER_SEED, {"x-amz-content-sha256": SIGNED_CHUNKS_AND_TRAILER, "x-amz-trailer": "x-amz-checksum-crc32c"}
    )
    whole = (
        b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
        b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
    )
    body = (
        b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n%b\r\n"
        b"400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n%b\r\n"
        b"0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n%b"
    ) % (_A[:65536], _A[65536:], whole if trailer is None else trailer)
    return BodyDecoder(head, payload), body


@given(st.lists(st.integers(min_value=0, max_value=10**6), max_size=12))
def test_the_documented_examples(places: Sequence[int]) -> None:
    decoder, body = _signed_example()
    assert _decode(decoder, _cut(body, places)) == _A
    assert (decoder.length, decoder.md5, decoder.checksums) == (66560, md5(_A).hexdigest(), {})
    decoder, body = _trailer_example()
    assert _decode(decoder, _cut(body, places)) == _A
    assert decoder.checksums == {"x-amz-checksum-crc32c": "sOO8/Q=="}
    assert decoder.declared is None


def test_pieces_of_one_byte() -> None:
    decoder, body = _trailer_example()
    assert _decode(decoder, [body[index : index + 1] for index in range(len(body))]) == _A


@given(st.data())
def test_a_signed_body_with_any_other_byte_is_refused(data: st.DataObject) -> None:
    decoder, body = data.draw(st.sampled_from([_signed_example, _trailer_example]))()
    framing = [index for index in range(len(body)) if not 200 < index < 65000]
    index, byte = data.draw(st.sampled_from(framing)), data.draw(st.integers(min_value=0, max_value=255))
    damaged = body[:index] + bytes([byte]) + body[index + 1 :]
    if damaged.lower() != body.lower():
        with pytest.raises(S3Error):
            _decode(decoder, [damaged])


@given(st.data())
def test_a_signed_body_that_is_cut_short_is_refused(data: st.DataObject) -> None:
    decoder, body = data.draw(st.sampled_from([_signed_example, _trailer_example]))()
    length = data.draw(st.one_of(st.integers(0, len(body) - 1), st.integers(len(body) - 300, len(body) - 1)))
    assert _refused(lambda: _decode(decoder, [body[:length]])).code == "IncompleteBody"


def test_a_signature_of_a_chunk_that_does_not_match() -> None:
    decoder, body = _signed_example()
    error = _refused(lambda: _decode(decoder, [body.replace(b"aaa\r\n400", b"aab\r\n400")]))
    assert (error.code, error.status) == ("SignatureDoesNotMatch", 403)
    assert "signature of chunk 1 " in error.message


def test_minios_client_ends_a_trailer_with_an_extra_line() -> None:
    signature = b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
    decoder, body = _trailer_example(b"x-amz-checksum-crc32c:sOO8/Q==\n\r\n%b\r\n\r\n" % signature)
    assert _decode(decoder, [body]) == _A


@pytest.mark.parametrize(
    ("trailer", "code"),
    [
        (b"\r\n", "IncompleteBody"),
        (b"x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n", "IncompleteBody"),
        (
            b"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:%b\r\n\r\n" % (b"0" * 64),
            "SignatureDoesNotMatch",
        ),
        (b"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:\xff\r\n\r\n", "IncompleteBody"),
    ],
)
def test_a_signed_trailer_that_does_not_hold(trailer: bytes, code: str) -> None:
    decoder, body = _trailer_example(trailer)
    assert _refused(lambda: _decode(decoder, [body])).code == code


def _signed_chunks(payload: Payload, chunks: Sequence[bytes], trailer: Mapping[str, str]) -> bytes:
    """Encode as the documentation says; botocore does not sign chunks."""
    signature, body = payload.seed, b""

    def sign(kind: str, hashes: str) -> str:
        text = f"AWS4-HMAC-SHA256-{kind}\n{payload.instant}\n{payload.scope}\n{signature}\n{hashes}"
        return hmac_digest(payload.signing_key, text.encode(), "sha256").hex()

    for chunk in [*chunks, b""]:
        signature = sign("PAYLOAD", f"{EMPTY_SHA256}\n{sha256(chunk).hexdigest()}")
        body += b"%x;chunk-signature=%b\r\n%b" % (len(chunk), signature.encode(), chunk + b"\r\n" if chunk else b"")
    if payload.has_trailer:
        lines = "".join(f"{name}:{value}\n" for name, value in trailer.items())
        signature = sign("TRAILER", sha256(lines.encode()).hexdigest())
        body += lines.replace("\n", "\r\n").encode() + b"x-amz-trailer-signature:%b\r\n" % signature.encode()
    return body + b"\r\n"


_CHUNKS = st.lists(st.binary(min_size=1, max_size=40).map(lambda piece: piece * 8192), max_size=3)
_PLACES = st.lists(st.integers(min_value=0, max_value=10**7), max_size=8)


@given(_CHUNKS, st.binary(max_size=5000), _PLACES, st.sampled_from(sorted(ALGORITHMS)), st.booleans())
def test_signed_chunks_of_any_sizes(
    chunks: Sequence[bytes], last: bytes, places: Sequence[int], algorithm: str, trailing: bool
) -> None:
    data = b"".join(chunks) + last
    kind = SIGNED_CHUNKS_AND_TRAILER if trailing else SIGNED_CHUNKS
    name = f"x-amz-checksum-{algorithm}"
    digest = digest_of(algorithm)
    digest.update(data)
    headers = {"x-amz-content-sha256": kind, "x-amz-decoded-content-length": str(len(data))}
    headers |= {"x-amz-trailer": name} if trailing else {name: encoded(digest)}
    head = head_of("PUT", "http://localhost/a/b", headers)
    payload = Payload(kind, b"key", "20130524/r/s3/aws4_request", "20130524T000000Z", "0" * 64)
    body = _signed_chunks(payload, [*chunks, last] if last else chunks, {name: encoded(digest)})
    decoder = BodyDecoder(head, payload)
    assert _decode(decoder, _cut(body, places)) == data
    assert (decoder.md5, decoder.checksums) == (md5(data).hexdigest(), {name: encoded(digest)})


def _checksum_class(algorithm: str) -> type[BaseChecksum]:
    """Return botocore's class, or ours in place of one by awscrt: its chunks are tested here, values elsewhere."""

    class Awscrts(BaseChecksum):
        def __init__(self) -> None:
            self._digest = digest_of(algorithm)

        def update(self, chunk: Any) -> None:
            self._digest.update(chunk)

        def digest(self) -> bytes:
            return self._digest.digest()

    return _BOTOCORE.get(algorithm, Awscrts)


def _botocores(data: bytes, algorithm: str, chunk_size: int) -> tuple[dict[str, str], bytes]:
    """Return headers and body as botocore sends them over TLS."""
    name = f"x-amz-checksum-{algorithm}"
    wrapper = AwsChunkedWrapper(io.BytesIO(data), _checksum_class(algorithm), name, chunk_size)
    headers = {
        "x-amz-trailer": name,
        "x-amz-sdk-checksum-algorithm": algorithm.upper(),
        "x-amz-decoded-content-length": str(len(data)),
        "transfer-encoding": "chunked",
        "content-encoding": "aws-chunked",
    }
    return headers, wrapper.read()


@given(
    st.binary(max_size=60).map(lambda piece: piece * 1000),
    st.sampled_from(sorted(ALGORITHMS)),
    st.integers(min_value=8192, max_value=40000),
    _PLACES,
)
def test_botocores_chunks(data: bytes, algorithm: str, chunk_size: int, places: Sequence[int]) -> None:
    headers, body = _botocores(data, algorithm, chunk_size)
    decoder = _decoder(headers, UNSIGNED_CHUNKS_AND_TRAILER)
    assert _decode(decoder, _cut(body, places)) == data
    assert decoder.length == len(data)
    assert decoder.md5 == md5(data).hexdigest()
    assert list(decoder.checksums) == [f"x-amz-checksum-{algorithm}"]


@given(st.data(), st.sampled_from(sorted(ALGORITHMS)))
def test_botocores_chunks_with_any_other_byte_are_refused(data: st.DataObject, algorithm: str) -> None:
    headers, body = _botocores(b"The quick brown fox jumps over the lazy dog." * 500, algorithm, 8192)
    index, byte = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 255))
    damaged = body[:index] + bytes([byte]) + body[index + 1 :]
    if damaged.lower() != body.lower() and damaged.split() != body.split():
        with pytest.raises(S3Error):
            _decode(_decoder(headers, UNSIGNED_CHUNKS_AND_TRAILER), [damaged])


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_checksum_in_a_header(algorithm: str) -> None:
    digest = digest_of(algorithm)
    digest.update(b"hello")
    name = f"x-amz-checksum-{algorithm}"
    value = _BOTOCORE[algorithm]().handle(b"hello") if algorithm in _BOTOCORE else _HELLO[algorithm]
    decoder = _decoder({"content-length": "5", name: value}, UNSIGNED)
    declared = decoder.declared
    assert declared is not None
    assert (declared.name, declared.value) == (name, value)
    assert _decode(decoder, [b"hel", b"lo"]) == b"hello"
    assert decoder.checksums == {name: value}
    error = _refused(lambda: _decode(_decoder({"content-length": "5", name: value}, UNSIGNED), [b"hallo"]))
    assert (error.code, error.status) == ("BadDigest", 400)
    assert error.message == f"The {algorithm.upper()} you specified did not match the calculated checksum."


_CRC32: Final = _base64(crc32(b"hello").to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"x-amz-checksum-crc32": _CRC32, "x-amz-checksum-sha1": _base64(bytes(20))},
            "Expecting a single x-amz-checksum-",
        ),
        (
            {"x-amz-checksum-crc32": _CRC32, "x-amz-trailer": "x-amz-checksum-crc32"},
            "Expecting a single x-amz-checksum-",
        ),
        ({"x-amz-trailer": "x-amz-checksum-crc32, x-amz-checksum-sha1"}, "Expecting a single x-amz-checksum-"),
        ({"x-amz-checksum-crc32": "abc"}, "Value for x-amz-checksum-crc32 header is invalid"),
        ({"x-amz-checksum-crc32": "\u0661"}, "Value for x-amz-checksum-crc32 header is invalid"),
        ({"x-amz-checksum-crc32": ""}, "Value for x-amz-checksum-crc32 header is invalid"),
        ({"x-amz-checksum-sha1": _CRC32}, "Value for x-amz-checksum-sha1 header is invalid"),
        ({"x-amz-checksum-crc16": _CRC32}, "The algorithm type you specified"),
        ({"x-amz-trailer": "x-amz-checksum-crc16"}, "The value specified in the x-amz-trailer header is not supported"),
        ({"x-amz-trailer": "crc32"}, "The value specified in the x-amz-trailer header is not supported"),
        ({"x-amz-sdk-checksum-algorithm": "CRC32"}, "no corresponding x-amz-checksum-"),
        (
            {"x-amz-sdk-checksum-algorithm": "SHA1", "x-amz-checksum-crc32": _CRC32},
            "Value for x-amz-sdk-checksum-algorithm header is invalid",
        ),
    ],
)
def test_checksums_that_are_refused_before_the_body(headers: Mapping[str, str], message: str) -> None:
    error = _refused(lambda: _decoder(dict(headers) | {"content-length": "5"}, UNSIGNED))
    assert (error.code, error.status) == ("InvalidRequest", 400)
    assert message in error.message


def test_a_checksum_of_the_object_is_none_of_the_body() -> None:
    headers = {"content-length": "5", "x-amz-checksum-crc32": "AAAAAA==", "x-amz-checksum-type": "FULL_OBJECT"}
    decoder = _decoder(headers, UNSIGNED, limit=DOCUMENTS, checksum_is_of_body=False)
    assert _decode(decoder, [b"hello"]) == b"hello"
    assert (decoder.checksums, decoder.declared) == ({}, None)


def test_headers_about_checksums_are_none() -> None:
    headers = {"content-length": "5", "x-amz-checksum-type": "FULL_OBJECT", "x-amz-checksum-algorithm": "CRC32"}
    assert _decode(_decoder(headers, UNSIGNED), [b"hello"]) == b"hello"


_UNSIGNED_TRAILER: Final = b"x-amz-checksum-crc32:%b\r\n" % _CRC32.encode()


def _unsigned(body: bytes, length: str = "5", **headers: str) -> bytes:
    by_name = {"x-amz-decoded-content-length": length, "x-amz-trailer": "x-amz-checksum-crc32"}
    by_name |= {name.replace("_", "-"): value for name, value in headers.items()}
    decoder = _decoder({name: value for name, value in by_name.items() if value}, UNSIGNED_CHUNKS_AND_TRAILER)
    return _decode(decoder, [body])


def test_an_unsigned_body() -> None:
    assert _unsigned(b"5\r\nhello\r\n0\r\n%b\r\n" % _UNSIGNED_TRAILER) == b"hello"
    assert _unsigned(b"05\r\nhello\r\n0\r\nX-Amz-Checksum-CRC32 : %b \r\n\r\n" % _CRC32.encode()) == b"hello"
    assert _unsigned(b"5\r\nhello\r\n0\r\n\r\n", x_amz_trailer="") == b"hello"
    assert _unsigned(b"0\r\n\r\n", length="0", x_amz_trailer="") == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"5",
        b"5\r\nhel",
        b"5\r\nhello",
        b"5\r\nhello\r\n",
        b"5\r\nhello\r\n0\r\n",
        b"5\r\nhello\r\n0\r\n" + _UNSIGNED_TRAILER[:-2],
        b"5\r\nhello\r\n0\r\n" + _UNSIGNED_TRAILER,
        b"5\nhello\n0\n\n",
        b"5\r\nhellohello\r\n0\r\n\r\n",
        b"6\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5;chunk-signature=%b\r\nhello\r\n0\r\n\r\n" % (b"0" * 64),
        b"f" * 17 + b"\r\nhello\r\n",
        b"1" * (MAX_LINE + 1),
        b"hello",
    ],
)
def test_a_malformed_body_is_incomplete(body: bytes) -> None:
    error = _refused(lambda: _unsigned(body))
    assert (error.code, error.status) == ("IncompleteBody", 400)


@pytest.mark.parametrize("length", ["3", "4", "6", "500"])
def test_another_decoded_length(length: str) -> None:
    error = _refused(lambda: _unsigned(b"5\r\nhello\r\n0\r\n%b\r\n" % _UNSIGNED_TRAILER, length))
    assert error.code == "IncompleteBody"
    assert error.fields == {"NumberBytesExpected": length, "NumberBytesProvided": "5"}


@pytest.mark.parametrize(
    "trailer",
    [
        b"",
        b"x-amz-checksum-sha1:%b\r\n" % _base64(bytes(20)).encode(),
        _UNSIGNED_TRAILER * 2,
        _UNSIGNED_TRAILER + b"x-amz-meta-a:b\r\n",
        b"x-amz-checksum-crc32%b\r\n" % _CRC32.encode(),
        b":%b\r\n" % _CRC32.encode(),
        _UNSIGNED_TRAILER + b"x-amz-trailer-signature:%b\r\n" % (b"0" * 64),
        b"x" * (MAX_TRAILER + 1),
    ],
)
def test_a_trailer_that_is_not_the_announced_one(trailer: bytes) -> None:
    error = _refused(lambda: _unsigned(b"5\r\nhello\r\n0\r\n%b\r\n" % trailer))
    assert (error.code, error.status) == ("MalformedTrailerError", 400)


def test_a_trailer_that_was_not_announced() -> None:
    body = b"5\r\nhello\r\n0\r\n%b\r\n" % _UNSIGNED_TRAILER
    assert _refused(lambda: _unsigned(body, x_amz_trailer="")).code == "MalformedTrailerError"
    headers = {"x_amz_trailer": "", "x_amz_checksum_crc32": _CRC32}
    assert _refused(lambda: _unsigned(body, **headers)).code == "MalformedTrailerError"


def test_a_trailer_after_chunks_that_have_none() -> None:
    decoder, body = _signed_example()
    assert _refused(lambda: _decode(decoder, [body[:-2] + _UNSIGNED_TRAILER + b"\r\n"])).code == "MalformedTrailerError"


@pytest.mark.parametrize("kind", [SIGNED_CHUNKS, UNSIGNED, EMPTY_SHA256])
def test_a_trailer_that_cannot_follow(kind: str) -> None:
    headers = {"content-length": "5", "x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32"}
    assert _refused(lambda: _decoder(headers, kind)).code == "MalformedTrailerError"


def test_a_value_in_the_trailer_that_is_no_checksum() -> None:
    error = _refused(lambda: _unsigned(b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:abc\r\n\r\n"))
    assert error.message == "Value for x-amz-checksum-crc32 trailing header is invalid."
    error = _refused(lambda: _unsigned(b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"))
    assert error.code == "BadDigest"


def test_only_the_last_chunk_may_be_small() -> None:
    large, small = b"2000\r\n%b\r\n" % bytes(8192), b"5\r\nhello\r\n"
    assert _unsigned(b"%b%b0\r\n\r\n" % (large, small), "8197", x_amz_trailer="") == bytes(8192) + b"hello"
    error = _refused(lambda: _unsigned(b"%b%b0\r\n\r\n" % (small, large), "8197", x_amz_trailer=""))
    assert (error.code, error.status) == ("InvalidChunkSizeError", 403)
    assert error.fields == {"Chunk": "2", "BadChunkSize": "5"}


def test_a_plain_body() -> None:
    headers = {
        "content-length": "5",
        "content-md5": _base64(md5(b"hello").digest()),
        "x-amz-decoded-content-length": "77",
    }
    decoder = _decoder(headers, sha256(b"hello").hexdigest())
    assert _decode(decoder, [b"he", b"", b"llo"]) == b"hello"
    assert (decoder.length, decoder.md5, decoder.checksums) == (5, md5(b"hello").hexdigest(), {})


@pytest.mark.parametrize("body", [b"", b"hell", b"hello!"])
def test_a_plain_body_of_another_length(body: bytes) -> None:
    error = _refused(lambda: _decode(_decoder({"content-length": "5"}, UNSIGNED), [body]))
    assert (error.code, error.status) == ("IncompleteBody", 400)
    assert error.fields == {"NumberBytesExpected": "5", "NumberBytesProvided": str(len(body))}


def test_a_body_that_is_not_the_signed_one() -> None:
    head = signed_by_botocore("PUT", "http://localhost/a/b", {"Content-Length": "5"}, b"hello")
    payload = verify(head, claim_of(head), SECRET, time.time())
    assert _decode(BodyDecoder(head, payload), [b"hello"]) == b"hello"
    error = _refused(lambda: _decode(BodyDecoder(head, payload), [b"hallo"]))
    assert (error.code, error.status) == ("XAmzContentSHA256Mismatch", 400)
    assert error.fields == {
        "ClientComputedContentSHA256": sha256(b"hello").hexdigest(),
        "S3ComputedContentSHA256": sha256(b"hallo").hexdigest(),
    }


def test_content_md5() -> None:
    expected = _base64(md5(b"hello").digest())
    headers = {"content-length": "5", "content-md5": expected}
    assert _decode(_decoder(headers, UNSIGNED), [b"hello"]) == b"hello"
    error = _refused(lambda: _decode(_decoder(headers, UNSIGNED), [b"hallo"]))
    assert (error.code, error.status) == ("BadDigest", 400)
    assert error.fields == {"ExpectedDigest": expected, "CalculatedDigest": _base64(md5(b"hallo").digest())}
    body = b"5\r\nhallo\r\n0\r\n\r\n"
    assert _refused(lambda: _unsigned(body, x_amz_trailer="", content_md5=expected)).code == "BadDigest"


@pytest.mark.parametrize("value", ["", "abc", _CRC32, "\u0661" * 24, md5(b"hello").hexdigest()])
def test_a_content_md5_that_is_none(value: str) -> None:
    error = _refused(lambda: _decoder({"content-length": "5", "content-md5": value}, UNSIGNED))
    assert (error.code, error.status, error.fields) == ("InvalidDigest", 400, {"Content-MD5": value})


@pytest.mark.parametrize("length", [None, "", "abc", "-1", "1.5", "\u0661", "9" * 400, "5,5"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(UNSIGNED, "content-length"), (UNSIGNED_CHUNKS_AND_TRAILER, "x-amz-decoded-content-length")],
)
def test_a_body_needs_its_length(length: str | None, kind: str, name: str) -> None:
    other = {"content-length": "9", "x-amz-decoded-content-length": "9"}
    headers = {key: value for key, value in other.items() if key != name} | ({} if length is None else {name: length})
    error = _refused(lambda: _decoder(headers, kind))
    assert (error.code, error.status) == ("MissingContentLength", 411)


def test_limits() -> None:
    assert _decoder({"content-length": str(MAX_OBJECT)}, UNSIGNED).length == MAX_OBJECT
    error = _refused(lambda: _decoder({"content-length": str(MAX_OBJECT + 1)}, UNSIGNED, limit=OBJECTS))
    assert (error.code, error.fields["MaxSizeAllowed"]) == ("EntityTooLarge", "5368709120")
    headers = {"content-length": "1", "x-amz-decoded-content-length": str(MAX_DOCUMENT + 1)}
    error = _refused(lambda: _decoder(headers, UNSIGNED_CHUNKS_AND_TRAILER, limit=DOCUMENTS))
    assert error.code == "MaxMessageLengthExceeded"


@pytest.mark.parametrize("kind", [UNSIGNED, EMPTY_SHA256])
def test_chunks_that_the_signature_does_not_know(kind: str) -> None:
    """Their framing would become part of the object."""
    headers = {"content-length": "5", "content-encoding": "gzip, AWS-chunked"}
    assert _refused(lambda: _decoder(headers, kind)).fields["ArgumentName"] == "Content-Encoding"
