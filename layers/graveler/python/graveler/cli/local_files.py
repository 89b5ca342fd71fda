"""Local files: walking a folder for an upload, and writing a download completely or not at all."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, Final

from graveler.cli.terminal import warn
from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.links import folder_behind
from graveler.temporary import file_beside

_IN_MEMORY: Final = 8 << 20
_SHOWN: Final = 10


def files_below(folder: Path, skipped: list[str] | None = None) -> Iterator[tuple[Path, str]]:
    """Yield each file below ``folder``, with its path relative to it (``/``-separated), in order.

    Symbolic links to files count as files; links to folders are followed inside ``folder``. Other links, which lead out of it,
    round in circles or nowhere, are added to ``skipped``. :class:`InvalidError` for a name that is not UTF-8.
    """
    yield from _files_in(folder, [os.path.realpath(folder)], [] if skipped is None else skipped)


def _files_in(folder: Path, above: list[str], skipped: list[str]) -> Iterator[tuple[Path, str]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise refused("read", folder, error) from None
    for entry in found:
        if not _is_text(entry.name):
            raise InvalidError(
                f"the name of {entry.path!r} is not UTF-8, so it cannot be the path of an object; rename the file"
            )
        real: str | None = None
        if entry.is_symlink():
            real = folder_behind(entry.path, above[0], above)
            if real is None and not Path(entry.path).is_file():
                skipped.append(entry.path)
                continue
        elif entry.is_dir(follow_symlinks=False):
            real = f"{above[-1]}/{entry.name}"
        if real is not None:
            for file, relative in _files_in(Path(entry.path), [*above, real], skipped):
                yield file, f"{entry.name}/{relative}"
        elif entry.is_file():
            yield Path(entry.path), entry.name


def warn_of_links(skipped: Sequence[str]) -> None:
    """Warn of symbolic links that were not followed, if there are any."""
    if skipped:
        shown = ", ".join(map(repr, skipped[:_SHOWN])) + (", …" if len(skipped) > _SHOWN else "")
        links = "symbolic link was" if len(skipped) == 1 else "symbolic links were"
        warn(f"{len(skipped):,} {links} not followed, leading out of the folder, in circles, or nowhere: {shown}")


def target_file(named: str | None, name: str) -> Path:
    """Return the file to write an object to that is called ``name``: the one ``named``, or if that is a folder, or ends with a
    slash, a file of the object's name in it; without ``named`` in the working folder. :class:`InvalidError` for an object without
    a name, or if something else than a folder is where a slash says that there is one."""
    folder = Path(named or ".")
    if named is not None and not named.endswith("/") and not folder.is_dir():
        return folder
    target_folder(folder)
    if not name:
        raise InvalidError("the object's path ends with a slash; name a file to write it to")
    return file_for(folder, name)


def target_folder(folder: Path) -> Path:
    """Return a folder to write files to, which may not exist yet. :class:`InvalidError` if it is something else."""
    if folder.exists() and not folder.is_dir():
        raise InvalidError(f"{str(folder)!r} is not a folder, so no file can be written into it; name another one")
    return folder


def file_named(text: str) -> Path:
    """Return the file that an option names. :class:`InvalidError` for a slash at the end, which means a folder."""
    if text.endswith("/"):
        raise InvalidError(f"{text!r} is the name of a folder; name a file")
    return Path(text)


def file_for(folder: Path, relative: str) -> Path:
    """Return the file for an object with this path below the prefix. :class:`InvalidError` for one that no file can have, or that
    would leave ``folder``."""
    parts = relative.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InvalidError(
            f"object {relative!r} cannot be a file below {str(folder)!r}: a part of its path is empty, '.' or '..', or contains "
            "NUL; download it separately, under another name"
        )
    return folder.joinpath(*parts)


@contextmanager
def whole(stream: BinaryIO) -> Iterator[bytes | Path]:
    """Provide all of stdin, ``stream``: the bytes, or a temporary file during the context if they are many.
    :class:`UnavailableError` if it cannot be read, or the temporary folder is full."""
    try:
        beginning = stream.read(_IN_MEMORY)
    except OSError as error:
        raise refused("read", Path("stdin"), error) from None
    if len(beginning) < _IN_MEMORY:
        yield beginning
        return
    from graveler.storage.spooled import SpooledFile  # loads msgspec, which the help does without

    with SpooledFile("buffering stdin", "stdin-") as spilled:
        spilled.write(beginning)
        try:
            copyfileobj(stream, spilled)
        except OSError as error:
            raise refused("read", Path("stdin"), error) from None
        spilled.flush()
        yield spilled.path


def write_file(target: Path, pieces: Iterable[bytes]) -> int:
    """Write a file under a temporary name next to ``target`` and rename it when it is complete. Returns its size. Also removes
    temporary files that killed processes left in the folder.

    :class:`UnavailableError` if the file system refuses; on any error, an older file stays unchanged.
    """
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_beside(target) as (file, temporary):
            for piece in pieces:
                file.write(piece)
                size += len(piece)
            file.close()
            temporary.replace(target)
    except OSError as error:
        raise refused("write", target, error) from None
    return size


def check_readable(file: Path) -> None:
    """Raise :class:`NotFoundError`, :class:`InvalidError` or :class:`UnavailableError` unless ``file`` is a readable file."""
    try:
        if file.is_dir():
            raise InvalidError(f"{str(file)!r} is a folder; use -r to upload it")
        with file.open("rb"):
            return
    except FileNotFoundError:
        raise NotFoundError(f"file {str(file)!r} does not exist") from None
    except OSError as error:
        raise refused("read", file, error) from None


def check_folder(folder: Path) -> None:
    """Raise :class:`NotFoundError` or :class:`InvalidError` unless ``folder`` is a folder."""
    if not folder.exists():
        raise NotFoundError(f"folder {str(folder)!r} does not exist")
    if not folder.is_dir():
        raise InvalidError(f"{str(folder)!r} is not a folder; omit -r to upload a single file")


def refused(doing: str, path: Path, error: OSError) -> UnavailableError:
    """Return the error to raise when the file system refuses."""
    return UnavailableError(f"cannot {doing} {str(path)!r}: {error.strerror or error}")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
