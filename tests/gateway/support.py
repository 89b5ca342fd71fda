"""Gateways in processes of their own, and clients for them."""

import io
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graveler.gateway.control import (
    REGION,
    Closing,
    KeyPair,
    LakePlace,
    Location,
    Mount,
    Opening,
    Ready,
    S3Place,
    Tally,
    line_of,
    read_document,
)
from graveler.lake.opening.location import FolderLake
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

D = TypeVar("D")

KEYS: Final = KeyPair("AKIAJTESTTESTTESTTQ", "s" * 40)


class GatewayProcess:
    """A gateway that serves requests at :attr:`url`."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def client(self, keys: KeyPair = KEYS, region: str = REGION) -> "S3Client":
        """Return a client of boto3, which does not repeat what fails."""
        import boto3
        from botocore.config import Config

        client: S3Client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=keys.id,
            aws_secret_access_key=keys.secret,
            region_name=region,
            config=Config(retries={"total_max_attempts": 1}),
        )
        return client

    def close_for_writes(self, seconds: float = 10.0) -> Tally:
        """Let it refuse further writes, as at the end of a program; return what it has done."""
        return exchanged(self.process, Closing(close=seconds), Tally)


@contextmanager
def running_gateway(
    lake: Path | Location,
    *mounts: Mount,
    keys: KeyPair = KEYS,
    environment: Mapping[str, str] | None = None,
    also: tuple[S3Place, ...] = (),
) -> Iterator[GatewayProcess]:
    """Run a gateway for a lake until the end of the block."""
    location = FolderLake(lake) if isinstance(lake, Path) else lake
    opening = Opening(lake=LakePlace.of(location), mounts=mounts, keys=keys, user="ana", also=also)
    with subprocess.Popen(
        [sys.executable, "-m", "graveler.gateway"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            ready = exchanged(process, opening, Ready)
            assert not ready.error
            yield GatewayProcess(process, ready.port)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


def exchanged(process: "subprocess.Popen[bytes]", document: Opening | Closing, kind: type[D]) -> D:
    """Write a document to a gateway, and return its answer."""
    lines, answers = process.stdin, process.stdout
    assert lines is not None
    assert isinstance(answers, io.BufferedReader)
    lines.write(line_of(document))
    lines.flush()
    answer = read_document(answers, kind)
    assert answer is not None
    return answer


def code_of(error: BaseException) -> tuple[int, str]:
    """Return status and code of an error of boto3."""
    response: Any = getattr(error, "response")  # noqa: B009
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]
