"""Imports of existing objects, from several locations in one commit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import warn

from graveler.files.repository import RepositoryAccess
from graveler.lake.context import Context
from graveler.requests.base import CommitInfo
from graveler.requests.importing import AddressType, ImportAddress, ImportAddresses
from graveler.system.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from graveler.requests.importing import Imported


@short_tracebacks("prefix", "object")
class ImportManager:
    """A builder that collects locations and imports them. Each location replaces everything under its destination; destinations
    must not overlap."""

    def __init__(
        self,
        repository: RepositoryAccess,
        branch_id: str,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._access = repository
        self._branch_id = branch_id
        self.commit_message = commit_message
        self.commit_metadata = commit_metadata
        self.sources: list[ImportAddress] = []

    def prefix(self, object_store_uri: str | Path, destination: str = "") -> "ImportManager":
        """Add all objects whose address begins with a URI (``file:///data/in/``), or all files of a folder. They replace the
        branch's prefix ``destination`` (a slash is appended), or the whole branch if it is empty."""
        uri = f"{_file(object_store_uri)}/" if isinstance(object_store_uri, Path) else object_store_uri
        self.sources.append(ImportAddress(AddressType.COMMON_PREFIX, uri, destination))
        return self

    def object(self, object_store_uri: str | Path, destination: str) -> "ImportManager":
        """Add one object, or one file, to import at the path ``destination``."""
        uri = _file(object_store_uri) if isinstance(object_store_uri, Path) else object_store_uri
        self.sources.append(ImportAddress(AddressType.OBJECT, uri, destination))
        return self

    def run(
        self,
        *,
        allow_empty: bool = False,
        dry_run: bool = False,
        trust_mtime: bool = False,
        folders: bool = False,
        exclude: Sequence[str] = (),
        no_ignore: bool = False,
    ) -> "Imported":
        """Import everything that was added, as one commit, and wait for it. The result's ``changes`` count what the import added,
        replaced and removed. A location without objects raises :class:`EmptySourceError`, unless ``allow_empty``. With
        ``dry_run`` nothing changes: the result has no ID and describes what would change. With ``trust_mtime`` files are not
        read: size and modification time stand in for the content, and the records note that. Folder markers of S3, empty objects
        whose key ends with a slash, are left out unless ``folders``.

        Of folders, files are left out that a pattern of ``exclude`` names, that ``.gravelerignore`` names, or that are never
        data, such as ``.git`` and ``.env`` (with a ``UserWarning``); with ``no_ignore`` only the first ones. Patterns are those
        of ``.gitignore``. ``changes.excluded`` and ``changes.left_out`` count them. Cost and errors as
        :meth:`OpenRepository.import_addresses`."""
        imported = self._access.repository.run(
            ImportAddresses(
                branch=self._branch_id,
                sources=tuple(self.sources),
                info=CommitInfo(self.commit_message, self._access.user, self.commit_metadata or {}),
                allow_empty=allow_empty,
                dry_run=dry_run,
                trust_mtime=trust_mtime,
                folders=folders,
                exclude=tuple(exclude),
                ignore=not no_ignore,
            ),
            Context(by=self._access.user),
        )
        if imported.changes.left_out:
            warn(
                f"left out {imported.changes.left_out:,} files and folders of version control, secrets or tools; no_ignore=True "
                "takes what is left out",
                stacklevel=3,
            )
        return imported


def _file(path: Path) -> str:
    return f"file://{path.expanduser().absolute()}"
