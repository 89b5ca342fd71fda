"""The documents' examples for lakes on AWS and behind servers are run: blocks fenced as ``python`` or ``sh``, and ``aws`` or
``endpoint``. They find the lake by the environment, as for readers, or by the names in capitals that they use."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

from graveler.storage.objects.s3 import S3Settings
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.patience import PATIENCE
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.shell import Shell

ROOT = Path(__file__).resolve().parents[2]


def block(document: str, fence: str) -> str:
    """The one block with this fence."""
    (found,) = re.findall(rf"^```{fence}\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


@pytest.fixture
def aws(shell: Shell, tmp_path: Path) -> str:
    """Name of a bucket that is there, and of a table that is not; the environment has what AWS's own tools need."""
    name = f"docs-{token_hex(6)}"
    environment = CREDENTIALS | {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": s3proxy(),
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb_local(),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    shell.export_all(environment)
    make_bucket(name, S3Settings(REGION, s3proxy()))
    return name


def ran(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_python_on_aws(aws: str, tmp_path: Path) -> None:
    program = block("docs/python.md", "python aws").replace("dynamodb://lake", f"dynamodb://{aws}")
    assert "1,100" in ran(sys.executable, "-c", program.replace("my-bucket", aws), folder=tmp_path)


def test_python_behind_a_server(endpoint: tuple[str, str, str], tmp_path: Path) -> None:
    url, key_id, secret = endpoint
    names = f"ENDPOINT, KEY_ID, SECRET = {url!r}, {key_id!r}, {secret!r}\n"
    program = block("docs/python.md", "python endpoint").replace('"first"', f'"first-{token_hex(4)}"')
    assert "'table.csv' already exists" in ran(sys.executable, "-c", names + program, folder=tmp_path)


def test_an_administrators_key_is_made_on_a_deployments_table(aws: str, tmp_path: Path) -> None:
    shown = block("docs/deploy.md", "sh aws")
    ran("graveler", "--objects", f"s3://{aws}", "init", f"dynamodb://{aws}", "--create-table", folder=tmp_path)
    (tmp_path / "build").mkdir()
    key = f"arn:aws:kms:{REGION}:123456789012:key/not-asked-for-this"
    outputs = {"graveler-stateful": {"LakeTable": aws, "ObjectsBucket": aws, "SealingKeyArn": key}}
    (tmp_path / "build/outputs.json").write_text(json.dumps(outputs))
    made = ran("bash", "-euc", shown, folder=tmp_path)
    assert "access key ID:" in made
    assert "role:               admin" in made


def test_a_first_commit_with_the_command_line(endpoint: tuple[str, str, str], shell: Shell, tmp_path: Path) -> None:
    names = ("ENDPOINT", "GRAVELER_ACCESS_KEY_ID", "GRAVELER_SECRET_ACCESS_KEY")
    for name, value in zip(names, endpoint, strict=True):
        shell.export(name, value)
    shell.export("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    name = f"first-{token_hex(4)}"
    shown = re.sub(r"\bfirst\b(?=\n|/)(?<!-m first)", name, block("docs/deploy.md", "sh endpoint"))
    assert f"created repository lakefs://{name}" in ran("bash", "-euc", shown, folder=tmp_path)
