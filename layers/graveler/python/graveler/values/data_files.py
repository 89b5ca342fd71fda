"""The objects of a table's folder that hold its rows: one rule for every reader.

Other programs leave more than data in a folder. Hadoop's s3a and S3's console make an empty object ``t/k=a/`` for a folder, EMR
and Hadoop's s3n one named ``t/k=a_$folder$``; jobs leave ``_SUCCESS``, ``_temporary/``, ``.part-1.crc`` and files without a byte.
On a plain folder, Spark, Polars and DuckDB leave these out, or fail on them. Every reader of a lake leaves them out.
"""

from typing import Final

_MARKER: Final = ("/", "_$folder$")
_UNFINISHED: Final = "._COPYING_"


def is_data(path: str, size: int) -> bool:
    """Return whether an object of ``size`` bytes holds rows of the table in whose folder it lies. ``path`` is its path below that
    folder."""
    return size > 0 and is_visible(path)


def is_visible(path: str) -> bool:
    """Return whether an object is a file of the table in whose folder it lies, of which files without bytes have no rows: it
    marks no folder, no copy to it goes on, and no part of its ``path`` below that folder is hidden. A folder may have the name of
    an unfinished copy: ``k=x._COPYING_`` is the partition of a value."""
    return not is_marker(path) and not path.endswith(_UNFINISHED) and not any(map(_is_hidden, path.split("/")))


def is_empty(path: str, size: int) -> bool:
    """Return whether an object has no contents in any format: it has no bytes, or only marks a folder."""
    return not size or is_marker(path)


def is_marker(path: str) -> bool:
    """Return whether an object only marks a folder. s3a takes every object of such a name for a marker, whatever its size."""
    return not path or path.endswith(_MARKER)


def _is_hidden(name: str) -> bool:
    """Return whether the name of a file or a folder is hidden, as in Hadoop: it begins with ``.`` or ``_``. A folder
    ``_column=value`` is a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
