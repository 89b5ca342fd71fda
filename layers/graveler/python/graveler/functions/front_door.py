"""The way around CloudFront, closed: where a firewall stands before the API, CloudFront adds a secret header to each request, and
functions answer none without it, since an HTTP API cannot be kept from being asked by its own name.

CloudFront replaces what a client sends under that header's name:
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html
"""

from hmac import compare_digest
from typing import Any, Final

Event = dict[str, Any]

HEADER: Final = "x-graveler-front-door"
"""As infra.front_door.HEADER."""

REFUSAL: Final = "the API answers under the name of its deployment's domain only; ask that one"


class FrontDoor:
    """Lets in what has one of ``secrets`` in its header: of two, the ones before and after a rotation. Without secrets there is
    no door, and all are let in."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = tuple(secret.encode() for secret in secrets)

    def let_in(self, event: Event) -> Event | None:
        """The event without the secret, which is nobody else's business; None if it has none that is right. All secrets are
        compared, and how long that takes does not tell how much was right. No request."""
        if not self._secrets:
            return event
        headers = dict(event.get("headers", {}))
        given = str(headers.pop(HEADER, "")).encode("utf-8", "surrogatepass")
        right = [compare_digest(given, secret) for secret in self._secrets]
        return {**event, "headers": headers} if any(right) else None
