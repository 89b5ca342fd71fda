"""Confined files: nothing behind a symbolic link, and nothing in forbidden folders; other adapters follow links."""

import os
import pickle
from pathlib import Path

import pytest

from graveler.errors import ForbiddenError
from graveler.storage.file_modes import GROUP
from graveler.storage.objects.confined_folder import Confinement, trusted_path
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectConditionError
from tests.security.strangers import act, let_through


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with links to a file and to a folder, inside and outside of it."""
    for folder in ("root/in", "out"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "k").write_bytes(b"x")
    for name, target in {
        "inner": "in",
        "outer": "../out",
        "file": "in/k",
        "in/loop": "loop",
        "gone": "nowhere",
    }.items():
        (tmp_path / "root" / name).symlink_to(target)
    return tmp_path / "root"


def confined(root: Path) -> FolderObjects:
    return pickle.loads(pickle.dumps(FolderObjects(root, confinement=Confinement("/"))))  # type: ignore[no-any-return]


LINKS = ("inner/k", "outer/k", "file", "in/loop", "gone")


@pytest.mark.parametrize("key", LINKS)
def test_a_confined_store_follows_no_link(root: Path, key: str) -> None:
    store = confined(root)
    before = sorted(root.parent.rglob("*"))
    for call in (
        lambda: store.get(key),
        lambda: store.head(key),
        lambda: store.open_object(key),
        lambda: store.delete(key),
        lambda: store.put(key, b"y", if_absent=True),
        lambda: list(store.list(key.rpartition("/")[0])),
    ):
        with pytest.raises(ForbiddenError, match="is a symbolic link"):
            call()
    (root / ".graveler-tmp").is_dir()
    assert [path for path in sorted(root.parent.rglob("*")) if ".graveler-tmp" not in path.parts] == before
    assert (root.parent / "out" / "k").read_bytes() == (root / "in" / "k").read_bytes() == b"x"


def test_a_put_takes_the_place_of_a_link_and_not_of_what_it_leads_to(root: Path) -> None:
    confined(root).put("file", b"y")
    assert not (root / "file").is_symlink()
    assert (root / "in" / "k").read_bytes() == b"x"


def test_whoever_uses_the_library_follows_links(root: Path) -> None:
    store = FolderObjects(root)
    assert [store.get(key) for key in LINKS[:3]] == [b"x"] * 3
    assert [stored.key for stored in store.list("out")] == ["outer/k"]
    with pytest.raises(ObjectConditionError):
        store.put("file", b"y", if_absent=True)


def test_no_way_leads_through_what_is_forbidden(root: Path) -> None:
    status = (root / "in").stat()
    store = FolderObjects(root.parent, confinement=Confinement("/", frozenset({(status.st_dev, status.st_ino)})))
    assert store.get("out/k") == b"x"
    for call in (
        lambda: store.get("root/in/k"),
        lambda: list(store.list("root/in/")),
        lambda: store.put("root/in/j", b""),
    ):
        with pytest.raises(ForbiddenError, match="lake's own folder"):
            call()


def test_a_shared_lakes_folders_are_made_with_its_modes(tmp_path: Path) -> None:
    store = FolderObjects(tmp_path / "top", modes=GROUP, confinement=Confinement())
    upload = store.create_multipart("a/k")
    etag = store.put_part("a/k", upload, 1, b"x")
    store.complete_multipart("a/k", upload, [(1, etag)])
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o2770}
    assert (tmp_path / "top" / "a" / "k").stat().st_mode & 0o777 == 0o660


def test_the_links_of_the_superuser_and_ones_own_lead_to_a_root(tmp_path: Path) -> None:
    (tmp_path / "disk" / "data").mkdir(parents=True)
    (tmp_path / "short").symlink_to("disk/../disk")
    (tmp_path / "whole").symlink_to(tmp_path / "short")
    for name in ("short", "whole"):
        assert (
            trusted_path(tmp_path / name / "data" / "new") == Path(os.path.realpath(tmp_path)) / "disk" / "data" / "new"
        )
        store = FolderObjects(tmp_path / name / "data", confinement=Confinement("/"))
        store.put(name, b"x")
        assert store.namespace == f"file://{tmp_path}/{name}/data"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ForbiddenError):
        trusted_path(tmp_path / "round" / "x")


def test_anothers_link_does_not(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o777)
    let_through(tmp_path / "theirs")
    made = act("import os\nos.symlink(arguments[0], arguments[1])", "/etc", tmp_path / "theirs" / "link")
    assert made.returncode == 0, made.stderr
    with pytest.raises(ForbiddenError, match="of another user"):
        trusted_path(tmp_path / "theirs" / "link" / "x")
