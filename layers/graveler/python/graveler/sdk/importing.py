"""Taking over what lies elsewhere, from several places in one commit."""

from collections.abc import Mapping
from pathlib import Path

from graveler.lake.importing.prefix_listing import AddressType, ImportAddress
from graveler.model import Commit
from graveler.sdk.access import RepositoryAccess


class ImportManager:
    """Collects places, and imports them. Each replaces all that lies under its destination; destinations must not overlap."""

    def __init__(
        self,
        repository: RepositoryAccess,
        branch_id: str,
        commit_message: str = "",
        commit_metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._repository = repository
        self._branch_id = branch_id
        self.commit_message = commit_message
        self.commit_metadata = commit_metadata
        self.sources: list[ImportAddress] = []

    def prefix(self, object_store_uri: str | Path, destination: str = "") -> "ImportManager":
        """Add all objects whose address begins with a URI (``file:///data/in/``), or all files of a folder, under a prefix of
        the branch, which is ``destination`` with a slash at its end, or everything."""
        uri = f"{_file(object_store_uri)}/" if isinstance(object_store_uri, Path) else object_store_uri
        self.sources.append(ImportAddress(AddressType.COMMON_PREFIX, uri, destination))
        return self

    def object(self, object_store_uri: str | Path, destination: str) -> "ImportManager":
        """Add one object, or a file, to be at the path ``destination``."""
        uri = _file(object_store_uri) if isinstance(object_store_uri, Path) else object_store_uri
        self.sources.append(ImportAddress(AddressType.OBJECT, uri, destination))
        return self

    def run(self) -> Commit:
        """Import everything that was added, as one commit, and wait for it. Cost and errors as
        :meth:`OpenRepository.import_addresses`."""
        return self._repository.verbs.import_addresses(
            self._branch_id,
            self.sources,
            message=self.commit_message,
            committer=self._repository.user,
            metadata=self.commit_metadata,
        )


def _file(path: Path) -> str:
    return f"file://{path.expanduser().absolute()}"
