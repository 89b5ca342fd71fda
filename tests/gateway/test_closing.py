"""The end of a gateway's program: what is written by then is whole and staged, and nothing else is."""

import socket
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from graveler.gateway.control import Mount
from graveler.lake.objects.recorded_uploads import list_uploads
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.gateway.support import code_of, running_gateway
from tests.gateway.test_wire import codes, head_of, signed
from tests.support.patience import PATIENCE

SIZE = 1 << 20


def test_nothing_is_staged_and_no_upload_is_pending_after_the_end(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("sales", "local://sales")
    mount = Mount(bucket="sales", repository="sales", ref="main")
    with running_gateway(tmp_path / "lake", mount) as gateway:
        client = gateway.client()
        client.put_object(Bucket="sales", Key="early", Body=b"x")
        client.create_multipart_upload(Bucket="sales", Key="parted")
        with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE) as slow:
            headers = signed(gateway, "PUT", "/sales/slow", {"content-length": str(SIZE)})
            slow.sendall(head_of("PUT", "/sales/slow", headers) + bytes(SIZE // 2))
            time.sleep(0.2)  # so that the gateway has begun to write it
            tally = gateway.close_for_writes(0.1)
            slow.sendall(bytes(SIZE // 2))
            assert codes(b"".join(iter(lambda: slow.recv(1 << 16), b""))) == [(403, "AccessDenied")]
        assert (tally.written.objects, tally.failed) == (1, 1)
        with pytest.raises(ClientError, match="nothing more can be written") as error:
            client.put_object(Bucket="sales", Key="late", Body=b"x")
        assert code_of(error.value) == (403, "AccessDenied")
        assert [item["Key"] for item in client.list_objects_v2(Bucket="sales")["Contents"]] == ["early"]
    with open_folder_lake(tmp_path / "lake") as lake:
        assert list_uploads(lake.repository("sales").parts, "main") == ([], False)
