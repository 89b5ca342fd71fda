"""The setting ``checks``: what rules of a deployment may name in their checks, as the module of the same name in
``graveler.lake.gates.checks`` has it.

Functions run no programs, so it has no commands. A secret is named by the ARN of one in Secrets Manager, which a function reads
when it signs a request: neither the templates nor the configuration of a function holds it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LAMBDA: Final = re.compile(r"arn:[^:]+:lambda:[^:]+:[^:]*:function:[\w-]{1,64}(:[\w$-]{1,128})?")
SECRET: Final = re.compile(r"arn:[^:]+:secretsmanager:[^:]+:[^:]*:secret:[\w/+=.@-]+-[A-Za-z0-9]{6}")
"""A whole one: policies match no ARN without the six characters that Secrets Manager adds
(https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_iam-permissions.html)."""
_HOST: Final = re.compile(r"[A-Za-z0-9.:\[\]-]{1,260}")
_NAME: Final = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True)
class Checks:
    """Entries that rules name: ``lambdas`` are ARNs of functions, ``secrets`` ARNs of secrets in Secrets Manager, both by name;
    ``private_hosts`` are hosts, or ``host:port``, to which webhooks may connect although their addresses are not public."""

    lambdas: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    private_hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lambdas or self.secrets or self.private_hosts)

    @property
    def document(self) -> dict[str, Any]:
        """The entries as a document of JSON, for the functions; those that are empty are left out."""
        entries = {
            "lambdas": dict(self.lambdas),
            "secrets": dict(self.secrets),
            "private_hosts": list(self.private_hosts),
        }
        return {name: entry for name, entry in entries.items() if entry}

    @property
    def chars(self) -> int:
        """The characters that they take in the environment of a function."""
        return len(json.dumps(self.document)) if self else 0

    def problem(self) -> str:
        """Return what is wrong with them, in a sentence; empty if nothing is."""
        for kind, entries, pattern, example in (
            ("lambdas", self.lambdas, LAMBDA, "the ARN of a function: arn:aws:lambda:…:function:…"),
            (
                "secrets",
                self.secrets,
                SECRET,
                "the whole ARN of a secret, which functions read: arn:aws:secretsmanager:…:secret:…-AbCdEf",
            ),
        ):
            for name, arn in entries.items():
                if not _NAME.fullmatch(name):
                    return f"{kind}: the name {name!r} must be 1 to 64 letters, digits, _ . -"
                if not pattern.fullmatch(arn):
                    # What stands in the place of an ARN may be the secret itself.
                    shown = f" {arn!r}" if kind == "lambdas" else ""
                    return f"{kind}: {name!r}{shown} must be {example}"
        strange = next((host for host in self.private_hosts if not _HOST.fullmatch(host)), None)
        return "" if strange is None else f"private_hosts: {strange!r} must be a host, or host:port"


def parsed_checks(value: Any) -> Checks:
    """Return the setting's value: an object, or JSON of one. ``ValueError`` says what it is not."""
    document = json.loads(value) if isinstance(value, str) else value
    if not isinstance(document, Mapping):
        raise ValueError("it must be an object of JSON")
    if "commands" in document:
        raise ValueError("a function runs no commands; leave them out, and name a function of Lambda instead")
    unknown = sorted(set(document) - set(Checks.__dataclass_fields__))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: unknown; known are {', '.join(Checks.__dataclass_fields__)}")
    for name in ("lambdas", "secrets"):
        entries = document.get(name, {})
        if not isinstance(entries, Mapping) or not all(isinstance(arn, str) for arn in entries.values()):
            raise ValueError(f"{name} must be ARNs by name")
    hosts = document.get("private_hosts", ())
    if not isinstance(hosts, list | tuple) or not all(isinstance(host, str) for host in hosts):
        raise ValueError("private_hosts must be a list of hosts")
    return Checks(dict(document.get("lambdas", {})), dict(document.get("secrets", {})), tuple(hosts))
