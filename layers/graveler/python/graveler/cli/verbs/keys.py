"""The verbs for access keys of a served lake: who may use it over HTTP, and for what."""

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
    from graveler.access.keys import AccessKey
    from graveler.remote.access_keys import RemoteKeys

app = Commands(help="Create, list and revoke access keys for the server of a lake.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key's holder, who becomes the committer.")],
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
    s3: Annotated[
        bool, typer.Option("--s3", help="For S3 clients, which sign with the secret; it is stored, sealed.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Create an access key. Its secret is shown only once, and not stored, except with --s3.

    A reader can read; a checker can also post statuses (`graveler status`); a writer can also change objects, branches, tags and
    commits; an admin can also change repositories and keys. A PATTERN is a name that may contain *, ? and [...]. --branch limits
    only changes: every branch can be read.

    \b
    Examples:
      graveler keys create ann
      graveler keys create nightly --role writer --repository quickstart \\
        --branch 'ingest-*'
      graveler keys create dashboard --role reader --json
      graveler keys create ci --role checker --status 'dbt*'

    JSON: one document {access_key_id, secret_access_key, name, role, repositories, branches, created, s3, statuses}.
    """
    access = _open_access(lake)
    new_key = access.create_key(name, read_role(role), repositories or (), branches or (), statuses or (), s3=s3)
    key, secret = new_key.key, new_key.secret
    screen = output(as_json=as_json)
    fields = {"access key ID": key.key_id, "secret access key": secret, "name": key.name, "role": key.role.value}
    screen.answer(
        {**_key_json(key), "secret_access_key": secret},
        *screen.fields({**fields, **listed_limits(key)}),
        "save the secret now: it cannot be shown again",
    )


@app.command("list")
def list_(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the access keys that are not revoked.

    \b
    Examples:
      graveler keys list
      graveler keys list --json | jq -r 'select(.role == "admin").access_key_id'

    JSON: a line for each key, as in `keys create`, without the secret.
    """
    screen = output(as_json=as_json)
    for key in _open_access(lake).keys():  # noqa: SIM118 - a method of its own
        row = screen.safe(f"{key.role.value:<7}  {key.name}{limits_text(key)}")
        screen.answer(_key_json(key), f"{key.key_id}  {screen.paint(moment(key.created), 'dim')}  {row}")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The key's ID, AKIA…")],
    yes: Yes = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, and all tokens issued for it, permanently.

    Running servers notice within five seconds. Asks for confirmation on a terminal; elsewhere it needs --yes.

    \b
    Example:
      graveler keys revoke AKIAIOSFODNN7EXAMPLQ --yes

    JSON: one document {revoked}.
    """
    access = _open_access(lake)
    key = access.key(key_id)
    shown = f"key {key.key_id} of {Screen.safe(key.name)}"
    if not yes:
        unattended = f"revoking key {key_id!r} without a terminal needs --yes"
        expect_yes(f"Permanently revoke {shown}?", unattended, "nothing was revoked")
    access.revoke(key_id)
    output(as_json=as_json).answer({"revoked": key_id}, f"revoked {shown}")


@app.command("rotate-signing")
def rotate_signing(yes: Yes = False, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Replace the signing secrets. This invalidates all presigned URLs and login tokens issued so far.

    Running servers notice within five seconds. Clients with a token must log in again; access keys stay valid. If the key that
    sealed the secrets is lost, a new one is created as well; access keys for S3 that the lost key had sealed are listed, and must
    be created again. Works only on the lake itself, not through a server. Asks for confirmation on a terminal; elsewhere it needs
    --yes.

    \b
    Example:
      graveler keys rotate-signing --yes

    JSON: one document {secrets, new_sealing_key, lost_keys}.
    """
    from graveler.access.authentication import Access

    opened = open_own_lake(lake)
    access = Access(opened.tables, opened.keyring)
    if not yes:
        unattended = "rotating the signing secrets without a terminal needs --yes"
        expect_yes("Invalidate all presigned URLs and tokens issued so far?", unattended, "nothing was changed")
    rotation, lost = access.rotate_signing()
    output(as_json=as_json).answer(
        {"secrets": rotation.secrets, "new_sealing_key": rotation.lost, "lost_keys": lost},
        *(["the sealing key was lost; created a new one"] if rotation.lost else []),
        f"replaced {rotation.secrets} signing secret{'' if rotation.secrets == 1 else 's'}",
        *(f"access key {key_id} can no longer sign for S3: revoke it and create another one" for key_id in lost),
    )


def _open_access(lake: Named | None) -> "Access | RemoteKeys":
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.access_keys import RemoteKeys

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
        "statuses": list(key.statuses),
    }
