"""From a URL to the adapter that reads it: by scheme, one entry each.

URLs here are as the tree stores them: plain text after the scheme, nothing percent-encoded.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.limits import check_foreign_key, check_object_key
from graveler.storage.objects.confined_folder import Confinement
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects
from graveler.storage.objects.presigned import UrlSigner

if TYPE_CHECKING:
    from graveler.storage.objects.s3 import S3Settings


def open_namespace(
    url: str,
    signer: UrlSigner | None = None,
    s3: "S3Settings | None" = None,
    modes: Modes = PRIVATE,
    confinement: Confinement | None = None,
) -> Objects:
    """Return the objects below ``url``, such as ``file:///data/lake`` or ``s3://bucket/lake``. A slash at the end changes
    nothing. ``signer`` makes the presigned URLs of stores that have none of their own; ``s3`` are the settings for S3, ``modes``
    the permissions of new files and folders, ``confinement`` that of a folder."""
    scheme, rest = _split(url)
    return _OPENERS[scheme](rest.rstrip("/") or "/", _Means(signer, s3, modes=modes, confinement=confinement))


def locate(address: str, signer: UrlSigner | None = None, s3: "S3Settings | None" = None) -> tuple[Objects, str]:
    """Return the object with this physical address, wherever it lies: the objects of its outermost namespace (a file system, a
    bucket), and its key there. Others may have chosen it: any key valid in S3 is accepted. ``signer`` and ``s3`` as for
    :func:`open_namespace`."""
    scheme, rest = _split(address)
    root, key = _ROOTS[scheme](rest)
    return _OPENERS[scheme](root, _Means(signer, s3, foreign=True)), key


class _Means(Struct, frozen=True):
    """The means for opening stores, of which each uses some."""

    signer: UrlSigner | None
    s3: "S3Settings | None"
    foreign: bool = False
    modes: Modes = PRIVATE
    confinement: Confinement | None = None


def _open_folder(path: str, means: _Means) -> Objects:
    if not path.startswith("/"):
        raise _no_file(path)
    key = path[1:]
    if key:
        check_object_key(key)
    return FolderObjects(
        Path("/" + key), signer=means.signer, modes=means.modes, foreign=means.foreign, confinement=means.confinement
    )


def _split_file(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        raise _no_file(path)
    check_object_key(path[1:])  # a file system takes other spellings for the same file
    return "/", path[1:]


def _no_file(path: str) -> InvalidError:
    return InvalidError(f"file://{path} names a host or a relative path; write file:///absolute/path")


def _open_s3(path: str, means: _Means) -> Objects:
    from graveler.storage.objects.s3 import S3Objects  # botocore: 100 ms

    bucket, _, prefix = path.partition("/")
    return S3Objects(bucket, prefix, means.s3, foreign=means.foreign)


def _split_s3(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    check_foreign_key(key)
    return bucket, key


_OPENERS: Final[Mapping[str, Callable[[str, _Means], Objects]]] = {
    "file": _open_folder,
    "s3": _open_s3,
}
"""From the part after ``<scheme>://`` to the objects there."""
_ROOTS: Final[Mapping[str, Callable[[str], tuple[str, str]]]] = {"file": _split_file, "s3": _split_s3}
"""From the part after ``<scheme>://`` of one object's address to its outermost namespace and its key."""


def _split(url: str) -> tuple[str, str]:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _OPENERS:
        raise InvalidError(
            f"cannot read {url!r}: the known schemes are {', '.join(f'{known_scheme}://…' for known_scheme in sorted(_OPENERS))}"
        )
    return scheme, rest
