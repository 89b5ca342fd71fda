"""An object of a ref, to read; an object of a branch, to write too."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, overload

from graveler.errors import AlreadyExistsError, ObjectNotFoundError
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.sdk.access import RepositoryAccess
from graveler.sdk.reader import READ_AHEAD, check_mode, open_reader
from graveler.sdk.writer import ObjectWriter, TextObjectWriter
from graveler.storage.spooled import SpooledFile

ReadMode: TypeAlias = Literal["r", "rt", "rb"]
WriteMode: TypeAlias = Literal["w", "wt", "wb", "x", "xt", "xb"]


class StoredObject:
    """An object by repository, ref and path. A handle asks nothing until a verb is called; :class:`ObjectNotFoundError` comes
    from there."""

    def __init__(self, repository: RepositoryAccess, ref: str, path: str) -> None:
        self._repository = repository
        self._ref = ref
        self._path = path

    @property
    def repo(self) -> str:
        """Name of the repository."""
        return self._repository.id

    @property
    def ref(self) -> str:
        """The ref as it was given."""
        return self._ref

    @property
    def path(self) -> str:
        """The key in the lake."""
        return self._path

    def stat(self) -> ObjectEntry:
        """Size, checksum, time, content type, metadata, address. Cost as :meth:`OpenRepository.stat`."""
        return self._repository.verbs.stat(self._ref, self._path)

    def exists(self) -> bool:
        """Whether the ref has it. Cost as :meth:`stat`. :class:`RefNotFoundError` if there is no such ref."""
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
        """The object as a seekable file of bytes (``"rb"``) or text (``"r"``, UTF-8 unless told otherwise).

        It shows the object as it is now, whatever is staged under its path meanwhile. Who reads it from the first byte to the
        last gets :class:`DamagedObjectError` from the read that comes to the end, if the bytes are not those that the lake
        noted. A seek to elsewhere than the beginning turns that off: then only their number is compared. ``buffer_size`` in
        bytes. Cost: :meth:`stat`, and one object read for each ``buffer_size`` read in small pieces, for each larger read, and
        for all the rest at once. :class:`ObjectNotFoundError`, :class:`InvalidError` for other modes.
        """
        return open_reader(
            self._repository.verbs.open_object(self._ref, self._path),
            mode,
            encoding=encoding,
            errors=errors,
            newline=newline,
            buffer_size=buffer_size,
        )

    def copy(self, destination_branch_id: str, destination_path: str) -> "WriteableObject":
        """Stage the same object on a branch under another path, or on another branch. No byte is copied. Cost and errors as
        :class:`Copy`."""
        self._repository.verbs.copy(destination_branch_id, self._path, destination_path, source_ref=self._ref)
        return WriteableObject(self._repository, destination_branch_id, destination_path)

    def __str__(self) -> str:
        return self._path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({f'lakefs://{self.repo}/{self._ref}/{self._path}'!r})"


class WriteableObject(StoredObject):
    """An object of a branch."""

    def upload(
        self,
        data: str | bytes | Path,
        mode: WriteMode = "w",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> "WriteableObject":
        """Write the object and stage it; readers of the branch see it at once.

        ``data`` is bytes, text (written as UTF-8), or the path of a file, which is uploaded whatever its size. With mode
        ``"x"``, only if the branch has no such object: of several at once, one wins. Cost: as :class:`Upload`.
        :class:`AlreadyExistsError`, :class:`RefNotFoundError`; ``TypeError`` for data of another kind.
        """
        check_mode(mode, "wx", encoding=None, errors=None, newline=None)
        if not isinstance(data, str | bytes | Path):
            raise TypeError(f"an object's data is bytes, text or the Path of a file, not {type(data).__name__}")
        self._upload(data.encode() if isinstance(data, str) else data, mode, content_type, metadata)
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
        """A file to write the object to, of bytes (``"wb"``) or text (``"w"``, UTF-8 unless told otherwise).

        What is written goes to a temporary file. Closing uploads it and stages the object, as :meth:`upload`; a ``with`` block
        that is left by an exception leaves the branch as it was. Cost: one table read now (those of :meth:`stat` too, for
        ``"x"``), the rest when it is closed. :class:`InvalidError` for other modes; :class:`AlreadyExistsError` now or then;
        :class:`UnavailableError` if the temporary folder is full.
        """
        binary = check_mode(mode, "wx", encoding=encoding, errors=errors, newline=newline)
        self._repository.verbs.branch(self._ref)  # before anybody writes gigabytes for a branch that is not there
        if mode[0] == "x" and self.exists():
            raise AlreadyExistsError("object", self._path)
        writer = ObjectWriter(
            self._path,
            SpooledFile(f"writing object {self._path!r}", "object-"),
            lambda file: self._upload(file, mode, content_type, metadata),
        )
        return writer if binary else TextObjectWriter(writer, encoding or "utf-8", errors, newline)

    def delete(self) -> None:
        """Remove the object from the branch; one that is not there is no error. Cost: as :class:`Delete`."""
        self._repository.verbs.delete(self._ref, [self._path])

    def move(self, destination_path: str) -> "WriteableObject":
        """Give the object another path on its branch; the handle on it there. Cost and errors as :class:`Move`."""
        self._repository.verbs.move(self._ref, self._path, destination_path)
        return WriteableObject(self._repository, self._ref, destination_path)

    def update_metadata(self, metadata: Mapping[str, str]) -> ObjectEntry:
        """Replace the object's own metadata; the object as it is then. Cost and errors as
        :class:`UpdateMetadata`."""
        return self._repository.verbs.update_metadata(self._ref, self._path, metadata)

    def _upload(
        self, data: bytes | Path, mode: WriteMode, content_type: str | None, metadata: Mapping[str, str] | None
    ) -> None:
        self._repository.verbs.upload(
            self._ref,
            self._path,
            data,
            content_type=content_type or DEFAULT_CONTENT_TYPE,
            metadata=metadata,
            if_absent=mode[0] == "x",
        )
