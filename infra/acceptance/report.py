"""What came of an acceptance run: ``report.json`` for programs, ``report.md`` for people."""

import json
import time
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

_STAMP: Final = "%Y-%m-%d %H:%M:%S UTC"


class Outcome(StrEnum):
    """Of a step."""

    PASSED = "passed"
    FAILED = "FAILED"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Step:
    """A step: what a pass shows, what came of it, how long it took, and what was seen, or why it failed or was not run."""

    name: str
    about: str
    outcome: Outcome
    seconds: float
    detail: str


@dataclass
class Report:
    """All steps of a run, and what it was run on."""

    version: str
    commit: str
    """Of this repository; with ``+`` if files were changed since."""
    region: str
    where: str
    """``AWS``, or ``an emulator``."""
    settings: dict[str, object]
    began: float = field(default_factory=time.time)
    ended: float = 0.0
    steps: list[Step] = field(default_factory=list)

    @property
    def failed(self) -> list[str]:
        """Names of the steps that failed."""
        return [step.name for step in self.steps if step.outcome is Outcome.FAILED]

    def write(self, folder: Path) -> None:
        """Both files, as far as it has come. A second time replaces the first."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(asdict(self), indent=1) + "\n")
        (folder / "report.md").write_text(self.markdown())

    def _when(self) -> str:
        return f"from {_stamp(self.began)}" + (f" to {_stamp(self.ended)}" if self.ended else ", not at its end")

    def markdown(self) -> str:
        """For people."""
        counted = {outcome: sum(step.outcome is outcome for step in self.steps) for outcome in Outcome}
        lines = [
            "# Acceptance of graveler",
            "",
            f"graveler {self.version}, commit {self.commit}, on {self.where}, region {self.region}, {self._when()}.",
            "",
            ", ".join(f"{number} {outcome}" for outcome, number in counted.items()) + ".",
            "",
            "| step | | seconds | what it shows | what was seen |",
            "|---|---|---:|---|---|",
            *(
                f"| {step.name} | {step.outcome} | {step.seconds:.1f} | {step.about} | {_cell(step.detail)} |"
                for step in self.steps
            ),
            "",
            "Settings besides the defaults: "
            + ", ".join(f"`{name}` {json.dumps(value)}" for name, value in self.settings.items())
            + ".",
            "",
        ]
        return "\n".join(lines)


def _stamp(seconds: float) -> str:
    return time.strftime(_STAMP, time.gmtime(seconds))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
