"""The verbs for a repository's settings: metadata, protection, and the like."""

from enum import Enum
from typing import Annotated

import typer

from graveler.cli.locations import open_repository
from graveler.cli.options import AsJson, LakeOption, parse_metadata
from graveler.cli.terminal import output
from graveler.cli.uris import parse_repository
from graveler.cli.verbs.repositories import Force, Name
from graveler.errors import InvalidError


class Switch(str, Enum):
    """A setting that is on or off."""

    ON = "on"
    OFF = "off"


Patterns = Annotated[
    list[str], typer.Argument(metavar="PATTERN...", help="Branch names; * and ? stand for any characters, any one.")
]


def metadata(
    name: Name,
    meta: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Note this; may be repeated.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Note nothing; may be repeated.")
    ] = None,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show or change what is noted of a repository.

    Keys that are not named stay as they are, also if somebody else changes them at the same time.

    \b
    Examples:
      graveler repo metadata quickstart
      graveler repo metadata quickstart --set owner=data-team --unset draft

    JSON: one document, the keys and their values.
    """
    added = parse_metadata(meta, option="--set")
    both = sorted(set(added).intersection(unset or ()))
    if both:
        raise InvalidError(f"{both[0]!r} is to be set and unset; choose one")
    repository = open_repository(lake, parse_repository(name))
    found = repository.repository.settings.metadata
    if unset:
        found = repository.delete_metadata(unset, force=force)
    if added:
        found = repository.set_metadata(added, force=force)
    screen = output()
    if as_json:
        screen.json(dict(found))
        return
    for key, value in sorted(found.items()):
        screen.line(f"{screen.safe(key)}={screen.safe(value)}")


def protect(
    name: Name,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATTERN]...", help="Branch names; * and ? stand for any characters, any one. None: list them."
        ),
    ] = None,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Protect branches: nothing is staged or committed on them, only merged, reverted or picked.

    The patterns are added to those there are; without one, they are listed.

    \b
    Examples:
      graveler repo protect quickstart main "release-*"
      graveler repo protect quickstart

    JSON: one document {protected}, all patterns as they are afterwards.
    """
    repository = open_repository(lake, parse_repository(name))
    found = repository.protect(patterns, force=force) if patterns else repository.repository.settings.protected
    _show_patterns(found, as_json=as_json)


def unprotect(
    name: Name, patterns: Patterns, force: Force = False, lake: LakeOption = None, as_json: AsJson = False
) -> None:
    """Take patterns of protected branches away.

    \b
    Example:
      graveler repo unprotect quickstart "release-*"

    JSON: one document {protected}, the patterns that stay.
    """
    repository = open_repository(lake, parse_repository(name))
    _show_patterns(repository.unprotect(patterns, force=force), as_json=as_json)


def read_only(
    name: Name,
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether changes are refused.")],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Refuse every change to a repository, or allow changes again.

    \b
    Examples:
      graveler repo read-only quickstart on
      graveler repo read-only quickstart off

    JSON: one document {name, read_only}.
    """
    name = parse_repository(name)
    refuse = switch is Switch.ON
    open_repository(lake, name).set_read_only(refuse)
    screen = output()
    if as_json:
        screen.json({"name": name, "read_only": refuse})
        return
    screen.line(f"repository {name} is {'read-only' if refuse else 'open to changes'} now")


def import_sources(
    name: Name,
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ADDRESS]...", help="Folders, as file:///data/raw/ or s3://bucket/raw/. None: list them."
        ),
    ] = None,
    nowhere: Annotated[bool, typer.Option("--nowhere", help="Allow no address outside of the repository.")] = False,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Allow again all that the server does.")] = False,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show or narrow from where a server lets objects be imported, linked and staged.

    The folders replace those there are. They narrow what the server itself allows, and nobody who has the lake's own folder.

    \b
    Examples:
      graveler repo import-sources quickstart
      graveler repo import-sources quickstart file:///data/raw/
      graveler repo import-sources quickstart --nowhere

    JSON: one document {import_sources}, null if all are allowed.
    """
    if bool(prefixes) + nowhere + anywhere > 1:
        raise InvalidError("folders, --nowhere and --anywhere exclude each other; choose one")
    repository = open_repository(lake, parse_repository(name))
    found = repository.repository.settings.import_sources
    if prefixes or nowhere or anywhere:
        from graveler.access.sources import ImportSources  # only who changes them pays for it

        found = None if anywhere else tuple(prefixes or ())
        if found is not None:
            ImportSources(found)
        repository.set_import_sources(found, force=force)
    screen = output()
    if as_json:
        screen.json({"import_sources": None if found is None else list(found)})
        return
    if not found:
        screen.line(
            "from anywhere that the server allows" if found is None else "from nowhere outside of the repository"
        )
    for prefix in found or ():
        screen.line(screen.safe(prefix))


def _show_patterns(patterns: tuple[str, ...], *, as_json: bool) -> None:
    screen = output()
    if as_json:
        screen.json({"protected": list(patterns)})
        return
    for pattern in patterns:
        screen.line(pattern)
