"""Secrets in the environment, and how they are kept out of what others see of a process.

Linux shows the environment that a process was started with in ``/proc/PID/environ`` for as long as it lives, whatever the process
does to it later. So a process that lives long is executed again without its secrets, and children are started without them. Where
they are needed, they go through a file without a name whose descriptor is inherited (:data:`DESCRIPTOR` says which), and are set
within the process, where ``/proc`` does not show them.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final, NoReturn

from graveler.errors import InvalidError

DESCRIPTOR: Final = "GRAVELER_SECRETS_DESCRIPTOR"
"""Names the descriptor of the file with the secrets, a JSON object of variables."""

_NAMES: Final = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_?KEY|API_?KEY|PRIVATE_?KEY", re.IGNORECASE)
_PATHS: Final = re.compile(r"_(FILE|PATH|DIR)$", re.IGNORECASE)
_WITH_PASSWORD: Final = re.compile(r"://[^/@\s:]{0,512}:[^/@\s]{1,512}@")


def is_secret(name: str, value: str) -> bool:
    """Is this variable to be kept from others: by its name (an access key, a token, a password), or as its value is a URL with a
    password? A path of a file with secrets is none itself."""
    if name == DESCRIPTOR:
        return False
    return bool(_NAMES.search(name) and not _PATHS.search(name)) or bool(_WITH_PASSWORD.search(value))


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child that needs no secrets."""
    return {name: value for name, value in environment.items() if not is_secret(name, value)}


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The secret ones of these variables."""
    return {name: value for name, value in environment.items() if is_secret(name, value)}


def withdraw(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Take the secret variables out of ``environment``, so that no child has them; what they were."""
    taken = secrets_of(environment)
    for name in taken:
        del environment[name]
    return taken


@contextmanager
def handed_on(environment: Mapping[str, str]) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """How to start a child with what ``environment`` says, but for its eyes only: the variables to start it with, and the
    descriptors for it to inherit. The child calls :func:`take_over`."""
    secrets = secrets_of(environment)
    if not secrets:
        yield dict(environment), ()
        return
    descriptor = _unnamed_file(json.dumps(secrets).encode())
    try:
        yield {**without_secrets(environment), DESCRIPTOR: str(descriptor)}, (descriptor,)
    finally:
        os.close(descriptor)


def take_over() -> bool:
    """Set the variables that this process was handed by its parent, or by itself before it was executed again; whether there were
    any. Once, before anybody reads the environment. :class:`InvalidError` if the descriptor is of something else."""
    named = os.environ.pop(DESCRIPTOR, "")
    if not named:
        return False
    try:
        with os.fdopen(int(named), "rb") as file:
            os.environ.update(json.load(file))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidError(
            f"{DESCRIPTOR} is {named!r}, which is for graveler's own children; unset it ({error})"
        ) from None
    return True


def execute_again() -> None:
    """Start the program of this process again, in its place and with its arguments, without secrets in its environment; it goes
    on with :func:`take_over`. Returns only if there are none. Nothing may be open that is to stay so."""
    with handed_on(os.environ) as (environment, descriptors):
        if descriptors:
            _execute(environment, *descriptors)


def _execute(environment: Mapping[str, str], descriptor: int) -> NoReturn:
    os.set_inheritable(descriptor, True)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - its own program


def _unnamed_file(data: bytes) -> int:
    """The descriptor of a file with this in it, to be read from its beginning, which nobody finds by a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("graveler")  # in memory
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
