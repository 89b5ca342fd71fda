"""principals: make, list and remove rules about AWS principals, as people and programs see it."""

from pathlib import Path

import pytest

from tests.cli.support import done, run

ARN = "arn:aws:iam::123456789012:role/etl-*"


def test_a_rule_from_its_creation_to_its_end(lake: Path) -> None:
    limits = ("--repository", "lake", "--branch", "in-*", "--branch", "x")
    made = done("principals", "create", "nightly", ARN, *limits, "--json").json
    assert list(made) == ["id", "principal", "name", "role", "repositories", "branches", "created", "statuses"]
    assert (made["name"], made["role"], made["principal"]) == (
        "nightly",
        "writer",
        "arn:aws:sts::123456789012:assumed-role/etl-*/*",
    )
    assert (made["repositories"], made["branches"]) == (["lake"], ["in-*", "x"])
    assert made in done("principals", "list", "--json").lines
    assert (
        f"writer   nightly  {made['principal']}  repositories lake  branches in-*, x\n"
        in done("principals", "list").out
    )
    assert run("principals", "create", "again", ARN).code == 4
    refused = run("principals", "remove", made["id"])
    assert (refused.code, "needs --yes" in refused.err) == (5, True)
    assert done("principals", "remove", made["id"], "--yes", "--json").json == {"removed": made["id"]}
    assert made not in done("principals", "list", "--json").lines
    assert run("principals", "remove", made["id"], "--yes").code == 3


def test_people_see_what_was_made(lake: Path) -> None:
    shown = done("principals", "create", "{session}", f"{ARN}x", "--role", "reader").out
    assert "name:          {session}\n" in shown
    assert "repositories:  all\n" in shown
    (rule,) = [word for line in shown.splitlines() if line.startswith("rule:") for word in line.split()[1:]]
    assert done("principals", "remove", rule, "--yes").out.startswith("removed the rule for arn:aws:sts::")


@pytest.mark.parametrize(
    "wrong",
    [
        ("x", "arn:aws:iam::*:role/admin"),
        ("x", "*"),
        ("{role}", ARN),
        ("", ARN),
        ("x", ARN, "--role", "emperor"),
        ("x", ARN, "--branch", "a\nb"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(lake: Path, wrong: tuple[str, ...]) -> None:
    refused = run("principals", "create", *wrong)
    assert (refused.code, refused.out) == (2, "")
    assert done("principals", "list").out == ""
