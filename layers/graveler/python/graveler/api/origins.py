"""Requests with a session's cookie: only the server's own pages may change anything with one.

A browser sends the cookie along whichever page made the request. (``SameSite=Lax`` keeps it from pages of other sites, but not
from those of other hosts of the same site.) It sends the page's origin in a header that no page can set.
"""

from collections.abc import Mapping
from typing import Final

from graveler.access.refusals import NotPermittedError
from graveler.api.response import JSON_TYPE
from graveler.errors import ForbiddenError

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def expect_no_other_page(headers: Mapping[str, str]) -> None:
    """Refuse a foreign page that logs its reader in under another name, with :class:`NotPermittedError`. Clients other than
    browsers send no origin."""
    if "origin" in headers:
        expect_own_page(headers, has_body=True)


def expect_own_page(headers: Mapping[str, str], *, has_body: bool) -> None:
    """Raise :class:`NotPermittedError` unless the page's origin is the requested host, or the one that a proxy reports, and the
    body, if any, is JSON, which other pages cannot send without a preflight request."""
    origin = headers.get("origin", "").partition("://")[2].lower()
    if not origin or origin not in (headers.get("host", "").lower(), headers.get("x-forwarded-host", "").lower()):
        raise NotPermittedError(
            "a session cookie can make changes only from a page of this server; send the header Origin"
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != JSON_TYPE:
        raise NotPermittedError(
            f"a session cookie can be used only with JSON, not with {kind or 'a body without a type'!r}"
        )


def on_own_origin(url: str, headers: Mapping[str, str]) -> str:
    """Return a presigned URL as a page reads it. If this machine answers it, and the page has another name of this machine, with
    the same port, that name takes the place of the host's: two names are two origins, and a page may not read another one.

    Any other URL stays as it is: a forged header ``Host`` leads nowhere else, and behind a proxy the URL is the configured one.
    """
    host = headers.get("host", "").lower()
    scheme, _, rest = url.partition("://")
    signed, slash, target = rest.partition("/")
    name, _, port = host.rpartition(":")
    signed_name, _, signed_port = signed.rpartition(":")
    if name in _LOOPBACK and signed_name in _LOOPBACK and port == signed_port and "x-forwarded-host" not in headers:
        return f"{scheme}://{host}{slash}{target}"
    return url


_CODE: Final = frozenset(
    ("script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "xslt")
)
"""What browsers name in ``Sec-Fetch-Dest`` if they want to run the answer, or to apply it to a page
(https://w3c.github.io/webappsec-fetch-metadata/)."""


def expect_no_code(headers: Mapping[str, str]) -> None:
    """Refuse an object's bytes to a browser that would run them as a page's script, or apply them as its style, with
    :class:`ForbiddenError`: otherwise whoever can write objects could write code of this origin."""
    if headers.get("sec-fetch-dest", "") in _CODE:
        raise ForbiddenError("an object of a lake is data; no page can use it as a script or a style from here")
