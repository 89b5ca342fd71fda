"""What the options of a server allow its clients."""

import re
from pathlib import Path

import pytest

from graveler.api.settings import Settings
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.server.configuration import ServerSettings
from graveler.server.worker import api_settings


def settings(*sources: str) -> ServerSettings:
    return ServerSettings(
        lake=FolderLake(Path("/nowhere")), metrics=Path("/nowhere"), import_sources=sources, presign_seconds=60
    )


def test_nothing_is_a_source_unless_it_is_named() -> None:
    made = api_settings(ServerSettings(lake=FolderLake(Path("/nowhere")), metrics=Path("/nowhere"), presign_seconds=60))
    assert not made.import_sources.allows("file:///etc/hostname")
    assert not Settings().import_sources.allows("s3://bucket/x")
    assert made.presign_seconds == 60


@pytest.mark.parametrize("sources", [(), ("file:///raw",)])
def test_named_sources_are_all_there_is(sources: tuple[str, ...]) -> None:
    made = api_settings(settings(*sources))
    assert not made.import_sources.allows("file:///etc/hostname")
    assert made.import_sources.allows("file:///raw/x") == bool(sources)
    assert re.match(made.namespace_pattern, "local://x")
    assert not re.match(made.namespace_pattern, "file:///raw/x"), "a repository there would own what is in that folder"


@pytest.mark.parametrize("sources", [(), ("s3://raw/",)])
def test_on_aws_repositories_are_below_the_lakes_place(sources: tuple[str, ...]) -> None:
    place = AwsLake(objects="s3://my.bucket/lake/", tables="dynamodb://lake", cache=Path("/nowhere"))
    made = api_settings(ServerSettings(lake=place, metrics=Path("/nowhere"), import_sources=sources))
    assert made.namespace_prefix == "s3://my.bucket/lake/"
    assert re.match(made.namespace_pattern, "s3://my.bucket/lake/rep")
    outside = ("s3://other/rep", "s3://my.bucket/lake-2/rep", "s3://my-bucket/lake/rep", "s3://raw/rep")
    for namespace in (*outside, "local://rep", "file:///rep"):
        assert not re.match(made.namespace_pattern, namespace)
