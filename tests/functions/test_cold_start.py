"""A cold start is short because a function imports little. The times themselves are figures: ``python -m bench.cold_starts``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functions.events import event

HEAVY = {
    *("aws_xray_sdk", "boto3", "moto", "numpy", "pandas", "pyarrow", "pydantic", "pynamodb", "pyspark", "sqlite3"),
    *("graveler.cli", "graveler.sdk", "graveler.server", "graveler.spark"),
    *("asyncio", "multiprocessing", "graveler.runtime.crew"),
}
"""What costs a tenth of a second, belongs to other faces, or is for several processes, which a function has not."""


FUNCTIONS = ["catalog", "commit", "diff", "ingest", "maintain", "merge", "operate", "read", "write"]
CLIENTS = {"boto3", "botocore.client", "pynamodb"}


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_lambda_makes_clients_before_the_first_event(verb: str) -> None:
    """And asks nobody for anything: no endpoint is there, and the credentials are none."""
    program = (
        "import runpy, sys\nfrom graveler.storage import aws_requests\nfrom graveler.storage.objects import s3_clients\n"
        "from graveler.storage.tables import dynamodb\n"
        "runpy.run_path(sys.argv[1])\n"
        "assert len(dynamodb._CONNECTIONS._made) == len(s3_clients.CLIENTS._made) == 1\n"
        f"missing = {CLIENTS!r} - set(sys.modules)\nsys.exit(', '.join(missing) if missing else 0)"
    )
    told = {
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_REGION": "eu-central-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "GRAVELER_OBJECTS": "s3://lake",
        "GRAVELER_TABLES": "dynamodb://lake",
        "PATH": os.environ["PATH"],
    }
    handler = Path(__file__).parents[2] / "functions" / verb / "handler.py"
    done = subprocess.run(
        [sys.executable, "-c", program, handler], env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", ["read", "write", "commit", "merge", "diff", "catalog"])
def test_but_for_clients_a_function_imports_nothing_heavy_up_to_its_first_answer(verb: str) -> None:
    program = (
        "import json, sys\nfrom graveler.functions.entry import api_handler\n"
        f"answer = api_handler({verb!r})(json.loads(sys.argv[1]), None)\n"
        "assert answer['statusCode'] == 204, answer\n"
        f"found = sorted({HEAVY!r} & set(sys.modules))\nsys.exit(', '.join(found) if found else 0)"
    )
    asked = json.dumps(event("GET", "/api/v1/healthcheck"))
    places = {"GRAVELER_OBJECTS": "s3://lake", "GRAVELER_TABLES": "dynamodb://lake", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program, asked], env=places, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_first_request_for_a_table_loads_little_more() -> None:
    """All of Iceberg's protocol is the project's own code: 37 modules, 0.1 s of CPU on a core that is also others'."""
    program = (
        "import json, sys\nfrom graveler.functions.entry import api_handler\n"
        "handler, (health, config) = api_handler('catalog'), json.loads(sys.argv[1])\n"
        "handler(health, None)\nbefore = set(sys.modules)\nanswer = handler(config, None)\n"
        "assert answer['statusCode'] == 401, answer\n"
        "added = set(sys.modules) - before\n"
        "foreign = [name for name in added if not name.startswith('graveler.')]\n"
        "print(len(added), 'graveler.api.iceberg.table_routes' in added, *foreign)"
    )
    events = json.dumps([event("GET", "/api/v1/healthcheck"), event("GET", "/iceberg/v1/config")])
    places = {"GRAVELER_OBJECTS": "s3://lake", "GRAVELER_TABLES": "dynamodb://lake", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program, events], env=places, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    added, is_catalog, *foreign = done.stdout.splitlines()[-1].split()
    assert (is_catalog, foreign) == ("True", [])
    assert int(added) <= 60
