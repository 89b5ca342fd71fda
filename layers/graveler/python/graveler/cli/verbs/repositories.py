"""The verbs that create a lake, and its repositories."""

import os
from dataclasses import replace
from typing import Annotated, Literal

import typer

from graveler.cli import completion
from graveler.cli.commands import Commands
from graveler.cli.groups import Group
from graveler.cli.locations import (
    ENDPOINT,
    HIDDEN,
    LAKE,
    TABLES,
    Named,
    find_lake,
    find_location,
    open_lake,
    open_repository,
    user_name,
    working_folder,
)
from graveler.cli.options import (
    OF_USE,
    AsJson,
    DryRun,
    LakeOption,
    Metadata,
    Prefix,
    Yes,
    named_location,
    parse_metadata,
)
from graveler.cli.terminal import expect_yes, output, warn
from graveler.cli.uris import SCHEME, parse_repository
from graveler.cli.values import count, moment, repository_json
from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.opening.location import FolderLake, create_at
from graveler.location.configuration import Profile, find_profile
from graveler.values.paging import items

app = Commands(
    cls=Group,
    invoke_without_command=True,
    help="Create, list, show and delete repositories. Without a command, list them.",
)

Name = Annotated[
    str,
    typer.Argument(metavar="REPOSITORY", help="lakefs://NAME, or just NAME.", autocompletion=completion.repositories),
]


DefaultName = Annotated[
    str | None,
    typer.Argument(
        metavar="REPOSITORY", help=f"lakefs://NAME, or just NAME. {OF_USE}", autocompletion=completion.repositories
    ),
]


Force = Annotated[bool, typer.Option("--force", help="Change it even if it is read-only.")]


