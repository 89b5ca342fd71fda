"""The verbs that create a lake, and its repositories."""

import os
from dataclasses import replace
from typing import Annotated, Literal

import typer

from graveler.cli import completion
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
from graveler.cli.options import AsJson, DryRun, LakeOption, Metadata, Prefix, Yes, parse_metadata
from graveler.cli.terminal import confirm, output
from graveler.cli.uris import SCHEME, parse_repository
from graveler.cli.values import count, moment, repository_json
from graveler.errors import InvalidError, PreconditionError
from graveler.lake.opening.location import FolderLake, create_at
from graveler.paging import items

app = typer.Typer(help="Create, list, show and delete repositories.")

Name = Annotated[
    str,
    typer.Argument(metavar="REPOSITORY", help="lakefs://NAME, or just NAME.", autocompletion=completion.repositories),
]


Force = Annotated[bool, typer.Option("--force", help="Also if the repository is read-only.")]


def init(
    location: Annotated[
        str | None,
        typer.Argument(metavar="LAKE", help="A folder, made if need be, or dynamodb://TABLE. [default: .graveler]"),
    ] = None,
    create_table: Annotated[
        bool, typer.Option("--create-table", help="Make the DynamoDB table if it is not there.")
    ] = False,
    shared: Annotated[
        Literal["group"] | None,
        typer.Option("--shared", help="Who else may use the folder: its group. [default: you alone]"),
    ] = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Make a lake, in a folder or on AWS.

    Without LAKE it is where --lake or the environment says, else .graveler in the working folder; commands run there or below
    find it by themselves. A lake on AWS is a DynamoDB table and a place in S3 for its repositories, whose bucket must be there.

    A folder can be read and written by you alone, whatever your umask, since it holds the secrets that sign URLs and tokens. With
    --shared group those of the folder's group may use it as well; whoever may write there may do anything in the lake.

    \b
    Examples:
      graveler init
      graveler init /data/lake --shared group
      graveler --objects s3://bucket/lake init dynamodb://lake --create-table

    JSON: one document {lake}.
    """
    named = lake or Named()
    if location is not None:
        named = replace(named, lake=location)  # and not what --lake says, if both are given
    elif named == Named() and not any(os.environ.get(name) for name in (LAKE, TABLES, ENDPOINT)):
        named = Named(lake=str(working_folder() / HIDDEN))
    where = find_location(named)
    if create_table and isinstance(where, FolderLake):
        raise InvalidError("--create-table is of a lake on AWS; name its table, as dynamodb://TABLE")
    if shared and not isinstance(where, FolderLake):
        raise InvalidError("--shared is of a lake in a folder; who may use one on AWS is said by its roles")
    create_at(where, create_table=create_table, shared=shared is not None).close()
    screen = output()
    if as_json:
        screen.json({"lake": str(where.folder.absolute() if isinstance(where, FolderLake) else where)})
        return
    screen.line(f"made an empty lake in {screen.safe(str(where))}")


@app.command()
def create(
    name: Name,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", metavar="URL", help="Where its objects lie. [default: NAME, in the lake's own place]"
        ),
    ] = None,
    default_branch: Annotated[str, typer.Option("--default-branch", metavar="NAME", help="Its first branch.")] = "main",
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every change that is not forced.")] = False,
    meta: Metadata = None,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Make a repository with one branch, which holds nothing yet.

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
    made = opened.create_repository(
        name,
        namespace or f"{opened.home}{name}",
        default_branch=default_branch,
        by=user_name(),
        read_only=read_only,
        metadata=parse_metadata(meta),
    )
    screen = output()
    if as_json:
        screen.json(repository_json(made.repository))
        return
    screen.line(f"created repository {screen.paint(SCHEME + name, 'bold')} with branch {default_branch}")


@app.command("list")
def list_(prefix: Prefix = "", lake: LakeOption = None, as_json: AsJson = False) -> None:
    """List the lake's repositories.

    \b
    Examples:
      graveler repo list
      graveler repo list --json | jq -r .name

    JSON: a line for each repository, as of `repo create`.
    """
    opened = open_lake(lake)
    screen = output()
    for repository in items(lambda after: opened.repositories(prefix, after)):
        if as_json:
            screen.json(repository_json(opened.repository(repository.name).repository))  # with all of its settings
        else:
            screen.line(
                f"{repository.name:<24}  {screen.paint(moment(repository.created), 'dim')}  {repository.namespace}"
            )


@app.command()
def show(name: Name, lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Show what the lake knows of a repository.

    \b
    Example:
      graveler repo show quickstart

    JSON: one document, as of `repo create`.
    """
    repository = open_repository(lake, parse_repository(name)).repository
    screen = output()
    if as_json:
        screen.json(repository_json(repository))
        return
    screen.fields(
        {
            "repository": repository.name,
            "namespace": repository.namespace,
            "default branch": repository.default_branch,
            "created": moment(repository.created),
            "lake": str(find_lake(lake)),
        }
        | ({"read-only": "yes"} if repository.settings.read_only else {})
        | ({"protected": ", ".join(repository.settings.protected)} if repository.settings.protected else {})
        | {f"meta {key}": value for key, value in repository.settings.metadata.items()}
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
    """Forget a repository: its branches, tags and uncommitted changes. Its objects stay where they are.

    Asks on a terminal; anywhere else it needs --yes.

    \b
    Example:
      graveler repo delete quickstart --yes

    JSON: one document {deleted, dry_run}.
    """
    name = parse_repository(name)
    opened = open_lake(lake)
    repository = opened.repository(name)
    namespace = repository.repository.namespace
    heads = repository.branches(amount=1000)
    number = f"{count(len(heads.results), 'branch')}{' or more' if heads.next_after else ''}"
    if not yes and not dry_run:
        answer = confirm(f"Forget repository {name!r} with {number} and all that is uncommitted there?")
        if not answer:
            why = "not confirmed" if answer is False else f"deleting repository {name!r} needs --yes without a terminal"
            raise PreconditionError(f"{why}; nothing was deleted")
    if not dry_run:
        opened.delete_repository(name, force=force)
    screen = output()
    if as_json:
        screen.json({"deleted": name, "dry_run": dry_run})
        return
    if dry_run:
        screen.line(f"would delete repository {name} with {number} and all that is uncommitted there")
        return
    screen.line(f"deleted repository {name}; its objects are still in {namespace}")
