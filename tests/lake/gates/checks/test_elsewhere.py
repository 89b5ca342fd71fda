"""Runs of checks in another process: begun once, found by the next call, kept as long as their verdict lasts, never a pass."""

import pytest

from graveler.errors import BusyError
from graveler.lake.gates.checks.outcomes import RUN_SECONDS, CheckOutcomes
from graveler.lake.gates.checks.verdicts import Verdict
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS
from tests.lake.support import World

DIGEST = b"d" * 32
GOOD = Verdict(SUCCESS)
BAD = Verdict(FAILURE, "two rows")


class Runs:
    """A function that makes checks: it ends each run at once by a verdict, or never."""

    def __init__(self, world: World) -> None:
        parts = world.main.parts
        self.outcomes = CheckOutcomes(parts.tables, parts.uid, parts.clock, parts.leases)
        self.begun: list[str] = []
        self.verdict: Verdict | None = None
        self.lasting = True

    def start(self, run: str) -> None:
        self.begun.append(run)
        if self.verdict is not None:
            self.outcomes.end_run(DIGEST, run, self.verdict, lasting=self.lasting)

    def wait(self, looks: int = 5) -> Verdict:
        """Return the verdict, or raise after so many looks."""
        left = iter(range(looks))

        def stop() -> None:
            if next(left, None) is None:
                raise BusyError("the time of the call is over")

        return self.outcomes.of_run(DIGEST, self.start, stop)


@pytest.fixture
def runs() -> Runs:
    return Runs(World())


def test_a_verdict_is_made_once(runs: Runs) -> None:
    runs.verdict = BAD
    assert [runs.wait() for _ in range(3)] == [BAD] * 3
    assert len(runs.begun) == 1


@pytest.mark.parametrize(("verdict", "lasting"), [(GOOD, False), (Verdict(ERROR, "killed"), True)])
def test_what_may_be_another_verdict_next_time_is_taken_once(runs: Runs, verdict: Verdict, lasting: bool) -> None:
    runs.verdict, runs.lasting = verdict, lasting
    assert [runs.wait() for _ in range(3)] == [verdict] * 3
    assert len(set(runs.begun)) == 3


def test_the_next_call_finds_the_run_of_one_whose_time_was_over(runs: Runs) -> None:
    for _ in range(2):
        with pytest.raises(BusyError):
            runs.wait()
    run, *others = runs.begun
    assert others == [run], "started again under its own name, in case nobody had"
    runs.outcomes.end_run(DIGEST, "another", GOOD, lasting=True)
    runs.outcomes.end_run(DIGEST, run, BAD, lasting=True)
    runs.outcomes.end_run(DIGEST, run, GOOD, lasting=True)
    assert runs.wait() == BAD
    assert len(runs.begun) == 2


def test_a_run_that_never_ends_is_an_error_and_not_a_pass(runs: Runs) -> None:
    verdict = runs.wait(2 * RUN_SECONDS + 10)
    assert verdict.state is ERROR
    assert "ended without a verdict and without a reason" in verdict.words
    runs.verdict = GOOD
    assert runs.wait() == GOOD
