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
    aws: Annotated[bool, typer.Option("--aws", help="With the credentials that AWS's own tools find.")] = False,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, help="For how long; a server allows twelve hours at most.")
    ] = 3600,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Log in to a server with AWS's credentials, and show the token that is good until it ends.

    What is printed are lines for a shell, for graveler and for the clients of lakeFS. graveler itself needs none of this: with
    --login aws, or GRAVELER_LOGIN=aws, each command logs in by itself. The server must have a rule that lets one in
    (`graveler principals`). Signed is the host name in its URL, or GRAVELER_SERVER_NAME.

    \b
    Examples:
      eval "$(graveler --endpoint https://lake.example.org login --aws)"
      graveler login --aws --json | jq -r .token

    JSON: one document {endpoint, name, token, expires}; expires in Unix seconds.
    """
    if not aws:
        raise InvalidError(
            "say how to log in: --aws, with AWS's credentials; whoever has an access key need not log in"
        )
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
