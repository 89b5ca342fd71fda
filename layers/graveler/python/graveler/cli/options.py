"""Options shared by many verbs."""

from dataclasses import fields, replace
from typing import Annotated, Final

import typer

from graveler.cli.defaults import begin_command
from graveler.errors import InvalidError
from graveler.location.environment import Named

REFS = "Branches, tags and commits"
OF_USE: Final = "[default: that of `graveler use`]"
"""The end of the help of an argument that the default repository or branch may stand for."""


def named_location(context: typer.Context, lake: Named | None = None) -> Named:
    """Return the lake's location from the command line: ``--lake`` after the verb, and the options before it."""
    before = context.find_root().params
    named = Named(
        **{field.name: before[field.name] for field in fields(Named) if field.name in before}, by_options=True
    )
    named = named if lake is None else replace(named, lake=lake.lake)
    begin_command(named)
    return named


LakeOption = Annotated[
    Named | None,
    typer.Option(
        "--lake",
        metavar="LAKE",
        parser=lambda text: Named(lake=text),
        callback=named_location,
        help="The lake: a folder, dynamodb://TABLE or https://HOST. [default: GRAVELER_LAKE, or the nearest one above]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (see above).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted, without deleting it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress on a terminal.")]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="The commit message.")]
Metadata = Annotated[
    list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="Metadata to store with it; repeatable.")
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Leave out what this pattern of .gitignore names; repeatable."),
]
NoIgnore = Annotated[
    bool, typer.Option("--no-ignore", help="Take what .gravelerignore names, and .git, .env and the like.")
]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only names that start with this.")]


def parse_metadata(pairs: list[str] | None, option: str = "--meta") -> dict[str, str]:
    """Parse ``KEY=VALUE`` of each ``option``. :class:`InvalidError` for one without ``=``, without key, or given twice."""
    metadata: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidError(f"{option} {pair!r} is not of the form KEY=VALUE")
        if key in metadata:
            raise InvalidError(f"{option} names key {key!r} twice; give each key once")
        metadata[key] = value
    return metadata


def parse_exclude(patterns: list[str] | None) -> tuple[str, ...]:
    """Return the patterns of ``--exclude``. :class:`InvalidError` for one that names nothing, or has several lines."""
    for pattern in patterns or ():
        check_utf8("--exclude", pattern)
        if not pattern.strip() or "\n" in pattern or pattern.startswith("#"):
            raise InvalidError(
                f"--exclude {pattern!r} is no pattern; give one as of a line in .gitignore, such as '*.tmp'"
            )
    return tuple(patterns or ())


def check_utf8(option: str, text: str) -> str:
    """Return ``text``. :class:`InvalidError` for an option with bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{option} {text!r} cannot be written as UTF-8") from None
    return text
