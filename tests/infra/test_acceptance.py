"""The acceptance run, with the same code as in an account, as far as an emulator goes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra.acceptance import __main__ as command
from infra.acceptance.account import Account
from infra.acceptance.checks import CHECKS, Check
from infra.acceptance.deployment import CheckError, Deployment
from infra.settings import PREFIX
from infra.settings_files import read_settings
from tests.infra.conftest import synthesised, without_expressions
from tests.infra.emulator import Emulator, emulating
from tests.infra.tools import host_architecture
from tests.support.shell import Shell

pytestmark = pytest.mark.ci

REGION = "us-east-1"
NAME = "accepted"
UNEMULATED = {"login by AWS", "routes", "throttle", "throttled function", "snapshot", "quiet"}


@pytest.fixture
def emulator(names: None, tmp_path: Path, shell: Shell) -> Iterator[Emulator]:
    with emulating(tmp_path / "emulator") as running:
        shell.export_all(running.environment)
        yield running


def adapted(folder: Path) -> Path:
    """The templates of a run, for an emulator on this machine, which knows no expressions in alarms."""
    settings = Account(REGION, NAME, folder, spark=False).settings()
    assembly = folder / "assembly"
    synthesised(assembly, **settings, architecture=host_architecture())
    without_expressions(assembly / f"{NAME}-observability.template.json")
    return assembly


def planted(deployment: Deployment) -> str:
    raise CheckError("a planted | fault")


def test_a_run_checks_everything_tells_what_fails_and_leaves_nothing(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "CHECKS", (Check("planted", "that a run goes on", planted), *CHECKS))
    folder = tmp_path / "acceptance"
    folder.mkdir()
    arguments = ["--region", REGION, "--name", NAME, "--folder", str(folder), "--rows", "20000"]
    code = command.main([*arguments, "--assembly", str(adapted(folder))])
    errors = (folder / "errors.log").read_text()
    told = {step["name"]: step for step in json.loads((folder / "report.json").read_text())["steps"]}
    assert {name: step["outcome"] for name, step in told.items()} == {
        **dict.fromkeys(("bootstrap", "deploy", "remove"), "passed"),
        **{check.name: "not run" if check.name in UNEMULATED else "passed" for check in CHECKS},
        "planted": "FAILED",
    }, errors
    assert list(told)[-1] == "remove"
    assert code == 1
    assert told["planted"]["detail"] == "CheckError: a planted | fault"
    assert "in planted" in errors
    page = (folder / "report.md").read_text()
    assert page in capsys.readouterr().out
    assert f"{len(CHECKS) - len(UNEMULATED) + 3} passed, 1 FAILED, {len(UNEMULATED)} not run." in page
    stacks = boto3.client("cloudformation").describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == ["CDKToolkit"]
    left = [bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]]
    assert all(name.startswith("cdk-") for name in left), left


def test_settings_of_a_run_are_settings(emulator: Emulator, tmp_path: Path) -> None:
    given: dict[str, Any] = Account("eu-south-1", "graveler-accept", tmp_path, spark=True).settings()
    made = read_settings({f"{PREFIX}:{name}": value for name, value in given.items()}.get)
    assert made.removal == "destroy", "nothing of a run is worth keeping"
    assert made.spark
    assert made.snap_start == ("diff",)