def init(
    location: Annotated[
        str | None,
        typer.Argument(metavar="LAKE", help="A folder, created if needed, or dynamodb://TABLE. [default: .graveler]"),
    ] = None,
    create_table: Annotated[
        bool, typer.Option("--create-table", help="Create the DynamoDB table if it does not exist.")
    ] = False,
    shared: Annotated[
        Literal["group"] | None,
        typer.Option("--shared", help="Who else can use the folder: its group. [default: only you]"),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a lake, in a folder or on AWS.

    Without LAKE, its place is given by --lake or the environment, or is .graveler in the working folder, where commands in that
    folder or below find it by themselves. A lake on AWS is a DynamoDB table, and a place in S3 for its repositories; the bucket
    must exist.

    Only you can read and write the folder, whatever your umask, because it contains the secrets that sign URLs and tokens. With
    --shared group, members of the folder's group can use it as well; anyone who can write to the folder can do anything in the
    lake.

    \b
    Examples:
      graveler init
      graveler init /data/lake --shared group
      graveler --objects s3://bucket/lake init dynamodb://lake --create-table

    JSON: one document {lake}.
    """
    named = lake or Named()
    used: Profile | None = None  # whose lake the next commands would use instead
    if location is not None:
        named = replace(named, lake=location)  # and not what --lake says, if both are given
    elif named == Named() and not any(os.environ.get(name) for name in (LAKE, TABLES, ENDPOINT)):
        named = Named(lake=str(working_folder() / HIDDEN))
        used = find_profile()
    where = find_location(named)
    if create_table and isinstance(where, FolderLake):
        raise InvalidError("--create-table is for a lake on AWS; name its table, as in dynamodb://TABLE")
    if shared and not isinstance(where, FolderLake):
        raise InvalidError("--shared is for a lake in a folder; on AWS, IAM roles control who can use the lake")
    create_at(where, create_table=create_table, shared=shared is not None).close()
    screen = output(as_json=as_json)
    screen.answer(
        {"lake": str(where.folder.absolute() if isinstance(where, FolderLake) else where)},
        f"created an empty lake in {screen.safe(str(where))}",
    )
    if as_json:
        return
    if used is not None and used.location is not None:
        warn(f"commands use {used.location[1]!r}, of profile {used.name!r}, unless --lake or {LAKE} names this lake")


@app.command()
def create(
    name: Name,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="URL", help="Where its objects are stored. [default: NAME, in the lake's own place]"
        ),
    ] = None,
    default_branch: Annotated[
        str, typer.Option("--default-branch", metavar="NAME", help="The name of its first branch.")
    ] = "main",
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change that is not forced.")] = False,
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a repository with one empty branch.

    \b
    Examples:
      graveler repo create quickstart
      graveler repo create archive --namespace file:///mnt/archive --meta owner=me

    \b
    JSON: one document {name, namespace, default_branch, created, uid,
      format_version, read_only, protected, metadata}.
    """
    name = parse_repository(name)
    opened = open_lake(lake)
    new_repository = opened.create_repository(
        name,
        namespace or f"{opened.home}{name}",
        default_branch=default_branch,
        by=user_name(),
        read_only=read_only,
        metadata=parse_metadata(meta),
    )
    screen = output(as_json=as_json)
    screen.answer(
        repository_json(new_repository.repository),
        f"created repository {screen.paint(SCHEME + name, 'bold')} with branch {default_branch}",
    )


@app.callback()
def list_without_command(context: typer.Context) -> None:
    """List the repositories if no command follows."""
    if context.invoked_subcommand is None:
        list_(lake=named_location(context))


@app.command("list")
def list_(prefix: Prefix = "", lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the lake's repositories.

    \b
    Examples:
      graveler repo list
      graveler repo list --json | jq -r .name

    JSON: a line for each repository, as in `repo create`.
    """
    opened = open_lake(lake)
    screen = output(as_json=as_json)
    for repository in items(lambda after: opened.repositories(prefix, after)):
        if as_json:
            screen.json(repository_json(opened.repository(repository.name).repository))  # with all of its settings
        else:
            screen.line(
                f"{repository.name:<24}  {screen.paint(moment(repository.created), 'dim')}  {repository.namespace}"
            )


@app.command()
def show(name: DefaultName = None, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what the lake knows about a repository.

    \b
    Example:
      graveler repo show quickstart

    JSON: one document, as in `repo create`.
    """
    repository = open_repository(lake, parse_repository(name)).repository
    screen = output(as_json=as_json)
    fields = {
        "repository": repository.name,
        "namespace": repository.namespace,
        "default branch": repository.default_branch,
        "created": moment(repository.created),
        "lake": str(find_lake(lake)),
        "read-only": "yes" if repository.settings.read_only else "",
        "protected": ", ".join(repository.settings.protected),
    }
    metadata = {f"meta {key}": value for key, value in repository.settings.metadata.items()}
    screen.answer(
        repository_json(repository),
        *screen.fields({name: value for name, value in fields.items() if value} | metadata),
    )


@app.command()
def delete(
    name: Name,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete a repository. Its branches, tags and uncommitted changes are lost; its objects stay where they are.

    `graveler gc purge` removes the objects for good, a day later, or at once if nobody else works with the lake.
    Asks for confirmation on a terminal; elsewhere it needs --yes.

    \b
    Example:
      graveler repo delete quickstart --yes

    JSON: one document {deleted, dry_run, purge}; purge is the name that
      `graveler gc purge` takes, null with --dry-run or if only an
      administrator may purge.
    """
    name = parse_repository(name)
    opened = open_lake(lake)
    repository = opened.repository(name)
    namespace = repository.repository.namespace
    heads = repository.branches(amount=1000)
    number = f"{count(len(heads.results), 'branch')}{' or more' if heads.next_after else ''}"
    if not yes and not dry_run:
        expect_yes(
            f"Delete repository {name!r} with {number} and all its uncommitted changes?",
            f"deleting repository {name!r} without a terminal needs --yes",
            "nothing was deleted",
        )
    if not dry_run:
        opened.delete_repository(name, force=force)
    purge = None if dry_run else _purge_name(name, lake)
    lines = [f"deleted repository {name}; its objects are still in {namespace}"]
    if dry_run:
        lines = [f"would delete repository {name} with {number} and all its uncommitted changes"]
    elif purge is None:
        lines.append("an administrator of the server can remove them")
    else:
        lines.append(f"to remove them a day from now: graveler gc purge {purge}")
        lines.append(f"at once, if nobody else works with the lake: graveler gc purge {purge} --at-once")
    output(as_json=as_json).answer({"deleted": name, "dry_run": dry_run, "purge": purge}, *lines)


def _purge_name(name: str, lake: Named | None) -> str | None:
    """Return the name by which `graveler gc purge` finds the repository that was just deleted; None if this user may not
    purge."""
    from graveler.cli.verbs.gc import leftovers_of
    from graveler.retention.leftovers import purge_name

    try:
        return purge_name(leftovers_of(lake).all(), name)
    except ForbiddenError:
        return None
