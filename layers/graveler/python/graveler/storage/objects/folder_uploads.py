"""Uploads in parts to a folder: each upload is a folder of its parts."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.objects.folder_names import FolderNames
from graveler.storage.objects.folder_writer import FolderWriter, PartWriter, discard, pieces_of_file
from graveler.storage.objects.part_names import part_name, part_named
from graveler.storage.objects.port import StoredObject, StoredPart, UploadMissingError
from graveler.storage.owned_files import create_owned


class FolderUploads:
    """The unfinished uploads to some objects. Callers check keys, part numbers and lists of parts."""

    def __init__(self, names: FolderNames) -> None:
        self._names = names
        self._files = names.files
        self.folder = names.hidden / "uploads"

    def create(self, key: str) -> str:
        """Begin an upload. Its ID holds a checksum of the key, so that parts cannot end up in another object."""
        upload_id = f"{crc32(key.encode()):08x}-{token_hex(16)}"
        with self._names.explained("starting an upload of", key):
            self._files.make_root(self._names.modes)
            for folder in (self._names.hidden, self.folder, self.folder / upload_id):
                self._files.make_folder(folder, self._names.modes)
                self._files.sync(folder.parent)
        return upload_id

    def writer(self, key: str, upload_id: str, number: int) -> FolderWriter:
        """Return a writer for a part in pieces."""
        folder = self._folder_of(key, upload_id)

        def publish(temporary: Path, status: os.stat_result, digest: str) -> StoredObject:
            with self._names.explained("writing a part of", key):
                try:
                    self._files.rename(temporary, folder / part_name(number, digest))
                except FileNotFoundError:
                    if self._files.is_folder(folder):
                        raise self._names.robbed(key, temporary) from None
                    raise UploadMissingError(self._names.namespace, key, upload_id) from None
                except BaseException:
                    discard(self._files, temporary)
                    raise
            with self._names.explained("writing a part of", key, done=True):
                self._files.sync(folder)
            self._remove_replaced(folder, number, status.st_mtime_ns)
            return StoredObject(key, status.st_size, digest, status.st_mtime)

        return PartWriter(self._files, *self._temporary(folder, key, upload_id), publish)

    def parts(self, key: str, upload_id: str, after: int = 0) -> list[StoredPart]:
        """Return the parts of an upload, by number."""
        parts = self._parts(key, self._folder_of(key, upload_id))
        return [part for _, (_, part) in sorted(parts.items()) if part.number > after]

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool) -> StoredObject:
        """Join the parts and give the object its name. Cost: every byte is read and written once more."""
        folder = self._folder_of(key, upload_id)
        try:
            return self._join(key, upload_id, folder, parts, if_absent=if_absent)
        except (UnavailableError, InvalidError):
            if self._files.is_folder(folder):
                raise
            raise UploadMissingError(self._names.namespace, key, upload_id) from None  # completed or aborted meanwhile

    def _join(
        self, key: str, upload_id: str, folder: Path, parts: Sequence[tuple[int, str]], *, if_absent: bool
    ) -> StoredObject:
        stored_parts = self._parts(key, folder)
        for number, etag in parts:
            if number not in stored_parts or stored_parts[number][1].etag != etag:
                raise InvalidError(
                    f"part {number} of the upload of {key!r} with ETag {etag} does not exist; upload it again"
                )
        pieces = (piece for part in parts for piece in pieces_of_file(folder / part_name(*part), self._files))
        publish = partial(self._names.publish, key, self._files.root / key, if_absent=if_absent)
        with FolderWriter(self._files, *self._temporary(folder, key, upload_id), publish) as writer:
            for piece in pieces:
                writer.write(piece)
            stored = writer.finish()
        with suppress(OSError):  # the object is complete; what stays is swept in a week
            self._files.remove_folder(folder)
        return stored

    def abort(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts. The folder goes from its place at once: a completion at the same time finds all parts
        or no upload."""
        with suppress(UploadMissingError), self._names.explained("aborting an upload of", key):
            folder = self._folder_of(key, upload_id)
            aborted = folder.with_name(f"{upload_id}-aborted")
            with suppress(FileNotFoundError):  # completed or aborted meanwhile
                self._files.rename(folder, aborted)
                self._files.remove_folder(aborted)

    def _parts(self, key: str, folder: Path) -> dict[int, tuple[int, StoredPart]]:
        """Return the last part of each number, after its time in nanoseconds."""
        parts: dict[int, tuple[int, StoredPart]] = {}
        with self._names.explained("listing the parts of", key), self._files.entries(folder) as entries:
            for name in [entry.name for entry in entries]:
                if (named := part_named(name)) is None:
                    continue
                with suppress(FileNotFoundError):  # replaced meanwhile
                    status = self._files.status(folder / name)
                    number, etag = named
                    part = StoredPart(number, status.st_size, etag, status.st_mtime)
                    parts[number] = max(
                        parts.get(number, (-1, part)), (status.st_mtime_ns, part), key=lambda timed: timed[0]
                    )
        return parts

    def _remove_replaced(self, folder: Path, number: int, written: int) -> None:
        """Remove the parts of this number that were written before ``written`` (nanoseconds); what stays is no part any more, and
        goes with the upload."""
        with suppress(OSError), self._files.entries(folder) as entries:
            for name in [entry.name for entry in entries]:
                if (named := part_named(name)) is not None and named[0] == number:
                    with suppress(FileNotFoundError):
                        if self._files.status(folder / name).st_mtime_ns < written:
                            self._files.unlink(folder / name)

    def _temporary(
        self, folder: Path, key: str, upload_id: str
    ) -> tuple[Path, int, Callable[[], AbstractContextManager[None]]]:
        """Return a temporary file in the folder of an upload, which shows that someone works on it: its path, its descriptor, and
        what explains errors of writing it."""
        explained = partial(self._names.explained, "writing", key)
        with explained():
            try:
                return *create_owned(self._files, folder, self._names.modes), explained
            except FileNotFoundError:
                raise UploadMissingError(self._names.namespace, key, upload_id) from None

    def _folder_of(self, key: str, upload_id: str) -> Path:
        folder = self.folder / upload_id
        begin, _, rest = upload_id.partition("-")
        if begin != f"{crc32(key.encode()):08x}" or not rest.isalnum() or not self._files.is_folder(folder):
            raise UploadMissingError(self._names.namespace, key, upload_id)
        return folder
