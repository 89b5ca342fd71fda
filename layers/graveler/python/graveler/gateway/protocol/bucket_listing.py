"""Listings of a bucket: ListObjects (version 1) and ListObjectsV2, their parameters and their documents."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from graveler.gateway.protocol.s3_errors import invalid_argument
from graveler.gateway.protocol.xml_text import NAMESPACE, SPECIAL, XML_DECLARATION, escape, iso_time, owner_element

MAX_KEYS: Final = 1000
"""Most keys and common prefixes of a page."""

_MAX_INTEGER: Final = 2**31 - 1
_RESERVED: Final = re.compile(r"[^A-Za-z0-9/*._~-]")
_TOKEN: Final = b"1:"
"""What a continuation token begins with: the version of its form."""


class Listing(Struct, frozen=True):
    """The parameters of a listing.

    The page begins behind the key or the common prefix ``after``, whichever parameter said so: ``marker``, ``start-after`` or
    ``continuation-token``. ``token`` and ``start_after`` are these parameters as they were sent, None without one.
    """

    version: int
    prefix: str = ""
    delimiter: str = ""
    max_keys: int = MAX_KEYS
    after: str = ""
    encoding_url: bool = False
    fetch_owner: bool = False
    token: str | None = None
    start_after: str | None = None


class ListedObject(Struct, frozen=True):
    """An object in a listing. ``size`` in bytes, ``mtime`` in Unix seconds, ``etag`` without quotes."""

    key: str
    size: int
    etag: str
    mtime: int


def listing_of(parameters: Mapping[str, str], version: int) -> Listing:
    """Return the listing that a query asks for. ``InvalidArgument`` for a parameter that is wrong."""
    token = start_after = None
    if version == 1:
        after = parameters.get("marker", "")
        fetch_owner = True
    else:
        token, start_after = parameters.get("continuation-token"), parameters.get("start-after")
        after = _position(token) if token else start_after or ""
        fetch_owner = parameters.get("fetch-owner", "").lower() == "true"
    return Listing(
        version=version,
        prefix=parameters.get("prefix", ""),
        delimiter=parameters.get("delimiter", ""),
        max_keys=min(whole_number(parameters, "max-keys", MAX_KEYS), MAX_KEYS),
        after=after,
        encoding_url=encodes_url(parameters),
        fetch_owner=fetch_owner,
        token=token,
        start_after=start_after,
    )


def whole_number(parameters: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter that is a number from 0 on; ``default`` without one. ``InvalidArgument`` for anything else."""
    text = parameters.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(digits) > _MAX_INTEGER:
        raise invalid_argument(f"Provided {name} not an integer or within integer range", name, text)
    if text != digits:
        raise invalid_argument(f"Argument {name} must be an integer between 0 and {_MAX_INTEGER}", name, text)
    return int(digits)


def encodes_url(parameters: Mapping[str, str]) -> bool:
    """Return whether keys of the document are percent-encoded. ``InvalidArgument`` for an unknown encoding."""
    encoding = parameters.get("encoding-type", "")
    if encoding and encoding != "url":
        raise invalid_argument("Invalid Encoding Method specified in Request", "encoding-type", encoding)
    return bool(encoding)


def key_encoder(encoding_url: bool) -> Callable[[str], str]:
    """Return the function that makes a key the content of an element.

    With ``encoding-type=url`` S3 writes a space as ``+``; we write ``%20``, which every decoder reads alike.
    """
    return _encode_url if encoding_url else escape


def listing_document(
    bucket: str, listing: Listing, contents: Sequence[ListedObject], prefixes: Sequence[str], next_after: str
) -> bytes:
    """Return the document of a page: objects and common prefixes, each in the order of their keys. ``next_after`` is the last of
    them all if others follow; else empty. 0.8 µs an object, if no key has to be encoded."""
    encode = key_encoder(listing.encoding_url)
    end = f"</Size>{owner_element() if listing.fetch_owner else ''}<StorageClass>STANDARD</StorageClass></Contents>"
    keys, etags = [item.key for item in contents], [item.etag for item in contents]
    if (_RESERVED if listing.encoding_url else SPECIAL).search("".join(keys)):
        keys = list(map(encode, keys))
    if SPECIAL.search("".join(etags)):
        etags = list(map(escape, etags))
    objects = [
        f"<Contents><Key>{key}</Key><LastModified>{iso_time(item.mtime)}</LastModified>"
        f"<ETag>&quot;{etag}&quot;</ETag><Size>{item.size}{end}"
        for item, key, etag in zip(contents, keys, etags, strict=True)
    ]
    parts = [
        XML_DECLARATION,
        f'<ListBucketResult xmlns="{NAMESPACE}"><Name>{escape(bucket)}</Name><Prefix>{encode(listing.prefix)}</Prefix>',
        *_position_elements(listing, encode, next_after, len(objects) + len(prefixes)),
        f"<MaxKeys>{listing.max_keys}</MaxKeys>",
        f"<Delimiter>{encode(listing.delimiter)}</Delimiter>" if listing.delimiter else "",
        "<EncodingType>url</EncodingType>" if listing.encoding_url else "",
        f"<IsTruncated>{'true' if next_after else 'false'}</IsTruncated>",
        *objects,
        *[f"<CommonPrefixes><Prefix>{encode(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes],
        "</ListBucketResult>",
    ]
    return "".join(parts).encode("utf-8", "surrogatepass")


def _position_elements(listing: Listing, encode: Callable[[str], str], next_after: str, count: int) -> Iterable[str]:
    """Yield the elements about the page's place among all keys, and those that lead to the next page."""
    if listing.version == 1:
        yield f"<Marker>{encode(listing.after)}</Marker>"
        if next_after and listing.delimiter:  # without one, clients take the last key
            yield f"<NextMarker>{encode(next_after)}</NextMarker>"
        return
    yield f"<KeyCount>{count}</KeyCount>"
    if listing.token is not None:
        yield f"<ContinuationToken>{escape(listing.token)}</ContinuationToken>"
    if listing.start_after is not None:
        yield f"<StartAfter>{encode(listing.start_after)}</StartAfter>"
    if next_after:
        yield f"<NextContinuationToken>{_token(next_after)}</NextContinuationToken>"


def _token(position: str) -> str:
    return urlsafe_b64encode(_TOKEN + position.encode()).decode()


def _position(token: str) -> str:
    try:
        text = urlsafe_b64decode(token.encode("ascii"))
        if text.startswith(_TOKEN):
            return text.removeprefix(_TOKEN).decode()
    except ValueError:
        pass  # neither ASCII, nor Base64, nor UTF-8
    raise invalid_argument("The continuation token provided is incorrect", "continuation-token", token)


def _encode_url(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{_encode_folder(folder)}{slash}{_encode(name)}"


def _encode(text: str) -> str:
    return _RESERVED.sub(_encode_character, text) if text.isascii() else quote(text, safe="/*")


_encode_folder: Final = lru_cache(maxsize=1024)(_encode)
"""Folders, of which a page has fewer than objects."""


def _encode_character(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
