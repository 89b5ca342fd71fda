"""Addresses of the web page, below the origin of its server."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from graveler.cli.uris import parse_prefix, parse_repository
from graveler.errors import ObjectNotFoundError
from graveler.values.addresses import Address, without_scheme

if TYPE_CHECKING:
    from graveler.lake.lake import Lake

HOME: Final = "/"


def page_of(lake: "Lake", uri: str) -> str:
    """Return the page of a repository, a folder or an object of a lake; a path that is no object counts as a folder. A repository
    or ref that does not exist is an error. Up to four table reads."""
    if "/" not in without_scheme(uri).rstrip("/"):
        return f"/repositories/{_segment(lake.repository(parse_repository(uri)).repository.name)}/objects"
    place = parse_prefix(uri)
    lake.repository(place.repository).commit_of(place.ref)
    kind = "object" if _is_object(lake, place) else "objects"
    query = urlencode({"ref": place.ref} | ({"path": place.path} if place.path else {}), quote_via=quote)
    return f"/repositories/{_segment(place.repository)}/{kind}?{query}"


def _is_object(lake: "Lake", place: Address) -> bool:
    if not place.path or place.path.endswith("/"):
        return False
    try:
        lake.stat(place.repository, place.ref, place.path)
    except ObjectNotFoundError:
        return False
    return True


def _segment(name: str) -> str:
    return quote(name, safe="")
