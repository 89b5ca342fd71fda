"""What clients learn before they begin."""

import re
from pathlib import Path
from typing import Final

import pytest

from graveler.api.resources import GROUPS, unimplemented
from graveler.api.resources.config import FEATURES
from graveler.api.settings import Settings
from tests.api.support import Client, EventClient, make_world

ROOT: Final = Path(__file__).resolve().parents[2]


def test_the_configuration_has_what_the_published_clients_require(call: Client) -> None:
    config = call("GET", "/config").json()
    assert config["storage_config_list"] == []
    assert (config["ui_config"], config["capabilities_config"]) == ({}, {})
    version = config["version_config"]
    assert all(part.isdecimal() for part in version["version"].split("."))
    assert (version["version_context"], version["upgrade_recommended"]) == ("lakeFS", False)
    storage = config["storage_config"]
    assert {name: type(value) for name, value in storage.items()} == {
        "blockstore_type": str,
        "blockstore_namespace_example": str,
        "blockstore_namespace_ValidityRegex": str,
        "default_namespace_prefix": str,
        "pre_sign_support": bool,
        "pre_sign_support_ui": bool,
        "import_support": bool,
        "import_validity_regex": str,
        "pre_sign_multipart_upload": bool,
        "blockstore_id": str,
        "blockstore_description": str,
    }
    assert storage["pre_sign_support"] is storage["pre_sign_multipart_upload"] is True
    assert call("GET", "/config/storage").json() == storage
    assert call("GET", "/config/version").json() == version


@pytest.mark.parametrize(
    ("prefix", "kind", "namespace"),
    [
        ("local://", "local", "local://new"),
        ("s3://bucket/lakes/", "s3", "s3://bucket/lakes/new"),
        ("mem://", "mem", "mem://new"),
    ],
)
def test_clients_make_a_namespace_of_the_prefix_a_slash_and_a_name(prefix: str, kind: str, namespace: str) -> None:
    call = EventClient(make_world(Settings(namespace_prefix=prefix)))
    storage = call("GET", "/config").json()["storage_config"]
    assert storage["blockstore_type"] == kind
    assert f"{storage['default_namespace_prefix']}/new" == namespace
    body = {"name": "new", "storage_namespace": f"{storage['default_namespace_prefix']}/new"}
    assert call("POST", "/repositories", body=body).json()["storage_namespace"] == namespace


def test_without_presigned_urls_clients_are_told_so() -> None:
    call = EventClient(make_world(Settings(presigned=False)))
    storage = call("GET", "/config").json()["storage_config"]
    assert (storage["pre_sign_support"], storage["pre_sign_multipart_upload"]) == (False, False)


def test_features_are_operations_that_are_there_and_in_the_document() -> None:
    call = EventClient(make_world())
    features = call("GET", "/config").json()["features"]
    operations = {route.operation for group in GROUPS if group is not unimplemented.routes for route in group.routes}
    assert set(FEATURES.values()) <= operations
    assert features == sorted({*FEATURES, "presign", "upload"})
    table = (ROOT / "docs/api.md").read_text().partition("### Features")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == features


def test_without_presigned_urls_no_page_uploads() -> None:
    features = EventClient(make_world(Settings(presigned=False)))("GET", "/config").json()["features"]
    assert features == sorted(FEATURES)


def test_nobody_uploads_to_a_lake_that_can_only_be_read() -> None:
    call = EventClient(make_world())
    call.world.lake.writable = False
    features = call("GET", "/config").json()["features"]
    assert features == sorted({*FEATURES, "presign"})


def test_the_small_questions(call: Client) -> None:
    health = call("GET", "/healthcheck", authorization=None)
    assert (health.status, health.body) == (204, b"")
    assert call("GET", "/config/garbage-collection").json()["grace_period"] > 0
    usage = call("GET", "/usage-report/summary").json()
    assert usage == {"installation_id": "", "reports": []}
    assert call("POST", "/statistics", body={"events": [{"class": "lakectl", "name": "x", "count": 1}]}).status == 204
    assert call("GET", "/auth/capabilities", authorization=None).json() == {
        "invite_user": False,
        "forgot_password": False,
        "access_keys": True,
    }


@pytest.mark.parametrize("path", ["/config", "/config/storage", "/config/version", "/user", "/usage-report/summary"])
def test_strangers_learn_nothing(call: Client, path: str) -> None:
    assert call("GET", path, authorization=None).status == 401
