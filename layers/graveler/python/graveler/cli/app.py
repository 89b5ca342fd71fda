"""The command tree: the verbs, their order in the help, and how a command line is run."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer

from graveler import __version__
from graveler.cli.exits import EXIT_CODES, UNSURE, InterruptedVerbError, ReaderGoneError
from graveler.cli.groups import Group
from graveler.cli.location_options import add_location_options
from graveler.cli.running import CommandTree, run_line
from graveler.cli.verbs import (
    bench,
    changes,
    copies,
    demonstration,
    doctor,
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
    sql,
    transfers,
    upkeep,
    use,
)

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}

_EPILOG: Final = f"""
Paths are written lakefs://REPOSITORY/REF/PATH. A REF is a branch, a tag, or a commit ID or its first digits, optionally
followed by any chain of ~, ~N, ^, ^N. A branch name alone includes uncommitted changes; BRANCH@ leaves them out.
BRANCH@{{3}} is the branch before its last three moves; BRANCH@{{2026-06-01T12:00Z}} is the branch at that time. Before a
PATH, a / in the name of a tag is written %2F, and a % is written %25.

After `graveler use lakefs://REPOSITORY/BRANCH`, a PATH alone is one on that branch; where no path can stand, a REF alone
is one of that repository.

The options that say where the lake is can stand before the command or behind it.

\b
Environment:
  GRAVELER_LAKE     the lake, like --lake
  GRAVELER_TABLES   the table of a lake on AWS, like --tables
  GRAVELER_OBJECTS  where its repositories are stored, like --objects
  GRAVELER_SEALING_KEY_FILE, GRAVELER_KMS_KEY
                    the key that seals the secrets in its table, as in `serve`
  GRAVELER_ENDPOINT, GRAVELER_ACCESS_KEY_ID, GRAVELER_SECRET_ACCESS_KEY
                    a lake behind a server, like --endpoint; if no key is given,
                    LAKECTL_CREDENTIALS_… or ~/.lakectl.yaml is used, provided
                    that it is for this server
  GRAVELER_REPO     the default repository and perhaps its branch, like `graveler use`:
                    sales or sales/main
  GRAVELER_PROFILE  the profile to use of the configuration file, like --profile;
                    default: the one called default
  GRAVELER_CONFIG   the configuration file; default: ~/.config/graveler/config.toml
  GRAVELER_LOGIN    aws: log in with AWS credentials instead, like --login
  GRAVELER_SESSION_TOKEN
                    or use a token printed by `graveler login`
  GRAVELER_SERVER_NAME
                    the name that AWS logins sign, if not the server's host name
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY, AWS_CA_BUNDLE, SSL_CERT_FILE
                    proxies and trusted certificates
  AWS_…             region, credentials and AWS_ENDPOINT_URL_S3, …_DYNAMODB, as in AWS's own tools
  GRAVELER_USER     the committer; default: the login name
  GRAVELER_PAGER    the pager of log and diff on a terminal; default: PAGER, then less; empty: none
  GRAVELER_DEBUG    1: show the traceback of unexpected errors
  NO_COLOR          disable colours

\b
Exit codes:
{EXIT_CODES}

\b
Getting started:
  graveler demo                      see everything at work, in a separate folder
  graveler init                      create a lake in this folder
  graveler repo create quickstart
  graveler import ~/data lakefs://quickstart/main/data/ -m "First data"
"""


_START: Final = "Start here"
_BRANCHES: Final = "Repositories, branches, tags"
_OBJECTS: Final = "Objects"
_CHANGES: Final = "Changes and commits"
_HISTORY: Final = "History"
_UPKEEP: Final = "Upkeep"


class _Sections(Group):
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
    help="Git for a data lake, without a server: branch, commit, merge and time-travel over objects that stay where they are.",
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
        str | None, typer.Option("--tables", metavar="URL", help="The table of a lake on AWS, dynamodb://TABLE.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", metavar="URL", help="A lake behind a server, used with an access key: https://HOST."
        ),
    ] = None,
    objects: Annotated[
        str | None,
        typer.Option(
            "--objects", metavar="URL", help="Where a lake on AWS stores its repositories, s3://BUCKET/PREFIX."
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option("--region", metavar="REGION", help="The AWS region. [default: from AWS's configuration]"),
    ] = None,
    s3_endpoint_url: Annotated[
        str | None, typer.Option("--s3-endpoint-url", metavar="URL", help="Use another S3-compatible server.")
    ] = None,
    dynamodb_endpoint_url: Annotated[
        str | None,
        typer.Option("--dynamodb-endpoint-url", metavar="URL", help="Use another DynamoDB-compatible server."),
    ] = None,
    login: Annotated[
        str | None,
        typer.Option(
            "--login",
            metavar="HOW",
            help="How to log in to the server: aws, with AWS credentials. [default: GRAVELER_LOGIN]",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="A profile of the configuration file. [default: GRAVELER_PROFILE, or default]",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options that come before the command; those that say where the lake is may also follow it."""


def _add(section: str, *verbs: Callable[..., None], names: Sequence[str] = ()) -> None:
    for at, verb in enumerate(verbs):
        app.command(names[at] if names else verb.__name__, rich_help_panel=section)(verb)


_add(_START, demonstration.demo, repositories.init, serve.serve, login.login, login.logout, use.use, doctor.doctor)
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
    sql.sql,
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
    command = typer.main.get_command(app)
    add_location_options(command)
    return command


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are reported on stderr."""
    return run_line(_command(), arguments)
