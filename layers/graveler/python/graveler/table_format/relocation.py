"""A table whose folder was moved: its metadata, manifest lists, manifests and delete files, with the locations of the new folder.

Data files do not change. What names a location is written anew, under a name that is a digest of its bytes, in the new folder:
so two branches that have a manifest in common have it in common afterwards. Snapshot IDs, sequence numbers and row IDs stay, and
fields that this version does not know survive.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct

from graveler.errors import InvalidError, NotFoundError
from graveler.table_format.avro_files import read_avro_file, write_avro_file
from graveler.table_format.avro_types import DAMAGE, AvroType, writer
from graveler.table_format.damaged_files import damaged_file
from graveler.table_format.deletion_vectors import with_data_files
from graveler.table_format.file_locations import normal_location
from graveler.table_format.live_files import POSITION_DELETES
from graveler.table_format.manifests import DELETED
from graveler.table_format.metadata_log import extend_metadata_log
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.reserved_columns import DELETED_PATH, DELETED_POSITION

WriteFile = Callable[[str, bytes], None]
"""Writes a file at a location, which only these bytes ever have."""
MoveLocation = Callable[[str], str]
"""Returns the new location of a file; that of a file outside of the folder is the same."""
RewritePositions = Callable[[bytes, str, str, MoveLocation], bytes]
"""Returns a file of position deletes whose data files have been moved; from its bytes, its format in capitals and its location.
:class:`InvalidError` if it cannot be written."""

_DIGEST_CHARS: Final = 32
_LIST_FIELDS: Final = {500: "manifest_path", 501: "manifest_length"}
_ENTRY_FIELDS: Final = {0: "status", 2: "data_file"}
_FILE_FIELDS: Final = {
    134: "content",
    100: "file_path",
    101: "file_format",
    104: "file_size_in_bytes",
    143: "referenced_data_file",
    125: "lower_bounds",
    128: "upper_bounds",
}
_CONTAINER_FIELDS: Final = frozenset(("avro.schema", "avro.codec"))


class _RewrittenFile(Struct, frozen=True):
    """The new location and the size of a file that was written anew."""

    location: str
    size: int


class Relocation:
    """The move of a table from the folder ``before`` to the folder ``after``, locations without a final slash. ``read_file`` gets
    locations in the new folder. Each file is read and written once, however many snapshots name it."""

    def __init__(
        self,
        before: str,
        after: str,
        read_file: ReadFile,
        write_file: WriteFile,
        rewrite_positions: RewritePositions,
    ) -> None:
        self._before, self._after = normal_location(before).rstrip("/") + "/", after + "/"
        self._read_file, self._write_file = read_file, write_file
        self._rewrite_positions = rewrite_positions
        self._manifests: dict[str, _RewrittenFile] = {}
        self._deletes: dict[str, _RewrittenFile] = {}

    def new_location(self, location: str) -> str:
        """Return where a file lies now."""
        spelled = normal_location(location)
        return self._after + spelled.removeprefix(self._before) if spelled.startswith(self._before) else location

    def table(self, metadata: Document, time_ms: int, location: str) -> Document:
        """Return the metadata of the table in its new folder. ``time_ms`` is the time in milliseconds since 1970,
        ``location`` that of the present metadata file, for the log.

            All manifest lists and manifests are read and written, and all files of position deletes and of deletion vectors.
            :class:`CorruptError`; :class:`InvalidError` for what cannot be rewritten; what ``read_file`` raises.
        """
        properties = metadata.get("properties") or {}
        former = _with_new_locations(metadata.get("metadata-log"), "metadata-file", self.new_location)
        entry = {"timestamp-ms": metadata["last-updated-ms"], "metadata-file": location}
        log = extend_metadata_log(former, entry, properties)
        changes: Document = {
            "location": self._after.rstrip("/"),
            "last-updated-ms": max(time_ms, metadata["last-updated-ms"]),
            "properties": {name: self._property(text) for name, text in properties.items()},
            "snapshots": [self._snapshot(snapshot) for snapshot in metadata.get("snapshots") or ()],
            "metadata-log": log,
        }
        for name in ("statistics", "partition-statistics"):
            if name in metadata:
                changes[name] = _with_new_locations(metadata[name], "statistics-path", self.new_location)
        return metadata | changes

    def _property(self, text: Any) -> Any:
        """Return a property, whose text may be a location, such as ``write.data.path``."""
        if not isinstance(text, str) or ":/" not in text:
            return text
        try:
            return self._after.rstrip("/") if f"{text}/" == self._before else self.new_location(text)
        except InvalidError:
            return text

    def _snapshot(self, snapshot: Document) -> Document:
        if isinstance(location := snapshot.get("manifest-list"), str):
            return snapshot | {"manifest-list": self._list(location)}
        manifests = snapshot.get("manifests") or ()
        return snapshot | {"manifests": [self._manifest(manifest).location for manifest in manifests]}

    def _list(self, location: str) -> str:
        def rewrite(record: Document, names: Mapping[int, str]) -> None:
            manifest = self._manifest(record[names[500]])
            record[names[500]] = manifest.location
            if 501 in names:
                record[names[501]] = manifest.size

        return self._avro_file(
            location, "snap", lambda record_type: _names(record_type, _LIST_FIELDS), rewrite
        ).location

    def _manifest(self, location: str) -> _RewrittenFile:
        if location not in self._manifests:
            self._manifests[location] = self._avro_file(location, "manifest", _EntryNames, self._rewrite_entry)
        return self._manifests[location]

    def _rewrite_entry(self, record: Document, names: "_EntryNames") -> None:
        file = record[names.data_file]

        def value(number: int) -> Any:
            return file.get(names.file.get(number, ""))

        path = file[names.file[100]]
        file[names.file[100]] = self.new_location(path)
        if value(143) is not None:
            file[names.file[143]] = self.new_location(value(143))
        if value(134) != POSITION_DELETES:
            return
        try:
            deletes = self._delete_file(path, value(101).upper(), value(104), value(143))
        except NotFoundError:
            if record[names.status] != DELETED:
                raise
            return  # the file has expired with the snapshots that had it
        file[names.file[100]], file[names.file[104]] = deletes.location, deletes.size
        bounds = {number: value(number) for number in (125, 128) if value(number) is not None}
        for number, moved in zip(bounds, self._new_bounds(bounds), strict=True):
            file[names.file[number]] = moved

    def _new_bounds(self, bounds: Mapping[int, list[Document]]) -> list[list[Document]]:
        """Return the bounds of a file of position deletes. Those of its data files stay only if all of them lie in the folder,
        since else their order may be another one."""
        paths = [bound["value"] for column in bounds.values() for bound in column if bound["key"] == DELETED_PATH]
        prefix = self._before.encode()
        are_all_inside = all(path.startswith(prefix) for path in paths)
        after = self._after.encode()
        return [
            [
                bound | {"value": after + bound["value"].removeprefix(prefix)}
                if bound["key"] == DELETED_PATH
                else bound
                for bound in column
                if bound["key"] != DELETED_PATH or are_all_inside
            ]
            for column in bounds.values()
        ]

    def _delete_file(self, location: str, file_format: str, size: int, data_file: str | None) -> _RewrittenFile:
        """Return a file of position deletes or of deletion vectors that names the new locations of data files."""
        if location not in self._deletes:
            moved = self.new_location(location)
            if moved == location:
                if data_file is not None and self.new_location(data_file) == data_file:
                    return _RewrittenFile(location, size)
                raise InvalidError(
                    f"the deletes {location!r} lie outside of the table's folder and cannot be written anew; "
                    "compact the table where it was before"
                )
            contents = self._read_file(moved)
            if file_format == "PUFFIN":
                contents = with_data_files(contents, location, self.new_location)
            else:
                contents = self._rewrite_positions(contents, file_format, location, self.new_location)
            self._deletes[location] = self._write("data", "deletes", file_format.lower(), contents)
        return self._deletes[location]

    def _avro_file(
        self,
        location: str,
        stem: str,
        names_of: Callable[[AvroType], Any],
        rewrite: Callable[[Document, Any], None],
    ) -> _RewrittenFile:
        """Write a manifest or a list of manifests anew, each record changed by ``rewrite``."""
        avro_file = read_avro_file(self._read_file(self.new_location(location)), location)
        write = writer(avro_file.type)
        try:
            names = names_of(avro_file.type)
            records = avro_file.records()
            for record in records:
                rewrite(record, names)
            encoded = [write(record) for record in records]
        except (*DAMAGE, KeyError, TypeError, AttributeError) as error:
            raise damaged_file(location, f"it cannot be written anew ({error!r})") from error
        metadata = {name: text for name, text in avro_file.metadata.items() if name not in _CONTAINER_FIELDS}
        return self._write("metadata", stem, "avro", write_avro_file(metadata, avro_file.schema, encoded))

    def _write(self, folder: str, stem: str, ending: str, contents: bytes) -> _RewrittenFile:
        digest = sha256(contents).hexdigest()[:_DIGEST_CHARS]
        location = f"{self._after}{folder}/{digest}-{stem}.{ending}"
        self._write_file(location, contents)
        return _RewrittenFile(location, len(contents))


class _EntryNames:
    """The names of the fields of a manifest's entries, by their IDs."""

    def __init__(self, entry: AvroType) -> None:
        names = _names(entry, _ENTRY_FIELDS)
        self.status, self.data_file = names[0], names[2]
        file_type = next(part.type for part in entry.fields if part.name == self.data_file)
        self.file = _names(file_type, _FILE_FIELDS)


