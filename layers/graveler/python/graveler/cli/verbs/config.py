"""The settings in the configuration file."""

import os
from typing import Annotated, Final

import typer

from graveler.cli.commands import Commands
from graveler.cli.groups import Group
from graveler.cli.locations import user_name
from graveler.cli.options import AsJson, named_location
from graveler.cli.terminal import Screen, output, warn
from graveler.errors import InvalidError, NotFoundError
from graveler.location.configuration import (
    KEYS,
    PROFILE,
    SECRET_KEY,
    USER_KEY,
    Setting,
    change_profile,
    change_user,
    chosen_name,
    configuration_file,
    find_profile,
    settings,
)
from graveler.location.environment import USER, login_name
from graveler.text.readable import without_password

app = Commands(
    cls=Group,
    invoke_without_command=True,
    help="Show and change the settings in the configuration file. Without a command, list them.",
)

_HIDDEN: Final = "(not shown)"

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help=f"The setting: {', '.join((USER_KEY, *(key for key in KEYS if key != USER_KEY)))}."
    ),
]


def _named_profile(context: typer.Context, profile: str | None) -> str | None:
    """Return the profile that the command line names, behind the command or before it."""
    named = named_location(context)
    return profile or named.profile


ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        callback=_named_profile,
        help=f"The profile. [default: {PROFILE}, or default; for {USER_KEY}, all profiles]",
    ),
]


@app.callback()
def list_without_command(context: typer.Context) -> None:
    """List the settings if no command follows."""
    if context.invoked_subcommand is None:
        list_settings()


@app.command("list")
def list_settings(as_json: AsJson = False) -> None:
    """List the settings in the configuration file. Secret keys, and passwords in URLs, are not shown.

    \b
    Example:
      graveler config list

    \b
    JSON: a line {key, value, profile} for each; profile is null for a setting
      of all profiles, value for a secret key.
    """
    screen = output(as_json=as_json)
    entries = settings()
    for profile, key, value in entries:
        shown = None if key == SECRET_KEY else without_password(value)
        where = f"profile {profile}" if profile else "all profiles"
        screen.answer(
            {"key": key, "value": shown, "profile": profile or None},
            f"{key} = {_HIDDEN if shown is None else screen.safe(shown)}  {screen.paint(f'({where})', 'dim')}",
        )
    if not entries:
        screen.note(f"no settings in {str(configuration_file())!r}; `graveler config set {USER_KEY} NAME` begins it")


@app.command("get")
def get_setting(key: Key, profile: ProfileName = None, as_json: AsJson = False) -> None:
    """Show one setting in the configuration file.

    \b
    Examples:
      graveler config get user
      graveler config get repository --profile staging

    JSON: one document {key, value, profile}; profile is null for a setting of all profiles.
    """
    _check_key(key)
    if key == SECRET_KEY:
        raise InvalidError(f"{SECRET_KEY!r} is never shown; `graveler login` replaces it")
    setting = _find(key, profile)
    if setting is None:
        name = chosen_name(profile)
        if key == USER_KEY:
            signs = f"commits are by {login_name()!r}, the login name; " if profile is None else ""
            where = "" if profile is None else f" --profile {name}"
            raise NotFoundError(f"no name is set; {signs}`graveler config set {USER_KEY} NAME{where}` sets one")
        raise NotFoundError(
            f"profile {name!r} has no {key!r}; `graveler config set {key} VALUE --profile {name}` sets it"
        )
    _warn_of_variable(key, setting.value)
    document = {"key": key, "value": setting.value, "profile": setting.profile or None}
    output(as_json=as_json).answer(document, Screen.safe(setting.value))


@app.command("set")
def set_setting(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value.")],
    profile: ProfileName = None,
    as_json: AsJson = False,
) -> None:
    """Change one setting in the configuration file. Comments and everything else in the file stay.

    `user` is the name with which commits are signed; GRAVELER_USER comes before it. The other settings belong to a profile.
    `graveler login` keeps access keys, and `graveler use` chooses the default repository of a lake.

    \b
    Examples:
      graveler config set user 'Ada Lovelace'
      graveler config set lake /data/lake --profile home

    JSON: one document {key, value, profile, file}; profile is null for a setting of all profiles.
    """
    _check_key(key)
    if key == SECRET_KEY:
        raise InvalidError(f"{SECRET_KEY!r} on a command line would be seen by others; use `graveler login`")
    if not value.strip():
        raise InvalidError(f"the value of {key!r} is empty; `graveler config unset {key}` removes the setting")
    if not value.isprintable():
        raise InvalidError(f"the value of {key!r} has a line break or another control character; leave it out")
    name = "" if key == USER_KEY and profile is None else chosen_name(profile)
    file = change_profile(name, {key: value}, check=True) if name else change_user(value)
    _warn_of_variable(key, value)
    output(as_json=as_json).answer(
        {"key": key, "value": value, "profile": name or None, "file": str(file)},
        f"set {key} {f'of profile {name} ' if name else ''}in {Screen.safe(str(file))}",
    )


@app.command("unset")
def unset_setting(key: Key, profile: ProfileName = None, as_json: AsJson = False) -> None:
    """Remove one setting from the configuration file.

    \b
    Examples:
      graveler config unset user
      graveler config unset branch --profile staging

    JSON: one document {key, profile, file}; profile is null for a setting of all profiles.
    """
    _check_key(key)
    name = "" if key == USER_KEY and profile is None else chosen_name(profile)
    if not any((setting.profile, setting.key) == (name, key) for setting in settings()):
        raise NotFoundError(f"{f'profile {name!r}' if name else 'the configuration file'} has no {key!r}")
    file = change_profile(name, {key: None}, check=True) if name else change_user(None)
    output(as_json=as_json).answer(
        {"key": key, "profile": name or None, "file": str(file)},
        f"removed {key} {f'of profile {name} ' if name else ''}from {Screen.safe(str(file))}",
    )


def _check_key(key: str) -> None:
    if key in KEYS:
        return
    from difflib import get_close_matches

    alias = {"user.name": USER_KEY, "name": USER_KEY, "author": USER_KEY, "committer": USER_KEY}.get(key.lower())
    close = [alias] if alias else get_close_matches(key.lower(), KEYS, n=1)
    question = f"did you mean {close[0]!r}? The" if close else "the"
    raise InvalidError(f"there is no setting {key!r}; {question} settings are {', '.join(KEYS)}")


def _find(key: str, profile: str | None) -> Setting | None:
    """Return the setting that counts: of the profile, else, for the author's name, of all profiles."""
    in_use = find_profile(profile)
    by_profile = {setting.profile: setting for setting in settings() if setting.key == key}
    setting = None if in_use is None else by_profile.get(in_use.name)
    return setting or (by_profile.get("") if key == USER_KEY else None)


def _warn_of_variable(key: str, value: str) -> None:
    """Warn if a variable with another value comes before the setting."""
    if key == USER_KEY and os.environ.get(USER, value) not in ("", value):
        warn(f"{USER} is set, and comes before {USER_KEY!r}: commits are by {user_name()!r}")
