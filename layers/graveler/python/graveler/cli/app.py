"""The command tree: the verbs, their order in the help, and how a command line is run."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from graveler import __version__
from graveler.cli.exits import EXIT_CODES, UNSURE, InterruptedVerbError, ReaderGoneError
from graveler.cli.running import CommandTree, run_line
from graveler.cli.verbs import (
    bench,
    changes,
    copies,
    demonstration,
    exports,
    gc,
    history,
    imports,
    ingest,
    keys,
    login,
    merges,
    objects,
    operations,
    origins,
    principals,
    refs,
    repositories,
    resets,
    serve,
    settings,
    sizes,
    transfers,
    upkeep,
)

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}

_EPILOG: Final = f"""
Paths are written lakefs://REPOSITORY/REF/PATH. A REF is a branch, a tag, a commit ID or its first digits, and any
chain of ~, ~N, ^, ^N behind it; a branch's name alone shows uncommitted changes too, BRANCH@ leaves them out.
BRANCH@{{3}} is where a branch was before its last three moves, BRANCH@{{2026-06-01T12:00Z}} where it was at that time.

\b
Environment:
  GRAVELER_LAKE     the lake, as --lake
  GRAVELER_TABLES   a lake on AWS, as --tables
  GRAVELER_OBJECTS  where its repositories lie, as --objects
  GRAVELER_SEALING_KEY_FILE, GRAVELER_KMS_KEY
                    what seals the secrets in its table, as `serve` has it
  GRAVELER_ENDPOINT, GRAVELER_ACCESS_KEY_ID, GRAVELER_SECRET_ACCESS_KEY
                    a lake behind a server, as --endpoint; without them the key
                    is LAKECTL_CREDENTIALS_…, else in ~/.lakectl.yaml, if these
                    are for this server
  GRAVELER_LOGIN    aws: log in to it with AWS's credentials instead, as --login
  GRAVELER_SESSION_TOKEN
                    or with a token that `graveler login` has shown
  GRAVELER_SERVER_NAME
                    what AWS's credentials sign for, if not its host name
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY, AWS_CA_BUNDLE, SSL_CERT_FILE
                    how a server is reached, and who vouches for it
  AWS_…             region, credentials and AWS_ENDPOINT_URL_S3, …_DYNAMODB, as AWS's own tools take them
  GRAVELER_USER     who commits; the login name otherwise
  GRAVELER_PAGER    what log and diff are read with on a terminal, else PAGER, else less; empty: nothing
  GRAVELER_DEBUG    1: show the traceback of unexpected errors
  NO_COLOR          no colours

\b
Exit codes:
{EXIT_CODES}

\b
Begin:
  graveler demo                      see all of it at work, in a folder apart
  graveler init                      a lake in this folder
  graveler repo create quickstart
  graveler import ~/data lakefs://quickstart/main/data/ -m "First data"
"""


_START: Final = "Start here"
_BRANCHES: Final = "Repositories, branches, tags"
_OBJECTS: Final = "Objects"
_CHANGES: Final = "Changes and commits"
_HISTORY: Final = "History"
_UPKEEP: Final = "Upkeep"


class _Sections(TyperGroup):
    """A command group that lists its commands under headings, and distinguishes Ctrl-C and a closed pipe from other ends."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedVerbError(UNSURE) from None
        except BrokenPipeError:
            raise ReaderGoneError from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", "")
                sections.setdefault(heading, []).append((name, command.get_short_help_str(80)))
        for heading in (_START, _BRANCHES, _OBJECTS, _CHANGES, _HISTORY, _UPKEEP):
            with formatter.section(heading):
                formatter.write_dl(sections[heading])


app = typer.Typer(
    name="graveler",
    cls=_Sections,
    help="Git for a data lake, without a server: branches, commits, merges, time travel over objects that stay where they are.",
    epilog=_EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"graveler {__version__}")
        raise typer.Exit


@app.callback()
def root(
    lake: Annotated[  # read by the commands, from the context
        str | None, typer.Option("--lake", metavar="LAKE", help="The lake: a folder, dynamodb://TABLE or https://HOST.")
    ] = None,
    tables: Annotated[
        str | None, typer.Option("--tables", metavar="URL", help="A lake on AWS: its table, dynamodb://TABLE.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="A lake behind a server, with an access key: https://HOST."),
    ] = None,
    objects: Annotated[
        str | None,
        typer.Option("--objects", metavar="URL", help="Where its repositories lie: s3://BUCKET/PREFIX."),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="REGION", help="Its region. [default: AWS's configuration]")
    ] = None,
    s3_endpoint_url: Annotated[
        str | None, typer.Option("--s3-endpoint-url", metavar="URL", help="Another server that speaks S3.")
    ] = None,
    dynamodb_endpoint_url: Annotated[
        str | None, typer.Option("--dynamodb-endpoint-url", metavar="URL", help="Another server that speaks DynamoDB.")
    ] = None,
    login: Annotated[
        str | None,
        typer.Option(
            "--login", metavar="HOW", help="To the server: aws, with AWS's credentials. [default: GRAVELER_LOGIN]"
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options that stand before the verb."""


def _add(section: str, *verbs: Callable[..., None], names: Sequence[str] = ()) -> None:
    for at, verb in enumerate(verbs):
        app.command(names[at] if names else verb.__name__, rich_help_panel=section)(verb)


_add(_START, demonstration.demo, repositories.init, serve.serve, login.login)
_SETTINGS: Final[Mapping[str, Callable[..., None]]] = {
    "metadata": settings.metadata,
    "protect": settings.protect,
    "unprotect": settings.unprotect,
    "import-sources": settings.import_sources,
    "read-only": settings.read_only,
}
for _name, _verb in _SETTINGS.items():
    repositories.app.command(_name)(_verb)
app.add_typer(repositories.app, name="repo", rich_help_panel=_BRANCHES)
app.add_typer(refs.branches, name="branch", rich_help_panel=_BRANCHES)
app.add_typer(refs.tags, name="tag", rich_help_panel=_BRANCHES)
_add(
    _OBJECTS,
    transfers.put,
    transfers.get,
    exports.export,
    objects.cat,
    objects.ls,
    objects.stat,
    sizes.du,
    copies.cp,
    copies.mv,
    objects.rm,
)
_add(
    _CHANGES,
    changes.status,
    changes.commit,
    changes.diff,
    merges.merge,
    merges.revert,
    merges.cherry_pick,
    resets.reset,
    imports.import_,
    names=("status", "commit", "diff", "merge", "revert", "cherry-pick", "reset", "import"),
)
app.add_typer(ingest.app, name="ingest", rich_help_panel=_CHANGES)
_add(_HISTORY, history.log, history.show, origins.blame, history.reflog, resets.undo)
app.add_typer(keys.app, name="keys", rich_help_panel=_UPKEEP)
app.add_typer(principals.app, name="principals", rich_help_panel=_UPKEEP)
app.add_typer(gc.app, name="gc", rich_help_panel=_UPKEEP)
app.add_typer(operations.app, name="operations", rich_help_panel=_UPKEEP)
_add(_UPKEEP, upkeep.fsck, upkeep.dump, upkeep.dumps, upkeep.restore, bench.bench)


@cache
def _command() -> CommandTree:
    """Return the tree as Typer builds it: 50 ms for seventy commands, so once for all command lines of a process."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are reported on stderr."""
    return run_line(_command(), arguments)
