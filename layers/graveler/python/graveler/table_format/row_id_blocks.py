"""Blocks of row IDs (format version 3): each branch numbers its new rows in a block of its own.

Writers number rows from ``next-row-id``, which only rises. If two branches went on from one number, each would give the other's
IDs to rows of its own, and a merge could not bring rows that one of them had rewritten since. So the metadata that a branch's
catalog serves names the beginning of the branch's next block, unless ``next-row-id`` is in such a block already. A block is
derived from the branch's name and the table's UUID: nothing is stored, and no request is made for it. Two branches may have one
block; a merge compares the IDs that were really given (:mod:`graveler.table_format.merge_row_ids`).
"""

from hashlib import sha256
from typing import Final

from graveler.table_format.plain_documents import Document

BLOCK_ROWS: Final = 1 << 32
"""The row IDs of a block. A writer that adds more rows goes on in the next one."""
BLOCKS: Final = 256
"""The blocks of a cycle. A branch has the same block in each cycle, the default branch the first one."""
CYCLE_ROWS: Final = BLOCKS * BLOCK_ROWS
"""Below this number the default branch numbers rows without gaps, as a table without branches."""
_LAST_BEGIN: Final = (1 << 63) - 2 * CYCLE_ROWS


def with_own_row_ids(metadata: Document, branch: str, default_branch: str) -> Document:
    """Return a table's metadata as a branch's writers are to see it: with a ``next-row-id`` in a block of the branch.

    It rises by less than :data:`CYCLE_ROWS`; from the first cycle, by less than twice that. Metadata of a version without row IDs
    are returned as they are, and so are those whose IDs are nearly used up: a branch has one block in each of 8 million cycles.
    """
    next_row_id: int | None = metadata.get("next-row-id")
    if next_row_id is None:
        return metadata
    is_default = branch == default_branch
    block = 0 if is_default else _block_of(branch, metadata["table-uuid"])
    cycle, present = next_row_id // CYCLE_ROWS, next_row_id // BLOCK_ROWS % BLOCKS
    if (cycle == 0 and is_default) or (cycle > 0 and present == block):
        return metadata
    begin = (cycle + (present > block or cycle == 0)) * CYCLE_ROWS + block * BLOCK_ROWS
    return metadata if begin > _LAST_BEGIN else {**metadata, "next-row-id": begin}


def _block_of(branch: str, uuid: str) -> int:
    digest = sha256(f"{uuid.lower()}\n{branch}".encode()).digest()
    return 1 + int.from_bytes(digest[:8], "big") % (BLOCKS - 1)
