"""Objects of the repository's own naming, which no import takes over.

An object that was uploaded to the repository is safe from garbage collection as long as it is young, staged, or in a commit.
Who takes it over from a listing shows nothing of that: a collector that has found it unneeded may be about to remove it. A link
proves that the object is young, a copy that it is needed; so these are the ways.
"""

from graveler.errors import InvalidError
from graveler.tree.record import own_name


def refuse_own(packed: bytes, address: str) -> None:
    """:class:`InvalidError` if the record is of an object that was uploaded to the repository itself."""
    if own_name(packed) is not None:
        raise InvalidError(
            f"{address!r} was uploaded to this very repository, where garbage collection may be about to remove it. Copy it from "
            "a branch, tag or commit that has it; or link it, if it was uploaded just now"
        )
