"""An abandoned import does not wait for the reading of a huge file."""

import os
from pathlib import Path
from threading import Thread

from graveler.lake.importing.folder_listing import FolderListing
from tests.support.patience import HUGE, PATIENCE
from tests.support.trees import CODEC


def test_giving_up_an_import_does_not_wait_for_the_file_that_is_being_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with (tmp_path / "b").open("wb") as file:
        os.truncate(file.fileno(), HUGE)
    listing = FolderListing(tmp_path, "", CODEC)()
    assert next(listing)[0] == b"a"
    closing = Thread(target=listing.close, daemon=True)
    closing.start()
    closing.join(timeout=PATIENCE)
    assert not closing.is_alive()
