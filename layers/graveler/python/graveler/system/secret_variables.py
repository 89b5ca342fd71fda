"""Secrets in the environment, hidden from other users and from child processes.

Linux shows the environment that a process was started with in ``/proc/PID/environ`` for as long as it lives, whatever the process
does to it later. So a long-lived process executes itself again without its secrets, and starts children without them. Processes
that need the secrets inherit the descriptor of a file without a name (:data:`DESCRIPTOR` holds its number), and set the
variables within the process, where ``/proc`` does not show them.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final, NoReturn

from graveler.errors import InvalidError

DESCRIPTOR: Final = "GRAVELER_SECRETS_DESCRIPTOR"
"""The variable that holds the descriptor of the file with the secrets, a JSON object of variables."""

CHECKS: Final = "GRAVELER_CHECKS"
"""The variable with the settings of checks, or with the path of their file. A document may contain secrets."""

_NAMES: Final = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|ACCESS_?KEY|API_?KEY|PRIVATE_?KEY", re.IGNORECASE)
_PATHS: Final = re.compile(r"_(FILE|PATH|DIR)$", re.IGNORECASE)
_SHORTEST: Final = 6
"""Characters of the shortest value that is masked: shorter ones are parts of words."""
_ACCESS_KEY: Final = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b")
_WITH_PASSWORD: Final = re.compile(r"://[^/@\s:]{0,512}:[^/@\s]{1,512}@")


def is_secret(name: str, value: str) -> bool:
    """Return whether this variable is secret: by its name (an access key, a token, a password), or because its value is a URL
    with a password, or a document with secrets. The path of a file with secrets is not secret itself."""
    if name == DESCRIPTOR:
        return False
    if name == CHECKS:
        return is_document(value)
    return bool(_NAMES.search(name) and not _PATHS.search(name)) or bool(_WITH_PASSWORD.search(value))


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return text with ``***`` in the place of these secrets, of passwords in URLs and of the IDs of AWS's access keys."""
    for secret in sorted({value for value in secrets if len(value) >= _SHORTEST}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _ACCESS_KEY.sub("***", _WITH_PASSWORD.sub("://***@", text))


def is_document(value: str) -> bool:
    """Return whether a variable's value is a document itself, and not the path of a file."""
    return value.lstrip().startswith("{")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child that needs no secrets."""
    return {name: value for name, value in environment.items() if not is_secret(name, value)}


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secret ones of these variables."""
    return {name: value for name, value in environment.items() if is_secret(name, value)}


def withdraw(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Remove the secret variables from ``environment``, so that no child has them; return them."""
    secrets = secrets_of(environment)
    for name in secrets:
        del environment[name]
    return secrets


@contextmanager
def handed_on(environment: Mapping[str, str]) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Yield the variables and descriptors for starting a child with all of ``environment``, but with the secrets for it alone:
    the variables to start it with, and the descriptors for it to inherit. The child calls :func:`take_over`."""
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
    """Set the variables from the parent, or from this process before it executed itself again; return whether there were any.
    Call it once, before any code reads the environment. :class:`InvalidError` if the descriptor is not that of such a file."""
    named = os.environ.pop(DESCRIPTOR, "")
    if not named:
        return False
    try:
        with os.fdopen(int(named), "rb") as file:
            os.environ.update(json.load(file))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidError(
            f"{DESCRIPTOR} is {named!r}, but it is reserved for graveler's own child processes; unset it ({error})"
        ) from None
    return True


def execute_again() -> None:
    """Execute the program of this process again, in its place and with its arguments, without secrets in its environment; it
    continues with :func:`take_over`. Returns only if there are no secrets. Nothing that must stay open may be open."""
    with handed_on(os.environ) as (environment, descriptors):
        if descriptors:
            _execute(environment, *descriptors)


def _execute(environment: Mapping[str, str], descriptor: int) -> NoReturn:
    os.set_inheritable(descriptor, True)
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - its own program


def _unnamed_file(data: bytes) -> int:
    """Return the descriptor of a file without a name with these contents, positioned at its beginning."""
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
