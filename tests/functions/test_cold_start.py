"""A cold start is short because a function imports little. The times themselves are figures: ``python -m bench.cold_starts``."""

import json
import os
import subprocess
import sys

import pytest

from tests.functions.events import event

HEAVY = {
    *("aws_xray_sdk", "boto3", "moto", "numpy", "pandas", "pyarrow", "pydantic", "pynamodb", "pyspark", "sqlite3"),
    *("graveler.cli", "graveler.sdk", "graveler.server", "graveler.spark"),
    *("asyncio", "multiprocessing", "graveler.tree.crew"),
}
"""What costs a tenth of a second, belongs to other faces, or is for several processes, which a function has not."""


@pytest.mark.parametrize("verb", ["read", "write", "commit", "merge", "diff"])
def test_up_to_its_first_answer_a_function_imports_nothing_heavy(verb: str) -> None:
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
