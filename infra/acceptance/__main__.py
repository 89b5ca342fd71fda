"""The command ``python -m infra.acceptance``."""

import argparse
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import graveler
from infra.acceptance.account import ROOT, Account, AccountError
from infra.acceptance.checks import CHECKS, Check
from infra.acceptance.deployment import Deployment
from infra.acceptance.report import Outcome, Report, Step

FOLDER: Final = ROOT / "build" / "acceptance"
_ABOUT: Final = """\
Deploy graveler to an AWS account, look whether it does what it promises, remove it again, and write a report.

The account is that of the environment's credentials; they may create and delete all that `cdk deploy` does. A deployment of its
own is made, beside any other. With a million rows for Spark it takes about an hour, most of which is waiting for a table that can
be restored, and costs about two US dollars; a hundred million rows take about a dollar and a quarter of an hour more. (These are
estimates: docs/deploy.md.)
"""
_END: Final = """\
examples:
  make acceptance REGION=eu-central-1
  make acceptance REGION=eu-south-1 ACCEPTANCE='--rows 100000000'
  python -m infra.acceptance --region eu-central-1 --keep --only 'head|uploads'
  python -m infra.acceptance --region eu-central-1 --remove

exit codes:
  0 everything passed; 1 a check failed, see the report; 2 wrong usage; 3 it could not be deployed or removed; 130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Deploy, check, remove, report. The exit code."""
    said = _parser().parse_args(arguments)
    folder: Path = said.folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        account = Account(said.region, said.name, folder, spark=not _emulated())
        _say(f"account {account.number}, region {said.region}, as {account.caller}")
        return _run(account, said)
    except AccountError as error:
        _say(f"error: {error}")
        return 3
    except KeyboardInterrupt:
        _say(
            f"interrupted; if it left anything: python -m infra.acceptance --region {said.region} --name {said.name} --remove"
        )
        return 130


def _run(account: Account, said: argparse.Namespace) -> int:
    assembly = said.assembly or account.synthesise()
    if said.remove:
        _say(account.destroy(assembly))
        return 0
    report = Report(
        graveler.__version__,
        _commit(),
        said.region,
        "an emulator" if _emulated() else "AWS",
        {**account.settings(), "rows": said.rows},
    )
    steps = _Steps(report, said.folder)
    outputs: dict[str, str] = {}

    def deploy() -> str:
        outputs.update(account.deploy(assembly))
        return f"{len(outputs)} outputs"

    try:
        if steps.take("bootstrap", "the CDK can deploy to the region", account.bootstrap) and steps.take(
            "deploy", "all stacks come up", deploy
        ):
            with Deployment(
                said.region, said.name, outputs, account.source, said.folder, emulated=_emulated(), rows=said.rows
            ) as deployment:
                for check in CHECKS:
                    if said.only is None or said.only.search(check.name):
                        _check(steps, check, deployment)
    finally:
        if not said.keep:
            steps.take("remove", "all of it goes again", lambda: account.destroy(assembly))
        report.ended = time.time()
        report.write(said.folder)
    print(report.markdown())
    _say(f"the report is {said.folder / 'report.md'}")
    if {"bootstrap", "deploy", "remove"} & set(report.failed):
        return 3
    return 1 if report.failed else 0


def _check(steps: "_Steps", check: Check, deployment: Deployment) -> None:
    if deployment.emulated and check.unemulated:
        steps.leave(check.name, check.about, check.unemulated)
    else:
        steps.take(check.name, check.about, lambda: check.run(deployment))


class _Steps:
    """Takes one step after the other, and notes what came of each at once."""

    def __init__(self, report: Report, folder: Path) -> None:
        self._report = report
        self._folder = folder

    def take(self, name: str, about: str, work: Callable[[], str]) -> bool:
        """Whether it passed. What it raised is in the report, and where it did in ``errors.log``."""
        _say(f"{name}: {about} …")
        began = time.monotonic()
        try:
            outcome, detail = Outcome.PASSED, work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next step is taken, and the report tells
            outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {str(error)[:1000]}"
            with (self._folder / "errors.log").open("a") as log:
                log.write(f"{name}\n{traceback.format_exc()}\n")
        self._note(Step(name, about, outcome, time.monotonic() - began, detail))
        return outcome is Outcome.PASSED

    def leave(self, name: str, about: str, why: str) -> None:
        """Note why a step was not taken."""
        self._note(Step(name, about, Outcome.NOT_RUN, 0, why))

    def _note(self, step: Step) -> None:
        self._report.steps.append(step)
        self._report.write(self._folder)
        _say(f"{step.name}: {step.outcome} ({step.seconds:.1f} s): {step.detail}")


def _emulated() -> bool:
    """Whether AWS's tools are told to ask somebody else."""
    return bool(os.environ.get("AWS_ENDPOINT_URL"))


def _commit() -> str:
    """Of this repository; with ``+`` where files were changed since."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
        return done.stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if git("status", "--porcelain") else "")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no pattern: {error}") from None


def _rows(text: str) -> int:
    if not text.isdecimal() or not 1_000 <= int(text) <= 1_000_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number, 1000 to 1000000000")
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be 1 to 20 small letters, digits and hyphens, a letter first")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.acceptance",
        description=_ABOUT,
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--region", required=True, help="where to deploy to, as eu-central-1")
    parser.add_argument("--name", type=_name, default="graveler-accept", help="of the deployment (default %(default)s)")
    parser.add_argument("--rows", type=_rows, default=1_000_000, help="of Spark's listing (default %(default)s)")
    parser.add_argument("--only", type=_pattern, metavar="REGEX", help="checks whose name has it")
    parser.add_argument("--keep", action="store_true", help="leave the deployment there")
    parser.add_argument("--remove", action="store_true", help="only remove what an earlier run has left")
    parser.add_argument("--assembly", type=Path, help="folder of templates to deploy, instead of the app's")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the report (default build/acceptance)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
