"""The split parameters of a commit's tree: the repository's, unless its branch was rewritten with others.

In that case the commit records them in its metadata, under :data:`KEY`, and so does each commit made on it: a tree is built on
that of the first parent, and has to be cut as that is (law F1). The key is reserved.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from graveler.errors import CorruptError
from graveler.model import Commit, SplitParameters

KEY: Final = ".graveler.split"
"""In a commit's metadata: ``min_size/max_size/raggedness``."""


def split_of(commit: Commit, default: SplitParameters) -> SplitParameters:
    """Return the split parameters of a commit's tree; ``default`` are the repository's parameters. :class:`CorruptError`."""
    value = commit.metadata.get(KEY)
    if value is None:
        return default
    try:
        smallest, largest, raggedness = map(int, value.split("/"))
    except ValueError:
        raise CorruptError(
            f"commit {commit.id[:16]} says {value!r} for its split parameters, which cannot be read"
        ) from None
    return SplitParameters(smallest, largest, raggedness)


def spelled(split: SplitParameters, default: SplitParameters) -> str:
    """Return the parameters as a commit records them: nothing if they are the repository's ``default``."""
    return "" if split == default else f"{split.min_size}/{split.max_size}/{split.raggedness}"


def inherited(metadata: Mapping[str, str], parents: Sequence[Commit], cuts: str | None) -> Mapping[str, str]:
    """Return the metadata of a new commit, whose tree is cut as the first parent's, unless ``cuts`` overrides that."""
    if cuts is None:
        cuts = parents[0].metadata.get(KEY, "") if parents else ""
    if not cuts and KEY not in metadata:
        return metadata
    kept_metadata = {key: value for key, value in metadata.items() if key != KEY}
    return {**kept_metadata, KEY: cuts} if cuts else kept_metadata
