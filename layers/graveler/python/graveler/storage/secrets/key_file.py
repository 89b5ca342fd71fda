"""The key that seals a lake's secrets, in a file: 32 random bytes in base64, on a line."""

import binascii
import os
import stat
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.file_modes import Modes
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import ObjectConditionError
from graveler.storage.secrets.keyring import KEY_BYTES, SealingKeyLostError
from graveler.storage.tables.port import Item

LAKES_OWN: Final = "sealing.key"
"""The name of the file in the folder of a lake."""
_BY: Final = "file"
_MOST: Final = 1024
_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class KeyFile(Struct, frozen=True):
    """A key in a file that the operator made and named: others may not read it."""

    path: Path

    def make(self) -> tuple[bytes, Item]:
        """Return the existing key. :class:`UnavailableError` if the file is missing, :class:`InvalidError` if it is not a key."""
        return self._read(), {"by": _BY}

    def find(self, record: Item) -> bytes:
        """Return the existing key. Errors as :meth:`make`."""
        _expect_file(record)
        return self._read()

    def _read(self) -> bytes:
        try:
            return _read(self.path, expect_private=True)
        except FileNotFoundError:
            raise UnavailableError(
                f"the file of the sealing key, {str(self.path)!r}, does not exist; restore it, or for a new lake "
                f"create one: (umask 077; openssl rand -base64 {KEY_BYTES} > {self.path})"
            ) from None


class LakeKeyFile(Struct, frozen=True):
    """The key of a lake in a ``folder``, which is made there when it is first needed."""

    folder: Path
    modes: Modes

    def make(self) -> tuple[bytes, Item]:
        """Return the existing key, or a new one, durably; of several concurrent callers, one makes it."""
        line = b64encode(token_bytes(KEY_BYTES)) + b"\n"
        with suppress(ObjectConditionError):
            FolderObjects(self.folder, modes=self.modes).put(LAKES_OWN, line, if_absent=True)
        return self._read(), {"by": _BY}

    def find(self, record: Item) -> bytes:
        """Return the existing key. :class:`SealingKeyLostError`."""
        _expect_file(record)
        return self._read()

    def _read(self) -> bytes:
        path = self.folder / LAKES_OWN
        try:
            return _read(path, expect_private=False)  # fsck checks the permissions of a lake's files
        except FileNotFoundError:
            raise SealingKeyLostError(
                f"{str(path)!r}, the key that sealed the lake's secrets, is missing (a copy of the lake needs it, too); restore "
                "it, or create new secrets with `graveler keys rotate-signing`"
            ) from None


def _expect_file(record: Item) -> None:
    if record.get("by") != _BY:
        raise UnavailableError(
            f"the lake's secrets were sealed with KMS key {record.get('key')!r}, but a file was given; give that key instead"
        )


def _read(path: Path, *, expect_private: bool) -> bytes:
    """Return the key in a file. ``FileNotFoundError``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            text = file.read(_MOST) if stat.S_ISREG(status.st_mode) else b""
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnavailableError(
            f"the file of the sealing key, {str(path)!r}, cannot be read: {error.strerror}; grant this user the right to"
        ) from None
    if expect_private and status.st_mode & _OTHERS:
        raise InvalidError(f"others can read or change the sealing key in {str(path)!r}; run chmod 600 {path}")
    try:
        key = b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidError(
            f"{str(path)!r} does not contain a sealing key, which is {KEY_BYTES} bytes in base64, as `openssl rand -base64 "
            f"{KEY_BYTES}` prints; name the right file"
        )
    return key
