"""The verb that shows a lake in the browser: ui."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final
from urllib.parse import urlencode

import typer

from graveler.cli import completion
from graveler.cli.locations import Named, find_location, user_name
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.pages import HOME, page_of
from graveler.cli.terminal import Screen, output, warn
from graveler.errors import InvalidError, UnavailableError
from graveler.lake.opening.location import AwsLake, LakeLocation, open_at
from graveler.location.environment import lake_address
from graveler.system.extras import not_installed
from graveler.system.secret_variables import without_secrets
from graveler.system.temporary_files import own_folder
from graveler.values.addresses import scheme_of

_HOST: Final = "127.0.0.1"
_SERVED: Final = ("http://", "https://")
_DISPLAYS: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
_OPEN: Final = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.stdin.read()))"
"""Reads the address from its input: the arguments of a process are visible to other users."""


def ui(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="LAKE|URI",
            help="The lake, as with --lake; or lakefs://REPOSITORY, with a ref and a path to begin at.",
            autocompletion=completion.objects,
        ),
    ] = None,
    lake: LakeOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; only print the address.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a lake in the browser, without a server or an access key.

    The page is served to this machine alone (127.0.0.1), with the rights of an admin, until Ctrl-C or until the terminal closes.
    The printed address signs in once, within 60 seconds. No key is created, and nothing in the lake changes unless you change it
    on the page; commits are in your name.

    Objects that were imported in place are read where they are, and never changed. To import more, use `graveler import`.

    A lake behind a server has a page of its own: open the server's URL, and sign in with an access key.

    \b
    Examples:
      graveler ui
      graveler ui /data/lake --no-browser
      graveler ui lakefs://sales/main/events/

    \b
    JSON: one document when it is ready, {url, lake, seconds}; url signs in once
      within so many seconds.
    """
    from graveler.access.local_session import CODE_SECONDS, LocalSession
    from graveler.lake.opening.folder import ANY_SOURCE
    from graveler.server.configuration import ServerSettings

    try:
        from graveler.server.listening import listening_port
        from graveler.server.local_ui import serve_ui
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("graveler ui", error.name, "server")) from None

    screen = output(as_json=as_json)
    location, page = _target(target, lake or Named(by_options=True))
    with listening_port(_HOST, port) as chosen, TemporaryDirectory(dir=own_folder(), prefix="ui-") as metrics:
        session = LocalSession(user_name() or "admin", chosen)
        origin = f"http://{_HOST}:{chosen}"
        settings = ServerSettings(
            lake=location,
            metrics=Path(metrics),
            host=_HOST,
            port=chosen,
            workers=1,
            data_url=origin,
            audit_log=Path(os.devnull),
            read_sources=ANY_SOURCE,
            presigned_for_pages=not isinstance(location, AwsLake),
        )

        def ready() -> None:
            after = "" if page == HOME else f"?{urlencode({'next': page})}"
            url = f"{origin}/auth/login{after}#code={session.show_code()}"
            is_opened = not no_browser and _has_browser()
            screen.answer(
                {"url": url, "lake": str(location), "seconds": int(CODE_SECONDS)},
                *_welcome(screen, str(location), url, is_opened=is_opened),
            )
            sys.stdout.flush()
            if is_opened:
                _open_browser(url)

        serve_ui(settings, session, ready)
    screen.note("stopped")


def _target(target: str | None, named: Named) -> tuple[LakeLocation, str]:
    """Return the lake's location, and the address of the page to begin at."""
    is_uri = target is not None and bool(scheme_of(target))
    if target is not None and not is_uri:
        if named.lake is not None or named.tables is not None or named.endpoint is not None:
            raise InvalidError(f"{target!r} and an option name two lakes; name only one")
        named = replace(named, lake=target)
    try:
        location = find_location(named)
    except InvalidError as error:
        address = lake_address(named)
        if not address.startswith(_SERVED):
            raise
        raise InvalidError(
            f"{error}; the server has a page of its own: open {address} in a browser, and sign in with an access key"
        ) from None
    with open_at(location) as opened:
        if opened.notice:
            warn(opened.notice)
        return location, page_of(opened, target) if is_uri and target is not None else HOME


def _has_browser() -> bool:
    """Return whether this session has a screen for a browser; those that run in a terminal have no scripts."""
    return sys.platform == "darwin" or any(map(os.environ.get, _DISPLAYS))


def _open_browser(url: str) -> None:
    """Open the user's browser, in a process of its own, which Ctrl-C does not reach and which gets no secrets."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _OPEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=without_secrets(os.environ),
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(url.encode())
    process.stdin.close()


def _welcome(screen: Screen, lake: str, url: str, *, is_opened: bool) -> Iterator[str]:
    yield f"showing the lake {screen.safe(lake)} to this machine; press Ctrl-C to stop"
    yield (
        "the browser opens; if it does not, open this address within 60 seconds:"
        if is_opened
        else "open this address in a browser of this machine within 60 seconds; it signs in once:"
    )
    yield f"  {screen.paint(url, 'bold')}"
    yield "objects that were imported in place are read where they are, and never changed"
