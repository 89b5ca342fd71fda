"""The examples for other clients in the documents are run: blocks fenced as ``python served`` and ``bash served``, in their
order.

They find the server by the environment, as for readers. Each document gets its own repository in place of the one that it
names.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.support import Served, new_name
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|bash) served\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["docs/tutorial.md", pytest.param("docs/clients.md", marks=pytest.mark.ci)])
def test_the_clients_shown_work(document: str, served: Served, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / document).read_text())
    assert {language for language, _ in blocks} == {"python", "bash"}
    name = new_name("sales")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", **served.environment}
    for language, block in blocks:
        program = re.sub(r"\bsales\b(?=[/\"])", name, block)
        command = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
        done = subprocess.run(
            [*command, program],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{program}\n{done.stdout}{done.stderr}"
