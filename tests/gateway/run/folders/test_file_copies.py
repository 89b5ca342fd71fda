"""Copies of files."""

import os
import stat
from pathlib import Path

import pytest

from graveler.gateway.run.folders.file_copies import FileCopier


def copied(copier: FileCopier, source: Path, target: Path) -> bytes:
    descriptor = os.open(source, os.O_RDONLY)
    try:
        os.close(copier.copy(descriptor, str(target)))
    finally:
        os.close(descriptor)
    return target.read_bytes()


@pytest.mark.parametrize("size", [0, 1, 100_003, 3 << 20])
def test_a_copy_has_the_bytes_and_is_a_file_of_its_own(tmp_path: Path, size: int) -> None:
    source, copier = tmp_path / "source", FileCopier()
    source.write_bytes(os.urandom(size))
    source.chmod(0o400)
    before = source.read_bytes()
    for number in range(2):  # the second one knows whether there are clones
        target = tmp_path / f"target-{number}"
        assert copied(copier, source, target) == before
        assert not source.samefile(target)
        assert stat.S_IMODE(target.stat().st_mode) & 0o600 == 0o600
        with target.open("r+b") as file:
            file.write(b"changed")
        assert source.read_bytes() == before


def test_a_copy_to_another_file_system(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    source, target = tmp_path / "source", memory / f"graveler-test-{os.getpid()}"
    source.write_bytes(os.urandom(100_003))
    try:
        assert copied(FileCopier(), source, target) == source.read_bytes()
    finally:
        target.unlink(missing_ok=True)


def test_an_existing_file_stays(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        copied(FileCopier(), source, target)
    assert target.read_bytes() == b"old"
