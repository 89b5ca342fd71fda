"""Linking of a dataset's files to a transaction's hidden branch, in place of those they replace."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeVar

from graveler.errors import DirtyBranchError
from graveler.model import ObjectEntry
from graveler.spark.handles import Reached

Mode = Literal["append", "overwrite", "dynamic"]
MODES: Final = ("append", "overwrite", "dynamic")

T = TypeVar("T")

_MANY: Final = 5000
"""Objects linked or deleted at a time."""


def link_files(
    repository: Reached, hidden: str, folder: str, mode: Mode, entries: Sequence[ObjectEntry], replaced: list[str]
) -> int:
    """Link the files of a dataset, and remove what they replace by the mode: nothing, everything in the folder, or everything in
    the partitions of these files. Returns the number of removed objects, and appends the prefixes that were replaced completely
    to ``replaced``. Cost: reading what is removed; one table write per 25 files added or removed."""
    prefixes: Sequence[str] = ()
    if mode == "overwrite":
        prefixes = [f"{folder}/"]
    elif mode == "dynamic":
        found = {entry.path.rpartition("/")[0] for entry in entries}
        prefixes = [f"{partition}/" for partition in sorted(found) if partition != folder]
    removed = sum(remove_below(repository, hidden, prefix, replaced) for prefix in prefixes)
    for some in _by_many(entries):
        repository.link_many(hidden, some)
    return removed


def remove_below(repository: Reached, hidden: str, prefix: str, replaced: list[str]) -> int:
    """Remove all objects below a prefix, append the prefix to ``replaced``, and return their number."""
    replaced.append(prefix)
    paths = [entry.path for entry in repository.objects(hidden, prefix)]
    for some in _by_many(paths):
        repository.delete(hidden, some)
    return len(paths)


def expect_clean(repository: Reached, branch: str, folder: str) -> None:
    """Refuse now what the merge would refuse after all the work: replacing uncommitted changes. One request."""
    found = repository.uncommitted(branch, prefix=f"{folder}/", amount=1).results
    if found:
        raise DirtyBranchError(branch, f"replacing {folder!r}", found[0].path)


def _by_many(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), _MANY):
        yield items[at : at + _MANY]
