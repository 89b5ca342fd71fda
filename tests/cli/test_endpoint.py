"""The command line on a lake behind a server: the tests of other modules for a lake in a folder, repeated with a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Final

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.cli.exits import ExitCode
from graveler.lake.opening.folder import create_folder_lake
from tests.cli import (
    test_candidates,
    test_changes_and_history,
    test_copies,
    test_every_command,
    test_exports,
    test_garbage,
    test_iceberg_tables,
    test_ignored,
    test_imports,
    test_insight,
    test_keys,
    test_merges,
    test_objects_and_transfers,
    test_operations,
    test_principals,
    test_repositories_and_refs,
    test_resets,
    test_rules,
    test_settings,
    test_upkeep,
)
from tests.cli.support import commit, done, put, run
from tests.server.support import Running, running
from tests.support.retold import tell_again
from tests.support.shell import Shell

OF_FOLDERS: Final = "it is about lakes in folders"
HELP: Final = "it is about the help, whatever the lake"

MODULES: Final[Mapping[ModuleType, Mapping[str, str]]] = {
    test_candidates: {},
    test_changes_and_history: {
        "test_import_is_refused": OF_FOLDERS,
        "test_status_tells_that_imported_files_have_changed": "the imported files are on the server's machine",
    },
    test_copies: {},
    test_every_command: {
        "test_the_commands_are_all_there": HELP,
        "test_its_help_has_examples_and_says_what_its_json_is": HELP,
        "test_what_deletes_or_replaces_has_a_dry_run": HELP,
        "test_wrong_use_is_one_sentence_that_names_the_help": HELP,
    },
    test_exports: {
        "test_an_export_is_refused": OF_FOLDERS,
        "test_after_ctrl_c_the_same_export_finishes": "a server refuses a file that is longer than the lake noted",
    },
    test_garbage: {
        "test_what_a_deleted_repository_left_is_purged_a_day_later": "it changes the clock of this process",
    },
    test_iceberg_tables: {},
    test_ignored: {},
    test_imports: {
        "test_copied_files_may_change_and_files_in_place_come_with_a_warning": OF_FOLDERS,
    },
    test_insight: {},
    test_keys: {},
    test_merges: {},
    test_objects_and_transfers: {
        "test_what_goes_wrong_is_told": OF_FOLDERS,
        "test_a_changed_import_is_noticed_and_leaves_no_file": OF_FOLDERS,
        "test_what_is_no_file_is_named_and_left_out": "a server refuses to import a folder with links",
    },
    test_operations: {},
    test_principals: {},
    test_repositories_and_refs: {
        "test_a_repository_from_its_creation_to_its_end": OF_FOLDERS,
        "test_a_repository_elsewhere": "clients of a server make repositories in its lake only",
    },
    test_resets: {},
    test_rules: {},
    test_settings: {},
    test_upkeep: {
        "test_fsck_shows_progress": "a server tells no progress of a check",
        "test_a_commit_of_a_later_version_is_neither_wrong_nor_right": "a server has read the commit before it is replaced",
    },
}
"""Modules whose tests are told again, and why some of each are not."""


for _module, _left_out in MODULES.items():
    tell_again(globals(), _module, _left_out, "lake")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str, str]]:
    """A server, and an admin's key whose name is the tests' user."""
    folder = tmp_path_factory.mktemp("served")
    with create_folder_lake(folder / "lake") as lake:
        made = Access(lake.tables).create_key("tester", Role.ADMIN, (), ())
    given = (
        "--import-source",
        f"file://{tmp_path_factory.getbasetemp()}/",
        "--import-source",
        "s3://bucket/",
        "--aws-login",
        "127.0.0.1",
    )
    with running(folder, *given, workers=1, key=False) as server:
        yield server, made.key.key_id, made.secret


@pytest.fixture
def lake(server: tuple[Running, str, str], shell: Shell) -> Path:
    """The server's lake, with the empty repository ``lake`` alone; the environment names the server."""
    running_server, key_id, secret = server
    shell.export("GRAVELER_ENDPOINT", running_server.url)
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):  # of somebody whom no rule lets in
        shell.export(name, "ASIA0000000000000000")
    for repository in done("repo", "list").out.splitlines():
        done("repo", "delete", repository.split()[0], "--yes", "--force")
    done("repo", "create", "lake", "--namespace", f"local://lake-{token_hex(6)}")
    return running_server.lake


LOCAL: Final[Mapping[tuple[str, ...], str]] = {
    ("init",): "makes a lake, in a folder or on AWS",
    ("serve",): "is the server",
    ("ui",): "shows a lake that this machine opens itself; a server has its own page",
    ("demo",): "makes a lake of its own",
    ("gc", "undelete"): "brings back what the bucket keeps, by the rights of its owner",
    ("keys", "rotate-signing"): "makes what the server signs with",
    ("table", "rewrite-location"): "is for a lake that was moved, whose server has stopped",
}
"""Commands that are about a lake of one's own, and why."""

