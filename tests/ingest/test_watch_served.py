"""Ingest from the command line over an endpoint: the tests for a lake in a folder, repeated with a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake
from tests.cli.support import done
from tests.ingest import test_watch
from tests.server.support import Running, running
from tests.support.retold import tell_again
from tests.support.shell import Shell

NO_LAKE = "it is about watching alone, or a lake in a folder"

tell_again(
    globals(),
    test_watch,
    dict.fromkeys(
        (
            "test_a_file_counts_when_two_looks_find_it_the_same",
            "test_what_goes_is_told_and_comes_after_what_came",
            "test_a_watch_that_begins_anew_tells_the_same_events",
            "test_folders_that_are_skipped_and_links_in_circles",
            "test_links_that_lead_to_no_file_are_passed_over_and_those_to_folders_are_followed",
            "test_a_folder_that_vanishes_deletes_nothing",
            "test_the_lake_itself_is_no_source",
        ),
        NO_LAKE,
    ),
    "quick",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str, str]]:
    """A server, and an admin's key."""
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        made = Access(lake.tables).create_key("ann", Role.ADMIN, (), ())
    given = f"file://{tmp_path_factory.getbasetemp()}/"
    with running(folder, "--import-source", given, "--import-source", "s3://landing/", workers=1, key=False) as server:
        yield server, made.key.key_id, made.secret


@pytest.fixture
def quick(server: tuple[Running, str, str], tmp_path: Path, shell: Shell) -> None:
    """The empty repository ``quick`` of the server's lake, alone."""
    running_server, key_id, secret = server
    shell.export("GRAVELER_ENDPOINT", running_server.url)
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    for repository in done("repo", "list", "--json").lines:
        done("repo", "delete", repository["name"], "--yes", "--force")
    done("repo", "create", "quick", "--namespace", f"local://{tmp_path.name}")
