"""Where a lake is, as Spark's options say it, and what tasks open of it.

The driver opens the lake: its table, and the object store. Tasks read and write files of trees, so they get the object store
alone (:func:`task_store`) and need no permission for the table. Credentials never travel: the driver and each executor
find their own, as AWS's tools do (environment, web identity, the role of the EMR job).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graveler.lake.place import LakePlace
from graveler.lake.repository import OpenRepository
from graveler.places import Named, find_place
from graveler.storage.files import ImmutableFiles
from graveler.tree.files import TreeStore
from graveler.tree.ids import NoNotes

TASK_MEMORY: Final = 48 << 20
"""Bytes of files of trees that a task keeps at hand."""

PLACE_OPTIONS: Final = ("lake", "tables", "objects", "region", "s3_endpoint_url", "dynamodb_endpoint_url")
"""What :func:`place_of` reads."""


def place_of(options: Mapping[str, object]) -> LakePlace:
    """The place that options name, for :func:`graveler.lake.place.open_at`: ``lake``, a folder or ``dynamodb://table``; or
    ``tables``, with ``objects``, and ``region``, ``s3_endpoint_url`` and ``dynamodb_endpoint_url`` where needed. Other options,
    and empty ones, do not count; as Spark's own, they may be in any case. What they leave open, the environment says.

    Picklable. :class:`graveler.errors.InvalidError` if they name two places, or half of one;
    :class:`graveler.errors.NotFoundError` if nothing names one.
    """
    given = {name.lower(): str(value) for name, value in options.items() if value}
    named: dict[str, Any] = {name: given[name] for name in PLACE_OPTIONS if name in given}
    if "://" not in (folder := named.get("lake", "://")):
        named["lake"] = str(Path(folder).expanduser().absolute())  # a task may work elsewhere
    return find_place(Named(**named))


def task_store(repository: OpenRepository) -> TreeStore:
    """Where tasks read and write the files of the repository's trees. Picklable; makes its clients anew in each process, and
    knows no table and no cache of the driver's."""
    store = TreeStore(ImmutableFiles(repository.namespace, None, repository.grace), notes=NoNotes())
    store.limit(TASK_MEMORY)
    return store
