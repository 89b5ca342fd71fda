"""Folders of tables in a repository's storage, and the locations by which clients know them.

A table's files lie in one folder, ``tables/<20>/<20>`` below the namespace (:mod:`graveler.lake.objects.issued_addresses`), for
all branches. Metadata documents and manifests hold absolute locations, so that every client reads them: ``file:///…`` in a lake
in a folder, ``s3://…`` on S3.
"""

from os.path import realpath
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.lake.parts import RepositoryParts
from graveler.storage.objects.folder import FolderObjects
from graveler.table_format.file_locations import normal_location
from graveler.tree.record import base32

METADATA_END: Final = ".metadata.json"
"""The end of the names of metadata files."""
_NAME_CHARS: Final = 20
_LOCAL: Final = "file://"
_FOLDER_LEVELS: Final = 3
"""Levels of the key of a table's folder."""
_ANY_NAME: Final = bytes(32)


def root_of(repository: RepositoryParts) -> str:
    """Return the location of the repository's storage as clients know it, without a trailing slash. No request."""
    objects = repository.objects
    if isinstance(objects, FolderObjects):
        return _LOCAL + objects.name_of("x").removesuffix("/x")
    return objects.namespace


class TableFolder(Struct, frozen=True):
    """The folder of a table: its ``key`` in the repository's storage, and its ``location``, both without a trailing slash."""

    key: str
    location: str

    def key_of(self, location: str) -> str | None:
        """Return the key of a file in the folder; None for a file elsewhere."""
        path = self.path_of(location)
        return None if path is None else f"{self.key}/{path}"

    def outside_error(self, location: str) -> InvalidError:
        """Return the error for a file elsewhere."""
        return InvalidError(
            f"the table's metadata names {location!r}, which is not in the table's folder {self.location!r}; "
            "write its files there"
        )

    def path_of(self, location: str) -> str | None:
        """Return the path of a file below the folder; None for a file elsewhere, or a path that leads out of it."""
        prefix = self.location + "/"
        spelled = normal_location(location)
        if not spelled.startswith(prefix):
            return None
        path = spelled.removeprefix(prefix)
        return path if path and {"", ".", ".."}.isdisjoint(path.split("/")) else None

    def metadata_key(self, name: bytes) -> str:
        """Return the key of a metadata file that is named by these bytes. Such a name has no version: all branches share the
        folder, and a reader that takes the newest version would take any branch's."""
        return f"{self.key}/metadata/{base32(int.from_bytes(name[:13]) >> 4, _NAME_CHARS)}{METADATA_END}"


def folder_for(repository: RepositoryParts, uuid: str) -> TableFolder:
    """Return the folder of the table or view with this UUID. No request."""
    key = repository.names.table_folder(uuid)
    return TableFolder(key, f"{root_of(repository)}/{key}")


def make_folder_of_metadata(repository: RepositoryParts, folder: TableFolder) -> None:
    """Make the folder for the metadata of a table that is not there yet, in a lake in a folder: clients write manifests there
    first, and DuckDB makes no folder for them. No request on S3."""
    if isinstance(repository.objects, FolderObjects):
        repository.objects.make_folder_of(folder.metadata_key(_ANY_NAME))


def folder_of(repository: RepositoryParts, uuid: str, location: str) -> TableFolder:
    """Return the folder of a table, which its metadata names. No request. :class:`InvalidError` if it is not the folder that this
    repository made for the table."""
    root = root_of(repository) + "/"
    spelled = normal_location(location).rstrip("/")
    key = spelled.removeprefix(root)
    if key == spelled or not repository.names.is_table_folder(key, uuid):
        raise InvalidError(
            f"table {uuid} names {location!r} as its location, and this repository did not make that folder for it. If the "
            f"lake was moved (it now lies at {root.rstrip('/')!r}), the table's files still hold the former locations: run "
            "`graveler table rewrite-location` on the branch"
        )
    return TableFolder(key, spelled)


def expect_not_moved(repository: RepositoryParts, uuid: str, location: str) -> None:
    """Raise :class:`InvalidError` for a table whose files lie elsewhere than its metadata says. A lake in a folder that is opened
    through a symbolic link has not moved. No request."""
    try:
        folder_of(repository, uuid, location)
    except InvalidError:
        folder = moved_folder(repository, uuid, location)
        is_local = isinstance(repository.objects, FolderObjects) and normal_location(location).startswith(_LOCAL)
        if not is_local or _real_path(location) != _real_path(folder.location):
            raise


def _real_path(location: str) -> str:
    return realpath(normal_location(location).removeprefix(_LOCAL))


def moved_folder(repository: RepositoryParts, uuid: str, location: str) -> TableFolder:
    """Return the present folder of a table whose metadata names a location, which may be that of a folder, a bucket or a prefix
    from which the repository's storage was moved. No request. :class:`InvalidError` if this repository did not make a folder of
    that name for the table."""
    levels = normal_location(location).rstrip("/").rsplit("/", _FOLDER_LEVELS)
    key = "/".join(levels[1:])
    if not repository.names.is_table_folder(key, uuid):
        raise InvalidError(
            f"table {uuid} names {location!r} as its location, and this repository never made a folder of that name for it; "
            "copy its rows into a new table of this repository"
        )
    return TableFolder(key, f"{root_of(repository)}/{key}")
