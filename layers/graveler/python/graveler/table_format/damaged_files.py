"""The error for a file of a table that is not what it should be."""

from graveler.errors import CorruptError


def damaged_file(location: str, reason: object) -> CorruptError:
    """Return the error for a damaged file. ``reason`` is a whole sentence, such as "it is not a manifest"."""
    return CorruptError(
        f"{location}: {reason}; the file was damaged, or its writer does not follow the specification. "
        f"Restore it from a copy, or go back to a commit whose table does not have it"
    )
