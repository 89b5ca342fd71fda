"""Hints for a command that failed: the names that the user may have meant, and the command or option that helps.

Loaded only after an error. It then asks the lake for one or two pages of names, and does without if the lake does not answer.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Final

from graveler.addresses import SCHEME, Address, ref_address, tag_meant
from graveler.cli.failures import WHAT_DECIDES, NothingBelowError
from graveler.cli.locations import named_by_command, open_lake, open_repository
from graveler.cli.uris import parsed_by_command
from graveler.errors import (
    EmptySourceError,
    GravelerError,
    MergeConflictError,
    NotCommittedError,
    ObjectNotFoundError,
    ParentNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnexpectedHeadError,
)

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository

_NAMES: Final = 1000
"""The number of names with which a misspelt one is compared."""

_ON_FOLDERS: Final = "To work on everything below it, use -r (get, cp, mv, rm)"


def hint_for(error: GravelerError) -> str:
    """Return sentences that follow the message of ``error``; "" if there is nothing to add."""
    named, repository = named_by_command()
    match error:
        case NotCommittedError() | ParentNotFoundError():
            return ""
        case MergeConflictError():
            return WHAT_DECIDES
        case UnexpectedHeadError() if repository:
            return f"`graveler log {ref_address(repository, error.ref)}` shows what came since"
        case EmptySourceError():
            return "`--allow-empty` allows it"
        case RepositoryNotFoundError():
            return _joined(
                _close(
                    error.name, lambda: (found.name for found in open_lake(named).repositories("", "", _NAMES).results)
                ),
                "`graveler repo list` lists all repositories",
            )
        case RefNotFoundError() if repository:
            opened = partial(open_repository, named, repository)
            return _tag_hint(opened, repository, error) or _ref_hint(opened, repository, error)
        case ObjectNotFoundError() if error.path.endswith("/") and not isinstance(error, NothingBelowError):
            return _ON_FOLDERS
        case ObjectNotFoundError() if repository:
            return _path_hint(lambda: open_repository(named, repository), repository, error.ref, error.path)
        case _:
            return ""


def _tag_hint(opened: "Callable[[], AnyRepository]", repository: str, error: RefNotFoundError) -> str:
    """Return a hint for a path whose beginning is a tag with a slash."""
    for address in parsed_by_command():
        if address.repository == repository and address.ref == error.ref:
            meant = tag_meant(error, address, lambda *page: opened().tags(*page))
            return "" if meant is None else f"T{meant.sentence()[1:]}"
    return ""


def _ref_hint(opened: "Callable[[], AnyRepository]", repository: str, error: RefNotFoundError) -> str:
    kinds = [kind for kind in ("branch", "tag") if error.kind in ("", kind)]
    name = error.ref
    for mark in "~^@":
        name = name.partition(mark)[0]

    def names() -> Iterable[str]:
        for kind in kinds:
            page = opened().branches("", "", _NAMES) if kind == "branch" else opened().tags("", "", _NAMES)
            yield from (ref.name for ref in page.results)

    commands = [f"`graveler {kind} list {SCHEME}{repository}`" for kind in kinds]
    lists = "list" if len(commands) > 1 else "lists"
    return _joined(_close(name, names), f"{' and '.join(commands)} {lists} what there is")


def _path_hint(opened: "Callable[[], AnyRepository]", repository: str, ref: str, path: str) -> str:
    """Return a hint from the names in the folder of ``path``; if nothing is there, from those at the top."""
    parent, slash, name = path.removesuffix("/").rpartition("/")
    places = [(parent + slash, name)] + ([("", path.partition("/")[0])] if parent else [])
    try:
        repo = opened()
        for folder, wanted in places:
            page = repo.list_objects(ref, prefix=folder, delimiter="/", amount=_NAMES)
            found = {item.path.removeprefix(folder).removesuffix("/"): item.path for item in page.results}
            if found:
                meant = _question([found[close] for close in _closest(wanted, found) if found[close] != path])
                return _joined(meant, f"`graveler ls {Address(repository, ref, folder)}` lists what there is")
    except GravelerError:
        return ""
    return ""


def _close(name: str, names: Callable[[], Iterable[str]]) -> str:
    try:
        return _question(_closest(name, names()))
    except GravelerError:  # the error that is being reported matters, not this one
        return ""


def _closest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most like ``name``, whatever their case."""
    by_lower: dict[str, list[str]] = {}
    for one in names:
        by_lower.setdefault(one.lower(), []).append(one)
    return [one for close in get_close_matches(name.lower(), by_lower, n=3) for one in by_lower[close]]


def _question(names: list[str]) -> str:
    return f"Did you mean {' or '.join(map(repr, names[:3]))}?" if names else ""


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
