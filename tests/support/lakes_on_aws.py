"""A lake on S3 and DynamoDB, as local servers have them."""

from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from graveler.sdk.lake import create_lake
from graveler.storage.objects.s3 import S3Settings
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy


def new_lake_on_aws(name: str, cache: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Create a lake whose name begins like this. Return the variables that it needs, with a folder for its cache, and where it
    is, as ``open_lake`` takes it."""
    full = f"{name}-{token_hex(6)}"
    variables = {**CREDENTIALS, "XDG_CACHE_HOME": str(cache)}
    place = {
        "location": f"dynamodb://{full}",
        "objects": f"s3://{full}/lake",
        "region": REGION,
        "s3_endpoint_url": s3proxy(),
        "dynamodb_endpoint_url": dynamodb_local(),
    }
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        make_bucket(full, S3Settings(REGION, s3proxy()))
        create_lake(create_table=True, **place).close()
    return variables, place
