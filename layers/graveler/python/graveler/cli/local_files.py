"""Local files: walking a folder for an upload, and writing a download completely or not at all."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, Final, NamedTuple

from graveler.cli.terminal import warn
from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.system.links import folder_behind, is_special, kind_of_file, shown, special_files
from graveler.system.temporary_files import file_beside
from graveler.values.ignore_rules import IGNORE_FILE, FolderRules, LeftOutFiles

_IN_MEMORY: Final = 8 << 20


class LeftOut(NamedTuple):
    """Paths that a walk through a folder left out."""

    links: list[str]
    """Symbolic links that were not followed: they lead out of the folder, round in circles, or nowhere."""
    special: list[str]
    """Pipes, sockets and devices, and links to them."""

    def warn(self) -> None:
        """Warn of them, if there are any."""
        if self.links:
            links = "symbolic link was" if len(self.links) == 1 else "symbolic links were"
            warn(
                f"{len(self.links):,} {links} not followed, leading out of the folder, in circles, or nowhere: "
                f"{shown(sorted(self.links))}"
            )
        if self.special:
            warn(f"left out {special_files(sorted(self.special))}, which no object can be")


def warn_of_defaults(number: int, paths: Sequence[str]) -> None:
    """Warn of what is left out by default, if there is something: its number, and some of the paths, as far as they are
    known."""
    if number:
        which = f": {shown(sorted(paths))}" if paths else ""
        files = "file or folder" if number == 1 else "files and folders"
        warn(
            f"left out {number:,} {files} of version control, secrets or tools{which}; --no-ignore takes what is left out"
        )


def files_below(
    folder: Path, left_out: LeftOut | None = None, rules: FolderRules | None = None, ignored: LeftOutFiles | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield each file below ``folder``, with its path relative to it (``/``-separated), in order.

    Symbolic links to files count as files; links to folders are followed inside ``folder``. All else is added to ``left_out``.
    What ``rules`` leave out is added to ``ignored``. :class:`InvalidError` for a name that is not UTF-8.
    """
    yield from _files_in(
        folder,
        [os.path.realpath(folder)],
        LeftOut([], []) if left_out is None else left_out,
        FolderRules.of(ignore=False) if rules is None else rules,
        LeftOutFiles() if ignored is None else ignored,
    )


def _files_in(
    folder: Path, above: list[str], left_out: LeftOut, rules: FolderRules, ignored: LeftOutFiles
) -> Iterator[tuple[Path, str]]:
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
        if rules.is_reading and any(entry.name == IGNORE_FILE and entry.is_file() for entry in children):
            rules = rules.with_file((folder / IGNORE_FILE).read_bytes())
    except OSError as error:
        raise refused("read", folder, error) from None
    for entry in children:
        is_folder = _is_folder(entry)
        reason = rules.reason(entry.name, is_folder=is_folder)
        if reason is not None:
            ignored.add(reason, f"{rules.path}{entry.name}{'/' if is_folder else ''}")
            continue
        if not _is_text(entry.name):
            raise InvalidError(
                f"the name of {entry.path!r} is not UTF-8, so it cannot be the path of an object; rename the file"
            )
        real: str | None = None
        if entry.is_symlink():
            real = folder_behind(entry.path, above[0], above)
            if real is None and not Path(entry.path).is_file():
                (left_out.special if is_special(entry) else left_out.links).append(entry.path)
                continue
        elif entry.is_dir(follow_symlinks=False):
            real = f"{above[-1]}/{entry.name}"
        if real is not None:
            inner = rules.inside(entry.name)
            for file, relative in _files_in(Path(entry.path), [*above, real], left_out, inner, ignored):
                yield file, f"{entry.name}/{relative}"
        elif entry.is_file():
            yield Path(entry.path), entry.name
        elif is_special(entry):
            left_out.special.append(entry.path)


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
def whole(source: Path) -> Iterator[bytes | Path]:
    """Provide a file; of a pipe or a device, and of stdin (``-``), all that it has: the bytes, or a temporary file during the
    context if they are many. Errors of :func:`check_readable`; :class:`UnavailableError` if the temporary folder is full."""
    if str(source) == "-":
        with _all_of(sys.stdin.buffer, "stdin") as data:
            yield data
    elif source.is_dir() or source.is_file() or not source.exists():
        check_readable(source)
        yield source
    else:
        try:
            stream = source.open("rb")
        except OSError as error:
            raise refused("read", source, error) from None
        with stream, _all_of(stream, str(source)) as data:
            yield data


@contextmanager
def _all_of(stream: BinaryIO, name: str) -> Iterator[bytes | Path]:
    try:
        beginning = stream.read(_IN_MEMORY)
    except OSError as error:
        raise refused("read", Path(name), error) from None
    if len(beginning) < _IN_MEMORY:
        yield beginning
        return
    from graveler.storage.spooled import SpooledFile  # loads msgspec, which the help does without

    with SpooledFile(f"buffering {name}", "stdin-") as spilled:
        spilled.write(beginning)
        try:
            copyfileobj(stream, spilled)
        except OSError as error:
            raise refused("read", Path(name), error) from None
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
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):
            raise InvalidError(f"{str(file)!r} is {kind_of_file(mode)}, not a file; upload it by a command of its own")
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


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a folder, or a link to one. A link that goes in circles leads to none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
