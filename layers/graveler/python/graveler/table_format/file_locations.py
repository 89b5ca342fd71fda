"""Locations of files, as metadata and manifests write them: one form for each file."""

from graveler.errors import InvalidError

_ALIASES = {"s3a": "s3", "s3n": "s3"}
_FILE = "file:///"
MAX_LOCATION = 4_096
"""Characters of a location."""


def normal_location(location: str) -> str:
    """Return the location of the same file in its usual form: ``file:///folder/file`` for ``file:/folder/file``, for
    ``file://localhost/folder//file`` and for a bare path; ``s3://`` for ``s3a://``.

    A location is not encoded: a ``%``, a space or a ``?`` is a character of the name, for every client. :class:`InvalidError` for
    a location that is too long or relative, that has control characters, or that leaves its folder by ``..``.
    """
    if not 0 < len(location) <= MAX_LOCATION or not (location.isprintable() or _is_text(location)):
        raise InvalidError(
            f"location {location[:100]!r} is empty, longer than {MAX_LOCATION:,} characters, or has control characters"
        )
    if (
        location.startswith(_FILE)
        and not location.endswith("/")
        and "/." not in location
        and "//" not in location[len(_FILE) :]
    ):
        return location
    scheme, separator, rest = location.partition(":")
    if location.startswith("/") or scheme.lower() == "file":
        return _local(location if location.startswith("/") else rest, location)
    if not separator or not rest.startswith("//") or not scheme.isascii() or not scheme.isalnum():
        raise InvalidError(
            f"location {location!r} has no scheme; write the whole address, as s3://bucket/path or file:///path"
        )
    scheme = scheme.lower()
    return f"{_ALIASES.get(scheme, scheme)}:{rest}"


def _is_text(location: str) -> bool:
    """Return whether a location has no control characters and no surrogates; unusual spaces are allowed."""
    return not any(
        ord(letter) < 32 or 127 <= ord(letter) < 160 or 0xD800 <= ord(letter) < 0xE000 for letter in location
    )


def _local(path: str, location: str) -> str:
    if path.startswith("//"):
        host, separator, path = path[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise InvalidError(f"location {location!r} is on another machine; write file:///path")
        path = separator + path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/") or ".." in parts or not parts:
        raise InvalidError(
            f"location {location!r} is relative, or leaves its folder by '..'; write a path from the root"
        )
    return _FILE + "/".join(parts)
