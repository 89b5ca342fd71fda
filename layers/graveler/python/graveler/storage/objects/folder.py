"""The objects port on a folder: a key is the path of a plain file below the root.

Any number of threads and processes may use one folder. These rules hold even through ``kill -9`` and a power cut:

- A put writes and syncs a temporary file, gives it its name in one step, and syncs the folders that changed. So an object exists
  as a whole or not at all, and an old one stays until the new one is complete.
- Put-if-absent is ``link(2)``: the file system lets one of many win.
- Overwriting and deleting take a lock of the key, so that a conditional delete never hits a newer object than it looked at.
- Temporary files lie in the folder :data:`HIDDEN`, which no key can name and no listing shows. Their writer holds a lock on each,
  which the kernel releases when the process ends; the next writer removes those whose lock is free
  (:mod:`graveler.storage.owned_files`).

Bound to a file system, it has two limits that S3 does not have: ``x`` and ``x/y`` cannot both be objects, and a part of a key
between two slashes is at most 255 bytes in most file systems. ETags need time stamps in nanoseconds (ext4, XFS, Btrfs, APFS, NFS
4 and EFS have them).
"""

import builtins
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from zlib import crc32

from graveler.errors import GravelerError, InvalidError, UnavailableError
from graveler.storage.durable_files import not_synced, sync_file, unavailable
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.limits import check_byte_range, check_object_key, check_part_number, check_parts
from graveler.storage.objects.confined_folder import Beneath, Confinement
from graveler.storage.objects.port import (
    Noted,
    ObjectConditionError,
    ObjectMissingError,
    Page,
    Sent,
    StoredObject,
    UnfinishedUpload,
    UploadMissingError,
    delete_each,
    page_of,
)
from graveler.storage.objects.presigned import Grant, UrlSigner, no_urls
from graveler.storage.owned_files import LOCKED, abandoned, create_owned
from graveler.system.random_bytes import random_bytes

HIDDEN = ".graveler-tmp"
"""Folder in the root for temporary files, parts of uploads, and locks. No component of a key may have this name."""

_PIECE = 1 << 20
_UNLOCKED_AGE = 24 * 3600
"""Seconds after which a file of a version that did not lock its files counts as abandoned."""
_UPLOAD_AGE = 7 * 24 * 3600
"""Seconds after the last part for which an unfinished upload stays: clients and servers come and go between two parts, so no
process owns it."""
_LOCK_STRIPES = 64
_LOCK_WAIT = 30.0
_ATTEMPTS = 100
_MAX_SETTLED = 10_000
_ABSENT = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP, errno.ENXIO))
"""Also the errors for something else than a plain file, such as a socket."""


