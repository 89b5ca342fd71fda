"""The environments of the clients, made from their lock files when they are not there."""

import fcntl
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
CLIENTS: Final = "S3_CLIENTS_VENV"
DUCKDB: Final = "DUCKDB_S3_VENV"
JAVASCRIPT: Final = "S3_JAVASCRIPT"
SPARK: Final = "SPARK_VENV"
TABLES: Final = "TABLE_CLIENTS_VENV"
"""Variables of the Makefile that name an environment's folder."""

_FOLDERS: Final = {
    CLIENTS: ".venv-s3-clients",
    DUCKDB: ".venv-duckdb-s3",
    JAVASCRIPT: "tests/gateway/clients/javascript/node_modules",
    SPARK: ".venv-spark",
    TABLES: ".venv-table-clients",
}


@cache
def commands_of(variable: str) -> Path:
    """Return the folder with the commands of an environment; "" is the tests' own. Those that are missing are made, which takes a
    minute or two; where that fails, so does the test."""
    if not variable:
        return Path(sys.executable).parent
    folder = os.environ.get(variable, _FOLDERS[variable])
    stamp = f"{folder}/.made-from-lock"
    if not (ROOT / stamp).exists():
        (ROOT / "build").mkdir(exist_ok=True)
        with (ROOT / "build" / "s3-clients.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other workers want them, too
            sys.stderr.write(f"{folder} is missing: running `make {stamp}`\n")
            subprocess.run(["make", stamp], cwd=ROOT, check=True)
    return ROOT / folder / (".bin" if variable == JAVASCRIPT else "bin")


def missing(*needs: str) -> str:
    """Say which of some commands and devices this machine lacks; "" if it has all. With ``CI=true`` a lack is an error."""
    lacks = [need for need in needs if shutil.which(need) is None and not Path(need).is_char_device()]
    if lacks and os.environ.get("CI", "").lower() in ("1", "true"):
        raise RuntimeError(f"no {' and no '.join(lacks)} here, so a client of S3 is not tested")
    return f"no {' and no '.join(lacks)} here" if lacks else ""
