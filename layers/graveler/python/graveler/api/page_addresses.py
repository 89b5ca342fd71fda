"""Addresses of the web page: those of lakeFS's own pages, and some more, so that links in chats and of lakectl keep working.

The page reads the address by itself; the server only tells it from an address where there is nothing.
"""

from typing import Final

_SECTIONS: Final = frozenset(
    (
        "objects",
        "object",
        "commits",
        "branches",
        "tags",
        "compare",
        "pulls",
        "actions",
        "reflog",
        "query",
        "operations",
        "uncommitted",
    )
)
"""Sections of a repository."""


def is_page_address(path: str, *, joins: bool = False) -> bool:
    """Return whether a percent-encoded path is one of the page's. With ``joins`` a gateway has decoded it, so the slash of a
    ref's name looks like any other (:mod:`graveler.api.routing`)."""
    segments = path.split("/")[1:]
    if "" in segments:
        return path == "/"
    match segments:
        case ["setup" | "repositories"] | ["repositories", _]:
            return True
        case ["repositories", _, section]:
            return section in _SECTIONS
        case ["repositories", _, "commits", *ref] | ["repositories", _, "branches", *ref, "revert"]:
            return len(ref) == 1 or (joins and len(ref) > 1)
        case ["repositories", _, "pulls" | "actions", _] | ["repositories", _, "pulls", _, "conflicts" | "files"]:
            return True
        case ["repositories", _, "settings", "general" | "branches" | "retention"]:
            return True
        case ["auth", "login" | "credentials"] | ["auth", "users" | "groups" | "policies", *_]:
            return True
    return False