def rewrite_avro_positions(contents: bytes, location: str, move: MoveLocation) -> bytes:
    """Return an Avro file of position deletes whose data files have been moved. :class:`CorruptError`."""
    avro_file = read_avro_file(contents, location)
    write = writer(avro_file.type)
    try:
        names = _names(avro_file.type, {DELETED_PATH: "file_path", DELETED_POSITION: "pos"})
        path, position = names[DELETED_PATH], names[DELETED_POSITION]
        records = [record | {path: move(record[path])} for record in avro_file.records()]
        records.sort(key=lambda record: (record[path], record[position]))
        encoded = [write(record) for record in records]
    except (*DAMAGE, KeyError, TypeError, AttributeError) as error:
        raise damaged_file(location, f"it cannot be written anew ({error!r})") from error
    metadata = {name: text for name, text in avro_file.metadata.items() if name not in _CONTAINER_FIELDS}
    return write_avro_file(metadata, avro_file.schema, encoded)


def _names(record: AvroType, fields: Mapping[int, str]) -> dict[int, str]:
    """Return the names of fields of a record by their IDs; by their usual names in a schema without IDs."""
    by_name = {name: number for number, name in fields.items()}
    numbers = {part.name: part.id if part.id >= 0 else by_name.get(part.name, -1) for part in record.present.fields}
    return {number: name for name, number in numbers.items() if number in fields}


def _with_new_locations(entries: Any, name: str, move: MoveLocation) -> list[Document]:
    """Return entries of metadata whose field ``name`` is a location."""
    return [entry | {name: move(entry[name])} if isinstance(entry.get(name), str) else entry for entry in entries or ()]
