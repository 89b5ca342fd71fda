"""The verbs for rules about AWS principals: who may log in to a served lake with AWS's credentials, and for what."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.locations import Named, connection_to, open_own_lake
from graveler.cli.options import AsJson, LakeOption, Yes
from graveler.cli.terminal import Json, Screen, expect_yes, output
from graveler.cli.values import limits_text, listed_limits, moment, read_role

if TYPE_CHECKING:
    from graveler.access.authentication import Access
    from graveler.access.principal_rules import PrincipalRule
    from graveler.remote.principal_rules import RemotePrincipals

app = Commands(help="Manage which AWS principals can log in to the server of a lake.")


@app.command()
def create(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The committer; {principal} stands for the role's or user's name, {session} for the session's.",
        ),
    ],
    principal: Annotated[
        str,
        typer.Argument(
            metavar="ARN", help="ARN of a role, a role session or a user; names may contain *, ? and [...]."
        ),
    ],
    role: Annotated[
        str,
        typer.Option(
            "--role", metavar="ROLE", help="reader, checker, writer or admin.", autocompletion=completion.roles
        ),
    ] = "writer",
    repositories: Annotated[
        list[str] | None,
        typer.Option("--repository", metavar="PATTERN", help="Only matching repositories; repeatable. [default: all]"),
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option("--branch", metavar="PATTERN", help="Change only matching branches; repeatable. [default: all]"),
    ] = None,
    statuses: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="PATTERN", help="Post matching statuses, as a checker; repeatable."),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Let AWS principals log in without an access key.

    The server must know the names that its clients sign for: `graveler serve --aws-login`, or the setting aws_login of a
    deployment. The account in the ARN cannot be a pattern, and a * in a name does not match a slash. Anyone who can assume a role
    chooses the session name, so a rule about sessions is only as strict as the role's trust policy. If several rules match, the
    one with the most non-wildcard characters applies. Roles and limits are those of `graveler keys`.

    \b
    Examples:
      graveler principals create nightly \\
        'arn:aws:iam::123456789012:role/etl-*' --repository quickstart
      graveler principals create '{session}' \\
        'arn:aws:iam::123456789012:role/AWSReservedSSO_Data_*' --role reader

    JSON: one document {id, principal, name, role, repositories, branches, created, statuses}.
    """
    rule = _open(lake).create_rule(principal, name, read_role(role), repositories or (), branches or (), statuses or ())
    screen = output(as_json=as_json)
    fields = {"rule": rule.rule_id, "principal": rule.principal, "name": rule.name, "role": rule.role.value}
    screen.answer(_json(rule), *screen.fields({**fields, **listed_limits(rule)}))


@app.command("list")
def list_(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the rules for AWS principals.

    \b
    Example:
      graveler principals list

    JSON: a line for each rule, as in `principals create`.
    """
    screen = output(as_json=as_json)
    for rule in _open(lake).rules():
        row = screen.safe(f"{rule.role.value:<7}  {rule.name}  {rule.principal}{limits_text(rule)}")
        screen.answer(_json(rule), f"{rule.rule_id}  {screen.paint(moment(rule.created), 'dim')}  {row}")


@app.command()
def remove(
    rule_id: Annotated[str, typer.Argument(metavar="RULE", help="The rule's ID, aws:…")],
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Remove a rule, and invalidate all tokens issued under it.

    Running servers notice within five seconds. Asks for confirmation on a terminal; elsewhere it needs --yes.

    \b
    Example:
      graveler principals remove aws:0123456789abcdef --yes

    JSON: one document {removed}.
    """
    access = _open(lake)
    rule = access.rule(rule_id)
    shown = Screen.safe(rule.principal)
    if not yes:
        unattended = f"removing rule {rule_id!r} without a terminal needs --yes"
        expect_yes(f"Remove the rule for {shown}?", unattended, "nothing was removed")
    access.remove_rule(rule_id)
    output(as_json=as_json).answer({"removed": rule_id}, f"removed the rule for {shown}")


def _open(lake: Named | None) -> "Access | RemotePrincipals":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.principal_rules import RemotePrincipals

        return RemotePrincipals(connection)
    from graveler.access.authentication import Access

    opened = open_own_lake(lake)
    return Access(opened.tables, opened.keyring)


def _json(rule: "PrincipalRule") -> Json:
    return {
        "id": rule.rule_id,
        "principal": rule.principal,
        "name": rule.name,
        "role": rule.role.value,
        "repositories": list(rule.repositories),
        "branches": list(rule.branches),
        "created": rule.created,
        "statuses": list(rule.statuses),
    }
