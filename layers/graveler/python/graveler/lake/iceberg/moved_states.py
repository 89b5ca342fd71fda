"""States of tables from before a lake was moved, read as if their locations had been rewritten."""

from graveler.lake.iceberg.position_deletes import rewrite_positions
from graveler.lake.iceberg.table_folders import TableFolder, moved_folder
from graveler.lake.parts import RepositoryParts
from graveler.table_format.file_locations import normal_location
from graveler.table_format.merge_results import TableState
from graveler.table_format.plain_documents import ReadFile
from graveler.table_format.relocation import Relocation


def state_in_folder(
    repository: RepositoryParts, folder: TableFolder, state: TableState, read_file: ReadFile
) -> tuple[TableState, ReadFile]:
    """Return the state of a table with the locations that its files have in its present folder, and the function that reads it.

    A state from before the lake was moved is rewritten in memory: its manifests get the names that they have on branches whose
    locations were rewritten. Nothing is written. All of its manifests and position deletes are read; no request for any other
    state. Errors as of :meth:`graveler.table_format.relocation.Relocation.table`.
    """
    metadata = state.metadata
    spelled = normal_location(metadata["location"]).rstrip("/")
    if spelled == folder.location or moved_folder(repository, metadata["table-uuid"], spelled).key != folder.key:
        return state, read_file
    rewritten: dict[str, bytes] = {}
    relocation = Relocation(spelled, folder.location, read_file, rewritten.__setitem__, rewrite_positions)
    document = relocation.table(metadata, 0, state.location)

    def read(location: str) -> bytes:
        contents = rewritten.get(location)
        return read_file(location) if contents is None else contents

    return TableState(document, state.location), read
