"""The filesystem class, of its parts: what fsspec finds by the entry point."""

import sys
from typing import Any, Final

from fsspec.compression import compr
from fsspec.core import get_compression

from graveler.files.shared_lake import has_secret
from graveler.files.writer import ObjectWriter, TextObjectWriter
from graveler.filesystem.async_methods import Awaiting
from graveler.filesystem.compressed import CompressedWriter
from graveler.filesystem.failures import told
from graveler.filesystem.moving import Moving
from graveler.filesystem.object_file import CachedFile, ObjectFile
from graveler.filesystem.reading import Reading
from graveler.filesystem.transactions import CommitTransaction
from graveler.filesystem.writing import Writing

_ARROW: Final = "pyarrow.fs"
"""The module whose files no two threads use at once: Arrow keeps a lock from a seek to the end of the read behind it
(``PyReadableFile::ReadAt`` in ``arrow/python/io.cc``)."""


class GravelerFileSystem(Awaiting, Writing, Moving, Reading):
    """A lake as a filesystem: ``graveler://repository/ref/path``.

    ``ref`` is a branch with its uncommitted changes, a tag, a commit ID, or an expression such as ``main~2`` or ``main@``. Writes
    go to branches, and are staged there; ``with fs.transaction:`` makes them one commit. Folders are what the paths of objects
    have in common: making an empty one does nothing. A folder without a name, as in ``a//b``, is neither listed nor walked;
    ``find`` finds what is in it.

    Storage options: ``lake`` is a folder, ``dynamodb://table`` or ``https://host``, by default what :func:`graveler.open` finds,
    or an opened lake; ``objects``, ``region``, ``s3_endpoint_url``, ``dynamodb_endpoint_url``, ``user``, ``login`` and
    ``profile`` are the other arguments of that. With ``snapshot``, the instance reads each ref at the commit that it had when it
    was first read, without uncommitted changes. ``on_error`` is called with each error of the lake before it is raised as one of
    files. Credentials come from the environment or the profile, and are never part of a pickle.

    Nothing is cached but what a commit ID names, so every call sees what others wrote before; but a repository that another
    process deletes, or makes again, is read as before for up to a minute, or until this one changes something there. One
    ``find``, ``glob`` or ``walk`` reads a branch's head and staging tokens once: no commit, merge or reset shows in between;
    single changes that are staged meanwhile may. On a branch it lasts ten minutes at most
    (:class:`graveler.PreconditionError`).

    Errors are ``FileNotFoundError``, ``PermissionError``, ``FileExistsError`` and other kinds of ``OSError``, and
    ``ValueError``; the lake's own error is the ``__cause__``.

    Synchronous methods run in the calling thread, and not on fsspec's event loop; asynchronous ones run them in threads.
    """

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """Open an object, for reading (``r``), writing (``w``) or writing what is not there yet (``x``), as bytes (``b``) or
        text.

        What is written goes to a temporary file, and appears as a whole when the file is closed. A ``with`` block that an
        exception leaves writes nothing; of ``fsspec.open``, whose files close in either case, that is not true. Cost: a lookup,
        and an object read per ``block_size`` (bytes) in small reads, or per larger read; for writing a table read, and at its end
        an object write and a table write.
        """
        if mode == "rb" and compression is None:
            caller = sys._getframe().f_back  # a thread of DuckDB has none
            locked = caller is not None and caller.f_globals.get("__name__") == _ARROW
            return self._open_object(self._place(path), block_size, locked=locked)
        if mode[:1] in ("w", "x"):
            if "b" not in mode:
                text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
                binary = self.open(path, mode.replace("t", "") + "b", block_size, cache_options, compression, **options)
                return TextObjectWriter(
                    binary, text.get("encoding") or "utf-8", text.get("errors"), text.get("newline")
                )
            codec = get_compression(str(path), compression)
            if codec is not None:
                writer = self.open(path, mode, block_size, cache_options, **options)
                return CompressedWriter(writer, compr[codec])
            compression = None
            options["autocommit"] = True  # its own transaction knows the file already
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> "ObjectFile | ObjectWriter":
        """Open an object, for reading (``rb``), writing (``wb``) or writing what is not there yet (``xb``). What is written
        appears as a whole when the file is closed, or never."""
        place = self._place(path)
        if mode == "rb":
            return self._open_object(place, block_size, kind=CachedFile if "cache_type" in options else ObjectFile)
        if mode not in ("wb", "xb"):
            raise ValueError(f"mode {mode!r} is not one of 'rb', 'wb', 'xb'; objects are written as a whole")
        return self._open_writer(place, options, if_absent=mode == "xb")

    @property
    def transaction(self) -> CommitTransaction:
        """The transaction of this thread, or one that a ``with`` block begins. Several threads may have one each; changes in a
        thread without one, such as a library's, belong to the only one there is: ``ValueError`` while there are several."""
        return self.transactions.own

    def start_transaction(self) -> CommitTransaction:
        """Begin a transaction without a ``with`` block; :meth:`end_transaction` ends it. ``ValueError`` if this thread has
        one."""
        transaction = self.transactions.own
        transaction.start()
        return transaction

    def end_transaction(self) -> None:
        """Commit and merge the transaction of this thread, or the only one there is. Does nothing without one."""
        with told("the transaction"):
            transaction = self.transactions.meant
        if transaction is not None:
            transaction.complete()

    def invalidate_cache(self, path: str | None = None) -> None:
        """Do nothing: nothing is cached that could change. A ``snapshot`` stays what it is."""

    def __reduce__(self) -> tuple[object, ...]:
        from fsspec.spec import make_instance

        location, options = self.opened.location, dict(self.storage_options)
        options.pop("lake", None)
        if any(isinstance(one, str) and "://" in one and has_secret(one) for one in (location, *options.values())):
            raise TypeError(
                "a filesystem whose options have a URL with a password cannot be pickled; make it in the other process"
            )
        return make_instance, (type(self), (location,), options)
