"""What the options of a server allow its clients, and what its worker processes may do."""

import os
import re
from pathlib import Path

import pytest

from graveler.api.settings import Settings
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, FolderLake, open_at
from graveler.model import ObjectEntry, SplitParameters
from graveler.server.configuration import ServerSettings
from graveler.server.worker import api_settings
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.shell import Shell


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
    assert made.page_stores == (place.objects, *sources)
    outside = ("s3://other/rep", "s3://my.bucket/lake-2/rep", "s3://my-bucket/lake/rep", "s3://raw/rep")
    for namespace in (*outside, "local://rep", "file:///rep"):
        assert not re.match(made.namespace_pattern, namespace)


def test_worker_processes_read_and_write_the_trees_of_a_server(tmp_path: Path, shell: Shell) -> None:
    shell.export("GRAVELER_WORKERS", "2")
    create_folder_lake(tmp_path).create_repository("repo", "local://repo")
    repository = open_at(FolderLake(tmp_path), base_url="http://localhost/objects", sources=()).repository("repo")
    repository.link_many("main", [ObjectEntry(f"part-{n}", "file:///raw/x", n, f"{n:032x}", 0) for n in range(100)])
    repository.commit("main", "all")
    tree = repository.tree("main")
    crew = tree.store.crew()
    assert crew is not None
    ((process, written),) = crew.run(_built_again, [(tree,)])
    assert process != os.getpid()
    assert written == tree.packed


def _built_again(tree: Tree) -> tuple[int, list[bytes]]:
    """Build a tree of the records of another one; return by which process, and the descriptions of its ranges."""
    return os.getpid(), build(tree.store, SplitParameters(), tree.records()).packed
