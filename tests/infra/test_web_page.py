"""The web page of a whole deployment, in a browser."""

import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Final
from unittest.mock import patch
from urllib.parse import urlsplit

import boto3
import msgspec
import pytest

from tests.infra.conftest import Deployed
from tests.infra.tools import ROOT, environment
from tests.support.patience import PATIENCE

WEB_PYTHON: Final = ROOT / ".venv-web" / "bin" / "python"
STORIES: Final = "tests/web/deployed"


def test_the_stories_of_the_page(deployed: Deployed, tmp_path: Path) -> None:
    """Stories that run where a browser's driver is: the page by the function ``read``, bytes by presigned URLs. The emulator gets
    the API's name on AWS, so that the bucket's rules for pages are those of a deployment."""
    if not WEB_PYTHON.exists():
        pytest.skip("no .venv-web; `make web-test-tools` makes it")
    description = tmp_path / "whole.json"
    description.write_bytes(msgspec.json.encode(describe(deployed)))
    done = subprocess.run(
        [WEB_PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", STORIES],
        cwd=ROOT,
        env=environment(GRAVELER_DEPLOYED_WHOLE=str(description)),
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def describe(deployed: Deployed) -> dict[str, object]:
    """Give the API its name on AWS, and return what the stories need to know."""
    api_id = (urlsplit(deployed.url).hostname or "").partition(".")[0]
    name = f"{api_id}.execute-api.us-east-1.amazonaws.com"
    with patch.dict(os.environ, deployed.emulator.environment):
        gateway, s3 = boto3.client("apigatewayv2"), boto3.client("s3")
        with closing(gateway), closing(s3):
            gateway.create_domain_name(DomainName=name, DomainNameConfigurations=[{"EndpointType": "REGIONAL"}])
            gateway.create_api_mapping(ApiId=api_id, DomainName=name, Stage="$default")
            rules = s3.get_bucket_cors(Bucket=deployed.bucket)["CORSRules"]
    return {
        "emulator": deployed.emulator.url,
        "name": name,
        "bucket": deployed.bucket,
        "key_id": deployed.key_id,
        "secret": deployed.secret,
        "cors": rules,
    }
