"""Keys that can be names of files, all of them side by side in one folder."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from unicodedata import normalize

import msgspec
import xxhash

from graveler.errors import InvalidError
from graveler.model import ObjectEntry

IS_FOLDER: Final = "is also a folder of another object"
IS_MARKER: Final = "is an empty folder marker"
IS_ALIKE: Final = "differs from another object only by case, which this file system ignores"
_NO_NAMES: Final = frozenset(("", ".", ".."))
_SHOWN: Final = 10


class UnwritableKeysError(InvalidError):
    """Objects that cannot be files were left out; or, unless ``is_rest_written``, stop everything. ``problems`` are all of them,
    path and reason, in the order of the paths."""

    def __init__(self, problems: Iterable[tuple[str, str]], *, is_rest_written: bool = True) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        subject = f"{count} object{'s' if count != 1 else ''} cannot be {'files' if count != 1 else 'a file'}"
        shown = "; ".join(f"{path[:200]!r} {reason}" for path, reason in self.problems[:_SHOWN])
        shown += "; …" if count > _SHOWN else ""
        if is_rest_written:
            super().__init__(
                f"{subject}, and {'are' if count != 1 else 'is'} left out: {shown}. Everything else is written; rename them to "
                "have them, too"
            )
        else:
            super().__init__(
                f"{subject}: {shown}. Nothing was written; rename them, or leave them out as `graveler get -r` does"
            )


class FileNames(msgspec.Struct, frozen=True):
    """The limits of a file system: ``longest`` bytes in a name, ``room`` bytes in all names of a path together. ``reserved`` are
    the names in the outermost folder that are not for objects. ``folds`` is whether names that differ only by case, or by the
    Unicode composition of their characters, name the same file."""

    longest: int
    room: int
    reserved: frozenset[str]
    folds: bool = False

    @classmethod
    def below(cls, folder: Path, reserved: frozenset[str]) -> "FileNames":
        """Return the limits for files in ``folder``, which need not exist yet."""
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        # One byte for the slash behind the folder, one for the NUL that the limit includes.
        room = os.pathconf(existing, "PC_PATH_MAX") - len(os.fsencode(folder)) - 2
        return cls(os.pathconf(existing, "PC_NAME_MAX"), room, reserved, folds_case(existing))

    def problem(self, name: str) -> str | None:
        """Return why an object cannot be the file ``name``, a path relative to the folder; None if it can."""
        parts = name.split("/")
        if not _NO_NAMES.isdisjoint(parts):
            return "has an empty, '.' or '..' component"
        if "\0" in name:
            return "contains NUL"
        if parts[0] in self.reserved:
            return "has the name of a file in which the export keeps its own state"
        if len(name.encode()) > self.room or max(len(part.encode()) for part in parts) > self.longest:
            return f"is too long: each name can have {self.longest} bytes, and the whole path {self.room}"
        return None

    def problem_of(self, entry: ObjectEntry, prefix: str) -> str | None:
        """Return why an object cannot be a file named by the rest of its path; :data:`IS_MARKER` for a folder marker."""
        problem = self.problem(entry.path[len(prefix) :])
        return IS_MARKER if problem and entry.path.endswith("/") and not entry.size else problem


def folds_case(folder: Path) -> bool:
    """Return whether the file system of an existing folder ignores the case of names, as macOS does by default. It looks for a
    folder above under its own name in the other case, and writes nothing; False if no name there has letters."""
    device = folder.stat().st_dev
    for ancestor in (folder, *folder.parents):
        if ancestor.parent == ancestor or ancestor.parent.stat().st_dev != device:
            return False  # the name of a mount point belongs to the file system above
        other = ancestor.with_name(ancestor.name.swapcase())
        if other != ancestor:
            return other.exists() and other.samefile(ancestor)
    return False


def unwritable(entries: Callable[[], Iterable[ObjectEntry]], prefix: str, names: FileNames) -> Mapping[str, str]:
    """Return those of the objects below ``prefix``, in the order of their paths, that cannot be files side by side: path and
    reason. Reads ``entries`` once; three times if the file system ignores case."""
    problems: dict[str, str] = {}

    def possible() -> Iterator[str]:
        for entry in entries():
            problem = names.problem_of(entry, prefix)
            if problem is None:
                yield entry.path
            else:
                problems[entry.path] = problem

    for path in files_that_are_folders(possible()):
        problems[path] = IS_FOLDER
    if names.folds:
        problems |= dict.fromkeys(alike(lambda: (path for path in possible() if path not in problems)), IS_ALIKE)
    return problems


def alike(names: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Yield those of ``names`` that a file system that ignores case takes for an earlier one, or for a folder of another one.
    No name is a folder of another one as it stands. Reads the names twice; memory for a number for each."""
    files: set[int] = set()
    folders: set[int] = set()
    doubtful: set[int] = set()
    for name in names():
        key, *above = _folded_keys(name)
        (doubtful if key in files else files).add(key)
        folders.update(above)
    doubtful |= files & folders
    yielded: set[int] = set()
    for name in names() if doubtful else ():
        key = _folded_keys(name)[0]
        if key in doubtful:
            if key in yielded or key in folders:
                yield name
            yielded.add(key)


def _folded_keys(name: str) -> list[int]:
    """Return a number that stands for the name without case, and one for each folder above it."""
    folded = normalize("NFC", normalize("NFC", name).casefold())
    keys = [xxhash.xxh3_128_intdigest(folded.encode(errors="surrogatepass"))]
    slash = folded.find("/", 1)
    while slash > 0:
        keys.append(xxhash.xxh3_128_intdigest(folded[:slash].encode(errors="surrogatepass")))
        slash = folded.find("/", slash + 1)
    return keys


def files_that_are_folders(names: Iterable[str]) -> Iterator[str]:
    """Yield those of ``names``, which ascend, that are also a folder of another one, once for each of these. Memory for some
    names."""
    above: list[str] = []
    for name in names:
        while above and not name.startswith(above[-1]):
            above.pop()
        for folder in above:
            if name[len(folder)] == "/":
                yield folder
        above.append(name)
