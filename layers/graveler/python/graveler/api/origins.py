"""Requests with a session's cookie: only the server's own pages may change anything with one.

A browser sends the cookie along whichever page made the request. (``SameSite=Lax`` keeps it from pages of other sites, but not
from those of other hosts of the same site.) It sends the page's origin in a header that no page can set.
"""

from collections.abc import Mapping

from graveler.access.refusals import NotPermittedError
from graveler.api.response import JSON_TYPE


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
