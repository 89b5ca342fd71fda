"""Iceberg's REST compatibility kit against the catalog of a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import lakefs
import pytest

from tests.clients.support import Served
from tests.support.iceberg_kit import TABLES, TABLES_WITH_ALL_NAMES, VIEWS, iceberg_kit_jars, run_kit

SMOKE: Final = (
    f"{TABLES}#testUpdateTableSchemaConflict",
    f"{TABLES}#testAppend",
    f"{TABLES}#testCompleteCreateOrReplaceTransactionCreate",
    f"{TABLES}#testRegisterTable",
)

NESTED: Final = "testDropNamespaceWithNestedNamespace"
LOCATION: Final = "the kit writes to a location of its own; ours is used, and files elsewhere are refused"
CLEANUP: Final = "clients must not delete files, which other branches have, too: gc.enabled is false in every table"
EXCLUDED: Final = {
    f"{TABLES_WITH_ALL_NAMES}.testCompleteReplaceTransaction": LOCATION,
    f"{TABLES_WITH_ALL_NAMES}.testCompleteCreateOrReplaceTransactionReplace": LOCATION,
    f"{VIEWS}.createViewWithCustomMetadataLocation": LOCATION,
    f"{TABLES_WITH_ALL_NAMES}.testRemoveUnusedSpec": CLEANUP,
    f"{TABLES_WITH_ALL_NAMES}.testRemoveUnusedSchemas": CLEANUP,
    f"{TABLES_WITH_ALL_NAMES}.dropAfterRenameDoesntCorruptTable": "the kit states 10 bytes for a file without bytes",
    f"{TABLES_WITH_ALL_NAMES}.testCatalogWithCustomMetricsReporter": "the kit names a file without a scheme and a folder",
    f"{TABLES_WITH_ALL_NAMES}.{NESTED}": "a test before it leaves its namespace; alone it passes",
}
"""Tests that do not pass, each with the reason."""

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
    f"{TABLES_WITH_ALL_NAMES}.testLoadTableWithMissingMetadataFile": (
        "a process that has metadata at hand serves them without a look at their file, which never changes; one that has not "
        "says that the file is gone"
    ),
}
"""Tests that may pass or not, each with the reason."""


@pytest.fixture
def catalog(served: Served, repo: lakefs.Repository) -> Callable[[str], dict[str, str]]:
    """Returns the properties of the catalog of a branch of a new repository."""
    if not iceberg_kit_jars():
        pytest.skip("no Maven here, which fetches Iceberg's compatibility kit")
    uri = f"{served.url}/iceberg"

    def properties_of(branch: str) -> dict[str, str]:
        return {
            "uri": uri,
            "warehouse": f"{repo.id}@{branch}",
            "credential": f"{served.key_id}:{served.secret}",
            "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
        }

    return properties_of


def test_a_smoke_of_the_kit_passes(catalog: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    outcomes, words = run_kit(catalog("main"), tmp_path, SMOKE)
    assert outcomes == {name.replace("#", "."): "passed" for name in SMOKE}, words


@pytest.mark.ci
@pytest.mark.parametrize("selected", [TABLES_WITH_ALL_NAMES, VIEWS])
def test_the_kit_passes_but_for_what_is_excluded_by_name(
    selected: str, catalog: Callable[[str], dict[str, str]], repo: lakefs.Repository, tmp_path: Path
) -> None:
    repo.branch("dev").create("main")
    outcomes, words = run_kit(catalog("dev"), tmp_path, [selected])
    assert len(outcomes) > 45

    def of(outcome: str) -> set[str]:
        return {name for name in outcomes if outcomes[name] == outcome}

    assert of("failed") - {*EITHER} == {name for name in EXCLUDED if name.startswith(f"{selected}.")}, words
    assert of("skipped") == {name for name in NOT_RUN if name.startswith(f"{selected}.")}, words


@pytest.mark.ci
def test_a_namespace_with_a_namespace_is_not_dropped(catalog: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    outcomes, words = run_kit(catalog("main"), tmp_path, [f"{TABLES_WITH_ALL_NAMES}#{NESTED}"])
    assert outcomes == {f"{TABLES_WITH_ALL_NAMES}.{NESTED}": "passed"}, words
