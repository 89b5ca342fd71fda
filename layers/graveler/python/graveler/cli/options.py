"""Options that many verbs share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

from graveler.errors import InvalidError

REFS = "Branches, tags and commits"


def _or_of_root(context: typer.Context, value: Path | None) -> Path | None:
    """``--lake`` before the verb counts when there is none behind it."""
    if value is None:
        before = context.find_root().params.get("lake")
        return before if isinstance(before, Path) else None
    return value


LakeFolder = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        metavar="FOLDER",
        callback=_or_of_root,
        help="The lake. [default: GRAVELER_LAKE, else the nearest one upward from here]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (see above).")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="What the commit is about.")]
Metadata = Annotated[
    list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="Metadata to keep with it; may be repeated.")
]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only names that begin so.")]


def parse_metadata(pairs: list[str] | None, option: str = "--meta") -> dict[str, str]:
    """``KEY=VALUE`` of each ``option``. :class:`InvalidError` for one without ``=``, without key, or given twice."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidError(f"{option} {pair!r} is not of the form KEY=VALUE")
        if key in found:
            raise InvalidError(f"{option} gives {key!r} twice; give each key once")
        found[key] = value
    return found


def check_utf8(option: str, text: str) -> str:
    """``text``. :class:`InvalidError` for an option that holds bytes which are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{option} {text!r} cannot be written as UTF-8") from None
    return text
