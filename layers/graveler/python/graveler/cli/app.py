"""The command tree: the verbs, their order in the help, and how a command line is run."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.completion import install_callback, show_callback

from graveler import __version__
from graveler.cli.commands import Commands
from graveler.cli.exits import UNSURE, InterruptedVerbError, ReaderGoneError
from graveler.cli.groups import Group
from graveler.cli.location_options import add_location_options
from graveler.cli.running import CommandTree, run_line
from graveler.cli.topics import BRANCHES, CHANGES, HISTORY, OBJECTS, START, UPKEEP, write_overview
from graveler.cli.verbs import (
    about,
    bench,
    candidates,
    changes,
    checks,
    commit_statuses,
    config,
    copies,
    demonstration,
    diffs,
    doctor,
    exports,
    gc,
    history,
    iceberg_tables,
    imports,
    ingest,
    keys,
    login,
    merges,
    objects,
    operations,
    origins,
    principals,
    pull_requests,
    ref_rules,
    refs,
    repositories,
    resets,
    runs,
    serve,
    settings,
    sizes,
    sql,
    transfers,
    ui,
    upkeep,
    use,
)
from graveler.errors import InvalidError

_SHELLS: Final = ("bash", "zsh", "fish", "powershell", "pwsh")
_COMPLETION: Final = {"--install-completion": install_callback, "--show-completion": show_callback}
"""Typer's own options of these names are flags: they leave the name of a shell to the command line, where nobody reads it."""

_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


class _Sections(Group):
    """The whole command, whose help is an overview; it distinguishes Ctrl-C and a closed pipe from other ends."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        if len(args) > 1 and args[0] in _COMPLETION and not args[1].startswith("-"):
            option, shell = args[:2]
            if shell not in _SHELLS:
                shells = ", ".join(_SHELLS)
                raise InvalidError(f"{option} {shell}: there is completion for {shells}; name one of them, or none")
            _COMPLETION[option](ctx, ctx.command, shell)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedVerbError(UNSURE) from None
        except BrokenPipeError:
            raise ReaderGoneError from None

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the name of Typer's parameter
        write_overview(self, formatter)


app = Commands(
    name="graveler",
    cls=_Sections,
    help="Git for a data lake, without a server: its objects stay where they are.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
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
    for index, verb in enumerate(verbs):
        app.command(names[index] if names else verb.__name__, rich_help_panel=section)(verb)


_add(START, demonstration.demo, repositories.init, use.use)
app.add_typer(config.app, name="config", rich_help_panel=START)
_add(START, ui.ui, serve.serve, login.login, login.logout, doctor.doctor)
_add(START, about.help_, about.version, names=("help", "version"))
_SETTINGS: Final[Mapping[str, Callable[..., None]]] = {
    "metadata": settings.metadata,
    "protect": settings.protect,
    "unprotect": settings.unprotect,
    "import-sources": settings.import_sources,
    "read-only": settings.read_only,
}
for _name, _verb in _SETTINGS.items():
    repositories.app.command(_name)(_verb)
app.add_typer(repositories.app, name="repo", rich_help_panel=BRANCHES)
app.add_typer(refs.branches, name="branch", rich_help_panel=BRANCHES)
app.add_typer(refs.tags, name="tag", rich_help_panel=BRANCHES)
app.add_typer(ref_rules.app, name="rules", rich_help_panel=BRANCHES)
app.add_typer(candidates.app, name="candidate", rich_help_panel=BRANCHES)
_add(
    OBJECTS,
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
app.add_typer(iceberg_tables.app, name="table", rich_help_panel=OBJECTS)
app.add_typer(commit_statuses.app, name="status", rich_help_panel=CHANGES)
_add(
    CHANGES,
    changes.commit,
    diffs.diff,
    merges.merge,
    merges.revert,
    merges.cherry_pick,
    resets.reset,
    imports.import_,
    runs.run_,
    runs.gateway,
    names=("commit", "diff", "merge", "revert", "cherry-pick", "reset", "import", "run", "gateway"),
)
app.add_typer(pull_requests.app, name="pr", rich_help_panel=CHANGES)
app.add_typer(ingest.app, name="ingest", rich_help_panel=CHANGES)
app.add_typer(checks.app, name="check", rich_help_panel=CHANGES)
_add(HISTORY, history.log, history.show, origins.blame, history.reflog, resets.undo)
app.add_typer(keys.app, name="keys", rich_help_panel=UPKEEP)
app.add_typer(principals.app, name="principals", rich_help_panel=UPKEEP)
app.add_typer(gc.app, name="gc", rich_help_panel=UPKEEP)
app.add_typer(operations.app, name="operations", rich_help_panel=UPKEEP)
_add(UPKEEP, upkeep.fsck, upkeep.dump, upkeep.dumps, upkeep.restore, bench.bench)


@cache
def _command() -> CommandTree:
    """Return the tree as Typer builds it: 50 ms for seventy commands, so once for all command lines of a process."""
    command = typer.main.get_command(app)
    add_location_options(command)
    return command


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are reported on stderr."""
    return run_line(_command(), arguments)
