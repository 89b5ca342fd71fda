"""Wrong command lines: what is wrong with one, and what to type. Loaded only after such an error."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

_SHOWN: Final = "leave it out: the paths are what it shows"
_LIST_BRANCHES: Final = "use `graveler branch list --all`"
_NOTHING_STAGED_APART: Final = "`graveler status` shows what is not committed, and so does `graveler diff` without refs"
_EVERY_CHANGE: Final = "every change is staged already: use `graveler commit -m TEXT`"
_IS_A_COMMIT: Final = "leave it out: each merge is a commit; --squash makes one with a single parent"
_SETTINGS: Final = "use `graveler config set KEY VALUE`, `graveler config get KEY` or `graveler config list`"
_BY_NAME: Final = "the name of the author comes from `graveler config set user NAME` or GRAVELER_USER"

_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "branch": {
        "-D": "use `graveler branch delete BRANCH`",
        "-a": _LIST_BRANCHES,
        "--all": _LIST_BRANCHES,
        "-d": "use `graveler branch delete BRANCH`",
        "--delete": "use `graveler branch delete BRANCH`",
        "--json": "use `graveler branch list --json`",
        "--list": _LIST_BRANCHES,
        "-m": "use `graveler branch rename BRANCH NAME`",
        "-r": _LIST_BRANCHES,
        "-v": _LIST_BRANCHES,
    },
    "branch create": {"--from": "use --source REF, or write REF behind the name", "-b": "leave it out"},
    "cherry-pick": {"-x": "leave it out: the metadata of the new commit says where it comes from"},
    "commit": {
        "-a": _EVERY_CHANGE,
        "--all": _EVERY_CHANGE,
        "--amend": "a commit never changes; `graveler undo` goes back to the one before, `graveler revert` undoes its changes",
        "--author": _BY_NAME,
        "--no-verify": "leave it out: no command runs before a commit",
    },
    "config": dict.fromkeys(("--global", "--local", "--system", "--list", "-l", "--get", "--unset", "--add"), _SETTINGS),
    "diff": {
        "--cached": _NOTHING_STAGED_APART,
        "--staged": _NOTHING_STAGED_APART,
        "--name-only": _SHOWN,
        "--name-status": _SHOWN,
        "-u": "use -p",
    },
    "import": {"--from": "write the source, then the place: `graveler import SOURCE URI`"},
    "log": {
        "--amount": "use -n N",
        "--all": "name a ref; `graveler branch list` shows the head of each branch",
        "--patch": "use `graveler show REF -p`",
        "-p": "use `graveler show REF -p`",
        "--stat": "use `graveler show REF --stat`",
    },
    "ls": {"-a": "leave it out: no object is hidden", "-R": "use -r"},
    "merge": {
        "--abort": "a merge with conflicts changes nothing, so there is nothing to abort",
        "--into": "write the destination behind the source: `graveler merge SOURCE BRANCH`",
        "--ff": _IS_A_COMMIT,
        "--ff-only": _IS_A_COMMIT,
        "--no-ff": _IS_A_COMMIT,
        "-X": "use --strategy source-wins or --strategy dest-wins",
    },
    "put": {"-s": "write the file first: `graveler put FILE URI`", "--source": "write the file first: `graveler put FILE URI`"},
    "reset": {
        "--mixed": "`graveler reset URI` drops uncommitted changes, --hard REF moves the branch",
        "--soft": "`graveler reset URI` drops uncommitted changes, --hard REF moves the branch",
    },
    "revert": {"--no-edit": "leave it out; -m gives another message", "-n": "leave it out: a revert is a commit at once"},
    "rm": {"-f": "use --yes, which removes without a question", "--cached": "leave it out: no file of this machine is removed"},
    "status show": {
        "-s": "leave it out: it shows a line for each change",
        "--short": "leave it out: it shows a line for each change",
        "--porcelain": "use --json",
    },
    "tag": {
        "-a": "use `graveler tag create TAG REF`; a tag has no message",
        "-d": "use `graveler tag delete TAG`",
        "-l": "use `graveler tag list`",
        "--list": "use `graveler tag list`",
        "--delete": "use `graveler tag delete TAG`",
        "--json": "use `graveler tag list --json`",
    },
}  # fmt: skip
"""Options of git and lakectl by the command that has none of this name here, and what does their work."""

_OTHER_FORMS: Final[Mapping[str, str]] = {
    "reset": "or `graveler reset BRANCH --hard REF`",
    "import": "or `graveler import --listing FILE... URI`",
    "restore": "which fills a lake from a dump; to drop uncommitted changes, use `graveler reset URI`",
}
"""What follows the form of a command's arguments, if one is missing."""

