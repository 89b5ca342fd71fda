"""Uploads in parts to a folder: each upload is a folder of its parts."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from graveler.errors import InvalidError
from graveler.storage.objects.folder_names import FolderNames
from graveler.storage.objects.folder_writer import FolderWriter, described, discard, pieces_of_file
from graveler.storage.objects.port import StoredObject, UploadMissingError
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

        def publish(temporary: Path, status: os.stat_result) -> StoredObject:
            with self._names.explained("writing a part of", key):
                try:
                    self._files.rename(temporary, folder / str(number))
                except FileNotFoundError:
                    if self._files.is_folder(folder):
                        raise self._names.robbed(key, temporary) from None
                    raise UploadMissingError(self._names.namespace, key, upload_id) from None
                except BaseException:
                    discard(self._files, temporary)
                    raise
            with self._names.explained("writing a part of", key, done=True):
                self._files.sync(folder)
            return described(key, status)

        return self._new_writer(folder, key, upload_id, publish)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool) -> StoredObject:
        """Join the parts and give the object its name. Cost: every byte is read and written once more."""
        folder = self._folder_of(key, upload_id)
        for number, etag in parts:
            try:
                actual = described(key, self._files.status(folder / str(number))).etag
            except OSError:
                actual = ""
            if actual != etag:
                raise InvalidError(
                    f"part {number} of the upload of {key!r} with ETag {etag} does not exist; upload it again"
                )
        pieces = (piece for number, _ in parts for piece in pieces_of_file(folder / str(number), self._files))
        publish = partial(self._names.publish, key, self._files.root / key, if_absent=if_absent)
        with self._new_writer(folder, key, upload_id, publish) as writer:
            for piece in pieces:
                writer.write(piece)
            stored = writer.finish()
        with suppress(OSError):  # the object is complete; what stays is swept in a week
            self._files.remove_folder(folder)
        return stored

    def abort(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts."""
        with suppress(UploadMissingError), self._names.explained("aborting an upload of", key):
            self._files.remove_folder(self._folder_of(key, upload_id))

    def _new_writer(
        self, folder: Path, key: str, upload_id: str, publish: Callable[[Path, os.stat_result], StoredObject]
    ) -> FolderWriter:
        """Return a writer whose temporary file is in the folder of an upload: it shows that someone works on it."""
        explained = partial(self._names.explained, "writing", key)
        with explained():
            try:
                temporary, descriptor = create_owned(self._files, folder, self._names.modes)
            except FileNotFoundError:
                raise UploadMissingError(self._names.namespace, key, upload_id) from None
        return FolderWriter(self._files, temporary, descriptor, explained, publish)

    def _folder_of(self, key: str, upload_id: str) -> Path:
        folder = self.folder / upload_id
        begin, _, rest = upload_id.partition("-")
        if begin != f"{crc32(key.encode()):08x}" or not rest.isalnum() or not self._files.is_folder(folder):
            raise UploadMissingError(self._names.namespace, key, upload_id)
        return folder