class FolderObjects:
    """Objects as files below ``root``, which need not exist before the first put.

    ``namespace`` is the URL that addresses begin with; ``file://<root>`` if empty. With a ``signer``, :meth:`presign` makes URLs
    for a server that checks them with the same one. ``modes`` are the permissions of new files and folders. ``foreign``: others
    name the files, and a listing includes those whose names are not valid keys. With a ``confinement`` no symbolic link leads out
    of the root: :class:`ForbiddenError` for anything behind one.
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
        self._hidden = self._root / HIDDEN
        self._writes = self._hidden / "writes"
        self.files = Beneath(self._root, confinement)
        """The files by their paths."""
        # Folders whose own name this process knows to be durable, with device and inode.
        self._settled: dict[Path, tuple[int, int]] = {}
        self._swept_by = 0

    def __reduce__(self) -> tuple[object, ...]:
        arguments = self._root, self._namespace, self._signer, self._modes
        return partial(FolderObjects, foreign=self.foreign, confinement=self.files.confinement), arguments

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
                piece = file.read(min(rest, _PIECE))
                if not piece:
                    return
                rest -= len(piece)
                yield piece

    def open_object(self, key: str) -> tuple[StoredObject, FileIO]:
        """Return the object's description, and the object as an open file, which the caller closes. Cost: one open."""
        path = self._path(key)
        with self._explained("reading", key):
            file = self._file(path, key)
            return _described(key, os.fstat(file.fileno())), file

    def open_file(self, key: str) -> FileIO:
        """Return the object as an open file, which the caller closes. Cost: one open."""
        name = self.name_of(key)  # Path takes longer than opening the file
        with self._explained("reading", key):
            return self._file(name, key)

    def file_of(self, key: str) -> Path:
        """Return the path of an object's file, existing or not: for programs that read and write by themselves. No request."""
        return self._path(key)

    def name_of(self, key: str) -> str:
        """Return the path of :meth:`file_of` as text, in a tenth of the time. No request."""
        self._check(key)
        return f"{self._root_slash}{key}"

    def head(self, key: str) -> StoredObject:
        """Return size, ETag and time."""
        path = self._path(key)
        with self._explained("reading", key):
            return _described(key, self._status(path, key))

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
        pieces = [data] if isinstance(data, bytes) else _pieces_of_file(data)
        return self.put_pieces(key, pieces if sent is None else _told(pieces, sent), if_absent=if_absent)

    def put_unsynced(self, key: str, data: bytes) -> None:
        """See :class:`graveler.storage.objects.port.UnsyncedObjects`. Cost: one file written."""
        path = self._path(key)
        self._sweep_once()
        temporary, lock = self._new_temporary(key)
        with self._explained("writing", key), _Removed(self.files, temporary, always=True):
            try:
                # Closing a copy of the descriptor reports errors of writing, and leaves the lock until the file has its name.
                descriptor = os.dup(lock)
                try:
                    _write(descriptor, data)
                finally:
                    os.close(descriptor)
                try:
                    self.files.link(temporary, path)
                except OSError:  # a new folder, or something exists there
                    with suppress(ObjectConditionError):
                        self._name(key, path, temporary, if_absent=True)
            finally:
                os.close(lock)

    def sync(self, keys: Sequence[str]) -> builtins.list[str]:
        """See :class:`graveler.storage.objects.port.UnsyncedObjects`. Cost: a sync of each file, and of their folders."""
        failed = []
        folders = set()
        for key in keys:
            path = self._path(key)
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
            with self._explained("syncing", str(folder)):
                self._settle(folder)
        return failed

    def put_pieces(self, key: str, pieces: Iterable[bytes], *, if_absent: bool = False) -> StoredObject:
        """Write an object as :meth:`put`, from bytes that arrive in pieces. If ``pieces`` raises, nothing is written."""
        with self.writer(key, if_absent=if_absent) as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.finish()

    def writer(self, key: str, *, if_absent: bool = False) -> "FolderWriter":
        """Return a writer for a put in pieces. Cost: as :meth:`put`."""
        path = self._path(key)
        self._sweep_once()
        if if_absent and self.files.is_file(path):
            self._refuse_taken(key, path)
        temporary, descriptor = self._new_temporary(key)
        publish = partial(self._publish, key, path, if_absent=if_absent)
        return FolderWriter(self.files, temporary, descriptor, partial(self._explained, "writing", key), publish)

    def copy(self, source: str, destination: str) -> None:
        """Write an object with the bytes of another one, durably."""
        self.put_pieces(destination, self.stream(source))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object, durably, and the folders above it that became empty."""
        path = self._path(key)
        with self._explained("deleting", key):
            try:
                with self._locked(key):
                    stored = _described(key, self._status(path, key))
                    if if_match is not None and stored.etag != if_match:
                        raise ObjectConditionError(self._namespace, key, f"its ETag is {stored.etag}, not {if_match}")
                    self.files.unlink(path)
            except (ObjectMissingError, FileNotFoundError):
                if if_match is not None:
                    raise ObjectMissingError(self._namespace, key) from None
                return
        with self._made_durable("deleting", key):
            self._prune(path.parent)

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
        removed = 0
        now: float | None = None
        for path in self._children(self._writes):
            with suppress(OSError, GravelerError), abandoned(self.files, path) as status:  # another process sweeps too
                if status is None:
                    continue
                if not path.name.startswith(LOCKED):
                    now = self._now() if now is None else now
                    if status.st_mtime > now - _UNLOCKED_AGE:
                        continue
                self.files.unlink(path)
                removed += 1
        for folder in self._children(self._hidden / "uploads"):
            with suppress(OSError, GravelerError):
                now = self._now() if now is None else now
                if self.files.status(folder).st_mtime < now - _UPLOAD_AGE and not self._is_written_to(folder):
                    self.files.remove_folder(folder)
                    removed += 1
        return removed

    def tidy(self) -> None:
        """Remove the hidden folder, unless it holds files of living writers or unfinished uploads."""
        self.sweep_leftovers()
        with suppress(OSError, GravelerError):  # not empty, or there is none
            for folder in (self._writes, self._hidden / "uploads"):
                with suppress(FileNotFoundError):
                    self.files.rmdir(folder)
            locks = self._hidden / "locks"
            for path in self._children(locks):
                with abandoned(self.files, path) as status:
                    if status is not None:
                        self.files.unlink(path)
            with suppress(FileNotFoundError):
                self.files.rmdir(locks)
            self.files.rmdir(self._hidden)

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
        self._path(key)
        self._sweep_once()
        upload_id = f"{crc32(key.encode()):08x}-{token_hex(16)}"
        with self._explained("starting an upload of", key):
            self.files.make_root(self._modes)
            for folder in (self._hidden, self._hidden / "uploads", self._hidden / "uploads" / upload_id):
                self.files.make_folder(folder, self._modes)
                self.files.sync(folder.parent)
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Write one part, durably."""
        return self.put_part_pieces(key, upload_id, number, [data])

    def put_part_pieces(self, key: str, upload_id: str, number: int, pieces: Iterable[bytes]) -> str:
        """Write a part as :meth:`put_part`, from bytes that arrive in pieces. If ``pieces`` raises, nothing is written."""
        with self.part_writer(key, upload_id, number) as writer:
            for piece in pieces:
                writer.write(piece)
            return writer.finish().etag

    def part_writer(self, key: str, upload_id: str, number: int) -> "FolderWriter":
        """Return a writer for a part in pieces."""
        check_part_number(number)
        folder = self._upload(key, upload_id)
        temporary, descriptor = self._temporary_of(folder, key, upload_id)

        def publish(temporary: Path, status: os.stat_result) -> StoredObject:
            with self._explained("writing a part of", key), _Removed(self.files, temporary, always=False):
                try:
                    self.files.rename(temporary, folder / str(number))
                except FileNotFoundError:
                    if self.files.is_folder(folder):
                        raise self._robbed(key, temporary) from None
                    raise UploadMissingError(self._namespace, key, upload_id) from None
            with self._made_durable("writing a part of", key):
                self.files.sync(folder)
            return _described(key, status)

        return FolderWriter(self.files, temporary, descriptor, partial(self._explained, "writing", key), publish)

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Join the parts and give the object its name. Cost: every byte is read and written once more."""
        check_parts(parts)
        path = self._path(key)
        folder = self._upload(key, upload_id)
        for number, etag in parts:
            try:
                actual = _described(key, self.files.status(folder / str(number))).etag
            except OSError:
                actual = ""
            if actual != etag:
                raise InvalidError(
                    f"part {number} of the upload of {key!r} with ETag {etag} does not exist; upload it again"
                )
        pieces = (piece for number, _ in parts for piece in _pieces_of_file(folder / str(number), self.files))
        temporary, descriptor = self._temporary_of(folder, key, upload_id)
        publish = partial(self._publish, key, path, if_absent=if_absent)
        explained = partial(self._explained, "writing", key)
        with FolderWriter(self.files, temporary, descriptor, explained, publish) as writer:
            for piece in pieces:
                writer.write(piece)
            stored = writer.finish()
        with suppress(OSError):  # the object is complete; what stays is swept in a week
            self.files.remove_folder(folder)
        return stored

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts."""
        with suppress(UploadMissingError), self._explained("aborting an upload of", key):
            self.files.remove_folder(self._upload(key, upload_id))

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Return nothing: :meth:`sweep_leftovers` removes unfinished uploads."""
        return iter(())

    # Implementation

    def _path(self, key: str) -> Path:
        self._check(key)
        return self._root / key

    def _check(self, key: str) -> None:
        check_object_key(key)
        if HIDDEN in key.split("/"):
            raise InvalidError(
                f"object key {key!r}: the name {HIDDEN} is reserved for temporary files; choose another one"
            )

    def _explained(self, doing: str, key: str) -> "_Explained":
        return _Explained(doing, self._namespace, key)

    @contextmanager
    def _made_durable(self, doing: str, key: str) -> Iterator[None]:
        """Do the same as :meth:`_explained`, for the steps after the operation itself is done."""
        try:
            yield
        except OSError as error:
            raise not_synced(error, f"{doing} {self._namespace}/{key}") from error

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
        path = self._path(key)
        with self._explained("reading", key), self._file(path, key) as file:
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
        with self._explained("listing", above):
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
                    with self._explained("listing", key):
                        stored = _described(key, self._status(folder / name, key))
                except ObjectMissingError:
                    continue  # deleted since the folder was read, or not a plain file
                yield stored

    def _new_temporary(self, key: str) -> tuple[Path, int]:
        """Return a new, hidden file, and its descriptor, which holds its lock."""
        with self._explained("writing", key):
            try:
                return create_owned(self.files, self._writes, self._modes)
            except FileNotFoundError:
                self.files.make_root(self._modes)
                self.files.make_folders(self._writes, self._modes)
                return create_owned(self.files, self._writes, self._modes)

    def _temporary_of(self, folder: Path, key: str, upload_id: str) -> tuple[Path, int]:
        """Return a new file as :meth:`_new_temporary` does, in the folder of an upload: it shows that someone works on it."""
        with self._explained("writing", key):
            try:
                return create_owned(self.files, folder, self._modes)
            except FileNotFoundError:
                raise UploadMissingError(self._namespace, key, upload_id) from None

    def _is_written_to(self, upload: Path) -> bool:
        """Return whether someone writes to an upload, or may do so."""
        for path in self._children(upload):
            if not path.name.isdecimal():  # parts are complete
                with abandoned(self.files, path) as status:
                    if status is None:
                        return True
        return False

    def _now(self) -> float:
        """Return the time of the file system, in Unix seconds, as it gives it to a new file."""
        path, descriptor = self._new_temporary("")
        try:
            return os.fstat(descriptor).st_mtime
        finally:
            os.close(descriptor)
            self.files.unlink(path)

    def _publish(
        self, key: str, path: Path, temporary: Path, status: os.stat_result, *, if_absent: bool
    ) -> StoredObject:
        """Give a complete temporary file its name, durably."""
        with _Removed(self.files, temporary, always=if_absent):
            self._name(key, path, temporary, if_absent=if_absent)
        with self._made_durable("writing", key):
            self._settle(path.parent)
        return _described(key, status)

    def _name(self, key: str, path: Path, temporary: Path, *, if_absent: bool) -> None:
        """Give a complete temporary file its name: another one, or with ``if_absent`` one more."""
        with self._explained("writing", key):
            for _ in range(_ATTEMPTS):
                try:
                    if if_absent:
                        self.files.link(temporary, path)
                    else:
                        with self._locked(key):
                            self.files.rename(temporary, path)
                    break
                except FileNotFoundError:  # a new folder, or a delete pruned it since
                    if not self.files.is_file(temporary):
                        raise self._robbed(key, temporary) from None
                    with suppress(FileExistsError):
                        # The folder was removed. A new one may get its inode, and would pass for settled.
                        for folder in (path.parent, *path.parent.parents):
                            self._settled.pop(folder, None)
                        self.files.make_folders(path.parent, self._modes)
                        continue
                    raise self._clash(key) from None
                except NotADirectoryError:
                    raise self._clash(key) from None
                except (FileExistsError, IsADirectoryError):
                    if not self.files.is_folder(path):
                        self._refuse_taken(key, path)
                    try:
                        self.files.rmdir(path)  # an empty folder is not an object, and may go
                    except OSError as error:
                        if error.errno == errno.ENOTEMPTY:
                            raise self._clash(key) from None
                        if error.errno != errno.ENOENT:
                            raise
            else:
                raise UnavailableError(
                    f"writing {self._namespace}/{key} failed: its folder keeps being removed by others"
                )

    def _robbed(self, key: str, temporary: Path) -> UnavailableError:
        return UnavailableError(
            f"writing {self._namespace}/{key} failed: another program removed its temporary file {str(temporary)!r} before it "
            "was complete; exclude this folder from that program's clean-up, then try again"
        )

    def _clash(self, key: str) -> InvalidError:
        return InvalidError(
            f"object key {key!r} is below another object, or is the folder of one; in a folder, 'x' and 'x/y' cannot both "
            "be objects, choose another key"
        )

    def _refuse_taken(self, key: str, path: Path) -> None:
        # A caller that learns that the object exists builds on it. Its writer may have died before it synced the folder.
        with self._explained("writing", key):
            self._settle(path.parent)
        raise ObjectConditionError(self._namespace, key, "it already exists")

    def _settle(self, folder: Path) -> None:
        """Make the names in ``folder`` durable, and its own name, and so on upwards as far as this process has not done so.

        Every process does this, not only the one that made a folder: that one may not have done it yet, or have died.
        """
        fresh: list[tuple[Path, tuple[int, int]]] = []
        try:
            identity = self.files.sync(folder)
            while folder != self._root and self._settled.get(folder) != identity:
                fresh.append((folder, identity))
                folder = folder.parent
                identity = self.files.sync(folder)
        except FileNotFoundError:
            return  # deleted by another process already, with the object in it
        if len(self._settled) > _MAX_SETTLED:
            self._settled.clear()
        self._settled.update(fresh)

    def _prune(self, folder: Path) -> None:
        """Remove ``folder`` and those above it as far as they are empty; make durable what stays."""
        while folder != self._root:
            try:
                self.files.rmdir(folder)
            except FileNotFoundError:  # another process pruned it
                pass
            except OSError:  # not empty, as a rule; an empty one that stays does no harm
                break
            self._settled.pop(folder, None)
            folder = folder.parent
        with suppress(FileNotFoundError):
            self.files.sync(folder)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Exclude other overwriting puts and deletes of ``key``, in all processes, for some microseconds."""
        path = self._hidden / "locks" / f"{crc32(key.encode()) % _LOCK_STRIPES:02}"
        deadline = time.monotonic() + _LOCK_WAIT
        while True:
            try:
                descriptor = self.files.open_or_create(path, os.O_RDWR, self._modes)
            except FileNotFoundError:
                for folder in (self._hidden, path.parent):
                    self.files.make_folder(folder, self._modes)
                descriptor = self.files.open_or_create(path, os.O_RDWR, self._modes)
            try:
                self._wait_for(descriptor, key, deadline)
                if os.fstat(descriptor).st_nlink:  # else it was tidied up before it was locked
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        try:
            yield
        finally:
            os.close(descriptor)  # which releases the lock, as the death of the process does

    def _wait_for(self, descriptor: int, key: str, deadline: float) -> None:
        pause = 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"changing {self._namespace}/{key} failed: another process has held its lock for "
                        f"{_LOCK_WAIT:.0f} s; is it stopped?"
                    ) from None
                time.sleep(pause)
                pause = min(2 * pause, 0.02)

    def _sweep_once(self) -> None:
        if self._swept_by != os.getpid():
            self._swept_by = os.getpid()
            self.sweep_leftovers()

    def _upload(self, key: str, upload_id: str) -> Path:
        self._path(key)
        folder = self._hidden / "uploads" / upload_id
        begin, _, rest = upload_id.partition("-")
        if begin != f"{crc32(key.encode()):08x}" or not rest.isalnum() or not self.files.is_folder(folder):
            raise UploadMissingError(self._namespace, key, upload_id)
        return folder

    def _children(self, folder: Path) -> builtins.list[Path]:
        try:
            with self.files.entries(folder) as entries:
                return [folder / entry.name for entry in entries]
        except OSError:
            return []

    def _sign(self, grant: Grant, method: str, expires_in: int) -> str:
        self._path(grant.key)
        if self._signer is None:
            raise no_urls(self._namespace)
        return self._signer.sign(grant, method, expires_in)


