"""The lake in a folder: its files can be read through its repositories only."""

from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.errors import ForbiddenError
from graveler.lake.opening.folder import create_folder_lake
from graveler.model import ObjectEntry
from tests.support.disk import Syncs


def plain(path: Path, link: Path) -> str:
    return str(path)


def by_link(path: Path, link: Path) -> str:
    link.symlink_to(path)
    return str(link)


def by_link_to_the_folder(path: Path, link: Path) -> str:
    link.symlink_to(path.parent)
    return str(link / path.name)


def through_proc(path: Path, link: Path) -> str:
    return f"/proc/self/root{path}"


@pytest.mark.parametrize("spelled", [plain, by_link, by_link_to_the_folder, through_proc])
@pytest.mark.parametrize("name", ["tables.sqlite", "objects/secret/_graveler/repository", "graveler.json"])
def test_what_lies_in_the_lake_s_folder_is_not_read_by_its_address(
    tmp_path: Path, name: str, spelled: Callable[[Path, Path], str]
) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("secret", "local://secret")
        mine = lake.create_repository("mine", "local://mine")
        file = tmp_path / "lake" / name
        assert file.is_file()
        address = "file://" + spelled(file, tmp_path / "link")
        mine.link("main", ObjectEntry("a", address, 1, "x", 1))
        with pytest.raises(ForbiddenError, match="own folder"):
            mine.read("main", "a")


def replaced_by_a_link(file: Path, secret: Path) -> None:
    file.unlink()
    file.symlink_to(secret)


def folder_replaced_by_a_link(file: Path, secret: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.symlink_to(secret.parent)


def folder_replaced_by_another(file: Path, secret: Path) -> None:
    """The same name leads to a folder above that is a link."""
    above = file.parent.parent
    above.rename(above.with_name("moved"))
    above.symlink_to(secret.parent.parent)


@pytest.mark.parametrize("change", [replaced_by_a_link, folder_replaced_by_a_link, folder_replaced_by_another])
def test_a_file_that_was_read_a_moment_ago_is_not_read_once_it_leads_into_the_lake(
    tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    """Its folder was checked a moment ago, and is trusted only as long as it is the same one."""
    secret = tmp_path / "top/folder/tables.sqlite"
    with create_folder_lake(secret.parent) as lake:
        mine = lake.create_repository("mine", "local://mine")
        file = tmp_path / "elsewhere/folder" / secret.name
        file.parent.mkdir(parents=True)
        file.write_bytes(b"bytes")
        mine.link("main", ObjectEntry("a", f"file://{file}", 5, "x", 1))
        for _ in range(3):
            assert b"".join(mine.bytes_in("main", mine.stat("main", "a"), verify=False)) == b"bytes"
        change(file, secret)
        with pytest.raises(ForbiddenError, match="own folder"):
            mine.read("main", "a")
        (tmp_path / "other").write_bytes(b"other")
        mine.link("main", ObjectEntry("b", f"file://{tmp_path / 'other'}", 5, "x", 1))
        assert b"".join(mine.bytes_in("main", mine.stat("main", "b"), verify=False)) == b"other"


def test_what_lies_beside_the_lake_is_read(tmp_path: Path) -> None:
    (tmp_path / "lake-not").mkdir()
    (tmp_path / "lake-not/a").write_bytes(b"bytes")
    with create_folder_lake(tmp_path / "lake") as lake:
        mine = lake.create_repository("mine", "local://mine")
        mine.link("main", ObjectEntry("a", f"file://{tmp_path}/lake-not/a", 5, "x", 1))
        assert mine.read("main", "a") == b"bytes"


@pytest.mark.parametrize("there", [False, True])
def test_a_new_lake_and_the_folders_on_the_way_to_it_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    folder = tmp_path / "on/the/way/lake"
    if there:
        folder.mkdir(parents=True)  # by an `init` that was killed, for instance
    syncs = Syncs(monkeypatch)
    with create_folder_lake(folder):
        pass
    assert syncs.lost(folder / "graveler.json", folder / "tables.sqlite") == []
