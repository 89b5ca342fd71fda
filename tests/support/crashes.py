"""A plugin for pytest: says how and where a worker of xdist crashed, below the name of the test that it ran.

What a crashing process prints itself stands anywhere in the output of a long run.
"""

import faulthandler
import os
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

_STACKS: Final = "graveler_stacks"
"""The key of a worker's file in what the controller hands it."""


class Crashes:
    """A worker writes the stacks of its threads to a file if it crashes; the controller shows the file."""

    def __init__(self, config: pytest.Config) -> None:
        self._workerinput: dict[str, str] = getattr(config, "workerinput", {})
        self._folder: TemporaryDirectory[str] | None = None

    def pytest_sessionstart(self) -> None:
        """Begin the file of a worker, after pytest's own plugin, which has the stacks printed."""
        if path := self._workerinput.get(_STACKS):
            file = Path(path).open("w")  # noqa: SIM115  open to the end of the process
            file.write(f"{os.getpid()}\n")
            file.flush()
            faulthandler.enable(file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Name the file of a worker."""
        self._folder = self._folder or TemporaryDirectory(prefix="graveler-crashes-")
        node.workerinput[_STACKS] = f"{self._folder.name}/{node.gateway.id}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: Any) -> None:
        """Add the end of a worker, and its stacks, to the report of the test."""
        path = Path(report.node.workerinput[_STACKS])
        if path.exists():
            process, _, stacks = path.read_text(errors="replace").partition("\n")
            report.longrepr += f"\nits process {_end_of(int(process))}\n{_by_thread(stacks) or 'it wrote no stacks'}"

    def pytest_unconfigure(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _by_thread(stacks: str) -> str:
    """Put the thread that crashed before the others, and each stack once, with the threads that were there: a log that is cut
    short has what matters."""
    threads: dict[str, list[str]] = {}
    rest = []
    for block in stacks.strip().split("\n\n"):
        thread, _, stack = block.partition("\n")
        if "most recent call first" in thread:
            threads.setdefault(stack, []).append(thread.partition(" (")[0])
        else:
            rest.append(block)
    blocks = sorted(
        (f"{', '.join(names)}:\n{stack}" for stack, names in threads.items()),
        key=lambda block: not block.startswith("Current thread"),
    )
    return "\n\n".join([*rest[:1], *blocks, *rest[1:]])


def _end_of(process: int) -> str:
    """Return how a child of this process ended, or is about to; execnet collects it later."""
    end = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert end is not None
    if end.si_code == os.CLD_EXITED:
        return f"ended with status {end.si_status}"
    return f"was ended by {signal.Signals(end.si_status).name}"
