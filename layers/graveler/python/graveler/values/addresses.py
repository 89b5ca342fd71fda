"""Addresses of what is in a lake: ``repository/ref/path``, behind ``lakefs://`` or ``graveler://``, which mean the same in every
interface.

The ref is one segment. A slash in it is written ``%2F``, and a percent sign ``%25``::

    lakefs://sales/main/orders/a.csv                     the object orders/a.csv on the branch main
    lakefs://sales/nightly%2F2026-01-31~1/orders/a.csv   the same one at the first parent of the tag nightly/2026-01-31
    graveler://sales/100%25/orders/a.csv                 and at the tag 100%

So an address has one meaning, whatever refs there are, and reading it takes no look-up. Only ``%2F``, ``%2f`` and ``%25`` in the
ref are escapes; any other percent sign stands for itself, and a path is never decoded. Design record 15 has the reasons.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from graveler.errors import GravelerError, RefNotFoundError

if TYPE_CHECKING:
    from graveler.model import Page, Tag

SCHEME: Final = "lakefs://"
"""The scheme of addresses that are shown."""
SCHEMES: Final = (SCHEME, "graveler://")
"""All schemes that an address may have."""

_ESCAPED: Final = re.compile("%(?:2[Ff]|25)")
_NOT_IN_TAGS: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_TAGS: Final = 1000
"""The number of tags among which a misread one is looked for."""


def scheme_of(text: str) -> str:
    """Return the scheme with which an address begins; "" if it has none."""
    return next((scheme for scheme in SCHEMES if text.startswith(scheme)), "")


def without_scheme(text: str) -> str:
    """Return an address without its scheme, if it has one."""
    return text.removeprefix(scheme_of(text))


def quote_ref(ref: str) -> str:
    """Return a ref, or an expression, as the segment of an address."""
    if "%" in ref or "/" in ref:
        return ref.replace("%", "%25").replace("/", "%2F")
    return ref


def unquote_ref(segment: str) -> str:
    """Return the ref of which this is the segment of an address: the inverse of :func:`quote_ref`."""
    if "%" not in segment:
        return segment
    return _ESCAPED.sub(lambda escape: "%" if escape[0] == "%25" else "/", segment)


class Address(NamedTuple):
    """The target of an address: an object, or the beginning of paths; with an empty ``path`` a ref, with an empty ``ref`` a
    repository."""

    repository: str
    ref: str
    path: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the target of an address without its scheme. No request. Any text is one: names are checked where they are
        used."""
        repository, _, rest = text.partition("/")
        segment, _, path = rest.partition("/")
        return cls(repository, unquote_ref(segment), path)

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}/{quote_ref(self.ref)}/{self.path}"


def ref_address(repository: str, ref: str) -> str:
    """Return the address of a ref itself, for a place where no path can follow."""
    return f"{SCHEME}{repository}/{quote_ref(ref)}"


class TagMeant(NamedTuple):
    """A tag whose name begins an address because a slash in it is not quoted, and the address as it is to be written."""

    name: str
    address: Address

    def sentence(self, scheme: str = SCHEME) -> str:
        """Return what to write, without a capital letter and a full stop."""
        return f"the tag {self.name!r} is written {scheme}{str(self.address).removeprefix(SCHEME)}"


def tag_meant(
    error: RefNotFoundError, address: Address, tags: "Callable[[str, str, int], Page[Tag]]"
) -> TagMeant | None:
    """Return the tag that an address means for which there is no ref: ``ref`` and ``path`` together begin with its name. If
    several tags fit, it is the longest. ``tags`` lists tags by prefix, start and number: once, and not if no tag can be meant.
    None if no tag fits, or they cannot be listed."""
    text = f"{address.ref}/{address.path}"
    end = _NOT_IN_TAGS.search(text)
    name = text if end is None else text[: end.start()]
    prefix = f"{address.ref}/{address.path.partition('/')[0]}"[: len(name)]
    if type(error) is not RefNotFoundError or error.ref != address.ref or error.kind == "branch":
        return None
    if len(prefix) < len(address.ref) + 2:
        return None
    try:
        page = tags(prefix, "", _TAGS)
    except GravelerError:  # the error that is reported matters, not this one
        return None
    fitting = (tag.name for tag in page.results if f"{name}/".startswith(f"{tag.name}/"))
    longest = max(fitting, key=len, default="")
    if not longest or text[len(longest) : len(longest) + 1] not in ("", "/", "~", "^"):
        return None
    steps, _, path = text[len(longest) :].partition("/")
    return TagMeant(longest, Address(address.repository, longest + steps, path))


def with_tag_meant(
    error: RefNotFoundError, address: Address, tags: "Callable[[str, str, int], Page[Tag]]", scheme: str = SCHEME
) -> RefNotFoundError:
    """Return the error, and if it has one, with the tag of :func:`tag_meant` in its text."""
    meant = tag_meant(error, address, tags)
    if meant is None:
        return error
    return RefNotFoundError(error.ref, f"no branch, tag or commit has this name; {meant.sentence(scheme)}", error.kind)
