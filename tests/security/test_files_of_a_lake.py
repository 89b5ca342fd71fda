"""A lake's folder is its owner's alone, whatever the umask; or its group's, where it was made so."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graveler.lake.opening.folder import Shared, create_folder_lake, open_folder_lake
from tests.cli.support import done, run
from tests.security.strangers import act, closed_to, let_through, open_to_others, rehearse
from tests.server.support import running

READ = "open(arguments[0], 'rb').read(1)"
COMMIT = """
from pathlib import Path
from graveler.lake.opening.folder import open_folder_lake
from graveler.model import ObjectEntry
with open_folder_lake(Path(arguments[0])) as lake:
    repository = lake.repository("sales")
    address = repository.upload("main", arguments[1], b"theirs")
    print(repository.commit("main", arguments[1], committer="they").id)
"""


@contextmanager
def umask(bits: int) -> Iterator[None]:
    """Files of this process are made by this umask."""
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("bits", [0o000, 0o022, 0o077])
def test_nothing_that_a_server_makes_is_for_others(tmp_path: Path, bits: int) -> None:
    with umask(bits), running(tmp_path, "--audit-log", str(tmp_path / "audit.jsonl")) as server:
        made = server.ask_json("POST", "/api/v1/repositories", {"name": "sales", "storage_namespace": "local://sales"})
        assert made.status == 201, made
        put = server.ask(
            "POST",
            "/api/v1/repositories/sales/branches/main/objects?path=a/b",
            b"x" * 400_000,
            {"content-type": "application/octet-stream"},
        )
        assert put.status == 201, put
        link = server.ask("GET", "/api/v1/repositories/sales/branches/main/staging/backing?path=up&presign=true").json()
        assert server.ask("PUT", link["presigned_url"], b"bytes", authorised=False).status == 200
        assert (
            server.ask_json("POST", "/api/v1/repositories/sales/branches/main/commits", {"message": "m"}).status == 201
        )
        done("--lake", server.lake, "dump", "lakefs://sales")
        assert open_to_others(server.lake) == []
        assert open_to_others(tmp_path / "audit.jsonl") == []
    assert open_to_others(tmp_path / "lake") == []


def test_another_user_reads_nothing_of_a_lake(tmp_path: Path) -> None:
    with umask(0), create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("sales", f"file://{tmp_path}/elsewhere")
        repository.upload("main", "secret", b"mine")
        repository.commit("main", "m", committer="me")
        let_through(tmp_path / "lake")
        for file in [
            path for place in ("lake", "elsewhere") for path in (tmp_path / place).rglob("*") if path.is_file()
        ]:
            tried = act(READ, file)
            assert "PermissionError" in tried.stderr, (file, tried)


def test_a_folder_that_was_there_and_empty_is_closed(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir(mode=0o777)
    (tmp_path / "lake").chmod(0o777)
    create_folder_lake(tmp_path / "lake").close()
    assert open_to_others(tmp_path / "lake") == []


CREATE = """
from pathlib import Path
from graveler.lake.opening.folder import create_folder_lake
with create_folder_lake(Path(arguments[0])) as lake:
    lake.create_repository("sales", "local://sales")
