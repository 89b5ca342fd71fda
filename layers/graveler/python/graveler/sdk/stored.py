"""Objects of a ref, for reading, and objects of a branch, also for writing."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, overload

from graveler import requests
from graveler.errors import AlreadyExistsError, GravelerError, ObjectNotFoundError
from graveler.files.reader import READ_AHEAD, check_mode, open_reader
from graveler.files.repository import RepositoryAccess
from graveler.files.writer import ObjectWriter, TextObjectWriter
from graveler.lake.context import Context
from graveler.model import ObjectEntry
from graveler.storage.spooled import SpooledFile
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.system.tracebacks import are_short, short_tracebacks, shortened
from graveler.values.addresses import Address

ReadMode: TypeAlias = Literal["r", "rt", "rb"]
WriteMode: TypeAlias = Literal["w", "wt", "wb", "x", "xt", "xb"]


@short_tracebacks("stat")
class StoredObject:
    """An object, by repository, ref and path. A handle makes no request until a verb is called, which then may raise
    :class:`ObjectNotFoundError`."""

    def __init__(self, repository: RepositoryAccess, ref: str, path: str) -> None:
        self._access = repository
        self._ref = ref
        self._path = path

    @property
    def repo(self) -> str:
        """Name of the repository."""
        return self._access.id

    @property
    def ref(self) -> str:
        """The ref as given."""
        return self._ref

    @property
    def path(self) -> str:
        """The object's path in the repository."""
        return self._path

    def stat(self) -> ObjectEntry:
        """Return size, checksum, time, content type, metadata and address. Cost as :meth:`OpenRepository.stat`."""
        try:
            return self._access.repository.stat(self._ref, self._path)
        except GravelerError as error:  # here, as a call more is 3 % of a lookup
            __tracebackhide__ = are_short()
            raise shortened(error)  # noqa: B904 - the same error

    def exists(self) -> bool:
        """Return whether the object exists at the ref. Cost as :meth:`stat`. :class:`RefNotFoundError` if the ref does
        not exist."""
        try:
            self.stat()
        except ObjectNotFoundError:
            return False
        return True

    @overload
    def reader(self, mode: Literal["rb"] = "rb", *, buffer_size: int = READ_AHEAD) -> io.BufferedReader: ...

    @overload
    def reader(
        self,
        mode: Literal["r", "rt"],
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        buffer_size: int = READ_AHEAD,
    ) -> io.TextIOWrapper: ...

    def reader(
        self,
        mode: ReadMode = "rb",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        buffer_size: int = READ_AHEAD,
    ) -> io.BufferedReader | io.TextIOWrapper:
        """Open the object as a seekable file of bytes (``"rb"``) or text (``"r"``, UTF-8 by default).

        The file shows the object as of now, whatever is staged at its path later. Read from the first byte to the last, it raises
        :class:`DamagedObjectError` from the final read if the bytes are not the recorded ones. A seek to anywhere but the
        beginning turns that off: then only their number is compared. ``buffer_size`` is in bytes. Cost: :meth:`stat`, and one
        object read per ``buffer_size`` read in small pieces, per larger read, and for a read of the whole rest.
        :class:`ObjectNotFoundError`, :class:`InvalidError` for other modes.
        """
        return open_reader(
            self._access.repository.open_object(self._ref, self._path),
            mode,
            encoding=encoding,
            errors=errors,
            newline=newline,
            buffer_size=buffer_size,
        )

    def copy(self, destination_branch_id: str, destination_path: str) -> "WriteableObject":
        """Stage the same object at another path or on another branch, without copying bytes. Cost and errors as :class:`Copy`."""
        self._access.repository.run(
            requests.staging.Copy(
                branch=destination_branch_id,
                source_path=self._path,
                destination_path=destination_path,
                source_ref=self._ref,
            )
        )
        return WriteableObject(self._access, destination_branch_id, destination_path)

    def __str__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(Address(self.repo, self._ref, self._path))!r})"


