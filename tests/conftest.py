"""For the whole run: the order of the tests, Hypothesis on a busy machine, which tests are left to ``make test-all``, and at
the end the number of cases that campaigns tried."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from random import Random
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support import campaigns
from tests.support.crashes import Crashes
from tests.support.shell import Shell
from tests.support.warm_command import warm_command

# How long an example takes says nothing about the code on a machine that does other things too.
settings.register_profile("graveler", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("graveler")

_LEFT: Final = pytest.StashKey[int]()
"""How many tests marked ``ci`` were not selected. Each worker collects all tests, so each has the same number."""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Environment variables and the working folder of this test."""
    return Shell(monkeypatch)


@pytest.fixture(scope="session")
def command_path() -> Iterator[str]:
    """The variable ``PATH``, for tests that run ``graveler`` many times, and need not load its modules each time."""
    with warm_command() as path:
        yield path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run the modules in a random order, and the tests of each module in a random order",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("shuffle")
    return None if seed is None else f"random order of the tests: --shuffle {seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: nearly all objects stay to the end, and a third of the time would go into
    looking at them again and again. Afterwards they are frozen, for the same reason."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle, if asked to: all workers the same, since they start from the same order."""
    seed = config.getoption("shuffle")
    if seed is None:
        return
    random = Random(seed)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    groups = list(modules.values())
    random.shuffle(groups)
    for group in groups:
        random.shuffle(group)
    items[:] = [item for group in groups for item in group]


class _Shares:
    """Leaves to ``make test-all`` all but every n-th test of those marked ``share(n)`` in a module, by marking them ``ci``. The
    seed of the run says which, the same ones in all workers."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        repetitions: dict[tuple[str, int], list[pytest.Item]] = {}
        for item in items:
            if marker := item.get_closest_marker("share"):
                repetitions.setdefault((item.nodeid.partition("::")[0], marker.args[0]), []).append(item)
        for (module, of), repeated in repetitions.items():
            for item in set(repeated).difference(campaigns.share(repeated, of, module)):
                item.add_marker(pytest.mark.ci)


class _Deselected:
    """Counts the tests marked ``ci`` that ``-m`` left out; a worker of xdist hands its number to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        config.stash[_LEFT] = 0

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        left = sum(item.get_closest_marker("ci") is not None for item in items)
        self._config.stash[_LEFT] += left

    def pytest_sessionfinish(self) -> None:
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["left_to_ci"] = self._config.stash[_LEFT]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        left = getattr(node, "workeroutput", {}).get("left_to_ci", 0)
        self._config.stash[_LEFT] = max(self._config.stash[_LEFT], left)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["GRAVELER_CONFIG"] = "/nowhere/graveler.toml"  # and not that of who runs the tests
    config.pluginmanager.register(_Shares())
    config.pluginmanager.register(Crashes(config))
    config.pluginmanager.register(_Deselected(config))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what is in its background so, and commands that tests interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    campaigns.begin(config.getoption("hypothesis_seed", None))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left to ``make test-all``. Add up what tests recorded as ``faults``: the requests of a verb, and the faults
    that were tried in them."""
    if left := config.stash[_LEFT]:
        terminalreporter.write_line(
            f"left to `make test-all`: {left} tests: full deployments, own environments, more servers, searches, and "
            f"repetitions on other lakes that seed {campaigns.seed()} leaves out"
        )
    recorded = [
        value
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", [])
        if name == "faults"
    ]
    if recorded:
        requests, faults = (sum(each) for each in zip(*recorded, strict=True))
        terminalreporter.write_line(f"faults: {len(recorded)} verbs, {requests} requests, {faults} faults, one by one")
