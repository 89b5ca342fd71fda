"""The function ``read`` sends the web page: files of its own code, and the deployment's buckets in the policy."""

import gzip
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graveler.functions.entry import MAX_ANSWER, api_handler
from graveler.storage.objects.s3 import S3Objects
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.support.pages import BROWSER, SCRIPT, SHELL, searched_first, write_page


@pytest.fixture
def read(deployment: None, tmp_path: Path) -> Iterator[Handler]:
    write_page(tmp_path / "code")
    with searched_first(tmp_path / "code"):
        yield api_handler("read")


def asked(path: str, **headers: str) -> dict[str, Any]:
    request = event("GET", path)
    return {**request, "headers": {**BROWSER, **headers}}


def test_the_shell_is_sent_for_decoded_paths(read: Handler) -> None:
    for path in ("/", "/repositories/sales/commits/v1%2Frc", "/repositories/sales/objects"):
        response = read(asked(path), None)
        assert (response["statusCode"], response["isBase64Encoded"]) == (200, True)
        assert b64decode(response["body"]).decode() == SHELL
    assert read(asked("/repositories/sales/other"), None)["statusCode"] == 404


def test_an_asset_is_sent_compressed(read: Handler) -> None:
    response = read(asked("/assets/main-1f.js", **{"accept-encoding": "gzip, deflate, br"}), None)
    assert response["headers"]["content-encoding"] == "gzip"
    assert gzip.decompress(b64decode(response["body"])).decode() == SCRIPT
    assert len(response["body"]) < MAX_ANSWER
    tag = response["headers"]["etag"]
    again = read(asked("/assets/main-1f.js", **{"if-none-match": tag}), None)
    assert (again["statusCode"], again["body"]) == (304, "")


def test_the_policy_names_where_presigned_urls_lead(read: Handler) -> None:
    policy = read(asked("/repositories"), None)["headers"]["content-security-policy"]
    sources = dict(part.strip().partition(" ")[::2] for part in policy.split(";"))["connect-src"].split()
    assert sources[0] == "'self'"
    assert len(sources) == 3
    for bucket, source in zip(("lake", "raw"), sources[1:], strict=True):
        url = S3Objects(bucket, "sales").presign("data/x", "GET", 60)
        assert url.startswith(f"{source}/")
        assert bucket in source
