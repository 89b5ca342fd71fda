"""Buckets of S3 that a program reads beside its lake, with the rights of this process. Requests and responses pass as they are;
only the signature is ours."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from botocore.exceptions import ClientError
from msgspec.structs import replace

from graveler.gateway.control import S3Place
from graveler.gateway.exchange import Exchange, Traffic
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.s3_client import S3Attempts, S3Client, S3Request
from graveler.storage.aws_requests import FAILURES, explained
from graveler.storage.objects.s3 import S3Objects, S3Settings

_OBJECT: Final = frozenset(
    (
        "partNumber",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
        "versionId",
    )
)
_LISTING: Final = frozenset(
    (
        "continuation-token",
        "delimiter",
        "encoding-type",
        "fetch-owner",
        "list-type",
        "marker",
        "max-keys",
        "prefix",
        "start-after",
    )
)
_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "GetObject": _OBJECT,
    "HeadObject": _OBJECT,
    "ListObjects": _LISTING,
    "ListObjectsV2": _LISTING,
    "HeadBucket": frozenset(),
    "GetBucketLocation": frozenset(("location",)),
}
"""The operations, and the parameters of each that are passed on."""
_REQUEST_HEADERS: Final = frozenset(
    (
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "range",
        "x-amz-checksum-mode",
        "x-amz-expected-bucket-owner",
        "x-amz-optional-object-attributes",
        "x-amz-request-payer",
    )
)
_RESPONSE_HEADERS: Final = frozenset(
    (
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "expires",
        "last-modified",
    )
)
_SERVERS: Final = frozenset(("x-amz-id-2", "x-amz-request-id"))
"""Headers about a response of S3 itself: ours has its own."""


class SourceBuckets:
    """The buckets of ``places``, and a client for each, with ``settings``. Made in an event loop, and used in it alone."""

    def __init__(self, places: Iterable[S3Place], traffic: Traffic, settings: S3Settings | None = None) -> None:
        self._prefixes: defaultdict[str, list[str]] = defaultdict(list)
        for place in places:
            self._prefixes[place.bucket].append(place.prefix)
        self._traffic = traffic
        self._settings = settings or S3Settings()
        self._clients: dict[str, S3Client] = {}

    def __contains__(self, bucket: str) -> bool:
        return bucket in self._prefixes

    async def respond(self, exchange: Exchange) -> None:
        """Respond to a request of one of the buckets, as S3 does. One request of S3; a few if that fails. :class:`S3Error` with
        S3's own code, and ``AccessDenied`` for what is not only a read, or not below the prefix."""
        parameters = _PARAMETERS.get(exchange.operation)
        if parameters is None:
            raise S3Error(
                "AccessDenied",
                f"bucket {exchange.bucket!r} is not the lake's, and only read and listed here (`graveler run --also`); "
                f"{exchange.operation} is refused",
            )
        self._expect_below_prefix(exchange)
        request = S3Request(
            f"s3://{exchange.bucket}/{exchange.key}: {exchange.operation}",
            exchange.head.method,
            exchange.key,
            {name: value for name, value in exchange.headers.items() if name in _REQUEST_HEADERS},
            [(name, value) for name, value in exchange.parameters.items() if name in parameters],
        )
        try:
            client, connection = await self._sent(exchange.bucket, request)
        except ClientError as error:
            _pass_refusal(exchange, error)
            return
        headers = _passed(connection.headers)
        if exchange.head.method == "HEAD":
            client.release(request, connection)
            exchange.respond(connection.status, headers)
            return
        size = await exchange.respond_pieces(connection.status, headers, _Response(client, request, connection))
        if exchange.operation == "GetObject":
            self._traffic.read(size)

    def close(self) -> None:
        """Close the connections that are idle."""
        for client in self._clients.values():
            client.close()

    def _expect_below_prefix(self, exchange: Exchange) -> None:
        """Check that a key, or the prefix of a listing, is one that the program may read."""
        prefixes = self._prefixes[exchange.bucket]
        if exchange.key:
            name, text = "key", exchange.key
        elif exchange.operation.startswith("ListObjects"):
            name, text = "prefix", exchange.parameters.get("prefix", "")
        else:
            return
        if text.startswith(tuple(prefixes)):
            return
        if exchange.key and f"{text}/" in prefixes:
            raise S3Error("NoSuchKey", "The specified key does not exist.", {"Key": text})  # clients look for a folder
        raise S3Error(
            "AccessDenied",
            f"{name} {text!r} of bucket {exchange.bucket!r} does not begin with {' or '.join(map(repr, prefixes))}, below which "
            "this program may read it (`graveler run --also`)",
        )

    async def _sent(self, bucket: str, request: S3Request) -> tuple[S3Client, HttpConnection]:
        """Return a successful response, once its head is there, and the client that it came through. ClientError for S3's
        refusal."""
        client = self._client(bucket)
        attempts = S3Attempts(client, request)
        while True:
            attempts.begin()
            try:
                return client, await client.response(request, await client.begin(request, b""))
            except FAILURES as error:
                failure: Exception = error
            region = _region_of(failure)
            if region and region != client.settings.region:
                client.close()
                client = self._clients[bucket] = self._new_client(bucket, region)
                attempts = S3Attempts(client, request)
                continue
            try:
                await attempts.pause(failure)
            except ClientError:
                raise
            except FAILURES as error:
                raise explained(error, request.subject) from error

    def _client(self, bucket: str) -> S3Client:
        client = self._clients.get(bucket)
        if client is None:
            client = self._clients[bucket] = self._new_client(bucket, self._settings.region)
        return client

    def _new_client(self, bucket: str, region: str | None) -> S3Client:
        return S3Client(S3Objects(bucket, "", replace(self._settings, region=region), foreign=True))


class _Response:
    """The body of a response, as it comes. If it ends too early, so does the program's: it asks again for the rest."""

    def __init__(self, client: S3Client, request: S3Request, connection: HttpConnection) -> None:
        self._client = client
        self._request = request
        self._connection: HttpConnection | None = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._connection is not None
        try:
            while piece := await self._client.piece(self._request, self._connection):
                yield piece
        except FAILURES as error:
            raise explained(error, self._request.subject) from error

    async def aclose(self) -> None:
        """Keep the connection, if the body was read to its end; otherwise close it."""
        if self._connection is not None:
            self._client.release(self._request, self._connection)
            self._connection = None


def _region_of(error: Exception) -> str:
    """Return the region of a bucket that was asked for in another one; "" for any other error."""
    if not isinstance(error, ClientError):
        return ""
    metadata = error.response["ResponseMetadata"]
    elsewhere = metadata["HTTPStatusCode"] in (301, 400)
    return metadata["HTTPHeaders"].get("x-amz-bucket-region", "") if elsewhere else ""


def _pass_refusal(exchange: Exchange, error: ClientError) -> None:
    """Respond as S3 did. :class:`S3Error`, unless the client has the object already."""
    metadata, refusal = error.response["ResponseMetadata"], error.response["Error"]
    headers, status = _passed(metadata["HTTPHeaders"]), metadata["HTTPStatusCode"]
    if status == 304:
        exchange.respond(304, headers)
        return
    for name in ("content-length", "content-type"):
        headers.pop(name, None)
    raise S3Error(refusal["Code"], refusal["Message"], {"BucketName": exchange.bucket}, headers, status) from error


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response that are passed on: those of the object and of its bucket."""
    return {
        name: value
        for name, value in headers.items()
        if name in _RESPONSE_HEADERS or (name.startswith("x-amz-") and name not in _SERVERS)
    }
