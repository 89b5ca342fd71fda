"""Where the lake is, and who is asking: the only code that looks at the environment and the working folder.

Faces that run in a user's own process ask here; a server does not.
"""

import getpass
import os
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Final

from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.lake.place import AwsLake, FolderLake, LakePlace

LAKE: Final = "GRAVELER_LAKE"
"""Names the lake: a folder, or a table as TABLES does."""

TABLES: Final = "GRAVELER_TABLES"
"""Names the table of a lake on AWS, ``dynamodb://table``."""

OBJECTS: Final = "GRAVELER_OBJECTS"
"""Names the place of a lake's repositories on AWS, ``s3://bucket/prefix``."""

USER: Final = "GRAVELER_USER"
"""Names whoever commits."""

HIDDEN: Final = ".graveler"
"""Folder that `graveler init` makes in a working folder."""

_MARKER: Final = "graveler.json"
_TABLE: Final = "dynamodb://"
_ON_AWS: Final = f"--tables {_TABLE}TABLE and --objects s3://BUCKET/PREFIX (or {TABLES} and {OBJECTS})"


@dataclass(frozen=True, kw_only=True)
class Named:
    """What somebody said about where the lake is, by options or arguments; None: nothing. ``lake`` is a folder or
    ``dynamodb://table``, ``tables`` only the latter, and the others are of a lake on AWS. Without a ``region`` and endpoints,
    AWS's own configuration says them."""

    lake: str | None = None
    tables: str | None = None
    objects: str | None = None
    region: str | None = None
    s3_endpoint_url: str | None = None
    dynamodb_endpoint_url: str | None = None
    cache: Path | None = None


def find_place(named: Named | None = None) -> LakePlace:
    """Where the lake is: where ``named`` says, else the environment, else in the nearest folder upward from the working folder.

    A folder is a lake if it holds ``graveler.json``, or ``.graveler`` that does; one that is named need not be one.
    :class:`NotFoundError`, with what to do; :class:`InvalidError` for words that name two places, or half of one.
    """
    named = named or Named()
    found = _single(("--lake", named.lake), ("--tables", named.tables)) or _single(
        (LAKE, os.environ.get(LAKE) or None), (TABLES, os.environ.get(TABLES) or None)
    )
    if found is not None and (found[0] in ("--tables", TABLES) or found[1].startswith(_TABLE)):
        return _aws(*found, named)
    for_aws = [field.name for field in fields(named) if field.name != "lake" and getattr(named, field.name) is not None]
    if "objects" in for_aws and found is None:
        raise InvalidError(f"--objects is given without --tables; a lake on AWS needs {_ON_AWS}")
    if for_aws:
        option = f"--{for_aws[0].replace('_', '-')}"
        said = f"; {found[0]} {found[1]!r} names a lake in a folder: name one of them" if found else ""
        raise InvalidError(f"{option} is of a lake on AWS, which is named with {_ON_AWS}{said}")
    if found is not None:
        return FolderLake(_named_folder(*found))
    return FolderLake(_nearest())


def _single(*said: tuple[str, str | None]) -> tuple[str, str] | None:
    """The one place that is named, and by what. :class:`InvalidError` for two."""
    given = [(by, value) for by, value in said if value is not None]
    if len(given) > 1:
        raise InvalidError(f"{' and '.join(f'{by} {value!r}' for by, value in given)} name two lakes; name one of them")
    return given[0] if given else None


def _aws(by: str, tables: str, named: Named) -> AwsLake:
    objects = named.objects or os.environ.get(OBJECTS)
    if not objects:
        raise InvalidError(f"{by} is given without --objects; a lake on AWS needs {_ON_AWS}")
    s3 = named.s3_endpoint_url or _endpoint("S3")
    dynamodb = named.dynamodb_endpoint_url or _endpoint("DYNAMODB")
    return AwsLake(
        objects=objects,
        tables=tables,
        cache=(named.cache or _cache_of(objects, tables, s3, dynamodb)).absolute(),
        region=named.region,
        s3_endpoint_url=s3,
        dynamodb_endpoint_url=dynamodb,
    )


def _endpoint(service: str) -> str | None:
    """What AWS's own tools take for a service's address. Read here, since to us it also says how buckets are named in URLs."""
    return os.environ.get(f"AWS_ENDPOINT_URL_{service}") or os.environ.get("AWS_ENDPOINT_URL") or None


def _cache_of(objects: str, tables: str, *endpoints: str | None) -> Path:
    """A cache folder for each lake: copies are taken for files that its own store has."""
    lake = sha256("\n".join([objects.rstrip("/"), tables.rstrip("/"), *(url or "" for url in endpoints)]).encode())
    return cache_folder() / f"lake-{lake.hexdigest()[:16]}"


def _named_folder(by: str, name: str) -> Path:
    if "://" in name:
        raise InvalidError(f"{by} {name!r} names no lake; name a folder, or {_TABLE}TABLE for one on AWS")
    folder = Path(name)
    return lake_in(folder) or folder


def _nearest() -> Path:
    start = working_folder()
    for folder in (start, *start.parents):
        found = lake_in(folder)
        if found is not None:
            return found
    raise NotFoundError(
        f"there is no lake in {str(start)!r} or above it; make one with `graveler init`, "
        f"or name one with --lake FOLDER or {LAKE}"
    )


def lake_in(folder: Path) -> Path | None:
    """The lake that ``folder`` is, or holds as ``.graveler``."""
    for candidate in (folder, folder / HIDDEN):
        try:
            if (candidate / _MARKER).is_file():
                return candidate
        except OSError:  # no permission to look: then it is not ours to find
            continue
    return None


def working_folder() -> Path:
    """The working folder, absolute."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UnavailableError(f"the working folder cannot be read: {error.strerror}; change to another one") from None


def cache_folder() -> Path:
    """Where this user's copies of what lies elsewhere are kept: ``graveler`` in XDG_CACHE_HOME, else in ``~/.cache``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # XDG: a path that is not absolute does not count.
        home = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError:  # a user without an entry, as in containers
        raise UnavailableError("this user has no home folder to keep a cache in; set XDG_CACHE_HOME") from None
    return home / "graveler"


def user_name() -> str:
    """Who commits: GRAVELER_USER, else the login name, else nobody."""
    named = os.environ.get(USER)
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return ""
