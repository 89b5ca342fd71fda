"""The verbs that log in to a server, and out of it."""

import sys
from dataclasses import replace
from shlex import quote
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from graveler.cli.locations import Named, ServedLake, find_lake
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output, warn
from graveler.cli.values import moment
from graveler.errors import InvalidError
from graveler.location.configuration import (
    DEFAULT,
    change_profile,
    check_name,
    chosen_name,
    find_profile,
    profile_names,
)
from graveler.location.environment import ENDPOINT, KEY_ID, LAKE, LOGIN, SECRET, TABLES, TOKEN, set_variables

_LONGEST: Final = 4096
"""Bytes of a line that can be a key's ID or secret."""


def login(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="The server, https://HOST. [default: that of the profile]")
    ] = None,
    key_id: Annotated[
        str | None, typer.Option("--key-id", metavar="ID", help="The ID of the access key. [default: ask for it]")
    ] = None,
    aws: Annotated[
        bool, typer.Option("--aws", help="Print a token for the credentials that AWS's own tools use instead.")
    ] = False,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, help="Lifetime of that token; servers allow at most twelve hours.")
    ] = 3600,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Keep an access key for a server in the configuration file; or log in with AWS credentials.

    Asks for the key's ID and its secret, which is not shown; without a terminal it reads them from stdin, a line each (with
    --key-id only the secret). Tries them on the server, and keeps server and key in the profile only if they work. --profile
    names another profile, which is created if needed.

    With --aws it prints shell commands that pass a token to graveler and to lakeFS clients. graveler itself does not need them:
    with --login aws or GRAVELER_LOGIN=aws every command logs in by itself. The server must have a rule for the AWS principal
    (`graveler principals`). The login signs the host name in the server's URL, or GRAVELER_SERVER_NAME.

    \b
    Examples:
      graveler login https://lake.example.org
      graveler login https://lake.example.org --profile work
      graveler login https://lake.example.org --key-id AKIA... < secret.txt
      eval "$(graveler --endpoint https://lake.example.org login --aws)"
      graveler login --aws --json | jq -r .token

    \b
    JSON: one document {endpoint, name, profile, file}; with --aws
      {endpoint, name, token, expires}, where expires is in Unix seconds.
    """
    named = lake or Named()
    if url is not None:
        named = replace(named, lake=None, tables=None, endpoint=url)
    if aws:
        if key_id is not None:
            raise InvalidError("--aws logs in without an access key; leave out --key-id")
        _log_in_with_aws(named, seconds, as_json=as_json)
    else:
        _keep_key(named, key_id, as_json=as_json)


def _keep_key(named: Named, key_id: str | None, *, as_json: bool) -> None:
    name = check_name(chosen_name(named.profile))
    endpoint = named.endpoint or named.lake or _endpoint_of(name)
    if endpoint is None or not endpoint.startswith(("http://", "https://")):
        raise InvalidError("name the server to log in to: graveler login https://HOST (or --aws, with AWS credentials)")
    if "@" in urlsplit(endpoint).netloc:
        raise InvalidError("the URL of a server holds no user or password; leave them out, and give an access key")
    key_id = key_id or _ask("Access key ID: ", hidden=False)
    secret = _ask("Secret access key: ", hidden=True)
    from graveler.remote.opening import open_served

    location = find_lake(Named(endpoint=endpoint, key=(key_id, secret)))
    assert isinstance(location, ServedLake)
    with open_served(location) as opened:
        user = opened.user
    changes = {
        "endpoint": endpoint,
        "lake": None,
        "objects": None,
        "login": None,
        "key_id": key_id,
        "secret_key": secret,
    }
    path = change_profile(name, changes)
    screen = output(as_json=as_json)
    screen.answer(
        {"endpoint": endpoint, "name": user, "profile": name, "file": str(path)},
        f"logged in to {screen.safe(endpoint)} as {screen.safe(user)}; the key is in profile {name!r} of "
        f"{screen.safe(str(path))}",
    )
    if before := set_variables(LAKE, TABLES, ENDPOINT, LOGIN, TOKEN, KEY_ID, SECRET):
        warn(f"variables of the environment come before the profile: {', '.join(before)}")
    if endpoint.startswith("http://") and not location.is_on_this_machine:
        warn("the server is named with http://, so the key goes over the network unencrypted; use https:// if it can")


def _endpoint_of(name: str) -> str | None:
    """Return the server of the profile, for one who logs in to it again."""
    profile = find_profile(name) if name in profile_names() else None
    return profile.endpoint or None if profile is not None else None


def _ask(question: str, *, hidden: bool) -> str:
    """Return a line from the terminal, or from stdin without one."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        if hidden:
            from getpass import getpass

            answer = getpass(question, stream=sys.stderr)
        else:
            sys.stderr.write(question)
            sys.stderr.flush()
            answer = sys.stdin.readline()
    else:
        answer = sys.stdin.readline(_LONGEST)
    answer = answer.strip()
    noun = question.removesuffix(": ").lower()
    if not answer:
        raise InvalidError(f"the {noun} is missing; write it on a line of stdin, or run this on a terminal")
    if not answer.isascii() or not answer.isprintable() or len(answer) >= _LONGEST:
        raise InvalidError(f"this is no {noun}: one has printable ASCII characters only")
    return answer


def _log_in_with_aws(named: Named, seconds: int, *, as_json: bool) -> None:
    location = find_lake(replace(named, login="aws"))
    assert isinstance(location, ServedLake)  # no other lake takes a login
    from graveler.remote.opening import log_in_with_aws, open_served

    session = log_in_with_aws(location).log_in(seconds)
    name = open_served(replace(location, by_aws=False, token=session.token)).user
    screen = output(as_json=as_json)
    token, expires = session.token, session.token_expiration
    screen.answer(
        {"endpoint": location.url, "name": name, "token": token, "expires": expires},
        f"# logged in to {screen.safe(location.url)} as {screen.safe(name)}, until {moment(expires)}",
        *(f"export {variable}={quote(token)}" for variable in (TOKEN, "LAKECTL_CREDENTIALS_SESSION_TOKEN")),
    )


def logout(lake: LakeOption = None, as_json: AsJson = False) -> None:
    """Forget the access key in the configuration file.

    Removes the key of the profile in use, or of the one that --profile names; its server and its default repository stay. The
    key itself stays valid: `graveler keys revoke` ends it.

    \b
    Examples:
      graveler logout
      graveler logout --profile work

    JSON: one document {profile, key_id, file}; key_id is null if there was none.
    """
    name = chosen_name(None if lake is None else lake.profile)
    profile = find_profile(name) if name != DEFAULT or name in profile_names() else None
    key_id = "" if profile is None else profile.key_id
    has_key = profile is not None and (profile.key_id or profile.secret_key)
    path = change_profile(name, {"key_id": None, "secret_key": None}) if has_key else None
    screen = output(as_json=as_json)
    screen.answer(
        {"profile": name, "key_id": key_id or None, "file": None if path is None else str(path)},
        f"profile {screen.safe(name)!r} has no key"
        if path is None
        else f"forgot key {screen.safe(key_id)} of profile {name!r} in {screen.safe(str(path))}",
    )
    if before := set_variables(LOGIN, TOKEN, KEY_ID, SECRET):
        warn(f"variables of the environment still have credentials: {', '.join(before)}")
