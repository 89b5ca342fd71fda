"""Where a lake is, in a few words that can be sent to other processes, and what tasks open of it.

The driver opens the lake: its table, and the object store. Tasks read and write files of trees, so they get the object store
alone (:func:`task_store`) and need no permission for the table. Credentials never travel: the driver and each executor
find their own, as AWS's tools do (environment, web identity, the role of the EMR job).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.folder import open_folder_lake
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.storage.files import ImmutableFiles
from graveler.storage.s3_objects import S3Settings
from graveler.tree.files import TreeStore

TASK_MEMORY: Final = 48 << 20
"""Bytes of files of trees that a task keeps at hand."""

_AWS_OPTIONS: Final = ("objects", "tables", "region", "s3_endpoint_url", "dynamodb_endpoint_url")


class FolderPlace(Struct, frozen=True):
    """A lake in a folder, which driver and executors all see: on one machine, or on a file system that they share."""

    folder: str

    def open(self) -> Lake:
        """The lake. :class:`graveler.errors.NotFoundError` if there is none."""
        return open_folder_lake(Path(self.folder))


class AwsPlace(Struct, frozen=True):
    """A lake on AWS: repositories below ``objects`` (``s3://bucket/prefix``), the table ``tables`` (``dynamodb://table``).
    ``region`` and the endpoints, if None, are what AWS's own configuration says."""

    objects: str
    tables: str
    region: str | None = None
    s3_endpoint_url: str | None = None
    dynamodb_endpoint_url: str | None = None

    def open(self) -> Lake:
        """The lake. No request yet. :class:`graveler.errors.InvalidError` for URLs of another form."""
        from graveler.lake.aws import open_lake  # pynamodb and boto3: not for lakes in folders

        return open_lake(
            self.objects,
            self.tables,
            s3=S3Settings(self.region, self.s3_endpoint_url),
            region=self.region,
            dynamodb_endpoint_url=self.dynamodb_endpoint_url,
        )


Place = FolderPlace | AwsPlace


def place_of(options: Mapping[str, str | None]) -> Place:
    """The place that options name: ``lake``, a folder; or ``objects`` and ``tables``, with ``region``, ``s3_endpoint_url`` and
    ``dynamodb_endpoint_url`` where needed. Others, and empty ones, do not count; as Spark's own, they may be in any case.

    :class:`graveler.errors.InvalidError` if they name no place, or two.
    """
    given = {name.lower(): value for name, value in options.items() if value}
    folder = given.get("lake")
    for_aws = [name for name in _AWS_OPTIONS if name in given]
    if folder is not None:
        if for_aws:
            raise InvalidError(f"option {for_aws[0]!r} is of a lake on AWS, and option 'lake' names a folder; name one")
        return FolderPlace(str(Path(folder).expanduser().absolute()))
    if "objects" not in given or "tables" not in given:
        raise InvalidError(
            "where is the lake? Give the option 'lake' with its folder, or 'objects' (s3://bucket/prefix) and "
            "'tables' (dynamodb://table)"
        )
    return AwsPlace(*(given.get(name) for name in _AWS_OPTIONS))  # type: ignore[arg-type]


class _NoNotes:
    """Remembers nothing: a task writes each range once."""

    def get(self, name: str) -> None:
        """Nothing."""

    def put(self, name: str, data: bytes) -> None:
        """Nothing."""


def task_store(repository: OpenRepository) -> TreeStore:
    """Where tasks read and write the files of the repository's trees. Picklable; makes its clients anew in each process, and
    knows no table and no cache of the driver's."""
    store = TreeStore(ImmutableFiles(repository.namespace, None, repository.grace), notes=_NoNotes())
    store.limit(TASK_MEMORY)
    return store
