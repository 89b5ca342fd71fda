"""An application that gets requests as functions behind an HTTP API of AWS do, and names that show how it decodes paths."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from graveler.api.application import Application
from graveler.api.response import Response
from graveler.api.routing import Handling
from graveler.functions.entry import raw_path

TAGS: Final = ("nightly/2026-01-31", "nightly", "a%41", "a%2Fb", "a/b", "a+b", "x/y/z")
"""Names of tags, of which some become others if a path is decoded twice, or not at all."""


def through_gateway(path: str) -> str:
    """Return a percent-encoded path as a function hands it to its application."""
    return raw_path(unquote(path))


class FunctionApplication(Application):
    """The application of a function, with a server in place of the gateway. Its settings must have ``decoded_paths``."""

    def respond(
        self, event: Mapping[str, Any], seconds_left: Callable[[], float] | None = None
    ) -> tuple[Response, str]:
        """Return the response to an event whose path is as it was sent."""
        return super().respond({**event, "rawPath": through_gateway(event["rawPath"])}, seconds_left)

    def reject_without_body(self, event: Mapping[str, Any]) -> tuple[Response, str] | None:
        """Return the response to an event without its body, if it is refused whatever the body."""
        return super().reject_without_body({**event, "rawPath": through_gateway(event["rawPath"])})

    def handling(self, method: str, path: str) -> Handling:
        """Return what a server has to know of such a request before it reads the body."""
        return super().handling(method, through_gateway(path))