class _Explained:
    """A block whose ``OSError`` is raised as what was done, and to which object. (A generator takes three times as long.)"""

    __slots__ = ("_doing", "_key", "_namespace")

    def __init__(self, doing: str, namespace: str, key: str) -> None:
        self._doing, self._namespace, self._key = doing, namespace, key

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise unavailable(error, f"{self._doing} {self._namespace}/{self._key}") from error


class _Removed:
    """A block after which a temporary file is removed: ``always``, or only if an exception ends the block."""

    __slots__ = ("_always", "_files", "_path")

    def __init__(self, files: Beneath, path: Path, *, always: bool) -> None:
        self._files, self._path, self._always = files, path, always

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._always or error is not None:
            with suppress(OSError):  # swept later
                self._files.unlink(self._path)


class FolderWriter:
    """An object being written into a folder. Nothing of it is visible before :meth:`finish`. Calls come one after the other, from
    any threads. As a context manager it aborts at the end, unless it is finished."""

    def __init__(
        self,
        files: Beneath,
        temporary: Path,
        descriptor: int,
        explained: Callable[[], AbstractContextManager[None]],
        publish: Callable[[Path, os.stat_result], StoredObject],
    ) -> None:
        self._files = files
        self._temporary = temporary
        self._descriptor = descriptor
        self._explained = explained
        self._publish = publish

    def __enter__(self) -> "FolderWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def write(self, piece: bytes) -> None:
        """Append these bytes."""
        with self._explained():
            _write(self._descriptor, piece)

    def finish(self) -> StoredObject:
        """Make the bytes durable, and give the object its name. Errors as those of :meth:`FolderObjects.put`."""
        try:
            with self._explained():
                # The time is part of the ETag. The system's own stamp has steps of milliseconds, in which a file could be
                # replaced twice and get its first inode again; this one has random last digits.
                moment = time.time_ns()
                moment += int.from_bytes(random_bytes(2), "big") % 1000 - moment % 1000
                os.utime(self._descriptor, ns=(moment, moment))
                sync_file(self._descriptor)
                status = os.fstat(self._descriptor)
        except BaseException:
            self.abort()
            raise
        try:
            return self._publish(self._temporary, status)
        finally:
            self._close()  # which releases the lock

    def abort(self) -> None:
        """Abort, unless it is finished."""
        if self._descriptor >= 0:
            with suppress(OSError):  # swept later
                self._files.unlink(self._temporary)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _described(key: str, status: os.stat_result) -> StoredObject:
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return StoredObject(key, status.st_size, etag, status.st_mtime)


def _told(pieces: Iterable[bytes], sent: Sent) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        sent(len(piece))  # the caller has written it by now


def _pieces_of_file(path: Path, files: Beneath | None = None) -> Iterator[bytes]:
    # Do not wait for a writer, in case the path is a named pipe.
    opener = None if files is None else lambda _, flags: files.open(path, flags | os.O_NONBLOCK)
    try:
        with open(path, "rb", buffering=0, opener=opener) as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise unavailable(error, f"reading {path}") from error
