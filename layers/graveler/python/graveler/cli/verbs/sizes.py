"""The verb for sizes: du."""

from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli import completion
from graveler.cli.locations import Named, connection_to, open_own_lake, open_repository
from graveler.cli.options import OF_USE, AsJson, LakeOption
from graveler.cli.progress import phases
from graveler.cli.sums import show_space, show_usage
from graveler.cli.terminal import output
from graveler.cli.uris import parse_prefix, parse_repository
from graveler.errors import InvalidError

if TYPE_CHECKING:
    from graveler.retention.space import Space


def du(
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="URI",
            help=f"lakefs://REPOSITORY/REF/, optionally with a prefix of paths {OF_USE}",
            autocompletion=completion.objects,
        ),
    ] = None,
    total: Annotated[bool, typer.Option("--total", "-s", help="Show only the total.")] = False,
    delimiter: Annotated[str, typer.Option("--delimiter", metavar="TEXT", help="The separator of levels.")] = "/",
    physical: Annotated[
        bool, typer.Option("--physical", help="Show what a repository stores, and which branches and tags hold it.")
    ] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show how many objects and bytes there are, one level down and in total.

    Counts paths that start with the given path, as `ls` lists them: what a reader of the ref sees, not what the lake stores. Most
    numbers come from summaries in the tree, so it is fast for any number of objects; -s is fastest.

    With --physical the URI names a repository. Each stored object is counted once. ALONE is what nothing else holds, and is freed
    a day after the branch or tag is deleted. HISTORY is what only older commits of branches hold; the retention rules decide
    about it (`graveler gc rules`). This lists the namespace, and reads every range that no run of `graveler gc` has read.

    \b
    Examples:
      graveler du lakefs://quickstart/main/
      graveler du -s lakefs://quickstart/v1/data/
      graveler du --physical lakefs://quickstart

    \b
    JSON: a line {type, path, objects, size} for each folder (type prefix),
      objects in none (direct), and all (total); size in bytes. With
      --physical one document {objects, unheld, unknown, own, holders}; own
      is {folder: {files, bytes}}, holders a list of {kind, name, held,
      exclusive, history}, each {files, bytes}.
    """
    if physical:
        if total or delimiter != "/":
            raise InvalidError("--physical counts a whole repository; leave out --total and --delimiter")
        show_space(output(as_json=as_json), _space(parse_repository(uri), lake))
        return
    target = parse_prefix(uri)
    usage = open_repository(lake, target.repository).du(target.ref, target.path, "" if total else delimiter)
    show_usage(output(as_json=as_json), usage, target.path)


def _space(name: str, lake: Named | None) -> "Space":
    """Return the space of a repository, counted here or at the lake's server."""
    if (connection := connection_to(lake)) is not None:
        from graveler.remote.checks_and_dumps import RemoteUpkeep

        return RemoteUpkeep(connection, name).space()
    from graveler.retention.space import space  # not for --help

    with phases("counting:") as progress:
        return space(open_own_lake(lake).repository(name), progress)
