"""keys: make, list and revoke, as people and programs see it."""

from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.refusals import AuthenticationError
from graveler.lake.opening.folder import open_folder_lake
from tests.access.support import HERE, basic
from tests.cli.support import done, run


def test_a_key_from_its_creation_to_its_end(lake: Path) -> None:
    made = done("keys", "create", "nightly", "--repository", "lake", "--branch", "in-*", "--branch", "x", "--json").json
    assert list(made) == [
        "access_key_id",
        "name",
        "role",
        "repositories",
        "branches",
        "created",
        "s3",
        "statuses",
        "secret_access_key",
    ]
    assert (made["name"], made["role"]) == ("nightly", "writer")
    assert (made["repositories"], made["branches"]) == (["lake"], ["in-*", "x"])
    key_id, header = made["access_key_id"], basic(made["access_key_id"], made["secret_access_key"])
    with open_folder_lake(lake) as opened:
        assert Access(opened.tables, opened.keyring).authenticate(header, None, HERE).name == "nightly"
    del made["secret_access_key"]
    assert made in done("keys", "list", "--json").lines
    assert "writer   nightly  repositories lake  branches in-*, x\n" in done("keys", "list").out
    refused = run("keys", "revoke", key_id)
    assert (refused.code, "needs --yes" in refused.err) == (5, True)
    assert done("keys", "revoke", key_id, "--yes", "--json").json == {"revoked": key_id}
    assert made not in done("keys", "list", "--json").lines
    assert run("keys", "revoke", key_id, "--yes").code == 3
    with open_folder_lake(lake) as opened, pytest.raises(AuthenticationError):
        Access(opened.tables, opened.keyring).authenticate(header, None, HERE)


def test_the_secret_is_shown_once(lake: Path) -> None:
    shown = done("keys", "create", "ann", "--role", "admin").out
    secret = next(line.split()[-1] for line in shown.splitlines() if line.startswith("secret access key:"))
    assert len(secret) == 40
    assert "role:               admin" in shown
    assert secret not in done("keys", "list").out + done("keys", "list", "--json").out


@pytest.mark.parametrize(
    "wrong", [("--role", "emperor"), ("--repository", ""), ("--branch", "a\nb"), ("--branch", "a\udc80")]
)
def test_a_key_that_makes_no_sense_is_refused(lake: Path, wrong: tuple[str, str]) -> None:
    before = done("keys", "list").out
    refused = run("keys", "create", "ann", *wrong)
    assert (refused.code, refused.out) == (2, "")
    assert done("keys", "list").out == before
