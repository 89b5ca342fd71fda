"""The head of a request, as the server hands it over."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from urllib.parse import unquote_plus

from msgspec import Struct


class Head(Struct, frozen=True, dict=True):
    """Method, address and headers of a request.

    ``path`` is percent-decoded once and begins with a slash; ``query`` is raw, without the question mark. ``headers`` have names
    in lower case; a repeated one has all its values, joined by commas (:func:`join_headers`).
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        """The header ``Host``, with its port; empty without one."""
        return self.headers.get("host", "")

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The decoded parameters of the query. Of a repeated one the first value counts; one without a value has an empty one."""
        parameters: dict[str, str] = {}
        for pair in self.query.split("&"):
            if pair:
                name, _, value = pair.partition("=")
                parameters.setdefault(_decode(name), _decode(value))
        return parameters


def join_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name, in lower case; values of a repeated one are joined by commas (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    return headers


def _decode(text: str) -> str:
    return unquote_plus(text) if "%" in text or "+" in text else text
