"""Requests on the wire: what a gateway refuses, what the client is told, and what the connection is good for afterwards."""

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from graveler.gateway.control import REGION, Mount
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from tests.gateway.support import KEYS, GatewayProcess, running_gateway
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class _Unsigned(S3SigV4Auth):
    def payload(self, _: AWSRequest) -> str:
        return "UNSIGNED-PAYLOAD"


class _Trailing(S3SigV4Auth):
    def payload(self, _: AWSRequest) -> str:
        return "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def signed(
    gateway: GatewayProcess,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
) -> dict[str, str]:
    """The headers of a request, signed without its body."""
    request = AWSRequest(method, f"http://{host}:{gateway.port}{path}", headers=dict(headers or {}))
    _Unsigned(Credentials(KEYS.id, KEYS.secret), "s3", REGION).add_auth(request)
    return {"Host": f"{host}:{gateway.port}", "Connection": "close", **dict(request.headers)}


def exchanged(gateway: GatewayProcess, *parts: bytes) -> bytes:
    """What comes back over one connection for these bytes, until the gateway closes it."""
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def head_of(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()


def codes(answer: bytes) -> list[tuple[int, str]]:
    """Status and S3's code of each response."""
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)]
    named = [code.decode() for code in re.findall(rb"<Code>(\w+)</Code>", answer)]
    return list(zip(statuses, [*named, *[""] * len(statuses)], strict=False))


def test_a_body_after_a_refusal_is_not_the_next_request(gateway: GatewayProcess) -> None:
    body = b"GET /sales/stolen HTTP/1.1\r\nHost: x\r\n\r\n"
    head = head_of("PUT", "/unknown/x", signed(gateway, "PUT", "/unknown/x", {"content-length": str(len(body))}))
    assert codes(exchanged(gateway, head, body)) == [(404, "NoSuchBucket")]


def test_a_client_that_waits_for_100_is_refused_before_its_body(gateway: GatewayProcess) -> None:
    headers = signed(gateway, "PUT", "/unknown/x", {"content-length": "5000000000", "expect": "100-continue"})
    answer = exchanged(gateway, head_of("PUT", "/unknown/x", headers))
    assert codes(answer) == [(404, "NoSuchBucket")]
    assert b"connection: close" in answer


@pytest.mark.parametrize(("sent", "declared"), [(5, 10), (0, 10), (300_000, 400_000)])
def test_a_body_that_is_cut_short_is_not_an_object(
    gateway: GatewayProcess, s3: "S3Client", repository: OpenRepository, sent: int, declared: int
) -> None:
    headers = signed(gateway, "PUT", "/sales/cut", {"content-length": str(declared)})
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as connection:
        connection.sendall(head_of("PUT", "/sales/cut", headers) + b"x" * sent)
    s3.head_bucket(Bucket="sales")
    assert not repository.list_objects("main", prefix="cut").results


def test_a_body_that_began_in_another_repository_of_this_name_is_no_object(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://first")
        with running_gateway(tmp_path / "lake", Mount(bucket="sales", repository="sales", ref="main")) as gateway:
            headers = signed(gateway, "PUT", "/sales/late", {"content-length": "10", "expect": "100-continue"})
            with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as connection:
                connection.sendall(head_of("PUT", "/sales/late", headers))
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100")  # it has chosen an address for the bytes
                lake.delete_repository("sales")
                lake.create_repository("sales", "local://second")
                connection.sendall(b"0123456789")
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert codes(answer) == [(503, "ServiceUnavailable")]
        assert not lake.repository("sales").list_objects("main").results


@pytest.mark.parametrize("declared", [4, 1000])
def test_a_body_that_is_refused_midway_has_a_whole_response(gateway: GatewayProcess, declared: int) -> None:
    headers = {
        "x-amz-decoded-content-length": str(declared),
        "content-encoding": "aws-chunked",
        "content-length": "999",
    }
    request = AWSRequest("PUT", f"{gateway.url}/sales/midway", headers=headers)
    _Trailing(Credentials(KEYS.id, KEYS.secret), "s3", REGION).add_auth(request)
    head = head_of("PUT", "/sales/midway", {"Host": f"127.0.0.1:{gateway.port}", **dict(request.headers)})
    answer = exchanged(gateway, head, b"5;unknown=extension\r\nhello\r\n" + b"x" * 500)
    assert codes(answer) == [(400, "IncompleteBody")]
    assert answer.endswith(b"</Error>")


def test_nobody_is_anonymous(gateway: GatewayProcess) -> None:
    answer = exchanged(gateway, head_of("GET", "/sales/x", {"Host": "localhost", "Connection": "close"}))
    assert codes(answer) == [(403, "AccessDenied")]


def test_an_object_that_is_damaged_is_not_sent_as_whole(
    gateway: GatewayProcess, s3: "S3Client", repository: OpenRepository
) -> None:
    s3.put_object(Bucket="sales", Key="damaged", Body=b"x" * 300_000)
    entry = repository.stat("main", "damaged")
    if not entry.address.startswith("local://"):
        repository.store_at(entry.address)[0].delete(repository.store_at(entry.address)[1])
        headers = signed(gateway, "GET", "/sales/damaged")
        assert codes(exchanged(gateway, head_of("GET", "/sales/damaged", headers))) == [(403, "InvalidObjectState")]
        return
    path = Path(repository.native("main", entry))
    path.write_bytes(b"x" * 1000)
    headers = signed(gateway, "GET", "/sales/damaged")
    assert codes(exchanged(gateway, head_of("GET", "/sales/damaged", headers))) == [(500, "InternalError")]
    path.unlink()
    assert codes(exchanged(gateway, head_of("GET", "/sales/damaged", headers))) == [(403, "InvalidObjectState")]


def test_the_bucket_may_stand_in_the_host(gateway: GatewayProcess, s3: "S3Client") -> None:
    s3.put_object(Bucket="sales", Key="by host", Body=b"y")
    headers = signed(gateway, "GET", "/by%20host", host="sales.localhost")
    answer = exchanged(gateway, head_of("GET", "/by%20host", headers))
    assert codes(answer) == [(200, "")]
    assert answer.endswith(b"y")