"""


def test_a_lake_can_be_made_in_another_users_folder(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    let_through(tmp_path / "shared")
    made = act(CREATE, tmp_path / "shared", modules=rehearse(CREATE, tmp_path / "rehearsal"))
    assert made.returncode == 0, made.stderr
    assert [line.split()[0] for line in open_to_others(tmp_path / "shared")] == [str(tmp_path / "shared")]


def test_a_folder_with_other_things_keeps_its_permissions_and_the_lake_in_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project").chmod(0o755)
    (tmp_path / "project" / "notes.txt").write_text("not the lake's")
    with create_folder_lake(tmp_path / "project") as lake:
        lake.create_repository("sales", "local://sales")
    assert [line.split()[0] for line in open_to_others(tmp_path / "project")] == [
        str(tmp_path / "project"),
        str(tmp_path / "project" / "notes.txt"),
    ]
    with open_folder_lake(tmp_path / "project") as lake:
        assert lake.folder_permissions is not None
        assert lake.folder_permissions.wider() == []


@pytest.mark.parametrize("bits", [0o000, 0o022, 0o077])
def test_a_shared_lake_is_its_groups_and_nobody_elses(tmp_path: Path, bits: int) -> None:
    with umask(bits), create_folder_lake(tmp_path / "lake", shared=Shared.GROUP) as lake:
        repository = lake.create_repository("sales", "local://sales")
        repository.upload("main", "a", b"x")
        repository.commit("main", "m", committer="me")
        assert open_to_others(tmp_path / "lake", 0o007) == []
        assert closed_to(tmp_path / "lake", 0o2770, 0o660) == []


def test_two_users_of_a_group_work_on_one_lake(tmp_path: Path) -> None:
    folder, group = tmp_path / "lake", 54_321
    folder.mkdir()
    let_through(folder)
    if os.geteuid() == 0:
        os.chown(folder, -1, group)
    with create_folder_lake(tmp_path / "rehearsal") as lake:
        lake.create_repository("sales", "local://sales")
    modules = rehearse(COMMIT, tmp_path / "rehearsal", "a")
    with umask(0o077), create_folder_lake(folder, shared=Shared.GROUP) as lake:
        repository = lake.create_repository("sales", "local://sales")
        for number in range(3):
            theirs = act(COMMIT, folder, f"theirs/{number}", groups=(group,), umask=0o077, modules=modules)
            assert theirs.returncode == 0, theirs.stderr
            repository.upload("main", f"mine/{number}", b"mine")
            mine = repository.commit("main", "mine", committer="me")
            assert mine.parents == (theirs.stdout.strip(),)
    outside = act(COMMIT, folder, "no", umask=0o077, modules=modules)
    assert "is there, but this user may not open it" in outside.stderr, outside


def old_lake(folder: Path) -> Path:
    """A lake as versions before made them, with an ordinary umask."""
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("sales", "local://sales")
        repository.upload("main", "a", b"x")
        repository.commit("main", "m", committer="me")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def test_a_lake_that_is_wider_open_is_told_once_found_and_mended(tmp_path: Path) -> None:
    folder = old_lake(tmp_path / "lake")
    first, second = (run("--lake", folder, "log", "lakefs://sales/main") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert first.err.startswith(f"warning: '{folder}")
    assert "fsck --repair" in first.err
    assert second.err == ""
    found = run("--lake", folder, "fsck", "lakefs://sales", "--json")
    assert [finding["kind"] for finding in found.json["findings"]] == ["permissions"]
    mended = run("--lake", folder, "fsck", "lakefs://sales", "--repair", "--json")
    assert [finding["repaired"] for finding in mended.json["findings"]] == [True]
    assert open_to_others(folder) == []
    assert done("--lake", folder, "fsck", "lakefs://sales", "--json").json["findings"] == []


def test_mending_leaves_what_is_not_the_lakes(tmp_path: Path) -> None:
    folder = old_lake(tmp_path / "lake")
    other = folder / "notes.txt"
    other.write_text("not the lake's")
    other.chmod(0o644)
    outside = tmp_path / "outside"
    outside.write_text("linked")
    outside.chmod(0o644)
    (folder / "objects" / "link").symlink_to(outside)
    with open_folder_lake(folder) as lake:
        assert lake.folder_permissions is not None
        assert lake.folder_permissions.wider()
        lake.folder_permissions.narrow()
        assert lake.folder_permissions.wider() == []
        assert [line.split()[0] for line in open_to_others(folder)] == [str(folder), str(other)]
    assert outside.stat().st_mode & 0o777 == 0o644


def test_init_says_how_a_lake_is_shared(tmp_path: Path) -> None:
    done("init", tmp_path / "mine")
    done("init", tmp_path / "ours", "--shared", "group")
    assert json.loads((tmp_path / "ours" / "graveler.json").read_bytes())["shared"] == "group"
    assert open_to_others(tmp_path / "mine") == []
    assert closed_to(tmp_path / "ours", 0o2770, 0o660) == []
    refused = run("--objects", "s3://b/l", "init", "dynamodb://t", "--shared", "group")
    assert refused.code != 0
    assert "--shared" in refused.err


def test_what_a_user_takes_out_of_a_lake_is_by_their_umask(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("sales", "local://sales")
        repository.upload("main", "a", b"x")
        repository.commit("main", "m", committer="me")
    with umask(0o022):
        done("--lake", tmp_path / "lake", "export", "lakefs://sales/main", tmp_path / "out")
        done("--lake", tmp_path / "lake", "get", "lakefs://sales/main/a", tmp_path / "copy")
    assert closed_to(tmp_path / "out", 0o755, 0o644) == []
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o644
