"""doctor: what it finds, how it says it, and that nothing makes it fail."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.cli.verbs import doctor as module
from tests.cli.support import Result, done, put, run
from tests.support.shell import Shell


def levels(result: Result) -> dict[str, set[str]]:
    """The levels of each check's findings."""
    found: dict[str, set[str]] = {}
    for one in result.json["findings"]:
        assert set(one) == {"check", "level", "text"}
        found.setdefault(one["check"], set()).add(one["level"])
    return found


def test_a_lake_in_a_folder_that_is_well(lake: Path) -> None:
    found = levels(done("doctor", "--json"))
    assert {"version", "extras", "configuration", "lake", "disk", "repositories"} == set(found)
    assert not set().union(*found.values()) & {"problem"}
    out = done("doctor").out
    assert f"ok       lake: the folder '{lake}'" in out
    assert "ok       repositories: 1 can be read" in out


def test_without_a_lake_it_says_how_to_make_one(working_folder: Path) -> None:
    result = run("doctor", "--json")
    assert (result.code, levels(result)["lake"]) == (0, {"warning"})
    assert "graveler init" in result.out


def test_a_broken_lake_is_a_problem_and_the_other_checks_go_on(lake: Path) -> None:
    put("main", "a", "1")
    (lake / "tables.sqlite").write_bytes(b"no table" * 1000)
    result = run("doctor", "--json")
    found = levels(result)
    assert (result.code, found["repositories"], found["disk"] & {"problem"}) == (5, {"problem"}, set())
    assert json.loads(result.err)["error"]["message"] == "1 problem found; see above"
    assert "Traceback" not in result.out + result.err


def test_two_lakes_are_one_too_many(lake: Path) -> None:
    result = run("--lake", lake, "--endpoint", "http://127.0.0.1:1", "doctor", "--json")
    assert (result.code, levels(result)["lake"]) == (5, {"problem"})


def test_a_missing_key_and_a_server_that_is_not_there(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    result = run("--endpoint", "http://127.0.0.1:1", "doctor", "--json")
    assert (result.code, levels(result)["credentials"]) == (5, {"problem"})
    shell.export("GRAVELER_ACCESS_KEY_ID", "key")
    shell.export("GRAVELER_SECRET_ACCESS_KEY", "the-secret")
    monkeypatch.setattr("graveler.remote.connection.time.sleep", lambda _: None)
    result = run("--endpoint", "http://127.0.0.1:1", "doctor", "--json")
    found = levels(result)
    assert (result.code, found["server"], found["credentials"]) == (5, {"problem"}, {"problem"})
    assert "the-secret" not in result.out + result.err


def test_a_disk_that_is_nearly_full_or_on_the_network(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LITTLE", 1 << 60)
    monkeypatch.setattr(module, "_file_system", lambda _: "nfs4")
    result = run("doctor", "--json")
    texts = [one["text"] for one in result.json["findings"] if one["level"] == "warning"]
    assert result.code == 0
    assert any("make room" in text for text in texts)
    assert any("network file system (nfs4)" in text for text in texts)


def test_the_file_system_of_a_folder_is_known(tmp_path: Path) -> None:
    assert module._file_system(tmp_path) not in ("", "proc")
    assert module._file_system(Path("/proc")) == "proc"


def test_an_error_of_the_system_is_a_finding() -> None:
    def failing() -> Iterator[tuple[module.Level, str]]:
        yield module.Level.OK, "so far"
        raise PermissionError(13, "Permission denied", "/data")

    assert list(module._run("disk", failing)) == [
        ("disk", module.Level.OK, "so far"),
        ("disk", module.Level.PROBLEM, "'/data': Permission denied"),
    ]


def test_nothing_is_changed(lake: Path) -> None:
    put("main", "a", "1")
    before = sorted((path.relative_to(lake), path.stat().st_size) for path in lake.rglob("*") if path.is_file())
    done("doctor")
    with sqlite3.connect(lake / "tables.sqlite") as table:
        assert table.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    table.close()
    after = sorted((path.relative_to(lake), path.stat().st_size) for path in lake.rglob("*") if path.is_file())
    assert [name for name, _ in after] == [name for name, _ in before]