@short_tracebacks()
class WriteableObject(StoredObject):
    """An object of a branch, for reading and writing."""

    def upload(
        self,
        data: str | bytes | Path,
        mode: WriteMode = "w",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        if_match: str = "",
        progress: ObjectProgress = no_object_progress,
    ) -> "WriteableObject":
        """Write the object and stage it; readers of the branch see it at once.

        ``data`` is bytes, text (written as UTF-8), or the path of a file, which may have any size. With mode ``"x"``, write only
        if the branch has no such object, and with ``if_match`` only if its object has this ETag, the ``checksum`` of :meth:`stat`
        (``"*"``: any object): one of several concurrent writers wins. The default ``content_type`` is
        ``application/octet-stream``, whatever the path. ``progress`` is called with numbers of objects and bytes, as they are
        written. Cost as :class:`Upload`. :class:`AlreadyExistsError`, :class:`ObjectChangedError`, :class:`ObjectNotFoundError`,
        :class:`RefNotFoundError`; ``TypeError`` for data of another kind.
        """
        check_mode(mode, "wx", encoding=None, errors=None, newline=None)
        if not isinstance(data, str | bytes | Path):
            raise TypeError(f"an object's data must be bytes, text or the Path of a file, not {type(data).__name__}")
        content = data.encode() if isinstance(data, str) else data
        self._upload(content, mode, content_type, metadata, progress, if_match=if_match)
        return self

    @overload
    def writer(
        self,
        mode: Literal["wb", "xb"] = "wb",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectWriter: ...

    @overload
    def writer(
        self,
        mode: Literal["w", "wt", "x", "xt"],
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextObjectWriter: ...

    def writer(
        self,
        mode: WriteMode = "wb",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> ObjectWriter | TextObjectWriter:
        """Open a file for writing the object, as bytes (``"wb"``) or text (``"w"``, UTF-8 by default).

        Written data goes to a temporary file. Closing uploads it and stages the object, as :meth:`upload` does; a ``with`` block
        left by an exception leaves the branch unchanged. Cost: one table read now (and :meth:`stat`, for ``"x"``), the rest on
        close. :class:`InvalidError` for other modes; :class:`AlreadyExistsError` now or on close; :class:`UnavailableError` if
        the temporary folder is full.
        """
        binary = check_mode(mode, "wx", encoding=encoding, errors=errors, newline=newline)
        self._access.repository.branch(self._ref)  # before the caller writes gigabytes for a missing branch
        if mode[0] == "x" and self.exists():
            raise AlreadyExistsError("object", self._path)
        writer = ObjectWriter(
            self._path,
            SpooledFile(f"writing object {self._path!r}", "object-"),
            lambda file: self._upload(file, mode, content_type, metadata),
        )
        return writer if binary else TextObjectWriter(writer, encoding or "utf-8", errors, newline)

    def delete(self, *, if_match: str = "") -> None:
        """Remove the object from the branch, with ``if_match`` only if it has this ETag; a missing object is no error. Cost as
        :class:`Delete`. :class:`ObjectChangedError`."""
        request = requests.staging.Delete(branch=self._ref, objects=(self._path,), if_match=if_match)
        self._access.repository.run(request)

    def move(self, destination_path: str) -> "WriteableObject":
        """Move the object to another path on its branch and return the new handle. Cost and errors as :class:`Move`."""
        request = requests.staging.Move(branch=self._ref, source_path=self._path, destination_path=destination_path)
        self._access.repository.run(request)
        return WriteableObject(self._access, self._ref, destination_path)

    def update_metadata(self, metadata: Mapping[str, str]) -> ObjectEntry:
        """Replace the object's own metadata and return the updated object. Cost and errors as :class:`UpdateMetadata`."""
        request = requests.staging.UpdateMetadata(branch=self._ref, path=self._path, metadata=metadata)
        return self._access.repository.run(request)

    def _upload(
        self,
        data: bytes | Path,
        mode: WriteMode,
        content_type: str | None,
        metadata: Mapping[str, str] | None,
        progress: ObjectProgress = no_object_progress,
        *,
        if_match: str = "",
    ) -> None:
        request = requests.staging.Upload(
            branch=self._ref,
            path=self._path,
            content_type=content_type or "",
            metadata=metadata or {},
            if_absent=mode[0] == "x",
            if_match=if_match,
        )
        self._access.repository.run(request, Context(body=data, progress=progress))
