"""The calls that a deployment's functions made, judged by the policies."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.infra.iam import agent
from tests.infra.iam.operations import needs
from tests.infra.iam.policies import Policies, Principal, Request, Right
from tests.infra.iam.templates import REGION, Stacks

_TRANSPORT: Final = {
    "aws:securetransport": "true",
    "aws:principalisawsservice": "false",
    "aws:requestedregion": REGION,
    "s3:tlsversion": "1.3",
}
"""Of every call of a client in AWS: HTTPS, by the newest TLS that both sides know."""


class Call(msgspec.Struct, frozen=True):
    """A call of a client in a function."""

    function: str
    service: str
    operation: str
    parameters: dict[str, Any]

    def requests(self, role: str) -> Iterator[Request]:
        """What it asks for, as the role of the function."""
        reason = f"{self.service}:{self.operation} in {self.function}"
        for action, resource, keys in needs(self.service, self.operation, self.parameters):
            own = {name: value for name, value in _TRANSPORT.items() if action.startswith("s3:") or name[:3] == "aws"}
            yield Request(Principal(role), action, resource, {**own, **keys}, reason)


def recording(folder: Path) -> dict[str, str]:
    """What a function's environment must hold so that its calls are noted in ``folder``, which is made."""
    code, calls = folder / "code", folder / "calls"
    for each in (code, calls):
        each.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(agent.__file__), code / "sitecustomize.py")
    return {"GRAVELER_IAM_CALLS": str(calls), "PYTHONPATH": str(code)}


class Recorded:
    """The calls in a folder; each is judged once. ``role_of`` gives the ARN of the role of a function that is not in the
    templates."""

    def __init__(self, folder: Path, stacks: Stacks, role_of: Callable[[str], str]) -> None:
        self._calls = folder / "calls"
        self._policies = stacks.policies()
        self._roles = {stacks.name(*at): properties["Role"] for *at, properties in stacks.each("AWS::Lambda::Function")}
        self._role_of = role_of
        self._read: dict[Path, int] = {}
        self.used: set[Right] = set()
        """Rights that calls used so far."""
        self.functions: set[str] = set()
        """Functions that made calls so far."""

    @property
    def policies(self) -> Policies:
        """Of the deployment."""
        return self._policies

    def judge(self) -> list[str]:
        """What is not allowed of the calls that came since the last time, each in a sentence."""
        refused = []
        for call in self._new():
            role = self._roles.get(call.function)
            if role is None:
                role = self._roles[call.function] = self._role_of(call.function)
            self.functions.add(call.function)
            for request in call.requests(role):
                decision = self._policies.decide(request)
                self.used |= decision.used
                if decision.refusal:
                    refused.append(decision.refusal)
        return sorted(set(refused))

    def _new(self) -> Iterator[Call]:
        for file in sorted(self._calls.glob("*.jsonl")):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                for line in lines:
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    self._read[file] = self._read.get(file, 0) + len(line)
                    yield msgspec.json.decode(line, type=Call)
