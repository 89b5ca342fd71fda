"""The command as a process of its own: signals, pipes, full disks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.support import done, put, run, write_tree
from tests.support.patience import PATIENCE

COMMAND = [sys.executable, "-m", "graveler.cli"]


def wait_until_it_reads(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Wait until the process has a file below ``folder`` open."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        for link in descriptors.iterdir():
            try:
                opened = Path(os.readlink(link))  # noqa: PTH115 - may be no path at all
                if opened.is_relative_to(folder) and opened.is_file():  # not a folder that is being listed
                    return
            except OSError:
                continue
        time.sleep(0.002)
    raise AssertionError(f"it did not begin to read: {process.poll()}")


@pytest.fixture
def slow_files(working_folder: Path) -> Path:
    """A folder of large files without blocks on the disk: reading them takes a minute."""
    folder = working_folder / "slow"
    folder.mkdir()
    for at in range(1000):
        with (folder / f"{at:04}").open("wb") as file:
            file.truncate(32 << 20)
    return folder


def test_ctrl_c_during_an_import_changes_nothing(lake: Path, slow_files: Path) -> None:
    arguments = [*COMMAND, "import", str(slow_files), "lakefs://lake/main/d/"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until_it_reads(process, slow_files)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"interrupted; nothing was committed\n")
    assert len(done("log", "lakefs://lake/main", "--json").lines) == 1
    assert done("ls", "lakefs://lake/main/").out == ""


def test_ctrl_c_during_a_recursive_put_says_what_stays(lake: Path, slow_files: Path) -> None:
    write_tree(slow_files, {"!first": "small"})
    arguments = [*COMMAND, "put", "-r", str(slow_files), "lakefs://lake/main/d/"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until_it_reads(process, slow_files)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, b"")
    assert err == (
        b"interrupted; nothing was committed; `graveler status lakefs://lake/main` shows what was staged before that\n"
    )
    assert len(done("log", "lakefs://lake/main", "--json").lines) == 1


def test_ctrl_c_during_a_recursive_get_does_not_wait_for_large_objects(lake: Path, working_folder: Path) -> None:
    large = working_folder / "large"
    large.mkdir()
    with (large / "file").open("wb") as file:
        file.truncate(256 << 20)
    done("import", large, "lakefs://lake/main/d/")
    with (large / "file").open("wb") as file:
        file.truncate(1 << 40)  # reading it to the end would take an hour
    process = subprocess.Popen([*COMMAND, "get", "-r", "lakefs://lake/main/d/", "out"], stderr=subprocess.PIPE)
    wait_until_it_reads(process, large)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.startswith(b"interrupted; 0 files had been written to ")) == (130, True)
    assert list((working_folder / "out").iterdir()) == []


def test_a_reader_that_goes_away_is_no_error(lake: Path) -> None:
    write_tree(Path("data"), {f"{n:05}-{'x' * 100}": "" for n in range(2000)})
    done("import", "data", "lakefs://lake/main/")
    script = f"{' '.join(COMMAND)} ls lakefs://lake/main/ | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [f"00000-{'x' * 100}", "141"]
    demo = f"{' '.join(COMMAND)} demo --from data | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", demo], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.splitlines()[1:] == ["141"]


def test_output_that_cannot_be_written_is_an_error(lake: Path) -> None:
    put("main", "a", "1")
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*COMMAND, "ls", "lakefs://lake/main/"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (result.returncode, result.stderr.count("\n")) == (9, 1)
    assert "No space left on device" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "closed", "code", "says"),
    [
        ("ls lakefs://lake/main/", ">&-", 9, "error: the output could not be written: Bad file descriptor\n"),
        ("put - lakefs://lake/main/b", "<&-", 9, "error: cannot read 'stdin': Bad file descriptor\n"),
        (
            "repo delete lake",
            "<&-",
            5,
            "error: deleting repository 'lake' without a terminal needs --yes; nothing was deleted\n",
        ),
        ("ls lakefs://lake/none/", "<&- >&- 2>&-", 3, ""),
    ],
)
def test_a_closed_stream_is_an_error_and_no_bug(lake: Path, arguments: str, closed: str, code: int, says: str) -> None:
    put("main", "a", "1")
    shell = ["bash", "-c", f"{' '.join(COMMAND)} {arguments} {closed}"]
    result = subprocess.run(shell, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
    assert (result.returncode, result.stderr) == (code, says)
    assert done("ls", "lakefs://lake/main/").out == "a\n"


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    closed = Path("/proc") if os.geteuid() == 0 else tmp_path  # root may write everywhere but there
    result = subprocess.run([*COMMAND, "init", str(closed / "lake")], capture_output=True, text=True, check=False)
    tmp_path.chmod(0o700)
    assert (result.returncode, result.stderr.count("\n")) == (9, 1)
    assert str(closed / "lake") in result.stderr


def test_help_loads_neither_rich_nor_the_lake() -> None:
    script = (
        "import sys; from graveler.cli.main import main; code = main(['--help']);"
        "assert not {'rich', 'sqlite3', 'msgspec', 'rocksdict'} & set(sys.modules), sys.modules; sys.exit(code)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_the_installed_command_and_the_package_are_this_command() -> None:
    for command in ([str(Path(sys.executable).parent / "graveler")], [sys.executable, "-m", "graveler"]):
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert result.stdout == done("--version").out
    wrong = subprocess.run([*command, "nothing"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr) == (run("nothing").code, run("nothing").err)


def test_the_help_and_verbs_on_a_folder_do_not_load_what_only_aws_needs(lake: Path) -> None:
    for arguments, never in (
        (["--help"], {"botocore", "boto3", "pynamodb", "msgspec", "graveler.lake.lake"}),
        (["repo", "list"], {"botocore", "boto3", "pynamodb", "graveler.remote"}),
    ):
        program = (
            f"import sys; from graveler.cli.main import main; main({arguments}); print(*sys.modules, file=sys.stderr)"
        )
        shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert never & set(shown.stderr.split()) == set(), arguments
