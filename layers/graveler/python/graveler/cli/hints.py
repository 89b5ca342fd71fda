"""Hints for a command that failed: the names that the user may have meant, and the command or option that helps.

Loaded only after an error. It then asks the lake for one or two pages of names, and does without if the lake does not answer.
"""

import os
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial, wraps
from typing import TYPE_CHECKING, Final, ParamSpec

from graveler.cli.failures import WHAT_DECIDES, NothingBelowError
from graveler.cli.locations import named_by_command, open_lake, open_repository
from graveler.cli.uris import NoAddressError, RefURI, no_branch, parsed_by_command
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
from graveler.values.addresses import SCHEME, Address, ref_address, scheme_of, tag_meant

if TYPE_CHECKING:
    from graveler.cli.locations import Named
    from graveler.remote.any_repository import AnyRepository

Parameters = ParamSpec("Parameters")

_NAMES: Final = 1000
"""The number of names with which a misspelt one is compared."""

_SCHEME_START: Final = re.compile("^(lakefs|graveler)?:?/*")
_MODIFIER: Final = re.compile("[~^@]|[.][.]")
"""The beginning of what a ref expression has behind its ref, or of its second ref."""

_ON_FOLDERS: Final = "To work on everything below it, use -r (get, cp, mv, rm)"


