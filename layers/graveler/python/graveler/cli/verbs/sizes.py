"""How much there is: du."""

from typing import Annotated

import typer

from graveler.cli import completion
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.places import open_repository
from graveler.cli.sums import show_usage
from graveler.cli.terminal import output
from graveler.cli.uris import parse_prefix


def du(
    uri: Annotated[
        str,
        typer.Argument(
            metavar="URI",
            help="lakefs://REPOSITORY/REF/ and the beginning of paths.",
            autocompletion=completion.objects,
        ),
    ],
    total: Annotated[bool, typer.Option("--total", "-s", help="Only one line, for all.")] = False,
    delimiter: Annotated[str, typer.Option("--delimiter", metavar="TEXT", help="Where paths are cut.")] = "/",
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show how many objects and bytes there are, one level down and in total.

    Counted is what begins with the given path, as `ls` shows it: what a reader of the ref sees, not what the lake stores. The
    trees' descriptions tell most of it, so it is quick whatever the number of objects; -s is quickest.

    \b
    Examples:
      graveler du lakefs://quickstart/main/
      graveler du -s lakefs://quickstart/v1/data/

    \b
    JSON: a line {type, path, objects, size} for each folder (type prefix),
      what lies in none (direct), and all (total); size in bytes.
    """
    at = parse_prefix(uri)
    usage = open_repository(lake, at.repository).du(at.ref, at.path, "" if total else delimiter)
    show_usage(output(), usage, at.path, as_json=as_json)
