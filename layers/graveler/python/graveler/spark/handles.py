"""The ways in which functions of this package accept a repository, and how they find its lake."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import SparkSession

from graveler.errors import InvalidError
from graveler.lake.lake import Lake
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation, open_at
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.sdk.lake import Lake as LakeHandle
from graveler.sdk.repository import Repository as RepositoryHandle
from graveler.spark.locations import (
    ENDPOINT,
    LOCATION_OPTIONS,
    S3_OPTIONS,
    is_served,
    location_of,
    s3_settings,
    served_location_of,
)
from graveler.values.addresses import SCHEME, Address, scheme_of, without_scheme

if TYPE_CHECKING:
    from graveler.spark.served import ServedRepository

CONFIGURED: Final = "spark.graveler."
"""The prefix of a session's options that locate the lake: ``spark.graveler.lake`` and so on, as for
:func:`~graveler.spark.locations.location_of`."""

RepositoryLike: TypeAlias = OpenRepository | RepositoryHandle | str
"""A repository: opened, a handle of the Python API, or a name, whose lake is then located."""
Reachable: TypeAlias = "RepositoryLike | ServedRepository"
"""The same, or one behind a server."""
Reached: TypeAlias = "OpenRepository | ServedRepository"
"""The result: a repository whose lake is opened here, or one that is reached through a server."""
LakeLike: TypeAlias = Lake | LakeHandle | LakeLocation | str | Path | None
"""A lake: opened, a handle of the Python API, a location, a folder, or ``dynamodb://table``. None: the one that the session's
options name, else the one of the command line (GRAVELER_LAKE and others, or the nearest upward from the working folder)."""


def parse_uri(uri: str) -> Address:
    """Return the parts of ``lakefs://repository/ref/path``, or ``graveler://repository/ref/path``. The ref ends at the first
    slash, so a slash in its name is written ``%2F``; the path may be empty. :class:`graveler.errors.InvalidError`."""
    address = Address.of(without_scheme(uri))
    if not (scheme_of(uri) and address.repository and address.ref):
        raise InvalidError(f"{uri!r} does not name objects; write {SCHEME}REPOSITORY/REF/PATH")
    return address


@contextmanager
def reached(
    spark: SparkSession | None, repository: "Reachable", lake: LakeLike | ServedLake = None
) -> "Iterator[Reached]":
    """Open a repository as :func:`opened`; also one behind a server, given by the URL ``lake``, a session's option, the
    environment, or a handle. Errors of :class:`graveler.spark.served.ServedRepository`, too."""
    if not isinstance(repository, OpenRepository | RepositoryHandle | str):
        yield repository
        return
    options = _options(spark)
    handle = _handle(repository, lake)
    if handle is not None:
        yield handle.verbs if isinstance(handle.verbs, OpenRepository) else _served(handle, options)
        return
    location = lake
    if isinstance(repository, str) and (lake is None or isinstance(lake, str)):
        location = served_location_of(options if lake is None else {"lake": lake})
    if not isinstance(repository, str) or not isinstance(location, ServedLake):
        if isinstance(location, ServedLake):
            raise InvalidError(f"name the repository behind {location} by its name, not by a handle")
        with opened(spark, repository, location) as opened_repository:
            yield opened_repository
        return
    from graveler.spark.served import served_at  # urllib3: not for lakes that are opened themselves

    served = served_at(location, repository, s3_settings(options))
    try:
        yield served
    finally:
        served.close()


@contextmanager
def opened(spark: SparkSession | None, repository: RepositoryLike, lake: LakeLike = None) -> Iterator[OpenRepository]:
    """Open the repository, and afterwards close a lake that was opened for it. Cost: one table read for a name, or a handle not
    used yet. :class:`graveler.errors.NotFoundError`, :class:`graveler.errors.InvalidError`."""
    if isinstance(repository, OpenRepository):
        yield repository
    elif isinstance(repository, RepositoryHandle):
        yield _direct(repository.verbs, repository.id)
    elif isinstance(lake, Lake):
        yield lake.repository(repository)
    elif isinstance(lake, LakeHandle):
        yield _direct(lake.verbs.repository(repository), repository)
    else:
        with open_at(_place(spark, lake)) as opened_lake:
            yield opened_lake.repository(repository)


def left_open(repository: "Reachable", lake: LakeLike | ServedLake = None) -> tuple[str, ...]:
    """Return the options of a session that matter to :func:`reached`: those that the arguments leave open. No request."""
    if not isinstance(repository, OpenRepository | RepositoryHandle | str):
        return ()
    handle = _handle(repository, lake)
    if handle is not None:
        return () if isinstance(handle.verbs, OpenRepository) else S3_OPTIONS
    if isinstance(lake, ServedLake) or (isinstance(lake, str) and is_served(lake)):
        return S3_OPTIONS
    return (*LOCATION_OPTIONS, ENDPOINT) if lake is None and isinstance(repository, str) else ()


def configured_by(spark: SparkSession | None, names: Sequence[str]) -> dict[str, str | None]:
    """Return the session's values of these options (:func:`left_open`). Without a session they are None."""
    options = _options(spark)
    return {name: options.get(name) for name in names}


def _handle(repository: RepositoryLike, lake: LakeLike | ServedLake) -> RepositoryHandle | None:
    """Return the handle given, or the one that a lake's handle makes; None if neither is given."""
    if isinstance(repository, str):
        return lake.repository(repository) if isinstance(lake, LakeHandle) else None
    return repository if isinstance(repository, RepositoryHandle) and not isinstance(lake, ServedLake) else None


def _served(handle: RepositoryHandle, options: dict[str, str | None]) -> "ServedRepository":
    """Return the repository that a handle reaches through a server."""
    from graveler.spark.served import served_by  # urllib3: not for lakes that are opened themselves

    return served_by(handle.verbs, handle.id, s3_settings(options))


def _direct(verbs: object, name: str) -> OpenRepository:
    if not isinstance(verbs, OpenRepository):
        raise InvalidError(
            f"repository {name!r} is behind a server, but this needs its table and object store; open the lake itself"
        )
    return verbs


def _place(spark: SparkSession | None, lake: LakeLocation | str | Path | None) -> LakeLocation:
    if isinstance(lake, FolderLake | AwsLake):
        return lake
    if lake is not None:
        return location_of({"lake": lake})
    return location_of(_options(spark))


def _options(spark: SparkSession | None) -> dict[str, str | None]:
    """Return the session's options that locate the lake."""
    if spark is None:
        return {}
    return {name: spark.conf.get(f"{CONFIGURED}{name}", None) for name in (*LOCATION_OPTIONS, ENDPOINT)}
