"""On macOS a sync reaches the medium: ``F_FULLFSYNC``, where Linux has ``fsync``."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from graveler.storage import durable_files
from graveler.storage.durable_files import sync_file, sync_folder
from graveler.storage.tables.sqlite import SqliteTables
from graveler.storage.tables.sqlite_handle import Borrowed

FULL = 51
"""The number of ``F_FULLFSYNC`` on macOS."""


def told(monkeypatch: pytest.MonkeyPatch, refused: int = 0) -> list[str]:
    """What the system is asked for from now on, as if it were macOS; it refuses full syncs with this error, if any."""
    calls: list[str] = []

    def full(descriptor: int, command: int) -> int:
        assert command == FULL
        calls.append("full")
        if refused:
            raise OSError(refused, os.strerror(refused))
        return 0

    monkeypatch.setattr(durable_files, "_FULL_SYNC", FULL)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    return calls


def test_files_and_folders_are_synced_to_the_medium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = told(monkeypatch)
    with (tmp_path / "a").open("wb") as file:
        sync_file(file.fileno())
    sync_folder(tmp_path)
    assert calls == ["full", "full"]


@pytest.mark.parametrize("refused", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_full_syncs_is_synced_as_it_can(
    refused: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = told(monkeypatch, refused)
    with (tmp_path / "a").open("wb") as file:
        sync_file(file.fileno())
    assert calls == ["full", "fsync"]


def test_a_disk_that_fails_is_no_file_system_without_full_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = told(monkeypatch, errno.EIO)
    with (tmp_path / "a").open("wb") as file, pytest.raises(OSError, match="Input/output error"):
        sync_file(file.fileno())
    assert calls == ["full"]


def test_sqlite_syncs_to_the_medium_too(tmp_path: Path) -> None:
    tables = SqliteTables(tmp_path / "tables.sqlite")
    for for_writing in (False, True):
        with Borrowed(tables.handle, for_writing=for_writing) as connection:
            assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
            assert connection.execute("PRAGMA checkpoint_fullfsync").fetchone() == (1,)
    tables.close()
