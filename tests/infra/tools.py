"""The tools of a deployment, for tests: made once, asked by name."""

import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from infra.feature_flags import feature_flags

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = ROOT / ".venv-deploy" / "bin" / "python"
CDK: Final = ROOT / "infra" / "node_modules" / ".bin" / "cdk"


def require_tools() -> None:
    """Have ``make deploy-tools`` done. Skips the test where the machine lacks what that needs, but never in CI."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want them too
        done = subprocess.run(["make", "deploy-tools"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"no tools to deploy with: {done.stdout[-300:]} {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr


def host_architecture() -> str:
    """This machine's, as settings call it: emulators run functions on it."""
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def environment(**more: str) -> dict[str, str]:
    """For tools: this process's, without what would make them write no byte code or warn."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1", "CDK_DISABLE_CLI_TELEMETRY": "1", **more}


def synthesise(into: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """``python app.py`` with these settings and no others, as the CDK runs it."""
    named = {"deployment": "none", **settings}
    context = {**feature_flags(), **{f"graveler:{name}": value for name, value in named.items()}}
    return subprocess.run(
        [PYTHON, "app.py"],
        cwd=ROOT,
        env=environment(CDK_OUTDIR=str(into), CDK_CONTEXT_JSON=json.dumps(context)),
        capture_output=True,
        text=True,
        check=False,
    )


def templates(assembly: Path) -> dict[str, dict[str, Any]]:
    """The templates of an assembly, by the end of their stack's name."""
    return {
        file.name.removesuffix(".template.json").partition("-")[2]: json.loads(file.read_text())
        for file in sorted(assembly.glob("*.template.json"))
    }


def resources(template: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """The resources of a type, by their logical IDs."""
    return {name: each for name, each in template["Resources"].items() if each["Type"] == kind}


def policies(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All policies of identities, in roles or attached to them."""
    return [*resources(template, "AWS::IAM::Policy").values(), *resources(template, "AWS::IAM::ManagedPolicy").values()]
