"""Headers of objects: metadata as S3 has it, and what a request says of the object that it writes or copies.

An object's metadata has the names of ``x-amz-meta-*`` without this prefix. Headers that belong to the bytes, such as
``Content-Encoding``, are kept there as ``http:content-encoding``: no header has a colon in its name, so none is mistaken for one.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from graveler.api.header_values import http_date, is_header_value
from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry

MAX_METADATA: Final = 2048
"""Most bytes of all names and values of an object's metadata, in UTF-8."""

_META: Final = "x-amz-meta-"
_SYSTEM: Final = "http:"
_SYSTEM_HEADERS: Final = ("cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_OVERRIDES: Final = {f"response-{name}": name for name in ("content-type", *_SYSTEM_HEADERS)}
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VERSION: Final = "?versionId="

_PRIVATE: Final = ("", "private", "bucket-owner-read", "bucket-owner-full-control")
_REFUSED: Final = (
    "x-amz-grant-",
    "x-amz-object-lock-",
    "x-amz-rename-source",
    "x-amz-server-side-encryption-",
    "x-amz-copy-source-server-side-encryption-",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-if-match-",
)
"""Beginnings of headers that ask a write for what a lake does not do. To ignore one would store bytes without their encryption,
replace what was to be appended to, or leave open what was to be locked."""


def expect_supported(headers: Mapping[str, str]) -> None:
    """Check that a write asks for nothing that a lake does not do. ``NotImplemented``.

    Storage classes, checksum algorithms, and encryption by the store (``AES256``) are its business, and ignored; so is an access
    control list that makes nothing public.
    """
    for name, value in headers.items():
        if (
            name.startswith("x-amz-")
            and value
            and (
                name.startswith(_REFUSED)
                or name == "x-amz-tagging"
                or (name == "x-amz-acl" and value not in _PRIVATE)
                or (name == "x-amz-server-side-encryption" and value != "AES256")
            )
        ):
            raise S3Error(
                "NotImplemented",
                f"A header you provided implies functionality that is not implemented: {name}",
                {"Header": name},
            )


def object_metadata(headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return content type and metadata of the object that a request writes. ``MetadataTooLarge``. Values that are encoded by
    RFC 2047 are decoded; the encoding ``aws-chunked`` is that of the request, and left out."""
    metadata = {
        name.removeprefix(_META): _decoded(value)
        for name, value in headers.items()
        if name.startswith(_META) and len(name) > len(_META)
    }
    for name in _SYSTEM_HEADERS:
        value = headers.get(name, "").strip()
        if name == "content-encoding":
            value = ", ".join(coding for coding in map(str.strip, value.split(",")) if coding.lower() != "aws-chunked")
        if value:
            metadata[_SYSTEM + name] = value
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > MAX_METADATA:
        raise S3Error(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            {"Size": str(size), "MaxSizeAllowed": str(MAX_METADATA)},
        )
    return headers.get("content-type", "").strip() or DEFAULT_CONTENT_TYPE, metadata


def http_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an object's metadata that are headers which belong to its bytes."""
    return {name: value for name, value in metadata.items() if name.startswith(_SYSTEM)}


def object_headers(entry: ObjectEntry) -> dict[str, str]:
    """Return the headers of an object in a response, except for its length. Values that no header can have are encoded by RFC
    2047; metadata whose names are no headers' are counted in ``x-amz-missing-meta``, as by S3."""
    headers = {
        "last-modified": http_date(entry.mtime),
        "accept-ranges": "bytes",
        "content-type": entry.content_type if is_header_value(entry.content_type) else DEFAULT_CONTENT_TYPE,
    }
    if is_header_value(entry.checksum) and '"' not in entry.checksum:
        headers["etag"] = f'"{entry.checksum}"'
    missing = 0
    for name, value in entry.metadata.items():
        if name.startswith(_SYSTEM) and name.removeprefix(_SYSTEM) in _SYSTEM_HEADERS:
            headers[name.removeprefix(_SYSTEM)] = _encoded(value)
        elif _TOKEN.fullmatch(name):
            headers[_META + name.lower()] = _encoded(value)
        else:
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def response_overrides(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response that a query sets, by ``response-content-type`` and its like. ``InvalidArgument`` for a
    value that no header can have."""
    overrides = {}
    for name, header in _OVERRIDES.items():
        value = parameters.get(name)
        if value is not None:
            if not is_header_value(value):
                raise invalid_argument(
                    "Header value cannot be represented using printable ASCII characters", name, value
                )
            overrides[header] = value
    return overrides


def copy_source(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return bucket and key of the object that a request copies. ``InvalidArgument`` without both, ``NoSuchVersion`` for a
    version."""
    name = "x-amz-copy-source"
    path, _, version = headers.get(name, "").partition(_VERSION)
    if version not in ("", "null"):
        raise S3Error("NoSuchVersion", "The specified version does not exist.", {"VersionId": version[:1024]})
    bucket, _, key = unquote(path).removeprefix("/").partition("/")
    if not bucket or not key or bucket.startswith("arn:"):
        raise invalid_argument(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey", name, headers.get(name, "")
        )
    return bucket, key


def replaces_metadata(headers: Mapping[str, str]) -> bool:
    """Return whether a copy has the metadata of the request instead of its source's. ``InvalidArgument`` for an unknown
    directive."""
    directive = headers.get("x-amz-metadata-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        raise invalid_argument("Unknown metadata directive.", "x-amz-metadata-directive", directive)
    return directive == "REPLACE"


def expect_no_version(parameters: Mapping[str, str]) -> None:
    """Check that a request names no version of an object but ``null``, that of a bucket without versions. ``NoSuchVersion``."""
    version = parameters.get("versionId", "null")
    if version not in ("", "null"):
        raise S3Error("NoSuchVersion", "The specified version does not exist.", {"VersionId": version[:1024]})


def _decoded(value: str) -> str:
    value = value.strip()
    if "=?" not in value:
        return value
    from email.errors import HeaderParseError  # few values need it
    from email.header import decode_header, make_header

    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):
        return value  # looks encoded, and is not


def _encoded(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    return f"=?UTF-8?B?{b64encode(value.encode(errors='replace')).decode()}?="
