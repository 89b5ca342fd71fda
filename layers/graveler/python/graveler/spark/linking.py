"""Linking of a dataset's files to a transaction's hidden branch, in place of those they replace."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeVar

from graveler.errors import DirtyBranchError, InvalidError
from graveler.model import ObjectEntry
from graveler.requests.staging import Delete, LinkMany
from graveler.spark.datasets import data_files
from graveler.spark.handles import Reached
from graveler.spark.partition_names import partition_columns
from graveler.values.data_files import is_visible

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
    to ``replaced``. Cost: a listing, unless the whole folder is replaced; reading what is removed; one table write per 25 files
    added or removed. :class:`InvalidError` for files that no reader would take for data, and as :func:`expect_partitions`."""
    hidden_file = next((entry for entry in entries if not is_visible(entry.path.removeprefix(f"{folder}/"))), None)
    if hidden_file is not None:
        raise InvalidError(
            f"{hidden_file.path!r} is in a hidden folder, so that no reader would take its rows: give the partition column a "
            "name that does not begin with '.'"
        )
    if mode != "overwrite":
        for columns in {tuple(partition_columns(entry, folder)) for entry in entries}:
            expect_partitions(repository, hidden, folder, columns)
    prefixes: Sequence[str] = ()
    if mode == "overwrite":
        prefixes = [f"{folder}/"]
    elif mode == "dynamic":
        folders = {entry.path.rpartition("/")[0] for entry in entries}
        prefixes = [f"{partition}/" for partition in sorted(folders) if partition != folder]
    removed = sum(remove_below(repository, hidden, prefix, replaced) for prefix in prefixes)
    for some in _by_many(entries):
        repository.run(LinkMany(branch=hidden, entries=tuple(some)))
    return removed


def remove_below(repository: Reached, hidden: str, prefix: str, replaced: list[str]) -> int:
    """Remove all objects below a prefix, append the prefix to ``replaced``, and return their number."""
    replaced.append(prefix)
    paths = [entry.path for entry in repository.objects(hidden, prefix)]
    for some in _by_many(paths):
        repository.run(Delete(branch=hidden, objects=tuple(some)))
    return len(paths)


def expect_clean(repository: Reached, branch: str, folder: str) -> None:
    """Refuse now what the merge would refuse after all the work: replacing uncommitted changes. One request."""
    changes = repository.uncommitted(branch, prefix=f"{folder}/", amount=1).results
    if changes:
        raise DirtyBranchError(branch, f"replacing {folder!r}", changes[0].path)


def expect_partitions(repository: Reached, ref: str, folder: str, columns: Sequence[str]) -> None:
    """Refuse to add files that are partitioned by ``columns`` to a dataset with other partition columns: nothing could read both.
    The first file says what the dataset has. Case matters: Polars and DuckDB tell ``K`` from ``k``, and with folders of both a
    dynamic overwrite would replace only those of one. One listing. :class:`InvalidError`."""
    example = next(data_files(repository.objects(ref, f"{folder}/"), folder), None)
    if example is None:
        return
    existing = partition_columns(example, folder)
    if existing != list(columns):
        both = (f"by {', '.join(map(repr, names))}" if names else "by no columns" for names in (existing, columns))
        raise InvalidError(
            "dataset {!r} is partitioned {}, and the frame {}, so that nothing could read both: partition the frame as the "
            "dataset, in the same case, or replace the dataset with mode 'overwrite'".format(folder, *both)
        )


def _by_many(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _MANY):
        yield items[start : start + _MANY]
