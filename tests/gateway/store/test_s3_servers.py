"""Servers of a bucket: addresses, redirects, proxies, certificates and credentials."""

import asyncio
import json
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import UnavailableError
from graveler.gateway.store.port import Bytes
from graveler.gateway.store.s3_credentials import S3Credentials
from graveler.gateway.store.s3_origins import locate
from graveler.gateway.store.stores import ByteStores
from graveler.server.threads import Threads
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.objects.s3_signature import Keys, S3Signer, target_of
from tests.gateway.store.faulty import DATA, ONCE, PATH, Run, Work, in_store, put, store_of
from tests.gateway.store.scripted_s3 import (
    CHUNK,
    Request,
    ScriptedS3,
    make_certificate,
    refuse,
    reset,
    scripted_s3,
)
from tests.gateway.store.stores import contents
from tests.storage.adapters import CREDENTIALS
from tests.support.servers import REGION


def test_an_unreachable_store(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        port, server.port = server.port, 1
        disk = Threads("disk", 1)
        with pytest.raises(UnavailableError, match=r"cannot be reached.*127\.0\.0\.1:1"):
            await store_of(ByteStores(disk), server).read("a", 0, 10)
        server.port = port
        disk.close()

    run(work)


def test_a_temporary_redirect_is_followed(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async with scripted_s3() as other:
            other.objects[PATH] = DATA
            server.will(*[refuse(307, "TemporaryRedirect", location=f"{other.url}{PATH}")] * 2)
            assert await store.read("a", 0, 10) == DATA[:10]
            await put(store, DATA[:100])
            assert other.objects["/bucket/lake/new"] == DATA[:100]
            assert other.requests[0].headers["host"] == f"127.0.0.1:{other.port}"
            assert await store.read("a", 0, 10) == DATA[:10]
            assert (len(server.requests), len(other.requests)) == (3, 2)

    run(work, ONCE)


def test_redirects_that_lead_nowhere(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        for location in ("", "/bucket/lake/a", "ftp://elsewhere/a"):
            server.will(refuse(307, "TemporaryRedirect", location=location))
            with pytest.raises(UnavailableError, match="TemporaryRedirect"):
                await store.read("a", 0, 10)
        server.will(*[refuse(307, "TemporaryRedirect", location=f"{server.url}{PATH}")] * 2)
        with pytest.raises(UnavailableError, match="TemporaryRedirect"):
            await store.read("a", 0, 10)

    run(work)


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    certificate, public = make_certificate(tmp_path), str(tmp_path / "public.pem")

    async def trusted(server: ScriptedS3, store: Bytes) -> None:
        assert await contents(await store.read("a", 0, len(DATA))) == DATA
        await put(store, DATA)
        assert server.objects["/bucket/lake/new"] == DATA
        assert server.connections == 1

    async def distrusted(server: ScriptedS3, store: Bytes) -> None:
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            await store.read("a", 0, 10)
        assert server.requests == []

    async def with_server(work: Work) -> None:
        async with scripted_s3(certificate) as server:
            server.begin({PATH: DATA})
            await in_store(server, work)

    with patch.dict(os.environ, {"AWS_CA_BUNDLE": public}):
        asyncio.run(with_server(trusted))
    asyncio.run(with_server(distrusted))


def test_expired_credentials_are_looked_up_again(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        async def expired(request: Request) -> None:
            os.environ["AWS_ACCESS_KEY_ID"] = "renewed"
            await refuse(400, "ExpiredToken")(request)

        server.will(expired)
        assert await store.read("a", 0, 10) == DATA[:10]
        keys = [request.headers["authorization"].partition("Credential=")[2][:7] for request in server.requests]
        assert keys == [CREDENTIALS["AWS_ACCESS_KEY_ID"][:7], "renewed"]
        server.will(*[refuse(400, "ExpiredToken")] * 2)
        with pytest.raises(UnavailableError, match="credentials have expired"):
            await store.read("a", 0, 10)
        assert len(server.requests) == 4

    run(work, ONCE)


def test_credentials_are_renewed_in_the_background_before_they_end(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        answers = 0

        async def answer(request: Request) -> None:
            nonlocal answers
            answers += 1
            end = datetime.now(UTC) + timedelta(minutes=12 if answers < 3 else 60)
            document = {"AccessKeyId": f"key{answers}", "SecretAccessKey": "secret", "Token": f"token{answers}"}
            request.send(200, json.dumps({**document, "Expiration": end.isoformat()}).encode())

        server.will(answer, answer, answer)
        os.environ.pop("AWS_ACCESS_KEY_ID")
        os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url
        credentials = S3Credentials(REGION)
        old = await credentials.signer()
        assert old.sign("GET", "/", {})["x-amz-security-token"] == "token2"  # the SDK renews once when it looks them up
        assert await credentials.signer() is old
        while (signer := await credentials.signer()) is old:
            await asyncio.sleep(0)
        assert signer.sign("GET", "/", {})["x-amz-security-token"] == "token3"
        assert await credentials.signer() is signer
        assert answers == 3

    run(work)


def test_missing_credentials_are_named(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        os.environ.pop("AWS_ACCESS_KEY_ID")
        with pytest.raises(UnavailableError, match="no AWS credentials were found"):
            await store.read("a", 0, 10)
        assert server.requests == []

    run(work)


async def tunnel(request: Request) -> None:
    """Connect to the server that a client of a proxy names, and pass on all bytes."""
    assert request.method == "CONNECT"
    host, _, port = request.target.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pipe(request.reader, writer))
            group.create_task(_pipe(reader, request.writer))
    finally:
        writer.transport.abort()


async def _pipe(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    target.close()


def test_a_proxy_on_the_way(tmp_path: Path) -> None:
    certificate, public = make_certificate(tmp_path), str(tmp_path / "public.pem")

    async def work() -> None:
        async with scripted_s3() as proxy, scripted_s3(certificate) as server:
            proxy.will(tunnel, tunnel)
            os.environ["HTTPS_PROXY"] = f"http://me:p%40ss@127.0.0.1:{proxy.port}"
            server.begin({PATH: DATA})

            async def reads_and_writes(server: ScriptedS3, store: Bytes) -> None:
                assert await contents(await store.read("a", 0, len(DATA))) == DATA
                await put(store, DATA)
                assert server.objects["/bucket/lake/new"] == DATA
                server.will(reset)
                assert await store.read("a", 0, 10) == DATA[:10]

            await in_store(server, reads_and_writes)
            assert server.connections == len(proxy.requests) == 2
            assert proxy.requests[0].target == f"127.0.0.1:{server.port}"
            assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
            os.environ["no_proxy"] = "127.0.0.1"
            await in_store(server, reads_and_writes)
            assert len(proxy.requests) == 2

    with patch.dict(os.environ, {"AWS_CA_BUNDLE": public, "NO_PROXY": "", "no_proxy": ""}):
        asyncio.run(work())


def test_a_proxy_that_refuses(tmp_path: Path) -> None:
    certificate, public = make_certificate(tmp_path), str(tmp_path / "public.pem")

    async def work() -> None:
        async with scripted_s3() as proxy, scripted_s3(certificate) as server:
            proxy.will(*[refuse(407, "ProxyAuthenticationRequired")] * 4)
            os.environ["HTTPS_PROXY"] = f"127.0.0.1:{proxy.port}"
            disk = Threads("disk", 1)
            with pytest.raises(UnavailableError, match="the proxy refuses a connection with status 407"):
                await store_of(ByteStores(disk), server).read("a", 0, 10)
            disk.close()
            assert server.connections == 0

    with patch.dict(os.environ, {"AWS_CA_BUNDLE": public, "NO_PROXY": "", "no_proxy": ""}):
        asyncio.run(work())


def test_a_proxy_gets_whole_addresses_without_tls(run: Run) -> None:
    async def work(server: ScriptedS3, store: Bytes) -> None:
        os.environ["HTTP_PROXY"] = server.url.replace("//", "//me:pass@")
        settings = S3Settings(REGION, "http://store.test:9000", retries=ONCE)
        server.objects = {"http://store.test:9000/bucket/lake/a": DATA}
        disk = Threads("disk", 1)
        stores = ByteStores(disk)
        assert await stores.of(S3Objects("bucket", "lake", settings)).read("a", 0, 10) == DATA[:10]
        stores.close()
        disk.close()
        assert server.requests[0].headers["host"] == "store.test:9000"
        assert server.requests[0].headers["proxy-authorization"] == "Basic bWU6cGFzcw=="

    with patch.dict(os.environ, {"NO_PROXY": "", "no_proxy": ""}):
        run(work)


@pytest.mark.parametrize(
    ("bucket", "settings", "url", "region"),
    [
        ("bucket", S3Settings("eu-west-1"), "https://bucket.s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("bucket", S3Settings("us-east-1"), "https://bucket.s3.us-east-1.amazonaws.com", "us-east-1"),
        ("bucket", S3Settings("cn-north-1"), "https://bucket.s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        (
            "bucket.with.dots",
            S3Settings("eu-west-1"),
            "https://s3.eu-west-1.amazonaws.com/bucket.with.dots",
            "eu-west-1",
        ),
        ("bucket", S3Settings("r", "http://[::1]:9000"), "http://[::1]:9000/bucket", "r"),
        ("bucket", S3Settings("r", "https://store.test/s3"), "https://store.test/s3/bucket", "r"),
        ("bucket", S3Settings("r", "https://store.test", path_style=False), "https://bucket.store.test", "r"),
    ],
)
def test_a_bucket_is_where_boto3_says(bucket: str, settings: S3Settings, url: str, region: str) -> None:
    origin, actual_region, _ = locate(S3Objects(bucket, "lake ü+", settings))
    assert (origin.url, actual_region) == (url, region)


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    st.dictionaries(
        st.sampled_from(["uploadId", "partNumber", "x"]), st.text(st.characters(exclude_categories=["Cs"]))
    ),
    st.sampled_from(["", "the token+/="]),
)
def test_signatures_are_those_of_the_sdk(key: str, query: dict[str, str], token: str) -> None:
    keys = Keys("AKIAEXAMPLE", "secret+/", token)
    target = target_of("/bucket", key, list(query.items()))
    headers = {"host": "store.test:9000", "x-amz-checksum-crc32": "rfPzUw==", "range": "bytes=0-1"}
    signed = S3Signer(keys, "eu-west-1").sign("PUT", target, headers, 1_790_000_000)
    request = AWSRequest(
        "PUT", f"http://store.test:9000{target}", headers={**headers, "X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
    )
    request.headers["X-Amz-Date"] = request.context["timestamp"] = signed["x-amz-date"]
    if token:
        request.headers["X-Amz-Security-Token"] = token
    reference = S3SigV4Auth(Credentials(keys.access_key, keys.secret_key, token or None), "s3", "eu-west-1")
    del request.headers["range"]  # it is not signed
    text = reference.string_to_sign(request, reference.canonical_request(request))
    assert signed["authorization"].endswith(f"Signature={reference.signature(text, request)}")
