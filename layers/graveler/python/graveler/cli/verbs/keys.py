"""The verbs for access keys of a served lake: who may use it over HTTP, and for what."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.locations import Named, connection_to, open_own_lake
from graveler.cli.options import AsJson, LakeOption, Yes
from graveler.cli.terminal import Json, Screen, confirm, output
from graveler.cli.values import listed_patterns, moment, read_role
from graveler.errors import PreconditionError

if TYPE_CHECKING:
    from graveler.access.authentication import Access
    from graveler.access.keys import AccessKey
    from graveler.remote.keys import RemoteKeys

app = typer.Typer(help="Create, list and revoke the access keys of a lake that is served.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its holder: who commits with it.")],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="reader, writer or admin.")] = "writer",
    repositories: Annotated[
        list[str] | None,
        typer.Option(
            "--repository", metavar="PATTERN", help="Only repositories like this; may be repeated. [default: all]"
        ),
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option(
            "--branch", metavar="PATTERN", help="Change only branches like this; may be repeated. [default: all]"
        ),
    ] = None,
    s3: Annotated[
        bool, typer.Option("--s3", help="For clients that speak S3: they sign with the secret, which is kept, sealed.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Make an access key. Its secret is shown once, and kept nowhere, unless for --s3.

    A reader may read; a writer may change objects, branches, tags and commits too; an admin also repositories and keys. A PATTERN
    is a name with *, ? and [...] in it. A limit to branches concerns changes only: reading is not limited to branches.

    \b
    Examples:
      graveler keys create ann
      graveler keys create nightly --role writer --repository quickstart \\
        --branch 'ingest-*'
      graveler keys create dashboard --role reader --json

    JSON: one document {access_key_id, secret_access_key, name, role, repositories, branches, created,
      s3}.
    """
    wanted = read_role(role)
    made = _open_access(lake).create_key(name, wanted, repositories or (), branches or (), s3=s3)
    screen = output()
    if as_json:
        screen.json({**_key_json(made.key), "secret_access_key": made.secret})
        return
    screen.fields({"access key ID": made.key.key_id, "secret access key": made.secret, **_described(made.key)})
    screen.line("keep the secret now: it cannot be shown again")


@app.command("list")
def list_(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the keys that are not revoked.

    \b
    Examples:
      graveler keys list
      graveler keys list --json | jq -r 'select(.role == "admin").access_key_id'

    JSON: a line for each key, as of `keys create`, without the secret.
    """
    screen = output()
    listed = _open_access(lake).keys()
    for key in listed:
        if as_json:
            screen.json(_key_json(key))
        else:
            screen.line(_key_line(screen, key))


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The key's ID, AKIA…")],
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """End a key, and all tokens that were given out for it, for good.

    Servers that run learn of it within five seconds. Asks on a terminal; anywhere else it needs --yes.

    \b
    Example:
      graveler keys revoke AKIAIOSFODNN7EXAMPLQ --yes

    JSON: one document {revoked}.
    """
    access = _open_access(lake)
    key = access.key(key_id)
    screen = output()
    if not yes:
        answer = confirm(f"Revoke key {key.key_id} of {screen.safe(key.name)}, for good?")
        if not answer:
            why = "not confirmed" if answer is False else f"revoking key {key_id!r} needs --yes without a terminal"
            raise PreconditionError(f"{why}; nothing was revoked")
    access.revoke(key_id)
    if as_json:
        screen.json({"revoked": key_id})
        return
    screen.line(f"revoked key {key.key_id} of {screen.safe(key.name)}")


@app.command("rotate-signing")
def rotate_signing(yes: Yes = False, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Make the secrets anew that sign presigned URLs and the tokens of logins: all that were given out end.

    Servers that run learn of it within five seconds. Who used a token logs in again; access keys stay. If the key is lost that
    sealed the secrets, a new one is made, too; the access keys for S3 that the lost one had sealed are named, and must be made
    again. Needs the lake itself, not a server. Asks on a terminal; anywhere else it needs --yes.

    \b
    Example:
      graveler keys rotate-signing --yes

    JSON: one document {secrets, new_sealing_key, lost_keys}.
    """
    from graveler.access.authentication import Access

    opened = open_own_lake(lake)
    access, screen = Access(opened.tables, opened.keyring), output()
    if not yes:
        answer = confirm("End all presigned URLs and tokens that were given out?")
        if not answer:
            why = "not confirmed" if answer is False else "rotating the signing secrets needs --yes without a terminal"
            raise PreconditionError(f"{why}; nothing was changed")
    rotation, lost = access.rotate_signing()
    if as_json:
        screen.json({"secrets": rotation.secrets, "new_sealing_key": rotation.lost, "lost_keys": lost})
        return
    if rotation.lost:
        screen.line("the sealing key was lost; made a new one")
    screen.line(f"made {rotation.secrets} signing secret{'' if rotation.secrets == 1 else 's'} anew")
    for key_id in lost:
        screen.line(f"access key {key_id} signs for S3 no more: revoke it, and make another one")


def _open_access(lake: Named | None) -> "Access | RemoteKeys":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.keys import RemoteKeys

        return RemoteKeys(connection)
    from graveler.access.authentication import Access

    opened = open_own_lake(lake)
    return Access(opened.tables, opened.keyring)


def _key_json(key: "AccessKey") -> Json:
    return {
        "access_key_id": key.key_id,
        "name": key.name,
        "role": key.role.value,
        "repositories": list(key.repositories),
        "branches": list(key.branches),
        "created": key.created,
        "s3": key.s3,
    }


def _described(key: "AccessKey") -> dict[str, str]:
    limits = {"repositories": key.repositories, "branches": key.branches}
    return {"name": key.name, "role": key.role.value} | {
        what: listed_patterns(patterns) for what, patterns in limits.items()
    }


def _key_line(screen: Screen, key: "AccessKey") -> str:
    limits = [
        f"  {what} {listed_patterns(patterns)}"
        for what, patterns in (("repositories", key.repositories), ("branches", key.branches))
        if patterns
    ]
    row = screen.safe(f"{key.role.value:<6}  {key.name}{''.join(limits)}")
    return f"{key.key_id}  {screen.paint(moment(key.created), 'dim')}  {row}"