ARGUMENTS: Final[Mapping[tuple[str, ...], str]] = {
    ("bench",): "lakefs://lake/main/ --repeat 1",
    ("blame",): "lakefs://lake/main/a",
    ("branch", "create"): "lakefs://lake/new",
    ("branch", "delete"): "lakefs://lake/dev --yes",
    ("branch", "list"): "lake",
    ("branch", "rename"): "lakefs://lake/dev other",
    ("branch", "rewrite"): "lakefs://lake/main --min-size 16384 --max-size 65536 --raggedness 100",
    ("candidate", "diff"): "lakefs://lake/00000000000000000000000000000000",
    ("candidate", "list"): "lake",
    ("candidate", "publish"): "lakefs://lake/00000000000000000000000000000000",
    ("candidate", "show"): "lakefs://lake/00000000000000000000000000000000",
    ("candidate", "withdraw"): "lakefs://lake/00000000000000000000000000000000",
    ("cat",): "lakefs://lake/main/a",
    ("cherry-pick",): "lakefs://lake/dev main -m m",
    ("check", "run"): "lakefs://lake/main --definition check.json",
    ("commit",): "lakefs://lake/main -m m",
    ("config", "get"): "user",
    ("config", "list"): "",
    ("config", "set"): "user ada",
    ("config", "unset"): "user",
    ("cp",): "lakefs://lake/main/a lakefs://lake/main/b",
    ("diff",): "lakefs://lake/main..dev",
    ("doctor",): "",
    ("du",): "--physical lake",
    ("dump",): "lake",
    ("dumps",): "lake",
    ("export",): "lakefs://lake/main/ out",
    ("fsck",): "lake --repair --all-objects --outside --no-reflog",
    ("gateway",): "--join",
    ("gc", "deleted"): "",
    ("gc", "hold"): "lakefs://lake/main",
    ("gc", "holds"): "lake",
    ("gc", "plan"): "lake",
    ("gc", "purge"): "nobody --yes",
    ("gc", "release"): "lakefs://lake/main",
    ("gc", "report"): "lake",
    ("gc", "restore"): "lake none",
    ("gc", "rules"): "lake --default-days 9 --preview",
    ("gc", "run"): "lake",
    ("get",): "lakefs://lake/main/a a.out",
    ("help",): "",
    ("import",): "in lakefs://lake/main/in/",
    ("ingest", "reconcile"): "lake",
    ("ingest", "replay"): "events",
    ("ingest", "rules", "add"): "drop in lakefs://lake/main/drop/",
    ("ingest", "rules", "list"): "lake",
    ("ingest", "rules", "remove"): "lake none",
    ("ingest", "rules", "show"): "lake none",
    ("ingest", "watch"): "in --once",
    ("keys", "create"): "ann",
    ("keys", "list"): "",
    ("keys", "revoke"): "AKIANOBODY --yes",
    ("login",): "--aws",
    ("log",): "lakefs://lake/main",
    ("logout",): "",
    ("ls",): "lakefs://lake/main/",
    ("merge",): "lakefs://lake/dev main",
    ("mv",): "lakefs://lake/main/a lakefs://lake/main/b",
    ("operations", "cancel"): "lake none",
    ("operations", "list"): "lake",
    ("operations", "show"): "lake none",
    ("pr", "approve"): "lakefs://lake/1",
    ("pr", "close"): "lakefs://lake/1",
    ("pr", "comment"): "lakefs://lake/1 why",
    ("pr", "create"): "lakefs://lake/dev main",
    ("pr", "diff"): "lakefs://lake/1",
    ("pr", "list"): "lake",
    ("pr", "merge"): "lakefs://lake/1",
    ("pr", "ready"): "lakefs://lake/1",
    ("pr", "reopen"): "lakefs://lake/1",
    ("pr", "show"): "lakefs://lake/1",
    ("principals", "create"): "etl arn:aws:iam::123456789012:role/etl",
    ("principals", "list"): "",
    ("principals", "remove"): "aws:0000000000000000 --yes",
    ("put",): "events lakefs://lake/main/events",
    ("reflog",): "lakefs://lake/main",
    ("repo", "create"): "lake",
    ("repo", "delete"): "lake --yes",
    ("repo", "import-sources"): "lake",
    ("repo", "list"): "",
    ("repo", "metadata"): "lake --set a=b --force",
    ("repo", "protect"): "lake dev --force",
    ("repo", "read-only"): "lake off",
    ("repo", "show"): "lake",
    ("repo", "unprotect"): "lake none --force",
    ("reset",): "lakefs://lake/main --yes",
    ("restore",): "local://none none lakefs://other",
    ("revert",): "lakefs://lake/main main",
    ("rm",): "lakefs://lake/main/a",
    ("show",): "lakefs://lake/main",
    ("sql",): "SELECT(1)",
    ("stat",): "lakefs://lake/main/a",
    ("status", "list"): "lakefs://lake/main",
    ("status", "post"): "lakefs://lake/main dbt success",
    ("status", "show"): "lakefs://lake/main",
    ("table", "check"): "lakefs://lake/main shop.orders",
    ("table", "expire"): "lakefs://lake/main shop.orders",
    ("table", "history"): "lakefs://lake/main shop.orders",
    ("table", "ls"): "lakefs://lake/main",
    ("table", "show"): "lakefs://lake/main shop.orders",
    ("tag", "create"): "lakefs://lake/v2 main",
    ("tag", "delete"): "lakefs://lake/none",
    ("tag", "list"): "lake",
    ("rules", "reports"): "lake",
    ("rules", "set"): "rules.toml lake",
    ("rules", "show"): "lake",
    ("rules", "test"): "lakefs://lake/dev --branch main",
    ("run",): "lakefs://lake/none -- true",
    ("undo",): "lakefs://lake/main",
    ("use",): "lakefs://lake/main",
    ("version",): "",
}
"""What each command is asked for: something that the lake has an answer to, perhaps that it is not there."""


