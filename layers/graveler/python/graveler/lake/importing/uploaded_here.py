"""Objects uploaded to the repository itself, which cannot be imported.

An object that was uploaded to the repository is safe from garbage collection as long as it is young, staged, or in a commit.
An import from a listing proves nothing of that: a collector that has found it unneeded may be about to remove it. A link
proves that the object is young, a copy that it is needed; so use those instead.
"""

from graveler.errors import InvalidError
from graveler.tree.record import record_data_id


def refuse_own(packed: bytes, address: str) -> None:
    """Raise :class:`InvalidError` if the record is of an object that was uploaded to the repository itself."""
    if record_data_id(packed) is not None:
        raise InvalidError(
            f"{address!r} was uploaded to this same repository, where garbage collection may be about to remove it. Copy it from "
            "a branch, tag or commit that has it, or link it if it has just been uploaded"
        )
