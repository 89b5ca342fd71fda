"""Content types by the ending of a name, for uploads that ask the command line to guess."""

from functools import cache
from typing import TYPE_CHECKING, Final

from graveler.model import DEFAULT_CONTENT_TYPE

if TYPE_CHECKING:
    from mimetypes import MimeTypes

_MORE: Final = {
    ".avro": "application/vnd.apache.avro",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Endings of data files that Python's table lacks, in some versions at least."""
_COMPRESSED: Final = {
    "br": "application/x-brotli",
    "bzip2": "application/x-bzip2",
    "compress": "application/x-compress",
    "gzip": "application/gzip",
    "xz": "application/x-xz",
}
"""Types of compressed files: what an object holds is what was uploaded, and no reader decompresses it."""


def content_type_of(path: str) -> str:
    """Return the content type that the ending of a path stands for, :data:`DEFAULT_CONTENT_TYPE` if for none. Files of the
    machine (``/etc/mime.types``) do not count."""
    name = path.rpartition("/")[2]
    if "." not in name:
        return DEFAULT_CONTENT_TYPE
    content_type, encoding = _table().guess_type(f"./{name}")  # a name like data:x is no URL
    return _COMPRESSED.get(encoding, DEFAULT_CONTENT_TYPE) if encoding else content_type or DEFAULT_CONTENT_TYPE


@cache
def _table() -> "MimeTypes":
    from mimetypes import MimeTypes  # 3 ms, for processes that upload

    table = MimeTypes()
    for ending, kind in _MORE.items():
        table.add_type(kind, ending)
    return table