_MORE: Final[Mapping[str, str]] = {
    "repo create": "--namespace URL says where its objects are",
    "commit": "the message follows -m",
    "revert": "each revert takes one commit",
    "cherry-pick": "each pick takes one commit",
}
"""What to do about arguments that are too many, by the command."""


def usage_context(error: "typer.TyperException", root: Any, arguments: Sequence[str]) -> Any:
    """Return the context of the command that refuses a command line: the error's, else that of the last command it names."""
    context: Any = getattr(error, "ctx", None)
    if context is None:
        context = typer.Context(root, info_name="graveler")
        for word in arguments:
            inner = getattr(context.command, "commands", {}).get(word)
            if inner is not None:
                context = typer.Context(inner, parent=context, info_name=word)
    return context


def usage_message(error: Any, context: Any) -> str:
    """Return what is wrong with a command line, and what to type. ``context`` is that of :func:`usage_context`."""
    message = str(error.format_message()).rstrip(".").replace("a valid int range", "a whole number")
    command = context.command_path.removeprefix("graveler").strip()
    option = getattr(error, "option_name", "")
    if message.endswith("requires an argument"):
        form = f"graveler {command} BRANCH --hard REF" if option == "--hard" else _usage(context)
        return f"{option} needs a value: write `{form}`"
    if hasattr(error, "possibilities"):
        if context.parent is None:
            return f"{message}; a command's own options come after its name"
        instead = _OPTIONS.get(command, {}).get(option, "")
        if not instead and command == "log" and option[1:].isdecimal():
            instead = f"use -n {option[1:]}"
        return f"there is no option {option}: {instead}" if instead else message
    if message.startswith("Missing option '--message'"):
        return f"the message is missing: say what changed, as in `{_usage(context, message='Add June')}`"
    if message.startswith("Missing argument"):
        other = f", {_OTHER_FORMS[command]}" if command in _OTHER_FORMS else ""
        if error.param.nargs == -1:  # the parser says that the first is missing, although the last may be
            return f"an argument is missing: write `{_usage(context)}`{other}"
        return f"{message}; write `{_usage(context)}`{other}"
    if message == "Missing command":
        commands = context.command.commands
        names = ", ".join(f"`{context.command_path} {name}`" for name in commands if not commands[name].hidden)
        return f"a command is missing: {names}"
    if message.endswith("})") and "@{" not in message:
        return (
            f"{message}: a shell cuts a ref at its spaces; put it in quotes, or write dots, as in main@{{1.hour.ago}}"
        )
    if message.startswith("Got unexpected extra argument"):
        more = f", where {_MORE[command]}" if command in _MORE else ""
        return f"{message}; write `{_usage(context)}`{more}"
    return message


def _usage(context: Any, message: str = "TEXT") -> str:
    """Return a command with its arguments, and with the options that it cannot do without."""
    pieces = (piece for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    words = [context.command_path, *(piece.removeprefix("{").removesuffix("}") for piece in pieces)]
    required = (param for param in context.command.params if param.required and param.param_type_name == "option")
    words += [
        f"{param.opts[-1]} '{message}'" if param.name == "message" else f"{param.opts[0]} {param.metavar}"
        for param in required
    ]
    return " ".join(words)
