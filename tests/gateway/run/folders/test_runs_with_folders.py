"""Runs of programs that know only files: all of what they change is published, or none."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

import graveler
from tests.gateway.run.folders.support import files_in
from tests.gateway.run.support import Place

MAKEFILE = b"""
all: total.txt
total.txt: $(wildcard days/*.csv)
\tcat $^ > $@
\trm -f old.csv
\tfor number in 1 2 3 4 5 6 7 8; do echo $$number > part-$$number.txt; done
\tmkdir -p empty
"""
SEED = {"Makefile": MAKEFILE, "days/1.csv": b"1\n", "days/2.csv": b"2\n", "old.csv": b"0\n"}
MADE = {
    **{name: data for name, data in SEED.items() if name != "old.csv"},
    "total.txt": b"1\n2\n",
    **{f"part-{number}.txt": b"%d\n" % number for number in range(1, 9)},
}


@pytest.fixture
def seeded(place: Place) -> Place:
    """A lake with a Makefile and its files below ``reports/``."""
    main = place.sales.branch("main")
    for name, data in SEED.items():
        main.object(f"reports/{name}").upload(data)
    main.commit("Makefile")
    return place


def reports(place: Place) -> dict[str, bytes]:
    """The objects below ``reports/`` of main."""
    main = place.sales.branch("main")
    objects = {}
    for entry in main.objects(prefix="reports/"):
        assert isinstance(entry, graveler.ObjectEntry)
        with main.object(entry.path).reader() as reader:
            objects[entry.path.removeprefix("reports/")] = reader.read()
    return objects


def test_a_makefile_is_published(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    end = seeded.run("sales/main", "--folder", f"{data}=reports", "--", "make", "-s", "-C", str(data))
    assert (end.code, end.out) == (0, ""), end.err
    assert reports(seeded) == MADE
    assert not data.exists()
    metadata = seeded.sales.branch("main").get_commit().metadata
    assert metadata["graveler.run.written_objects"] == "9"
    assert metadata["graveler.run.written_bytes"] == "20"
    assert metadata["graveler.run.deleted_objects"] == "1"


@pytest.mark.ci
def test_a_makefile_that_fails_is_not(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    program = ("sh", "-c", f"make -s -C {data} && exit 3")
    end = seeded.run("sales/main", "--folder", f"{data}=reports", "--", *program)
    assert end.code == 3
    assert not data.exists()
    end = seeded.run("sales/main", "--keep", "--folder", f"{data}=reports", "--", *program)
    assert end.code == 3
    assert f"folder {data} is left" in end.err
    assert files_in(data) == MADE
    assert reports(seeded) == SEED
    end = seeded.run("sales/main", "--folder", f"{data}=reports", "--", "true")
    assert end.code == 5
    assert f"folder '{data}' is not empty" in end.err


@pytest.mark.ci
def test_a_program_that_is_killed_is_not_published(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    end = seeded.run("sales/main", "--folder", f"{data}=reports", "--", "sh", "-c", f"make -s -C {data}; kill -9 $$")
    assert end.code == 137
    assert not data.exists()
    assert reports(seeded) == SEED


@pytest.mark.ci
def test_what_cannot_be_published_is_left(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    end = seeded.run(
        "sales/main", "--folder", f"{data}=reports", "--", "sh", "-c", f"make -s -C {data}; mkfifo {data}/p"
    )
    assert end.code == 2
    assert f"'{data}/p' is a named pipe" in end.err
    assert f"folder {data} is left" in end.err
    assert (data / "total.txt").exists()
    assert reports(seeded) == SEED
    assert seeded.branches() == ["main"]


@pytest.mark.ci
@pytest.mark.parametrize("option", [(), ("--read-only",), ("--ref", "main~0")], ids=["", "read-only", "ref"])
def test_a_folder_that_is_only_read(seeded: Place, tmp_path: Path, option: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    folder = f"{data}=reports" if option else f"{data}=reports:ro"
    words = ("sales/main", *option, "--folder", folder, "--")
    end = seeded.run(*words, "cat", f"{data}/days/1.csv")
    assert (end.code, end.out) == (0, "1\n"), end.err
    end = seeded.run(*words, "sh", "-c", f"chmod u+w {data}; rm {data}/old.csv")
    assert end.code == 6
    assert "in a folder that is only read" in end.err
    assert reports(seeded) == SEED


@pytest.mark.ci
def test_a_conflict_with_retries_fills_the_folder_again(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    program = f"cat {data}/old.csv; echo mine > {data}/old.csv; echo on; sleep 2"
    run = seeded.start("sales/main", "--retries", "2", "--folder", f"{data}=reports", "--", "sh", "-c", program)
    assert [run.line(), run.line()] == ["0", "on"]
    main = seeded.sales.branch("main")
    main.object("reports/old.csv").upload("theirs\n")
    main.commit("Theirs")
    end = run.end()
    assert (end.code, end.out) == (0, "theirs\non\n"), end.err
    assert reports(seeded)["old.csv"] == b"mine\n"
    assert not data.exists()


@pytest.mark.ci
def test_a_conflict_keeps_the_branch_and_not_the_folder(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    program = f"echo mine > {data}/old.csv; echo on; sleep 2"
    run = seeded.start("sales/main", "--folder", f"{data}=reports", "--", "sh", "-c", program)
    assert run.line() == "on"
    main = seeded.sales.branch("main")
    main.object("reports/old.csv").upload("theirs\n")
    main.commit("Theirs")
    end = run.end()
    assert end.code == 4
    assert not data.exists()
    hidden = next(name for name in seeded.branches() if name != "main")
    with seeded.sales.branch(hidden).object("reports/old.csv").reader("r") as reader:
        assert reader.read() == "mine\n"


@pytest.mark.ci
def test_an_interrupted_run_leaves_nothing(seeded: Place, tmp_path: Path) -> None:
    data = tmp_path / "data"
    run = seeded.start("sales/main", "--folder", f"{data}=reports", "--", "sh", "-c", f"ls {data}; sleep 60")
    assert run.line() == "Makefile"
    run.signal(signal.SIGINT)
    assert run.end().code == 130
    assert not data.exists()
    assert reports(seeded) == SEED


def processes_of(runner: int) -> dict[str, int]:
    """The runner and the gateway of a run, as far as they are there."""
    processes = {"runner": runner}
    with suppress(FileNotFoundError):
        for child in Path(f"/proc/{runner}/task/{runner}/children").read_text(encoding="utf-8").split():
            is_gateway = b"graveler.gateway" in Path(f"/proc/{child}/cmdline").read_bytes()
            if is_gateway:
                processes["gateway"] = int(child)
    return processes


@pytest.mark.ci
@pytest.mark.parametrize("victims", [("runner",), ("gateway",), ("runner", "gateway")], ids="+".join)
def test_a_run_that_is_killed_at_any_moment_is_published_whole_or_not_at_all(
    seeded: Place, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    main = seeded.sales.branch("main")
    moments, base = random.Random(7), main.get_commit().id
    published, duration = 0, 0.0
    for number in range(50):
        data = tmp_path / str(number)
        begin = time.monotonic()
        run = seeded.start("sales/main", "--folder", f"{data}=reports", "--", "make", "-s", "-C", str(data))
        if number:
            time.sleep(moments.uniform(duration / 4, duration * 1.1))
            processes = processes_of(run.process.pid)
            for victim in victims:
                with suppress(KeyError, ProcessLookupError):  # it has not begun, or has ended
                    os.kill(processes[victim], signal.SIGKILL)
        end = run.end()
        duration = duration or time.monotonic() - begin  # the first one is not killed
        objects = reports(seeded)
        assert objects in (SEED, MADE), end
        if end.code == 0:
            assert objects == MADE
        elif end.code > 0:
            assert objects == SEED, end
        if objects == MADE:
            published += 1
            main.hard_reset(base)
        elif end.code > 0:
            assert data.exists() == (f"folder {data} is left" in end.err), end
    assert 0 < published < 50
