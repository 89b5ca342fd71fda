"""Documents about the rules of branches and tags. A field that is not known is an error: a requirement must not be lost by a slip
of the pen, or by a server that is older than its client."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, InvalidError
from graveler.model import Candidate, LakeRule, Rule, RuleReport
from graveler.wire.documents import Pagination

Change = TypeVar("Change", "RuleChange", "LakeRuleChange")


class RuleChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules that a repository gets in place of its present ones. With ``version``, only if these still have that version, as
    with `If-Match`. Those of the lake stay, and must not be among them."""

    rules: tuple[Rule, ...]
    version: int | None = None


class LakeRuleChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules that a lake gets in place of its present ones. With ``version``, only if these still have that version, as with
    `If-Match`. ``in_force`` has no effect: the response to a GET may be sent back."""

    rules: tuple[LakeRule, ...]
    version: int | None = None
    in_force: bool | None = None


class RuleTest(Struct, frozen=True, forbid_unknown_fields=True):
    """A commit to judge as if it came to ``branch``, or became ``tag``: one of the two. With ``rules``, by these instead of those
    in force, as an admin only."""

    ref: str
    branch: str | None = None
    tag: str | None = None
    rules: tuple[Rule, ...] | None = None


class RuleReports(Struct, frozen=True):
    """Reports of rules that only observe, the newest first."""

    pagination: Pagination
    results: tuple[RuleReport, ...]


class CandidateList(Struct, frozen=True):
    """Candidates by ID."""

    pagination: Pagination
    results: tuple[Candidate, ...]


def read_rules(text: bytes, kind: type[Change], name: str) -> Change:
    """Return the rules in a file of TOML, or of JSON, which begins with "{". ``name`` is for messages. :class:`InvalidError`."""
    try:
        if text.lstrip().startswith(b"{"):
            document = msgspec.json.decode(text)
        else:
            import tomllib  # 5 ms, and only for files

            document = tomllib.loads(text.decode())
        return msgspec.convert(document, kind)
    except UNREADABLE as error:
        raise InvalidError(f"{name} has no rules that can be read: {error}") from None
