"""Runs in processes of their own, as users start them, and small programs for them."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import graveler

_PROLOGUE = """
import os, signal, subprocess, sys, time
from pathlib import Path
import boto3
s3 = boto3.client("s3")
def put(key, text, bucket="sales"):
    s3.put_object(Bucket=bucket, Key=key, Body=text.encode())
def get(key, bucket="sales"):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
"""

JOINING = """
import json
from msgspec.structs import replace
from graveler.gateway.run.invitation import invitation_text, parse_invitation
import socket
with socket.create_server(("127.0.0.1", 0)) as probe:
    port = probe.getsockname()[1]
token = os.environ["GRAVELER_JOIN_TOKEN"]
def joined(token, **options):
    environment = {**os.environ, **json.loads(os.environ.get("OTHER_HOST", "{}")), "GRAVELER_JOIN_TOKEN": token}
    process = subprocess.Popen(
        [sys.executable, "-m", "graveler", "gateway", "--join"], env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
    )
    return process, process.stderr.readline().rstrip()
waiting, sentence = joined(token, stdin=subprocess.PIPE)
print(sentence.partition("; ")[2])
waiting.stdin.close()
print(waiting.wait())
idle, _ = joined(token, stdin=subprocess.DEVNULL)
process, sentence = joined(invitation_text(replace(parse_invitation(token), port=port)), stdin=subprocess.DEVNULL)
print(sentence.partition(" ")[0])
there = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}")
put("a", "here")
there.put_object(Bucket="sales", Key="b", Body=there.get_object(Bucket="sales", Key="a")["Body"].read() + b" and there")
for first, second in ((s3, there), (there, s3)):
    upload = {"Bucket": "sales", "Key": f"large-{first is s3}"}
    upload["UploadId"] = first.create_multipart_upload(**upload)["UploadId"]
    parts = []
    for number, client in ((1, second), (2, first)):
        part = client.upload_part(**upload, PartNumber=number, Body=bytes([48 + number]) * (5 << 20))
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    second.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
print(json.dumps([[process.pid, idle.pid], port, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]]))
"""
"""A program that starts gateways that join its run: some that wait for the port, and one at another port, through which it works.
It says at last which processes they are, the other port, and the keys. ``OTHER_HOST`` has variables that their hosts have."""


def program(text: str) -> tuple[str, ...]:
    """The words of a Python program that puts and gets objects."""
    return sys.executable, "-c", _PROLOGUE + text


@dataclass(frozen=True)
class End:
    """The end of a run."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Run:
    """A run that may be going on."""

    process: "subprocess.Popen[str]"

    def end(self) -> End:
        """Wait for the end."""
        out, err = self.process.communicate(timeout=60)
        return End(self.process.returncode, out, err)

    def line(self) -> str:
        """Wait for the next line of the output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the runner alone."""
        self.process.send_signal(number)


@dataclass(frozen=True)
class Place:
    """A lake with the repository ``sales``, and how its runs are started."""

    folder: Path | str
    environment: Mapping[str, str]

    def start(self, *words: str) -> Run:
        """Start ``graveler run <words>``."""
        environment = {**os.environ, "GRAVELER_LAKE": str(self.folder), "GRAVELER_USER": "ada", **self.environment}
        return Run(
            subprocess.Popen(
                [sys.executable, "-m", "graveler", "run", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )

    def run(self, *words: str) -> End:
        """Run ``graveler run <words>`` to its end."""
        return self.start(*words).end()

    @property
    def sales(self) -> "graveler.Repository":
        """The repository, read anew."""
        return graveler.open(self.folder, user="bob").repository("sales")

    def branches(self) -> list[str]:
        """All branches, hidden ones too."""
        return [branch.id for branch in self.sales.branches(show_hidden=True)]

    def read(self, path: str) -> str:
        """The text of an object of main."""
        with self.sales.branch("main").object(path).reader("r") as reader:
            return str(reader.read())


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended may be there until its parent asks for its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
