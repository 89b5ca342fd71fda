"""Refusal of requests that bypass CloudFront. With a firewall before the API, CloudFront adds a secret header to each request. An
HTTP API also accepts requests under its own name, so functions refuse those without the header.

CloudFront replaces any header of that name from a client:
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html
"""

from hmac import compare_digest
from typing import Any, Final

Event = dict[str, Any]

HEADER: Final = "x-graveler-front-door"
"""As infra.front_door.HEADER."""

REFUSAL: Final = "the API is available only under its deployment's domain name; use that one"


class FrontDoor:
    """A gate for requests that have one of ``secrets`` in their header. There are two secrets around a rotation. Without
    secrets, all requests are admitted."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = tuple(secret.encode() for secret in secrets)

    def let_in(self, event: Event) -> Event | None:
        """Return the event without the secret, which later code must not see; None without a right one. All secrets are compared,
        and the time that takes does not reveal how much was right. No request."""
        if not self._secrets:
            return event
        headers = dict(event.get("headers", {}))
        header = str(headers.pop(HEADER, "")).encode("utf-8", "surrogatepass")
        right = [compare_digest(header, secret) for secret in self._secrets]
        return {**event, "headers": headers} if any(right) else None
