"""The objects port on a folder: a key is the path of a plain file below the root.

Any number of threads and processes may use one folder. These rules hold even through ``kill -9`` and a power cut:

- A put writes and syncs a temporary file, gives it its name in one step, and syncs the folders that changed. So an object exists
  as a whole or not at all, and an old one stays until the new one is complete.
- Put-if-absent is ``link(2)``: the file system lets one of many win.
- Overwriting and deleting take a lock of the key, so that a conditional delete never hits a newer object than it looked at.
- Temporary files lie in a hidden folder, which no key can name and no listing shows. Their writer holds a lock on each,
  which the kernel releases when the process ends; the next writer removes those whose lock is free
  (:mod:`graveler.storage.owned_files`).

Bound to a file system, it has two limits that S3 does not have: ``x`` and ``x/y`` cannot both be objects, and a part of a key
between two slashes is at most 255 bytes in most file systems. ETags need time stamps in nanoseconds (ext4, XFS, Btrfs, APFS, NFS
4 and EFS have them).
"""

import builtins
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from graveler.errors import GravelerError, InvalidError, UnavailableError
from graveler.storage.durable_files import sync_file
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.limits import check_byte_range, check_object_key, check_part_number, check_parts
from graveler.storage.objects.confined_folder import Confinement, files_below
from graveler.storage.objects.folder_leftovers import sweep, tidy
from graveler.storage.objects.folder_names import HIDDEN, FolderNames
from graveler.storage.objects.folder_writer import PIECE, FolderWriter, described, discard, pieces_of_file, write_all
from graveler.storage.objects.port import (
    Noted,
    ObjectConditionError,
    ObjectMissingError,
    Page,
    Sent,
    StoredObject,
    StoredPart,
    UnfinishedUpload,
    delete_each,
    page_of,
)
from graveler.storage.objects.presigned import Grant, UrlSigner, no_urls

if TYPE_CHECKING:
    from graveler.storage.objects.folder_uploads import FolderUploads

_ABSENT = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP, errno.ENXIO))
"""Also the errors for something else than a plain file, such as a socket."""


