"""Errors of the lake as those of files."""

import pickle
from pathlib import Path
from typing import Any

import fsspec
import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    BytesGoneError,
    CorruptError,
    ExpiredCommitError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    ProtectedBranchError,
    UnavailableError,
)
from graveler.filesystem.error_translation import as_os_error, translating_lake_errors
from graveler.filesystem.filesystem import GravelerFileSystem
from tests.filesystem.conftest import new_repository
from tests.support.shell import Shell


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NotFoundError, FileNotFoundError),
        (ExpiredCommitError, FileNotFoundError),
        (BytesGoneError, FileNotFoundError),
        (AlreadyExistsError, FileExistsError),
        (ForbiddenError, PermissionError),
        (ProtectedBranchError, PermissionError),
        (BusyError, OSError),
        (CorruptError, OSError),
        (UnavailableError, OSError),
        (InvalidError, ValueError),
        (PreconditionError, PreconditionError),
    ],
)
def test_each_kind_has_its_class(kind: type[GravelerError], expected: type[Exception]) -> None:
    raised = kind.__new__(kind)
    assert type(as_os_error(raised, "a/b")) is expected
    noted: list[GravelerError] = []

    def note(error: GravelerError) -> GravelerError:
        noted.append(error)
        return raised

    other = BusyError("another process has it")
    with pytest.raises(expected) as found, translating_lake_errors("a/b", note):
        raise other
    assert noted == [other]
    assert raised in (found.value, found.value.__cause__)


def test_an_object_whose_bytes_are_gone_or_others(folder_options: dict[str, Any], tmp_path: Path) -> None:
    branch = f"{new_repository(folder_options)}/main"
    fs = GravelerFileSystem(**folder_options, skip_instance_cache=True)
    fs.pipe({f"{branch}/gone": b"123", f"{branch}/longer": b"123"})
    (_, gone), (_, longer) = fs.places(branch)
    Path(gone).unlink()
    Path(longer).chmod(0o600)
    Path(longer).write_bytes(b"1234")
    for name, error in (("gone", FileNotFoundError), ("longer", OSError)):
        for read in (fs.cat_file, lambda path: fs.get_file(path, str(tmp_path / "got"))):
            with pytest.raises(error) as raised:
                read(f"{branch}/{name}")
            assert isinstance(raised.value.__cause__, GravelerError)
            assert not list(tmp_path.glob("*got*"))
            assert not list(tmp_path.glob(".graveler-*"))
    [found] = fs.cat_ranges([f"{branch}/gone"], 0, 1)
    assert isinstance(pickle.loads(pickle.dumps(found)), FileNotFoundError)


def test_the_cause_has_no_frames_unless_asked_for(folder_options: dict[str, Any], shell: Shell) -> None:
    branch = f"{new_repository(folder_options)}/main"
    fs = GravelerFileSystem(**folder_options, skip_instance_cache=True)
    for value, has_frames in (("", False), ("full", True)):
        shell.export("GRAVELER_TRACEBACK", value)
        for call in (lambda: fs.open(f"{branch}/missing"), lambda: fs.ls(f"{branch}/missing")):
            with pytest.raises(FileNotFoundError) as raised:
                call()
            assert isinstance(raised.value.__cause__, GravelerError)
            assert (raised.value.__cause__.__traceback__ is not None) == has_frames


def test_an_option_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    for name in ("snapshots", "lakes", "region_name"):
        with pytest.raises(TypeError, match=f"has no storage option '{name}'; its options are lake, snapshot"):
            fsspec.filesystem("graveler", lake=str(tmp_path), **{name: "x"})
    fsspec.filesystem("graveler", lake=str(tmp_path), use_listings_cache=False, skip_instance_cache=True)
