"""An uploader tries to exchange the bytes of a committed object that was uploaded in parts."""

from pathlib import Path

import pytest

from graveler.lake.objects.uploads import PartedUpload, finish_upload, upload_part
from graveler.lake.opening.folder import create_folder_lake


@pytest.mark.parametrize("first", [b"committed", b""])
def test_an_upload_in_parts_replaces_nothing(tmp_path: Path, first: bytes) -> None:
    """Two uploads to one address: two requests that complete one at the same time, or keys of which a checksum is the same."""
    with create_folder_lake(tmp_path / "lake") as lake:
        sales = lake.create_repository("sales", "local://sales")
        one = sales.begin_upload("main", "x")
        other = PartedUpload(one.address, sales.namespace.create_multipart(one.address.removeprefix("local://sales/")))
        begun = [
            upload_part(sales.parts, "main", "x", one, 1, first),
            upload_part(sales.parts, "main", "x", other, 1, b"exchanged"),
        ]
        made = finish_upload(sales.parts, "main", "x", one, [(1, begun[0])])
        sales.commit("main", "as it is")
        again = finish_upload(sales.parts, "main", "x", other, [(1, begun[1])])
        assert (made.size, again.size) == (len(first), len(first)), (
            "what is there is told, as to a request that is repeated"
        )
        assert sales.read("main~0", "x") == first
