"""The reader's gate, which an import asks before it records an address: a commit must hold nothing that nobody can read.

A reader may not read everywhere: not in the lake's own folder, not views of the system such as ``/proc``, through a server only
below its import sources; and an address has rules, such as a limit on its length. The gate is the function by which readers find
the store of an address, and not a list of those rules.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import Struct

from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.parts import Locate
from graveler.storage.limits import MAX_OBJECT_KEY_BYTES, check_object_key
from graveler.storage.objects.folder import FolderObjects

FILE: Final = "file://"
_FILE: Final = b"file://"
_ANY: Final = "any"
"""Stands for any file of a folder."""
_FOLDERS: Final = 10_000
"""The number of folders to remember."""
_SHOWN: Final = 5
"""The number of refused files that a message names."""
_SHOWN_CHARACTERS: Final = 200


class Refused(NamedTuple):
    """A file or an address that cannot be an object, and why."""

    name: str
    error: ForbiddenError | InvalidError


class Gate(Struct, frozen=True):
    """The addresses that readers of the repository in ``namespace`` may read. ``outside`` finds the store of an address outside
    of it. Can be sent to tasks."""

    namespace: str
    outside: Locate

    def refusal(self, address: str) -> ForbiddenError | InvalidError | None:
        """Return why no reader could read an object at an address; None if readers would try. Cost: a few system calls for a
        file, no request."""
        inside = f"{self.namespace}/"
        try:
            if address.startswith(inside):
                check_object_key(address[len(inside) :])
                return None
            objects, key = self.outside(address)
            return table_refusal(objects.name_of(key)) if isinstance(objects, FolderObjects) else None
        except (ForbiddenError, InvalidError) as error:
            return error

    def folder_refusal(self, folder: str) -> ForbiddenError | InvalidError | None:
        """Return why no reader could read any file that is directly in a folder, an absolute path."""
        return self.refusal(f"{FILE}{folder.rstrip('/')}/{_ANY}")

    def place_refusal(self, folder: str) -> ForbiddenError | InvalidError | None:
        """Return why nobody may read files in a folder, a real path: because of where it is, and not of its name, which does not
        matter to a copy."""
        while isinstance(refusal := self.folder_refusal(folder), InvalidError) and folder != "/":
            folder = os.path.dirname(folder)  # noqa: PTH120 - text, as all paths of a listing
        return None if isinstance(refusal, InvalidError) else refusal


class GateOfMany:
    """A gate that is asked for the addresses of millions of objects in stores: for one of each folder, and for all that are long
    or unusual."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._passed: set[bytes] = set()
        """Folders of which an address passed."""

    def refusals(self, addresses: Sequence[bytes]) -> list[tuple[int, ForbiddenError | InvalidError]]:
        """Return the positions of the addresses, at least one, that the gate refuses, and why. About 0.4 µs each where the folder
        is known, and as :meth:`Gate.refusal` for others, and for files."""
        text = b"\n".join([*addresses, b""])
        usual = b"\0" not in text and b"/\n" not in text and max(map(len, addresses)) <= MAX_OBJECT_KEY_BYTES
        if usual and self._passed.issuperset([address[: address.rfind(b"/")] for address in addresses]):
            return []
        rejections = []
        for number, address in enumerate(addresses):
            folder = address[: address.rfind(b"/")]
            usual = len(address) <= MAX_OBJECT_KEY_BYTES and b"\0" not in address and not address.endswith(b"/")
            if usual and folder in self._passed:
                continue
            refusal = self._gate.refusal(address.decode())
            if refusal is not None:
                rejections.append((number, refusal))
            elif not address.startswith(_FILE):  # any of a folder's files may be a link
                if len(self._passed) >= _FOLDERS:
                    self._passed.clear()
                self._passed.add(folder)
        return rejections


def refused(files: Sequence[Refused]) -> ForbiddenError | InvalidError:
    """Return the error for files that cannot be imported: it names the first ones, and counts all."""
    shown = "; ".join(f"{_shortened(name)}: {error}" for name, error in files[:_SHOWN])
    more = f"; and {len(files) - _SHOWN:,} more" if len(files) > _SHOWN else ""
    these = "1 file" if len(files) == 1 else f"{len(files):,} files"
    kind = ForbiddenError if any(isinstance(error, ForbiddenError) for _, error in files) else InvalidError
    return kind(
        f"{these} cannot be imported, because nobody could read them from the lake; nothing was imported. Move them to another "
        f"place, or rename them, and import again: {shown}{more}"
    )


def table_refusal(file: str) -> ForbiddenError | None:
    """Return why a file cannot be an object: it is the table of a lake that this process has open. One status; no file is opened,
    because closing it would drop the table's locks."""
    from graveler.storage.tables.sqlite_files import is_open_table  # not for lakes on AWS

    with suppress(OSError):  # a file that does not exist is reported by whoever reads it
        if is_open_table(os.stat(file)):  # noqa: PTH116 - a hot path
            return ForbiddenError(f"{FILE}{file} is the table of a lake, or a link to it, and cannot be an object")
    return None


def _shortened(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_CHARACTERS else f"…{name[-_SHOWN_CHARACTERS:]}")
