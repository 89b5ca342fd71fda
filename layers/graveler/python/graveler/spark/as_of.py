"""The options by which Spark's users name a version of a table, translated to refs."""

from collections.abc import Mapping
from typing import Final, TypeVar

from graveler.errors import InvalidError

AS_OF: Final = ("timestampasof", "versionasof")
"""Names of the options; Spark ignores their case."""

Option = TypeVar("Option")


def ref_as_of(ref: str, options: Mapping[str, Option]) -> tuple[str, dict[str, Option]]:
    """Return the ref to read, and the options without :data:`AS_OF`. ``timestampAsOf`` is a time, as in ``branch@{TIME}`` (UTC,
    unless it names another zone); ``versionAsOf`` is a commit, or another ref, instead of ``ref``. :class:`InvalidError` if both
    are given, or one is not text."""
    moments = {name.lower(): value for name, value in options.items() if name.lower() in AS_OF}
    other_options = {name: value for name, value in options.items() if name.lower() not in AS_OF}
    if len(moments) > 1:
        raise InvalidError("timestampAsOf and versionAsOf are mutually exclusive; leave one of them out")
    for name, value in moments.items():
        # A number would be a ref, too: the state that many moves ago.
        if not isinstance(value, str) or not value or (name == "timestampasof" and value.isdecimal()):
            example = "2026-06-01T12:00Z" if name == "timestampasof" else "the ID of a commit"
            raise InvalidError(f"{value!r} is not a value for {name}; give text such as {example}")
        return (f"{ref}@{{{value}}}" if name == "timestampasof" else value), other_options
    return ref, other_options
