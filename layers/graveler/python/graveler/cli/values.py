"""The form of values: for people as text, for programs as JSON objects with stable field names."""

import time
from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from graveler.cli.terminal import Json, Screen
from graveler.errors import InvalidError
from graveler.lake.objects.noted_times import noted_time
from graveler.text.readable import count as count
from graveler.text.readable import human_size as human_size

if TYPE_CHECKING:
    from graveler.access.keys import AccessKey
    from graveler.access.permissions import Role
    from graveler.access.principal_rules import PrincipalRule
    from graveler.history.reflog import LogEntry
    from graveler.model import Branch, Change, Commit, Conflict, ObjectEntry, Repository, Tag

SHORT = 12
"""Digits of a commit ID shown to people."""

_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow"), "prefix_changed": ("*", "cyan")}
_SUMMED = {"prefix_changed": "with changes below"}


def moment(seconds: int) -> str:
    """Return Unix seconds as local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return f"@{seconds}"


def document_of(value: object) -> Json:
    """Return a value of the lake as the JSON document that it is in the HTTP API."""
    from msgspec import to_builtins  # not for the help

    return to_builtins(value, str_keys=True)  # type: ignore[no-any-return]


def change_line(screen: Screen, change: "Change", before: str = "") -> str:
    """Return ``+ path`` and so on, in its colour, with a text ``before`` the path; behind it, what changed if the bytes did
    not."""
    line = marked(screen, change.type.value, f"{before}{change.path}")
    alone = _changed_alone(change)
    return f"{line}  {screen.paint(f'({alone} alone)', 'dim')}" if alone else line


def _changed_alone(change: "Change") -> str:
    """Return what of an object changed without its bytes; "" if the bytes changed, or one side is missing."""
    old, new = change.before, change.after
    if old is None or new is None or (old.checksum, old.size) != (new.checksum, new.size):
        return ""
    content_type = "content type" if old.content_type != new.content_type else ""
    metadata = "metadata" if dict(old.metadata) != dict(new.metadata) else ""
    return " and ".join(filter(None, (content_type, metadata)))


def marked(screen: Screen, kind: str, text: str) -> str:
    """Return a text with the mark and the colour of a kind of change: ``+ text`` for ``added``, and so on."""
    mark, colour = _MARKS[kind]
    return screen.paint(f"{mark} {screen.safe(text)}", colour)


def change_summary(counts: dict[str, int]) -> str:
    """Return ``2 added, 1 removed``: the number of changes of each type."""
    return ", ".join(f"{counts[kind]:,} {_SUMMED.get(kind, kind)}" for kind in _MARKS if counts.get(kind))


def commit_line(screen: Screen, action: str, commit: "Commit") -> str:
    """Return a line with the action, and the commit that it made."""
    subject = screen.safe(first_line(commit.message))
    return f"{action}: {screen.paint(commit.id[:SHORT], 'yellow')} {subject}".rstrip()


def conflict_lines(screen: Screen, conflicts: "Sequence[Conflict]", source: str, destination: str) -> Iterator[str]:
    """Yield what each side did to each path."""
    names = (f"{screen.safe(source)} (source)", f"{screen.safe(destination)} (destination)")
    width = max(map(len, names))
    for conflict in conflicts:
        yield f"  {screen.paint(screen.safe(conflict.path), 'bold')}"
        for name, side in zip(names, (conflict.source, conflict.destination), strict=True):
            yield f"      {name:<{width}}  {_what_happened(conflict.base, side)}"


def _what_happened(base: "ObjectEntry | None", side: "ObjectEntry | None") -> str:
    if side is None:
        return "removed"
    time = noted_time(side.checksum)
    mark = f"checksum {side.checksum[:8]}" if time is None else f"modified {moment(time // 10**9)}"
    return f"{'added' if base is None else 'changed'}: {side.size:,} bytes, {mark}"


def first_line(text: str) -> str:
    """Return the subject of a message."""
    return text.partition("\n")[0]


def repository_json(repository: "Repository") -> Json:
    """Return a repository's fields."""
    return {
        "name": repository.name,
        "namespace": repository.namespace,
        "default_branch": repository.default_branch,
        "created": repository.created,
        "uid": repository.uid,
        "format_version": repository.format_version,
        "read_only": repository.settings.read_only,
        "protected": list(repository.settings.protected),
        "metadata": dict(repository.settings.metadata),
    }


def branch_json(branch: "Branch") -> Json:
    """Return a branch's fields."""
    return {"name": branch.name, "commit_id": branch.commit_id, "hidden": branch.hidden}


def ref_json(ref: "Branch | Tag") -> Json:
    """Return a branch's or tag's fields."""
    return {"name": ref.name, "commit_id": ref.commit_id}


def entry_json(entry: "ObjectEntry") -> Json:
    """Return an object's fields."""
    return {
        "path": entry.path,
        "size": entry.size,
        "checksum": entry.checksum,
        "mtime": entry.mtime,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "address": entry.address,
    }


def change_json(change: "Change") -> Json:
    """Return a difference's fields, with the object before and after it."""
    return {
        "type": change.type.value,
        "path": change.path,
        "before": None if change.before is None else entry_json(change.before),
        "after": None if change.after is None else entry_json(change.after),
    }


def conflict_json(conflict: "Conflict") -> Json:
    """Return the fields of an object that both sides changed."""
    sides = {"base": conflict.base, "source": conflict.source, "destination": conflict.destination}
    return {"path": conflict.path} | {side: None if e is None else entry_json(e) for side, e in sides.items()}


def commit_json(commit: "Commit") -> Json:
    """Return a commit's fields."""
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "message": commit.message,
        "committer": commit.committer,
        "created": commit.created,
        "metadata": dict(commit.metadata),
        "generation": commit.generation,
        "metarange_id": commit.metarange_id,
    }


def reflog_json(entry: "LogEntry") -> Json:
    """Return the fields of a reference log entry."""
    return {
        "time_ns": entry.event.time_ns,
        "operation": entry.event.operation,
        "operation_id": entry.event.operation_id,
        "by": entry.event.by,
        "old": entry.old,
        "new": entry.new,
    }


def read_role(text: str) -> "Role":
    """Return the role of a key or a rule. :class:`InvalidError` for another word."""
    from graveler.access.permissions import Role

    try:
        return Role(text)
    except ValueError:
        raise InvalidError(f"--role {text!r} is not one of {', '.join(role.value for role in Role)}") from None


def listed_limits(holder: "AccessKey | PrincipalRule") -> dict[str, str]:
    """Return the patterns that limit a key or a rule as text, ``all`` without any."""
    limits = {"repositories": ", ".join(holder.repositories) or "all", "branches": ", ".join(holder.branches) or "all"}
    return {**limits, "statuses": ", ".join(holder.statuses)} if holder.statuses else limits


def limits_text(holder: "AccessKey | PrincipalRule") -> str:
    """Return the limits of a key or a rule behind its name."""
    return "".join(f"  {kind} {text}" for kind, text in listed_limits(holder).items() if getattr(holder, kind))


def plain(value: Any) -> Any:
    """Return a value that JSON has: numbers, texts, lists and objects; everything else as text: bytes in hexadecimal digits, and
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as a number that JSON lacks is not the same as none."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)
