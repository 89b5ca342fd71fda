"""By which split parameters a commit's tree is cut: the repository's, unless its branch was rewritten with others.

Then the commit says so in its metadata, under :data:`KEY`, and so does each commit that is made on it: a tree is built on that of
the first parent, and has to be cut as that is (law F1). The key is nobody else's to set.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from graveler.errors import CorruptError
from graveler.model import Commit, SplitParameters

KEY: Final = ".graveler.split"
"""In a commit's metadata: ``min_size/max_size/raggedness``."""


def split_of(commit: Commit, own: SplitParameters) -> SplitParameters:
    """By what a commit's tree is cut; ``own`` are the repository's parameters. :class:`CorruptError`."""
    value = commit.metadata.get(KEY)
    if value is None:
        return own
    try:
        smallest, largest, raggedness = map(int, value.split("/"))
    except ValueError:
        raise CorruptError(
            f"commit {commit.id[:16]} says {value!r} of how its tree is cut; it cannot be read"
        ) from None
    return SplitParameters(smallest, largest, raggedness)


def spelled(split: SplitParameters, own: SplitParameters) -> str:
    """What a commit says of them: nothing if they are the repository's ``own``."""
    return "" if split == own else f"{split.min_size}/{split.max_size}/{split.raggedness}"


def inherited(metadata: Mapping[str, str], parents: Sequence[Commit], cuts: str | None) -> Mapping[str, str]:
    """The metadata of a new commit, whose tree is cut as the first parent's, unless ``cuts`` says otherwise."""
    if cuts is None:
        cuts = parents[0].metadata.get(KEY, "") if parents else ""
    if not cuts and KEY not in metadata:
        return metadata
    others = {key: value for key, value in metadata.items() if key != KEY}
    return {**others, KEY: cuts} if cuts else others