def prepare_arguments(working_folder: Path) -> None:
    """Make the refs and the files that `ARGUMENTS` name."""
    put("main", "a", "1")
    commit("main", "One")
    done("branch", "create", "lakefs://lake/dev")
    (working_folder / "in").mkdir()
    (working_folder / "in/x").write_text("x")
    (working_folder / "events").write_text("")
    (working_folder / "rules.toml").write_text("rules = []")
    (working_folder / "check.json").write_text('{"kind": "no-deletes", "prefix": "t/"}')


def test_the_list_of_commands_is_complete() -> None:
    assert set(ARGUMENTS) | set(LOCAL) == set(test_every_command.COMMANDS)


@pytest.mark.parametrize("words", ARGUMENTS, ids=" ".join)
def test_no_command_refuses_a_server(lake: Path, words: tuple[str, ...], working_folder: Path) -> None:
    prepare_arguments(working_folder)
    result = run(*words, *ARGUMENTS[words].split())
    assert "HTTP API" not in result.err, result
    assert "not implemented" not in result.err, result
    assert result.code not in (ExitCode.UNEXPECTED, ExitCode.INVALID, ExitCode.UNAVAILABLE), result


@pytest.mark.parametrize("words", [words for words in LOCAL if words != ("demo",)], ids=" ".join)
def test_what_is_about_a_lake_of_ones_own_says_so(lake: Path, words: tuple[str, ...]) -> None:
    arguments: dict[tuple[str, ...], list[str]] = {
        ("gc", "undelete"): ["lake", "--since", "1d"],
        ("check", "run"): ["lakefs://lake/main"],
        ("table", "rewrite-location"): ["lakefs://lake/main"],
    }
    refused = run(*words, *arguments.get(words, []))
    assert (refused.code, refused.out) == (2, ""), refused
    assert "works only on the lake itself" in refused.err
    assert "in its folder, or with --tables" in refused.err


def test_the_server_may_be_named_by_options(lake: Path, server: tuple[Running, str, str], shell: Shell) -> None:
    shell.unset("GRAVELER_ENDPOINT")
    url = server[0].url
    assert done("--endpoint", url, "repo", "list", "--json").json["name"] == "lake"
    assert done("--lake", f"{url}/api/v1", "branch", "list", "lake").out.endswith("main  (default)\n")
    assert done("branch", "list", "lake", "--lake", url).out.endswith("main  (default)\n")
    shown = done("--endpoint", url, "repo", "show", "lake").out
    assert f"lake:            {url}" in shown


def test_wrong_keys_and_no_keys_are_told(lake: Path, shell: Shell) -> None:
    shell.export("GRAVELER_SECRET_ACCESS_KEY", "wrong")
    refused = run("repo", "list")
    assert (refused.code, "authenticating" in refused.err) == (6, True), refused
    shell.unset("GRAVELER_SECRET_ACCESS_KEY")
    shell.export("HOME", "/nowhere")
    refused = run("repo", "list")
    assert (refused.code, "there is no access key for it" in refused.err) == (6, True), refused


def test_a_server_that_is_not_there_is_told(lake: Path) -> None:
    refused = run("--endpoint", "http://127.0.0.1:9", "repo", "list")
    assert (refused.code, refused.err.count("\n")) == (9, 1), refused
    assert "no response" in refused.err


def test_names_are_offered_to_a_shell(lake: Path) -> None:
    done("branch", "create", "lakefs://lake/dev")
    environment = {
        **os.environ,
        "_GRAVELER_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": "graveler log lakefs://lake/d",
    }
    command = [sys.executable, "-m", "graveler.cli"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "lakefs://lake/dev" in shown.stdout.replace("\\", "")


def test_the_committer_is_the_keys_name(lake: Path, shell: Shell) -> None:
    shell.export("GRAVELER_USER", "somebody else")
    put("main", "a", "1")
    made = commit("main", "One")
    assert done("log", f"lakefs://lake/{made}", "-n", "1", "--json").json["committer"] == "tester"
