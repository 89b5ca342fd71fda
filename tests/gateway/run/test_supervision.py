"""A program from its start to its end, and the signals of its runner."""

import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from graveler.gateway.run.supervision import ProgramEnd, ProgramNotStartedError, run_to_end
from tests.support.patience import PATIENCE

_SUPERVISE = """
import os, signal, sys
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's job in the background ignores it
from graveler.gateway.run.supervision import run_to_end
end = run_to_end(sys.argv[1:], os.environ)
print("ended", end.status, end.signal, end.exit_status, flush=True)
"""


def shell(text: str) -> ProgramEnd:
    return run_to_end(("sh", "-c", text), os.environ)


@pytest.mark.parametrize(
    ("text", "status"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -SEGV $$", 139)]
)
def test_the_status_is_as_of_a_shell(text: str, status: int) -> None:
    end = shell(text)
    assert (end.status, end.signal, end.exit_status, end.succeeded) == (status, None, status, not status)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo hello")
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\1\2")
    broken.chmod(0o755)
    for name, status in (
        ("no-such-program", 127),
        (str(tmp_path / "nothing"), 127),
        (str(plain), 126),
        (str(tmp_path), 126),
        (str(broken), 126),
    ):
        with pytest.raises(ProgramNotStartedError) as raised:
            run_to_end((name,), os.environ)
        assert raised.value.status == status
        assert repr(name) in str(raised.value)


def test_handlers_are_as_before() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    shell("exit 0")
    assert [signal.getsignal(number) for number in numbers] == before


def supervised(text: str) -> "subprocess.Popen[str]":
    """A supervisor of a shell's program, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", _SUPERVISE, "sh", "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(process: "subprocess.Popen[str]") -> list[str]:
    out, _ = process.communicate(timeout=PATIENCE)
    return str(out).splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    process = supervised("trap - INT QUIT; echo started; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(number)
    assert lines(process) == [f"ended {128 + number} {int(number)} {128 + number}"]


def test_a_program_that_ends_well_after_it_was_asked_to_end_has_not_succeeded() -> None:
    process = supervised("trap 'echo ending; exit 0' TERM; echo started; while :; do sleep 0.1; done")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGTERM)
    assert lines(process) == ["ending", "ended 0 15 143"]


def test_a_signal_that_asks_for_nothing_is_passed_on() -> None:
    process = supervised("trap 'echo got; exit 0' USR1; echo started; while :; do sleep 0.1; done")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGUSR1)
    assert lines(process) == ["got", "ended 0 None 0"]


def test_an_ignored_hang_up_stays_ignored() -> None:
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", _SUPERVISE, "sh", "-c", "echo started; sleep 1; exit 0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGHUP)
    assert lines(process) == ["ended 0 None 0"]


def test_a_parent_that_ignores_its_children_does_not_hide_a_failure() -> None:
    text = "import signal, os; signal.signal(signal.SIGCHLD, signal.SIG_IGN);" + _SUPERVISE
    result = subprocess.run(
        [sys.executable, "-c", text, "sh", "-c", "exit 3"], capture_output=True, text=True, check=False
    )
    assert result.stdout == "ended 3 None 3\n"


class Terminal:
    """A supervisor on a terminal of its own, which types what it is given."""

    def __init__(self, text: str, parent: Sequence[str] = (sys.executable, "-c", _SUPERVISE, "sh", "-c")) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execvp(parent[0], [*parent, text])
        self.output = ""

    def type(self, text: bytes) -> None:
        os.write(self.descriptor, text)

    def until(self, text: str) -> str:
        while text not in self.output:
            try:
                self.output += os.read(self.descriptor, 4096).decode()
            except OSError:
                raise AssertionError(self.output) from None
        return self.output

    def end(self) -> None:
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)


def test_ctrl_c_reaches_the_program_once() -> None:
    terminal = Terminal("trap 'echo interrupted' INT; echo started; sleep 5 & wait; sleep 0.5; echo over; exit 7")
    terminal.until("started")
    terminal.type(b"\x03")
    output = terminal.until("ended ")
    assert "ended 7 2 7" in terminal.until("7\r\n" if output.endswith("ended ") else "ended 7 2 7")
    assert terminal.output.count("interrupted") == 1
    terminal.end()


def test_ctrl_z_stops_both_and_both_go_on() -> None:
    # Under a shell with job control: the kernel stops no process group that nobody could continue.
    job = f"exec {shlex.join([sys.executable, '-c', _SUPERVISE])} sh -c 'echo started; read line; echo got $line'"
    terminal = Terminal(f"({job}); echo stopped $?; fg; exit", parent=("bash", "-m", "-c"))
    terminal.until("started")
    terminal.type(b"\x1a")
    terminal.until(f"stopped {128 + signal.SIGTSTP}")
    assert "got more" not in terminal.output
    terminal.type(b"more\n")
    terminal.until("got more")
    terminal.until("ended 0 None 0")
    terminal.end()
