"""Iceberg's REST compatibility kit against the catalog of a server, whose lake is in a folder or on S3."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from unittest.mock import patch

import lakefs
import pytest
from msgspec import Struct

from graveler.storage.objects.s3 import S3Objects, S3Settings
from tests.clients.lakes_on_s3 import ServedOnS3, new_repository
from tests.clients.support import Served
from tests.support.iceberg_kit import (
    DATA_FILES,
    TABLES,
    TABLES_WITH_ALL_NAMES,
    VIEWS,
    KitPlace,
    iceberg_kit_jars,
    run_kit,
)
from tests.support.servers import REGION

SMOKE: Final = (
    f"{TABLES}#testUpdateTableSchemaConflict",
    f"{TABLES}#testAppend",
    f"{TABLES}#testCompleteCreateOrReplaceTransactionCreate",
    f"{TABLES}#testRegisterTable",
)

NESTED: Final = "testDropNamespaceWithNestedNamespace"
LOCATION: Final = "the kit writes to a location of its own; ours is used, and files elsewhere are refused"
CLEANUP: Final = (
    "clients must not delete files, which other branches have, too: gc.enabled is false in every table there"
)
EXCLUDED: Final = {
    f"{TABLES_WITH_ALL_NAMES}.testCompleteReplaceTransaction": LOCATION,
    f"{TABLES_WITH_ALL_NAMES}.testCompleteCreateOrReplaceTransactionReplace": LOCATION,
    f"{VIEWS}.createViewWithCustomMetadataLocation": LOCATION,
    f"{TABLES_WITH_ALL_NAMES}.dropAfterRenameDoesntCorruptTable": "the kit states 10 bytes for a file without bytes",
    f"{TABLES_WITH_ALL_NAMES}.testCatalogWithCustomMetricsReporter": "the kit names a file without a scheme and a folder",
    f"{TABLES_WITH_ALL_NAMES}.{NESTED}": "a test before it leaves its namespace; alone it passes",
}
"""Tests that do not pass on any lake, each with the reason."""
MISSING: Final = f"{TABLES_WITH_ALL_NAMES}.testLoadTableWithMissingMetadataFile"
EXCLUDED_ON_FOLDERS: Final = {
    f"{TABLES_WITH_ALL_NAMES}.testRemoveUnusedSpec": CLEANUP,
    f"{TABLES_WITH_ALL_NAMES}.testRemoveUnusedSchemas": CLEANUP,
}
"""Tests that do not pass on a lake in a folder."""
EXCLUDED_ON_S3: Final = {MISSING: "the kit moves the metadata file as one of this machine"}
"""Tests that do not pass on a lake on S3."""

EMPTY: Final = "a table or a view lies in a namespace with a name"
NOT_RUN: Final = {
    f"{TABLES_WITH_ALL_NAMES}.createTableInUniqueLocation": "the kit runs it with a server of its own only",
    f"{TABLES_WITH_ALL_NAMES}.createAndDropEmptyNamespace": EMPTY,
    f"{TABLES_WITH_ALL_NAMES}.namespacePropertiesOnEmptyNamespace": EMPTY,
    f"{TABLES_WITH_ALL_NAMES}.listTablesInEmptyNamespace": EMPTY,
    f"{TABLES_WITH_ALL_NAMES}.listNamespacesWithEmptyNamespace": EMPTY,
    f"{VIEWS}.listViewsInEmptyNamespace": EMPTY,
}
"""Tests that do not apply, each with the reason."""

EITHER: Final = {
    MISSING: "a process that has metadata at hand serves them without a look at their file, which never changes; one that has "
    "not says that the file is gone"
}
"""Tests that may pass or not, each with the reason."""


class Kit(Struct, frozen=True):
    """The kit in a new repository of a lake, whose catalog has these properties besides its warehouse. ``excluded``
    are the tests that do not pass, with the reasons."""

    repository: lakefs.Repository
    properties: dict[str, str]
    place: KitPlace
    excluded: Mapping[str, str]

    def run(self, branch: str, *selected: str) -> tuple[dict[str, str], str]:
        """Run tests against a branch; as :func:`tests.support.iceberg_kit.run_kit`."""
        return run_kit(self.properties | {"warehouse": f"{self.repository.id}@{branch}"}, self.place, selected)


def kit_against(served: Served, repository: lakefs.Repository, place: KitPlace, way: str = "") -> Kit:
    """Return the kit for a repository. ``way`` is the one to the files of tables on S3 that the client names."""
    uri = f"{served.url}/iceberg"
    properties = {
        "uri": uri,
        "credential": f"{served.key_id}:{served.secret}",
        "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
    }
    if not way:
        return Kit(repository, properties, place, EXCLUDED | EXCLUDED_ON_FOLDERS)
    return Kit(repository, properties | {"header.x-iceberg-access-delegation": way}, place, EXCLUDED | EXCLUDED_ON_S3)


@pytest.fixture(params=["folder", "vended-credentials", pytest.param("remote-signing", marks=pytest.mark.ci)])
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """The kit against a lake in a folder, or on S3 in one of two ways."""
    if not iceberg_kit_jars():
        pytest.skip("no Maven here, which fetches Iceberg's compatibility kit")
    if request.param == "folder":
        for name, content in DATA_FILES.items():
            (tmp_path / name).write_bytes(content)
        served: Served = request.getfixturevalue("served")
        place = KitPlace(tmp_path, str(tmp_path), f"file:{tmp_path}")
        with new_repository(served) as repository:
            yield kit_against(served, repository, place)
        return
    on_s3: ServedOnS3 = request.getfixturevalue("served_on_s3")
    with patch.dict(os.environ, on_s3.environment):
        source = S3Objects(
            on_s3.bucket, on_s3.source_path, S3Settings(REGION, on_s3.environment["AWS_ENDPOINT_URL_S3"])
        )
        for name, content in DATA_FILES.items():
            source.put(name, content)
    place = KitPlace(tmp_path, f"s3://{on_s3.bucket}/{on_s3.source_path}", f"s3://{on_s3.bucket}/elsewhere")
    with new_repository(on_s3.served) as repository:
        yield kit_against(on_s3.served, repository, place, request.param)


def test_a_smoke_of_the_kit_passes(kit: Kit) -> None:
    outcomes, words = kit.run("main", *SMOKE)
    assert outcomes == {name.replace("#", "."): "passed" for name in SMOKE}, words


@pytest.mark.ci
@pytest.mark.parametrize("selected", [TABLES_WITH_ALL_NAMES, VIEWS])
def test_the_kit_passes_but_for_what_is_excluded_by_name(selected: str, kit: Kit) -> None:
    kit.repository.branch("dev").create("main")
    outcomes, words = kit.run("dev", selected)
    assert len(outcomes) > 45

    def of(outcome: str) -> set[str]:
        return {name for name in outcomes if outcomes[name] == outcome}

    excluded = {name for name in kit.excluded if name.startswith(f"{selected}.")}
    assert of("failed") - EITHER.keys() == excluded - EITHER.keys(), words
    assert of("passed").isdisjoint(excluded), words
    assert of("skipped") == {name for name in NOT_RUN if name.startswith(f"{selected}.")}, words


@pytest.mark.ci
def test_a_namespace_with_a_namespace_is_not_dropped(kit: Kit) -> None:
    outcomes, words = kit.run("main", f"{TABLES_WITH_ALL_NAMES}#{NESTED}")
    assert outcomes == {f"{TABLES_WITH_ALL_NAMES}.{NESTED}": "passed"}, words
