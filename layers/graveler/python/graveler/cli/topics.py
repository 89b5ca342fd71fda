"""The help of the whole command: an overview that fits on a screen, and topics with the rest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from graveler.cli.exits import EXIT_CODES
from graveler.errors import InvalidError

START: Final = "Start here"
BRANCHES: Final = "Repositories, branches, tags"
OBJECTS: Final = "Objects"
CHANGES: Final = "Changes and commits"
HISTORY: Final = "History"
UPKEEP: Final = "Upkeep"

_FIRST: Final = ("demo", "init", "repo", "use", "config")
_EVERYDAY: Final = (
    "import",
    "put",
    "get",
    "ls",
    "status",
    "diff",
    "commit",
    "branch",
    "merge",
    "run",
    "log",
    "undo",
    "sql",
)

_REFS: Final = """
Paths are written lakefs://REPOSITORY/REF/PATH. After `graveler use lakefs://REPOSITORY/BRANCH`, a PATH alone is one on that
branch; where no path can stand, a REF alone is one of that repository.

\b
A REF is a branch, a tag, or a commit ID or its first digits (four or more):
  main                    the branch with its uncommitted changes
  main@                   the branch without them
  main~2, main^2          two commits back; the second parent of a merge
  main@{3}                the branch before its last three moves
  main@{2026-06-01T12:00Z}
                          the branch at that time, UTC unless a zone follows
  main@{1 hour ago}       the branch that long ago; also 90m, 3d, yesterday;
                          dots stand for spaces: main@{1.hour.ago}
  a..b, a...b             in diff: from a to b; from their common base to b

Before a PATH, a / in the name of a tag is written %2F, and a % is written %25.
"""

_ENVIRONMENT: Final = """
\b
  GRAVELER_LAKE     the lake, like --lake
  GRAVELER_TABLES   the table of a lake on AWS, like --tables
  GRAVELER_OBJECTS  where its repositories are stored, like --objects
  GRAVELER_SEALING_KEY_FILE, GRAVELER_KMS_KEY
                    the key that seals the secrets in its table, as in `serve`
  GRAVELER_TABLE_ROLE
                    in `serve`: a role of AWS whose sessions are the credentials of
                    clients for Iceberg tables on S3; default: none
  GRAVELER_ENDPOINT, GRAVELER_ACCESS_KEY_ID, GRAVELER_SECRET_ACCESS_KEY
                    a lake behind a server, like --endpoint; if no key is given,
                    LAKECTL_CREDENTIALS_… or ~/.lakectl.yaml is used, provided
                    that it is for this server
  GRAVELER_REPO     the default repository and perhaps its branch, like
                    `graveler use`: sales or sales/main
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
  AWS_…             region, credentials and AWS_ENDPOINT_URL_S3, …_DYNAMODB, as
                    in AWS's own tools
  GRAVELER_USER     the author of commits; default: `graveler config get user`,
                    then the login name
  GRAVELER_CHECKS   the settings of checks: commands, functions and secrets that
                    rules may name; a file of TOML, or a JSON document
  GRAVELER_PAGER    the pager of log and diff on a terminal; default: PAGER, then
                    less; empty: none
  GRAVELER_DEBUG    1: show the traceback of unexpected errors
  NO_COLOR          disable colours
"""

_ERRORS: Final = """
With --json, a command prints errors as JSON, too, on a line of stderr:
{"error": {code, message, fields, hint, exit_code}}; warnings are {"warning": {message}}.
"""

_OPTIONS_END: Final = """
The options that say where the lake is can stand before the command or behind it. Without one, GRAVELER_LAKE, the profile in use
and then the nearest lake above the working folder count.
"""


def _sections(root: Any) -> dict[str, list[str]]:
    """Return the names of all commands by their headings."""
    sections: dict[str, list[str]] = {heading: [] for heading in (START, BRANCHES, OBJECTS, CHANGES, HISTORY, UPKEEP)}
    for name, command in root.commands.items():
        sections[command.rich_help_panel].append(name)
    return sections


def _write_commands(context: Any, formatter: Any) -> None:
    root = context.command
    for heading, names in _sections(root).items():
        with formatter.section(heading):
            formatter.write_dl([(name, root.commands[name].get_short_help_str(80)) for name in names])


def _write_options(context: Any, formatter: Any) -> None:
    records = (param.get_help_record(context) for param in context.command.get_params(context))
    with formatter.section("Options"):
        formatter.write_dl([record for record in records if record])
    formatter.write_paragraph()
    formatter.write_text(_OPTIONS_END)


Writer = Callable[[Any, Any], None]
"""Writes a topic, by the context of the whole command, with a formatter."""


def _text(text: str) -> Writer:
    return lambda _, formatter: formatter.write_text(text)


TOPICS: Final[Mapping[str, tuple[str, Writer]]] = {
    "commands": ("All commands.", _write_commands),
    "options": ("The options of every command: where the lake is, and who asks.", _write_options),
    "refs": ("Paths, branches, tags, commits and points in time.", _text(_REFS)),
    "environment": ("The variables of the environment.", _text(_ENVIRONMENT)),
    "exit-codes": ("What the exit code of a command says.", _text(f"\b\n{EXIT_CODES}\n{_ERRORS}")),
}


def write_overview(root: Any, formatter: Any) -> None:
    """Write the help of the whole command, without its usage: the commands of each day, the names of the others, and topics."""

    def lines(names: Iterable[str]) -> list[tuple[str, str]]:
        width = formatter.width - 6 - max(map(len, root.commands))
        return [(name, root.commands[name].get_short_help_str(width)) for name in names]

    with formatter.section(START):
        formatter.write_dl(lines(_FIRST))
    with formatter.section("Everyday work"):
        formatter.write_dl(lines(_EVERYDAY))
    other_commands = [name for names in _sections(root).values() for name in names if name not in _FIRST + _EVERYDAY]
    with formatter.section("More commands"):
        formatter.write_text(", ".join(other_commands))
    with formatter.section("Topics, by `graveler help TOPIC`"):
        formatter.write_dl([(name, about) for name, (about, _) in TOPICS.items()])
    formatter.write_paragraph()
    formatter.write_text("`graveler help COMMAND` shows the options of a command, and examples.")


def help_text(context: Any, words: Sequence[str]) -> str:
    """Return the help of the command or the topic that these words name, or the overview. ``context`` is that of the whole
    command. :class:`InvalidError` for other words."""
    root = context.command
    if len(words) == 1 and words[0] in TOPICS and words[0] not in root.commands:
        formatter = context.make_formatter()
        TOPICS[words[0]][1](context, formatter)
        return str(formatter.getvalue()).strip("\n")
    command = root
    for index, word in enumerate(words):
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            raise _unknown(context, command, words[: index + 1])
        context = type(context)(inner, parent=context, info_name=word)
        command = inner
    return str(command.get_help(context)).rstrip("\n")


def _unknown(context: Any, group: Any, words: Sequence[str]) -> InvalidError:
    from difflib import get_close_matches

    from graveler.cli.suggestions import instead_of

    names = [*getattr(group, "commands", {}), *(TOPICS if len(words) == 1 else ())]
    close = get_close_matches(words[-1], names, n=1)
    instead = instead_of(context.command_path, words[-1])
    if words == ["topics"]:
        close, instead = [], f"the topics are {', '.join(TOPICS)}"
    remedy = instead or (f"did you mean {close[0]!r}?" if close else "`graveler help` lists commands and topics")
    return InvalidError(f"there is no command or topic {' '.join(words)!r}; {remedy}")
