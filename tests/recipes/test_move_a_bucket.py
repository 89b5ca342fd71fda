"""The recipe that moves a bucket, with a bucket on a server of S3's protocol."""

from pathlib import Path

import pytest

from graveler.storage.objects.s3 import S3Objects, S3Settings
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, s3proxy
from tests.support.shell import Shell
from tests.test_docs import replay

BUCKET = "old-data"


@pytest.fixture
def bucket(shell: Shell) -> dict[str, str]:
    """The bucket of the page, with three months of events; the environment in which AWS's clients find it."""
    environment = CREDENTIALS | {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": s3proxy(),
    }
    shell.export_all(environment)
    settings = S3Settings(REGION, s3proxy())
    make_bucket(BUCKET, settings)
    objects = S3Objects(BUCKET, "events", settings)
    for month in ("01", "02", "03"):
        objects.put(f"2026/{month}.csv", f"id,kind\n{month},view\n".encode())
    return environment


def test_a_bucket_moves_as_the_page_says(bucket: dict[str, str], tmp_path: Path) -> None:
    replay("docs/recipes/move-a-bucket.md", tmp_path, bucket)
