"""A disk that is full, for the gateway alone: no write succeeds that is not whole, and nothing of it is staged or left."""

import resource
from pathlib import Path

from graveler.gateway.control import Mount
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.gateway.campaigns.support import Caller
from tests.gateway.support import running_gateway

ROOM = 256 << 10
"""Bytes that a file of the gateway may have."""


def test_a_full_disk_is_never_a_success(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales")
    objects = tmp_path / "lake" / "objects" / "sales"
    with running_gateway(tmp_path / "lake", Mount(bucket="sales", repository="sales", ref="main")) as gateway:
        caller = Caller(gateway.port)
        assert caller.send("PUT", "/sales/before", b"x").status == 200
        begun = caller.send("POST", "/sales/parted?uploads=").body.decode()
        upload = begun.partition("<UploadId>")[2].partition("<")[0]
        files = {path for path in objects.rglob("*") if path.is_file()}
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
        for size in (ROOM + 1, 3 << 20):
            for path in ("/sales/large", f"/sales/parted?partNumber=1&uploadId={upload}"):
                answer = caller.send("PUT", path, bytes(size))
                assert answer.status == 503, answer
                assert b"<Code>ServiceUnavailable</Code>" in answer.body
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        answer = caller.send("PUT", "/sales/small", b"x")
        assert answer.status in (500, 503), answer
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert {path for path in objects.rglob("*") if path.is_file()} == files
        assert caller.send("PUT", "/sales/after", bytes(3 << 20)).status == 200
        assert caller.send("GET", "/sales/before").body == b"x"
    with open_folder_lake(tmp_path / "lake") as lake:
        assert [entry.path for entry in lake.repository("sales").objects("main")] == ["after", "before"]
