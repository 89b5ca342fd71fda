"""The columns of each table. Sizes are in bytes; times are whole seconds, as they are stored, in UTC."""

from typing import Final

import pyarrow as pa

_TIME: Final = pa.timestamp("s", "UTC")
_METADATA: Final = pa.map_(pa.utf8(), pa.utf8())


def _text(name: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.utf8(), nullable=nullable)


OBJECTS: Final = pa.schema(
    [
        _text("path"),
        pa.field("size", pa.int64()),
        _text("checksum", nullable=True),
        _text("physical_address", nullable=True),
        pa.field("mtime", _TIME),
        _text("content_type", nullable=True),
        pa.field("metadata", _METADATA),
    ]
)
"""One row for each object. Of a common prefix, which only a listing with a delimiter has, all but the path is null."""

DIFF: Final = pa.schema(
    [
        _text("type"),
        _text("path"),
        *(
            pa.field(f"{name}_{side}", kind)
            for name, kind in (
                ("size", pa.int64()),
                ("checksum", pa.utf8()),
                ("physical_address", pa.utf8()),
                ("mtime", _TIME),
            )
            for side in ("before", "after")
        ),
    ]
)
"""One row for each difference; ``type`` is ``added``, ``removed``, ``changed``, or ``prefix_changed`` for a common prefix. What
an object was ``before`` is null for an added one, what it is ``after`` for a removed one."""

STAGED: Final = DIFF
"""One row for each uncommitted change of a branch."""

COMMITS: Final = pa.schema(
    [
        _text("id"),
        pa.field("parents", pa.list_(pa.utf8()), nullable=False),
        _text("committer"),
        _text("message"),
        pa.field("created", _TIME, nullable=False),
        pa.field("generation", pa.int64(), nullable=False),
        _text("meta_range_id"),
        pa.field("metadata", _METADATA, nullable=False),
    ]
)
"""One row for each commit."""

BRANCHES: Final = pa.schema([_text("id"), _text("commit_id"), pa.field("hidden", pa.bool_(), nullable=False)])
"""One row for each branch."""

TAGS: Final = pa.schema([_text("id"), _text("commit_id")])
"""One row for each tag."""

REPOSITORIES: Final = pa.schema(
    [
        _text("id"),
        _text("storage_namespace"),
        _text("default_branch"),
        pa.field("created", _TIME, nullable=False),
    ]
)
"""One row for each repository."""

REFLOG: Final = pa.schema(
    [
        pa.field("time", pa.timestamp("ns", "UTC"), nullable=False),
        _text("operation"),
        _text("operation_id"),
        _text("by"),
        _text("old_commit_id", nullable=True),
        _text("new_commit_id", nullable=True),
    ]
)
"""One row for each move of a branch: null is the old commit where the branch was created, the new one where it was deleted."""

BLAME: Final = pa.schema(
    [
        _text("path"),
        pa.field("size", pa.int64()),
        _text("commit_id"),
        _text("committer"),
        _text("message"),
        pa.field("created", _TIME, nullable=False),
    ]
)
"""One row for each object, with the last commit that changed it."""