class FolderObjects:
    """Objects as files below ``root``, which need not exist before the first put.

    ``namespace`` is the URL that addresses begin with; ``file://<root>`` if empty. With a ``signer``, :meth:`presign` makes URLs
    for a server that checks them with the same one. ``modes`` are the permissions of new files and folders. ``foreign``: others
    name the files, and a listing includes those whose names are not valid keys. With a ``confinement`` no symbolic link leads out
    of the root: :class:`ForbiddenError` for anything behind one. A pickled copy has no signer: its secret stays in this process.
    """

    def __init__(
        self,
        root: Path,
        namespace: str = "",
        signer: UrlSigner | None = None,
        modes: Modes = PRIVATE,
        *,
        foreign: bool = False,
        confinement: Confinement | None = None,
    ) -> None:
        self._root = Path(root).absolute()
        self._root_slash = str(self._root).rstrip("/") + "/"
        self._namespace = namespace.rstrip("/") or "file://" + str(self._root).rstrip("/")
        self._signer = signer
        self.foreign = foreign
        self._modes = modes
        self._confinement = confinement
        self.files = files_below(self._root, confinement)
        """The files by their paths."""
        self._names = FolderNames(self.files, self._namespace, modes)
        self._swept_by = 0

    def __reduce__(self) -> tuple[object, ...]:
        arguments = self._root, self._namespace, None, self._modes
        return partial(FolderObjects, foreign=self.foreign, confinement=self._confinement), arguments

    def __repr__(self) -> str:
        return f"FolderObjects({str(self._root)!r}, {self._namespace!r})"

    @property
    def namespace(self) -> str:
        """URL of the namespace, without a trailing slash."""
        return self._namespace

    # Reading

    def get(self, key: str) -> bytes:
        """Return the whole object. Cost: one open, one read."""
        with self._open(key) as file:
            return file.readall()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``start``, which counts from the end if negative."""
        return b"".join(self.stream(key, start, length))

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the object, or a part of it, in pieces of 1 MiB. The first piece opens the file."""
        check_byte_range(start, length)
        with self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            rest = size if length is None else length
            file.seek(start if start >= 0 else max(0, size + start))
            while rest > 0:
                piece = file.read(min(rest, PIECE))
                if not piece:
                    return
                rest -= len(piece)
                yield piece

    def open_object(self, key: str) -> tuple[StoredObject, FileIO]:
        """Return the object's description, and the object as an open file, which the caller closes. Cost: one open."""
        path = self.file_of(key)
        with self._names.explained("reading", key):
            file = self._file(path, key)
            return described(key, os.fstat(file.fileno())), file

    def open_file(self, key: str) -> FileIO:
        """Return the object as an open file, which the caller closes. Cost: one open."""
        name = self.name_of(key)  # Path takes longer than opening the file
        with self._names.explained("reading", key):
            return self._file(name, key)

    def file_of(self, key: str) -> Path:
        """Return the path of an object's file, existing or not: for programs that read and write by themselves. No request."""
        self._check(key)
        return self._root / key

    def name_of(self, key: str) -> str:
        """Return the path of :meth:`file_of` as text, in a tenth of the time. No request."""
        self._check(key)
        return f"{self._root_slash}{key}"

    def head(self, key: str) -> StoredObject:
        """Return size, ETag and time."""
        path = self.file_of(key)
        with self._names.explained("reading", key):
            return described(key, self._status(path, key))

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Yield objects in the order of their keys' bytes. Reads the folders on its way, one at a time and not ahead.

        Follows symbolic links, unless confined, but not back into a folder that it is in. InvalidError at a file whose name is
        not UTF-8.
        """
        folder, _, begin = prefix.rpartition("/")
        components = folder.split("/") if folder else []
        if (prefix and not folder and prefix.startswith("/")) or any(
            component in ("", ".", "..", HIDDEN) or "\0" in component for component in components
        ):
            return  # no key begins like this
        yield from self._walk(self._root.joinpath(*components), folder + "/" if folder else "", begin, after, ())

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        """Return the first names of a listing."""
        return page_of(self, prefix, after, folders=folders)

    # Writing

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        """Write an object, durably. Cost: one file written and synced, and its folder; a new folder costs another sync."""
        pieces = [data] if isinstance(data, bytes) else pieces_of_file(data)
        return self.put_pieces(key, pieces if sent is None else _told(pieces, sent), if_absent=if_absent)

    def put_unsynced(self, key: str, data: bytes) -> None:
        """See :class:`graveler.storage.objects.port.UnsyncedObjects`. Cost: one file written."""
        path = self.file_of(key)
        self._sweep_once()
        temporary, lock = self._names.new_temporary(key)
        with self._names.explained("writing", key):
            try:
                # Closing a copy of the descriptor reports errors of writing, and leaves the lock until the file has its name.
                copy = os.dup(lock)
                try:
                    write_all(copy, data)
                finally:
                    os.close(copy)
                try:
                    self.files.link(temporary, path)
                except OSError:  # a new folder, or something exists there
                    with suppress(ObjectConditionError):
                        self._names.assign(key, path, temporary, if_absent=True)
            finally:
                os.close(lock)
                discard(self.files, temporary)

    def sync(self, keys: Sequence[str]) -> builtins.list[str]:
        """See :class:`graveler.storage.objects.port.UnsyncedObjects`. Cost: a sync of each file, and of their folders."""
        failed = []
        folders = set()
        for key in keys:
            path = self.file_of(key)
            try:
                with self._open(key) as file:
                    sync_file(file.fileno())
            except ObjectMissingError:
                continue
            except UnavailableError:
                failed.append(key)
            else:
                folders.add(path.parent)
        for folder in folders:
            with self._names.explained("syncing", str(folder)):
                self._names.settle(folder)
        return failed

    def put_pieces(self, key: str, pieces: Iterable[bytes], *, if_absent: bool = False) -> StoredObject:
        """Write an object as :meth:`put`, from bytes that arrive in pieces. If ``pieces`` raises, nothing is written."""
        with self.writer(key, if_absent=if_absent) as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.finish()

    def writer(self, key: str, *, if_absent: bool = False) -> FolderWriter:
        """Return a writer for a put in pieces. Cost: as :meth:`put`."""
        path = self.file_of(key)
        self._sweep_once()
        if if_absent and self.files.is_file(path):
            self._names.refuse_taken(key, path)
        temporary, descriptor = self._names.new_temporary(key)
        publish = partial(self._names.publish, key, path, if_absent=if_absent)
        return FolderWriter(self.files, temporary, descriptor, partial(self._names.explained, "writing", key), publish)

    def make_folder_of(self, key: str) -> None:
        """Make the folder of an object that another program is to write. It is no object, so it may be lost. Cost: one call of
        the system for each folder that is missing."""
        with self._names.explained("writing", key):
            self.files.make_folders(self.file_of(key).parent, self._names.modes)

    def copy(self, source: str, destination: str) -> None:
        """Write an object with the bytes of another one, durably."""
        self.put_pieces(destination, self.stream(source))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object, durably, and the folders above it that became empty."""
        path = self.file_of(key)
        with self._names.explained("deleting", key):
            try:
                with self._names.locked(key):
                    stored = described(key, self._status(path, key))
                    if if_match is not None and stored.etag != if_match:
                        raise ObjectConditionError(self._namespace, key, f"its ETag is {stored.etag}, not {if_match}")
                    self.files.unlink(path)
            except (ObjectMissingError, FileNotFoundError):
                if if_match is not None:
                    raise ObjectMissingError(self._namespace, key) from None
                return
        with self._names.explained("deleting", key, done=True):
            self._names.prune(path.parent)

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        """Remove objects, one after the other."""
        return delete_each(self, objects)

    def sweep_leftovers(self) -> int:
        """Remove the temporary files of writers that do not live any more, and uploads without a new part for a week; return
        their number. Each writing process calls it once.

        A file goes when its lock is free. A version before locks held none: its files go a day after the last write. That day,
        and the week of an upload, are differences between two times of this file system, whatever this process's clock says. A
        part that is being written keeps its upload. Where the file system has no locks, temporary files stay.
        """
        return sweep(self._names)

    def tidy(self) -> None:
        """Remove the hidden folder, unless it holds files of living writers or unfinished uploads."""
        tidy(self._names)

    # Presigned URLs

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        """Return a URL for ``GET`` or ``PUT`` of this key; UnavailableError without a signer."""
        return self._sign(Grant(self._namespace, key, noted=noted), method, expires_in)

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        """Return a URL for ``PUT`` of one part; UnavailableError without a signer."""
        check_part_number(number)
        return self._sign(Grant(self._namespace, key, upload_id, number), "PUT", expires_in)

    # Uploads in parts

    def create_multipart(self, key: str) -> str:
        """Begin an upload. Its ID holds a checksum of the key, so that parts cannot end up in another object."""
        self._check(key)
        self._sweep_once()
        return self._uploads.create(key)

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Write one part, durably."""
        with self.part_writer(key, upload_id, number) as writer:
            writer.write(data)
            return writer.finish().etag

    def part_writer(self, key: str, upload_id: str, number: int) -> FolderWriter:
        """Return a writer for a part in pieces. If it is not finished, nothing is written."""
        check_part_number(number)
        self._check(key)
        return self._uploads.writer(key, upload_id, number)

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        """Yield the parts of an upload. Cost: one reading of its folder."""
        self._check(key)
        yield from self._uploads.parts(key, upload_id, after)

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Join the parts and give the object its name. Cost: every byte is read and written once more."""
        check_parts(parts)
        self._check(key)
        return self._uploads.complete(key, upload_id, parts, if_absent=if_absent)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts."""
        self._check(key)
        self._uploads.abort(key, upload_id)

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Return nothing: :meth:`sweep_leftovers` removes unfinished uploads."""
        return iter(())

    # Implementation

    @property
    def _uploads(self) -> "FolderUploads":
        from graveler.storage.objects.folder_uploads import FolderUploads  # not needed for whole objects

        return FolderUploads(self._names)

    def _check(self, key: str) -> None:
        check_object_key(key)
        if HIDDEN in key.split("/"):
            raise InvalidError(
                f"object key {key!r}: the name {HIDDEN} is reserved for temporary files; choose another one"
            )

    def _status(self, path: Path, key: str) -> os.stat_result:
        try:
            status = self.files.status(path)
        except OSError as error:
            if error.errno in _ABSENT:
                raise ObjectMissingError(self._namespace, key) from None
            raise
        if not stat.S_ISREG(status.st_mode):
            raise ObjectMissingError(self._namespace, key)
        return status

    @contextmanager
    def _open(self, key: str) -> Iterator[FileIO]:
        path = self.file_of(key)
        with self._names.explained("reading", key), self._file(path, key) as file:
            yield file

    def _file(self, path: Path | str, key: str) -> FileIO:
        try:
            # Do not wait for a writer, in case the path is a named pipe.
            descriptor = self.files.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in _ABSENT:
                raise ObjectMissingError(self._namespace, key) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ObjectMissingError(self._namespace, key)
        return FileIO(descriptor)

    def _walk(
        self, folder: Path, above: str, begin: str, after: str, ancestors: tuple[tuple[int, int], ...]
    ) -> Iterator[StoredObject]:
        """Yield objects in ``folder``, whose keys begin with ``above``; only names that begin with ``begin``."""
        names: list[tuple[str, bool]] = []
        with self._names.explained("listing", above):
            try:
                status = self.files.status(folder)
                if (status.st_dev, status.st_ino) in ancestors:
                    return
                ancestors = (*ancestors, (status.st_dev, status.st_ino))
                with self.files.entries(folder) as entries:
                    for entry in entries:
                        if entry.name.startswith(begin) and entry.name != HIDDEN:
                            is_folder = self.files.is_folder_entry(entry, folder)
                            names.append((entry.name + "/" if is_folder else entry.name, is_folder))
            except OSError as error:
                if error.errno in _ABSENT:
                    return  # removed meanwhile, or not a folder
                raise
        # A folder sorts as its name with the slash, as its keys do: "a-b" < "a/b" < "a0". Code points of texts have the order of
        # their UTF-8 bytes.
        names.sort()
        for name, is_folder in names:
            key = above + name
            if is_folder:
                if key > after or after.startswith(key):
                    yield from self._walk(folder / name, key, "", after, ancestors)
            elif key > after:
                try:
                    if not self.foreign:
                        check_object_key(key)
                    with self._names.explained("listing", key):
                        stored = described(key, self._status(folder / name, key))
                except ObjectMissingError:
                    continue  # deleted since the folder was read, or not a plain file
                yield stored

    def _sweep_once(self) -> None:
        if self._swept_by != os.getpid():
            self._swept_by = os.getpid()
            self.sweep_leftovers()

    def _sign(self, grant: Grant, method: str, expires_in: int) -> str:
        self.file_of(grant.key)
        if self._signer is None:
            raise no_urls(self._namespace)
        return self._signer.sign(grant, method, expires_in)


def _told(pieces: Iterable[bytes], sent: Sent) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        sent(len(piece))  # the caller has written it by now
