"""From a URL to the adapter that reads what is there: by scheme, one entry each.

URLs here are as the tree stores them: plain text after the scheme, nothing percent-encoded.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.limits import check_object_key
from graveler.storage.objects import Objects
from graveler.storage.presigned import UrlSigner


def open_namespace(url: str, signer: UrlSigner | None = None) -> Objects:
    """The objects below ``url``, such as ``file:///data/lake``. A slash at the end changes nothing. ``signer`` makes the
    presigned URLs of stores that have none of their own."""
    scheme, rest = _split(url)
    return _OPENERS[scheme](rest.rstrip("/") or "/", signer)


def locate(address: str, signer: UrlSigner | None = None) -> tuple[Objects, str]:
    """The object with this physical address, wherever it lies: the objects of its outermost namespace (a file system, a
    bucket), and its key there. ``signer`` as for :func:`open_namespace`."""
    scheme, rest = _split(address)
    root, key = _ROOTS[scheme](rest)
    check_object_key(key)
    return _OPENERS[scheme](root, signer), key


def _open_folder(path: str, signer: UrlSigner | None) -> Objects:
    _, key = _split_file(path)
    if key:
        check_object_key(key)
    return FolderObjects(Path("/" + key), signer=signer)


def _split_file(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        raise InvalidError(f"file://{path} names a host or a relative path; write file:///absolute/path")
    return "/", path[1:]


_OPENERS: Final[Mapping[str, Callable[[str, UrlSigner | None], Objects]]] = {"file": _open_folder}
"""What comes after ``<scheme>://`` to the objects there."""
_ROOTS: Final[Mapping[str, Callable[[str], tuple[str, str]]]] = {"file": _split_file}
"""What comes after ``<scheme>://`` of one object's address to its outermost namespace and its key."""


def _split(url: str) -> tuple[str, str]:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _OPENERS:
        raise InvalidError(f"cannot read {url!r}: known are {', '.join(f'{known}://…' for known in sorted(_OPENERS))}")
    return scheme, rest