def _if_answered(hint: Callable[Parameters, str]) -> Callable[Parameters, str]:
    """Adapt a hint that asks the lake. Without an answer there is none: the error that is being reported matters."""

    @wraps(hint)
    def adapted(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> str:
        try:
            return hint(*arguments, **keywords)
        except GravelerError:
            return ""

    return adapted


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
        case NoAddressError():
            return no_head(error.text) or _on_this_machine(error.text) or _address_hint(named, error.text)
        case RepositoryNotFoundError():
            return _joined(
                _branch_of_only(named, error.name) or _close(error.name, lambda: _repositories(named)),
                "`graveler repo list` lists all repositories",
            )
        case RefNotFoundError() if no_head(error.ref):
            return no_head(error.ref)
        case RefNotFoundError() if repository:
            opened = partial(open_repository, named, repository)
            return (
                _tag_hint(opened, repository, error)
                or (error.kind == "branch" and _no_branch_hint(opened, repository, error.ref))
                or _repository_in_front(named, error.ref)
                or _moves_hint(opened, repository, error.ref)
                or _path_behind_ref(opened, repository, error.ref)
                or _ref_hint(opened, repository, error)
            )
        case ObjectNotFoundError() if error.path.endswith("/") and not isinstance(error, NothingBelowError):
            return _ON_FOLDERS
        case ObjectNotFoundError() if repository:
            return _ref_in_front(lambda: open_repository(named, repository), repository, error.path) or _path_hint(
                lambda: open_repository(named, repository), repository, error.ref, error.path
            )
        case _:
            return ""


def _repositories(named: "Named | None") -> list[str]:
    return [repository.name for repository in open_lake(named).repositories("", "", _NAMES).results]


def no_head(text: str) -> str:
    """Return a hint for git's name of what is checked out."""
    base = text.rpartition("/")[2].partition("~")[0].partition("^")[0].partition("@")[0]
    if base not in ("HEAD", "FETCH_HEAD", "ORIG_HEAD"):
        return ""
    steps = text.rpartition("/")[2].removeprefix(base)
    return f"Nothing is checked out, so there is no {base}: name the branch, as in lakefs://REPOSITORY/main{steps}"


def _on_this_machine(text: str) -> str:
    """Return a hint for a file in the place of an address; not for the root, or a name with a scheme."""
    if "://" in text or not os.path.lexists(text) or not text.strip("/"):
        return ""
    return f"{text!r} is on this machine; in put and import it stands before the place in the lake, in get behind it"


@_if_answered
def _address_hint(named: "Named | None", text: str) -> str:
    """Return the address that may be meant by a text without a scheme, which begins with a repository, or with a branch of the
    only one."""
    if scheme := scheme_of(text):
        ref = text.removeprefix(scheme).rstrip("/")
        return f"`graveler ls {scheme}{ref}/` lists what there is" if "/" in ref else ""
    words = _SCHEME_START.sub("", text)
    name, _, rest = words.partition("/")
    if not name or "://" in words:
        return ""
    names = _repositories(named)
    if name in names:
        return f"Did you mean {SCHEME}{words}?" if rest else f"{name!r} is a repository: write {SCHEME}{name}/BRANCH/"
    base = _MODIFIER.split(name)[0]
    if len(names) == 1:
        open_lake(named).repository(names[0]).branch(base)
        return f"Did you mean {SCHEME}{names[0]}/{words}?"
    return ""


@_if_answered
def _branch_of_only(named: "Named | None", name: str) -> str:
    """Return a hint for a branch of the only repository in the place of a repository."""
    names = _repositories(named)
    if len(names) == 1:
        open_lake(named).repository(names[0]).branch(name)
        return f"{name!r} is a branch of {names[0]!r}: write {SCHEME}{names[0]}/{name}."
    return ""


@_if_answered
def _path_behind_ref(opened: "Callable[[], AnyRepository]", repository: str, ref: str) -> str:
    """Return a hint for a ref with a path behind it, where only a ref can stand."""
    base, slash, path = ref.partition("/")
    if not slash:
        return ""
    opened().commit_of(base)
    return (
        f"A path cannot stand here, only a ref, such as {SCHEME}{repository}/{base}; `graveler log --path {path}` shows what "
        "changed a path, `graveler stat` what it is"
    )


@_if_answered
def _repository_in_front(named: "Named | None", ref: str) -> str:
    """Return a hint for an address without its scheme, taken for a ref of the default repository."""
    name, slash, rest = ref.partition("/")
    if parsed_by_command() or not slash or name not in _repositories(named):
        return ""
    return f"{name!r} is a repository: write {SCHEME}{name}/{rest}."


@_if_answered
def _ref_in_front(opened: "Callable[[], AnyRepository]", repository: str, path: str) -> str:
    """Return a hint for a ref and a path, or a ref alone, taken for a path on the default branch."""
    ref, _, rest = path.partition("/")
    if parsed_by_command():
        return ""
    opened().commit_of(ref)
    return f"{ref!r} is a ref: write {ref_address(repository, ref)}/{rest}."


@_if_answered
def _no_branch_hint(opened: "Callable[[], AnyRepository]", repository: str, ref: str) -> str:
    """Return a hint for a tag or a commit where only a branch can stand."""
    opened().commit_of(ref)
    return no_branch(repository, ref)


def path_taken_for(repository: "AnyRepository", branch: RefURI, path: str, remedy: str) -> str:
    """Return a warning for a path without uncommitted changes, which may have been meant as a ref: then with the ``remedy``; or
    which nothing has. "" for a path that is there."""
    try:
        repository.commit_of(path)
    except GravelerError:
        prefixes = (path, f"{path.removesuffix('/')}/")
        states = (branch.ref, f"{branch.ref}@")
        if any(repository.list_objects(ref, prefix=prefix, amount=1).results for ref in states for prefix in prefixes):
            return ""
        advice = no_head(path) or f"`graveler ls {branch}/` lists what there is"
        return f"{branch.ref!r} has no path {path!r}, with or without what is staged. {advice}"
    return f"{path!r} was taken for a path on {branch.ref!r}; {remedy}"


@_if_answered
def _moves_hint(opened: "Callable[[], AnyRepository]", repository: str, ref: str) -> str:
    """Return a hint for a step back from a branch that is longer than its history."""
    name = _MODIFIER.split(ref)[0]
    if name == ref:
        return ""
    opened().branch(name)
    branch = ref_address(repository, name)
    if "@{" in ref:
        return f"`graveler reflog {branch}` lists its moves"
    return f"`graveler log {branch}` lists its commits"


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


@_if_answered
def _path_hint(opened: "Callable[[], AnyRepository]", repository: str, ref: str, path: str) -> str:
    """Return a hint from the names in the folder of ``path``; if nothing is there, from those at the top."""
    parent, slash, name = path.removesuffix("/").rpartition("/")
    places = [(parent + slash, name)] + ([("", path.partition("/")[0])] if parent else [])
    repo = opened()
    for folder, misspelt in places:
        page = repo.list_objects(ref, prefix=folder, delimiter="/", amount=_NAMES)
        paths = {item.path.removeprefix(folder).removesuffix("/"): item.path for item in page.results}
        if paths:
            meant = _question([paths[close] for close in _closest(misspelt, paths) if paths[close] != path])
            return _joined(meant, f"`graveler ls {Address(repository, ref, folder)}` lists what there is")
    return ""


@_if_answered
def _close(name: str, names: Callable[[], Iterable[str]]) -> str:
    return _question(_closest(name, names()))


def _closest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names most like ``name``, whatever their case."""
    by_lower: dict[str, list[str]] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    return [match for close in get_close_matches(name.lower(), by_lower, n=3) for match in by_lower[close]]


def _question(names: list[str]) -> str:
    return f"Did you mean {' or '.join(map(repr, names[:3]))}?" if names else ""


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))
