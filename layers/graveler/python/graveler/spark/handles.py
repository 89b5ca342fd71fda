"""What functions of this package take for a repository, and where they find its lake."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct
from pyspark.sql import SparkSession

from graveler.errors import InvalidError
from graveler.lake.lake import Lake
from graveler.lake.place import AwsLake, FolderLake, LakePlace, open_at
from graveler.lake.repository import OpenRepository
from graveler.sdk.lake import Lake as LakeHandle
from graveler.sdk.repository import Repository as RepositoryHandle
from graveler.spark.places import PLACE_OPTIONS, place_of

SCHEME: Final = "lakefs://"
CONFIGURED: Final = "spark.graveler."
"""What the names of a session's options begin with that say where the lake is: ``spark.graveler.lake`` and so on, as
:func:`~graveler.spark.places.place_of` has them."""

RepositoryLike: TypeAlias = OpenRepository | RepositoryHandle | str
"""A repository: open, a handle of the Python API, or a name, whose lake is then looked for."""
LakeLike: TypeAlias = Lake | LakeHandle | LakePlace | str | Path | None
"""A lake: open, a handle of the Python API, a place, a folder, or ``dynamodb://table``. None: the one that the session's options
name, else the one that the command line would take (GRAVELER_LAKE and others, or the nearest upward from the working folder)."""


class PathURI(Struct, frozen=True):
    """``lakefs://repository/ref/path``. The ref ends at the first slash; the path may be empty."""

    repository: str
    ref: str
    path: str


def parse_uri(uri: str) -> PathURI:
    """The parts of a URI. :class:`graveler.errors.InvalidError`."""
    rest = uri.removeprefix(SCHEME)
    repository, _, behind = rest.partition("/")
    ref, _, path = behind.partition("/")
    if rest == uri or not repository or not ref:
        raise InvalidError(f"{uri!r} names no objects; write {SCHEME}REPOSITORY/REF/PATH")
    return PathURI(repository, ref, path)


@contextmanager
def opened(spark: SparkSession | None, repository: RepositoryLike, lake: LakeLike = None) -> Iterator[OpenRepository]:
    """The repository, open; a lake that was opened for it is closed afterwards. Cost: one table read for a name, or a handle that
    was not used yet. :class:`graveler.errors.NotFoundError`, :class:`graveler.errors.InvalidError`."""
    if isinstance(repository, OpenRepository):
        yield repository
    elif isinstance(repository, RepositoryHandle):
        yield _direct(repository.verbs, repository.id)
    elif isinstance(lake, Lake):
        yield lake.repository(repository)
    elif isinstance(lake, LakeHandle):
        yield _direct(lake.verbs.repository(repository), repository)
    else:
        with open_at(_place(spark, lake)) as found:
            yield found.repository(repository)


def _direct(verbs: object, name: str) -> OpenRepository:
    if not isinstance(verbs, OpenRepository):
        raise InvalidError(
            f"repository {name!r} is reached through a server; Spark's jobs need its table and object store"
        )
    return verbs


def _place(spark: SparkSession | None, lake: LakePlace | str | Path | None) -> LakePlace:
    if isinstance(lake, FolderLake | AwsLake):
        return lake
    if lake is not None:
        return place_of({"lake": lake})
    return place_of(
        {} if spark is None else {name: spark.conf.get(f"{CONFIGURED}{name}", None) for name in PLACE_OPTIONS}
    )
