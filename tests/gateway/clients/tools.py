"""The environments of the clients, made from their lock files when they are not there."""

import fcntl
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
CLIENTS: Final = "S3_CLIENTS_VENV"
DUCKDB: Final = "DUCKDB_S3_VENV"
"""Variables of the Makefile that name an environment's folder."""

_FOLDERS: Final = {CLIENTS: ".venv-s3-clients", DUCKDB: ".venv-duckdb-s3"}


@cache
def commands_of(variable: str) -> Path:
    """Return the folder with the commands of an environment; "" is the tests' own. Those that are missing are made, which takes a
    minute or two; where that fails, so does the test."""
    if not variable:
        return Path(sys.executable).parent
    folder = ROOT / os.environ.get(variable, _FOLDERS[variable])
    if not (folder / ".made-from-lock").exists():
        (ROOT / "build").mkdir(exist_ok=True)
        with (ROOT / "build" / "s3-clients.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want them, too
            sys.stderr.write(f"{folder} is missing: running `make s3-client-tools`\n")
            subprocess.run(["make", "s3-client-tools"], cwd=ROOT, check=True)
    return folder / "bin"
