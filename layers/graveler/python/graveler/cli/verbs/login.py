"""The verb that logs in to a server without an access key."""

from dataclasses import replace
from shlex import quote
from typing import Annotated

import typer

from graveler.cli.locations import Named, ServedLake, find_lake
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output
from graveler.cli.values import moment
from graveler.errors import InvalidError
from graveler.locations import TOKEN


def login(
    aws: Annotated[bool, typer.Option("--aws", help="Log in with the credentials that AWS's own tools use.")] = False,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, help="Lifetime of the token; servers allow at most twelve hours.")
    ] = 3600,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Log in to a server with AWS credentials, and print the token.

    Prints shell commands that pass the token to graveler and to lakeFS clients. graveler itself does not need them: with --login
    aws or GRAVELER_LOGIN=aws every command logs in by itself. The server must have a rule for the AWS principal (`graveler
    principals`). The login signs the host name in the server's URL, or GRAVELER_SERVER_NAME.

    \b
    Examples:
      eval "$(graveler --endpoint https://lake.example.org login --aws)"
      graveler login --aws --json | jq -r .token

    JSON: one document {endpoint, name, token, expires}; expires is in Unix seconds.
    """
    if not aws:
        raise InvalidError("specify how to log in: --aws, with AWS credentials (with an access key no login is needed)")
    location = find_lake(replace(lake or Named(), login="aws"))
    assert isinstance(location, ServedLake)  # no other lake takes a login
    from graveler.remote.opening import log_in_with_aws, open_served

    made = log_in_with_aws(location).log_in(seconds)
    name = open_served(replace(location, by_aws=False, token=made.token)).user
    screen = output()
    if as_json:
        screen.json({"endpoint": location.url, "name": name, "token": made.token, "expires": made.token_expiration})
        return
    screen.line(
        f"# logged in to {screen.safe(location.url)} as {screen.safe(name)}, until {moment(made.token_expiration)}"
    )
    for variable in (TOKEN, "LAKECTL_CREDENTIALS_SESSION_TOKEN"):
        screen.line(f"export {variable}={quote(made.token)}")
