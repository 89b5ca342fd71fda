"""The verbs for a repository's settings: metadata, protection, and the like."""

from enum import Enum
from typing import Annotated

import typer

from graveler import requests
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
    list[str],
    typer.Argument(metavar="PATTERN...", help="Branch names, in which * matches anything and ? any one character."),
]


def metadata(
    name: Name,
    meta: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set this key; repeatable.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove this key; repeatable.")
    ] = None,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the metadata of a repository.

    Other keys stay as they are, even if someone changes them at the same time.

    \b
    Examples:
      graveler repo metadata quickstart
      graveler repo metadata quickstart --set owner=data-team --unset draft

    JSON: one document, the keys and their values.
    """
    added = parse_metadata(meta, option="--set")
    both = sorted(set(added).intersection(unset or ()))
    if both:
        raise InvalidError(f"cannot both set and unset {both[0]!r}; choose one")
    repository = open_repository(lake, parse_repository(name))
    settings = repository.repository.settings.metadata
    if unset:
        settings = repository.run(requests.setting_changes.DeleteMetadata(keys=tuple(unset), force=force))
    if added:
        settings = repository.run(requests.setting_changes.SetMetadata(metadata=added, force=force))
    screen = output(as_json=as_json)
    lines = (f"{screen.safe(key)}={screen.safe(value)}" for key, value in sorted(settings.items()))
    screen.answer(dict(settings), *lines)


def protect(
    name: Name,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATTERN]...",
            help="Branch names, in which * matches anything and ? any one character. [default: list the patterns]",
        ),
    ] = None,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Protect branches. Changes cannot be staged or committed on them, only merged, reverted or cherry-picked.

    Adds the patterns to the existing ones; without patterns, lists those.

    \b
    Examples:
      graveler repo protect quickstart main "release-*"
      graveler repo protect quickstart

    JSON: one document {protected}, all patterns afterwards.
    """
    repository = open_repository(lake, parse_repository(name))
    protected = repository.repository.settings.protected
    if patterns:
        protected = repository.run(requests.setting_changes.Protect(patterns=tuple(patterns), force=force))
    _show_patterns(protected, as_json=as_json)


def unprotect(
    name: Name, patterns: Patterns, force: Force = False, lake: LakeOption = None, as_json: AsJson = False
) -> None:
    """Remove patterns of protected branches.

    \b
    Example:
      graveler repo unprotect quickstart "release-*"

    JSON: one document {protected}, the remaining patterns.
    """
    repository = open_repository(lake, parse_repository(name))
    request = requests.setting_changes.Unprotect(patterns=tuple(patterns), force=force)
    _show_patterns(repository.run(request), as_json=as_json)


def read_only(
    name: Name,
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether changes are refused.")],
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Refuse all changes to a repository, or allow them again.

    \b
    Examples:
      graveler repo read-only quickstart on
      graveler repo read-only quickstart off

    JSON: one document {name, read_only}.
    """
    name = parse_repository(name)
    refuse = switch is Switch.ON
    open_repository(lake, name).run(requests.setting_changes.SetReadOnly(read_only=refuse))
    sentence = f"repository {name} is now {'read-only' if refuse else 'writable'}"
    output(as_json=as_json).answer({"name": name, "read_only": refuse}, sentence)


def import_sources(
    name: Name,
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ADDRESS]...", help="Folders, such as file:///data/raw/ or s3://bucket/raw/. [default: list them]"
        ),
    ] = None,
    nowhere: Annotated[bool, typer.Option("--nowhere", help="Allow no address outside the repository.")] = False,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Allow every address that the server allows.")] = False,
    force: Force = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show or limit where objects may be imported from.

    Applies to importing, linking and staging through a server. The folders replace the current ones. They limit what the server
    itself allows, but not users with access to the lake's own folder.

    \b
    Examples:
      graveler repo import-sources quickstart
      graveler repo import-sources quickstart file:///data/raw/
      graveler repo import-sources quickstart --nowhere

    JSON: one document {import_sources}, null if all are allowed.
    """
    if bool(prefixes) + nowhere + anywhere > 1:
        raise InvalidError("folders, --nowhere and --anywhere are mutually exclusive; choose one")
    repository = open_repository(lake, parse_repository(name))
    sources = repository.repository.settings.import_sources
    if prefixes or nowhere or anywhere:
        from graveler.access.sources import ImportSources  # only who changes them pays for it

        sources = None if anywhere else tuple(prefixes or ())
        if sources is not None:
            ImportSources(sources)
        repository.run(requests.setting_changes.SetImportSources(prefixes=sources, force=force))
    screen = output(as_json=as_json)
    if sources is None:
        screen.answer({"import_sources": None}, "any address that the server allows")
        return
    lines = [screen.safe(prefix) for prefix in sources] or ["no address outside the repository"]
    screen.answer({"import_sources": list(sources)}, *lines)


def _show_patterns(patterns: tuple[str, ...], *, as_json: bool) -> None:
    output(as_json=as_json).answer({"protected": list(patterns)}, *patterns)
