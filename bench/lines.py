"""The table of a run: a line for each row, with what was measured beside it and against which goals."""

from collections.abc import Iterable
from dataclasses import dataclass

HEAD = (
    "| what | measured | per second | spread | peak memory, + workers' | beside, in the same run | goals | met | requests of one "
    "call, notes |\n|---|---:|---:|---|---:|---|---|---|---|"
)


@dataclass(frozen=True)
class Goal:
    """A bound, and what was measured of it. ``measured`` is None where the run had nothing to compare with."""

    what: str
    measured: float | None
    wanted: float
    least: bool = False
    """``wanted`` is the least that is wanted, and else the most."""

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.least else self.measured <= self.wanted

    def __str__(self) -> str:
        measured = "not measured" if self.measured is None else digits(self.measured)
        return f"{self.what} {measured} ({'≥' if self.least else '≤'} {self.wanted:g})"


@dataclass(frozen=True)
class Line:
    """A row of the table. What is not said does not apply."""

    what: str
    measured: str
    rate: str = ""
    spread: str = ""
    memory: str = ""
    beside: str = ""
    goals: tuple[Goal, ...] = ()
    notes: str = ""
    failed: str = ""
    """An error that makes the row worthless."""

    @property
    def met(self) -> str:
        """Whether each goal is met, or which are not."""
        if self.failed:
            return "**failed**"
        if any(goal.met is False for goal in self.goals):
            return "**no**: " + ", ".join(goal.what for goal in self.goals if goal.met is False)
        if any(goal.met is None for goal in self.goals):
            return "?"
        return "yes" if self.goals else ""

    def __str__(self) -> str:
        goals = "; ".join(map(str, self.goals))
        notes = f"{self.failed} {self.notes}".strip().replace("|", "/")
        return (
            f"| {self.what} | {self.measured} | {self.rate} | {self.spread} | {self.memory} | {self.beside} | {goals} | "
            f"{self.met} | {notes} |"
        )


def table(lines: Iterable[Line]) -> str:
    """All of them, in Markdown."""
    return "\n".join([HEAD, *map(str, lines)])


def show(seconds: float) -> str:
    """A time with three digits."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def digits(number: float) -> str:
    """A number with as many digits as say something."""
    return f"{number:,.0f}" if number >= 20 else f"{number:.2f}"
