"""What the one who starts a server allows its clients."""

import re
from pathlib import Path

import pytest

from graveler.cli.verbs.serve import _is_loopback
from graveler.lake.place import AwsLake, FolderLake
from graveler.server.settings import ServerSettings
from graveler.server.worker import api_settings


def settings(sources: tuple[str, ...] | None) -> ServerSettings:
    return ServerSettings(
        lake=FolderLake(Path("/nowhere")), metrics=Path("/nowhere"), import_sources=sources, presign_seconds=60
    )


def test_everything_is_allowed_unless_sources_are_named() -> None:
    made = api_settings(settings(None))
    assert made.import_sources.allows("file:///etc/hostname")
    assert all(re.match(made.namespace_pattern, f"{scheme}://x") for scheme in ("local", "file", "s3"))
    assert made.presign_seconds == 60


@pytest.mark.parametrize("sources", [(), ("file:///raw",)])
def test_named_sources_are_all_there_is(sources: tuple[str, ...]) -> None:
    made = api_settings(settings(sources))
    assert not made.import_sources.allows("file:///etc/hostname")
    assert made.import_sources.allows("file:///raw/x") == bool(sources)
    assert re.match(made.namespace_pattern, "local://x")
    assert not re.match(made.namespace_pattern, "file:///raw/x"), "a repository there would own what is in that folder"


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("lake.example", False),
    ],
)
def test_only_this_machines_own_address_is_trusted(host: str, own: bool) -> None:
    assert _is_loopback(host) is own


@pytest.mark.parametrize(("sources", "elsewhere"), [(None, True), ((), False), (("s3://raw/",), False)])
def test_on_aws_repositories_are_in_s3_and_below_the_lakes_place_if_sources_are_limited(
    sources: tuple[str, ...] | None, elsewhere: bool
) -> None:
    place = AwsLake(objects="s3://my.bucket/lake/", tables="dynamodb://lake", cache=Path("/nowhere"))
    made = api_settings(ServerSettings(lake=place, metrics=Path("/nowhere"), import_sources=sources))
    assert made.namespace_prefix == "s3://my.bucket/lake/"
    assert re.match(made.namespace_pattern, "s3://my.bucket/lake/rep")
    for namespace in ("s3://other/rep", "s3://my.bucket/lake-2/rep", "s3://my-bucket/lake/rep"):
        assert bool(re.match(made.namespace_pattern, namespace)) is elsewhere
    for namespace in ("local://rep", "file:///rep"):
        assert not re.match(made.namespace_pattern, namespace)
