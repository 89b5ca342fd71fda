"""The lake's own settings of checks: commands, Lambda functions, secrets of webhooks, and private hosts that webhooks may have.

Rules name these entries, and cannot make any: whoever sets a rule must not choose what runs on the machine that checks. So the
settings are neither in the table nor in the lake's folder, but in the environment of each process that runs checks: the variable
GRAVELER_CHECKS is the path of a file of TOML, or a JSON document (for the functions of a deployment)::

    private_hosts = ["hooks.internal:8080"]      # a port, or any

    [commands]
    dbt = ["dbt", "test", "--project-dir", "/srv/dbt"]

    [lambdas]
    quality = "arn:aws:lambda:eu-central-1:123456789012:function:quality"

    [secrets]
    hooks = "…"

A secret may also be the ARN of one in AWS Secrets Manager, which is read each time that a request is signed.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from graveler.errors import UNREADABLE, CheckSettingsError, InvalidError
from graveler.system.secret_variables import CHECKS, is_document

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_STORED: Final = re.compile(r"arn:[^:]+:secretsmanager:")
"""The beginning of the ARN of a secret in Secrets Manager."""


class CheckFunction(Struct, frozen=True, forbid_unknown_fields=True):
    """The function of a deployment that makes checks of the kinds ``sql`` and ``lambda``: the ARNs of the state ``machine`` that
    calls it and of the function itself (``name``), and the bytes of ``memory`` and of files that a check of SQL may have."""

    machine: str
    name: str
    memory: int
    most_bytes: int


class CheckSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Entries by name: ``commands`` are programs with their arguments, ``lambdas`` names or ARNs of functions, ``secrets`` keys
    that sign the requests of webhooks. ``private_hosts`` are hosts, or ``host:port``, to which webhooks may connect although
    their addresses are not public, and without TLS. ``function`` is what a deployment has for checks that take long."""

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lambdas: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    private_hosts: tuple[str, ...] = ()
    function: CheckFunction | None = None

    def secret(self, name: str) -> str:
        """Return a secret. One request to AWS if the entry is the ARN of one there. :class:`InvalidError` without an entry."""
        value = self.secrets.get(name)
        if value is None:
            raise InvalidError(f"the settings of checks have no secret {name!r} any more; add it again")
        if not _STORED.match(value):
            return value
        from graveler.storage.secrets.secrets_manager import read_secret  # boto3

        return read_secret(value)

    def permits(self, host: str, port: int) -> bool:
        """Return whether a webhook may connect to this host though it is private."""
        return host in self.private_hosts or f"{host}:{port}" in self.private_hosts


_decode: Final = msgspec.json.Decoder(CheckSettings).decode


def settings_of_process(environment: Mapping[str, str] = os.environ) -> CheckSettings:
    """Return the settings that the environment of this process names; none of any if it does not. Cost: a file is read.
    :class:`CheckSettingsError` for what is no such document, and for a file that others may write, or that has secrets and others
    may read."""
    text = environment.get(CHECKS, "").strip()
    if not text:
        return CheckSettings()
    try:
        settings = _decode(text.encode()) if is_document(text) else _read(Path(text).expanduser())
    except UNREADABLE as error:
        # The message of a parser may quote a secret; that of the decoder names fields.
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it cannot be parsed"
        raise CheckSettingsError(reason) from None
    for name, command in settings.commands.items():
        if not command or not all(command):
            raise CheckSettingsError(f"command {name!r} is empty; give a program and its arguments")
    return settings


def _read(path: Path) -> CheckSettings:
    import tomllib  # 5 ms, only where there is such a file

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            document = tomllib.load(file)
    except OSError as error:
        raise CheckSettingsError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    settings = msgspec.convert(document, CheckSettings)
    if mode & _OTHERS_WRITE:
        raise CheckSettingsError(
            f"other users may write {str(path)!r}, whose commands run here; run `chmod go-w {path}`"
        )
    if settings.secrets and mode & _OTHERS_READ:
        raise CheckSettingsError(f"{str(path)!r} has secrets, but other users may read it; run `chmod 600 {path}`")
    return settings
