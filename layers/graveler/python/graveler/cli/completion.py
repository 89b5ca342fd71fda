"""Completion by a shell on Tab: names of repositories, branches and tags, and paths. `graveler --install-completion` makes the
shell ask for it.

On any error, it offers and prints nothing: the user is in the middle of a line.

bash splits words at colons (``COMP_WORDBREAKS``): it passes ``lakefs://lake/m`` as three words, and replaces the last one,
``//lake/m``, by the offer. :func:`join_words` joins such words again, and offers omit the part in front.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import typer

from graveler.cli.defaults import begin_command, default, default_branch
from graveler.cli.locations import Named, open_lake
from graveler.cli.options import named_location
from graveler.errors import GravelerError
from graveler.values.addresses import SCHEMES, quote_ref, scheme_of, unquote_ref

if TYPE_CHECKING:
    from graveler.model import Branch, Tag
    from graveler.remote.any_repository import AnyRepository

_MOST: Final = 100
_FRONT: Final = "_GRAVELER_COMPLETE_FRONT"
"""The variable with the part of the user's word in front of the word that bash replaces."""

_HALF_ESCAPE: Final = re.compile("%2?$")
"""The beginning of an escape of :mod:`graveler.values.addresses`, whose rest is not typed yet."""

Offers = Callable[[typer.Context, str], list[str]]
Find: TypeAlias = "Callable[[AnyRepository, str], Iterable[Branch | Tag]]"
"""Returns the refs of a repository that start so."""


def join_words(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables to change in the ``environment`` of a completion by bash; none for anything else."""
    if environment.get("_GRAVELER_COMPLETE") != "complete_bash" or not environment.get("COMP_CWORD", "").isdecimal():
        return {}
    words = environment.get("COMP_WORDS", "").split("\n")
    last = int(environment["COMP_CWORD"])
    joined: list[str] = []
    open_end = False
    front = ""
    for index, word in enumerate(words[: last + 1]):
        glued = bool(joined) and (open_end or word == ":")
        whole = joined.pop() + word if glued else word
        if index == last:
            front = whole[: len(whole) - len(word)] if word != ":" else whole
            whole = "" if word == ":" else word
        joined.append(whole)
        open_end = word == ":"
    return {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1), _FRONT: front}


def _in_one_word(offers: Offers) -> Offers:
    """Adapt offers for the user's word to the word as bash has split it."""

    def cut(context: typer.Context, incomplete: str) -> list[str]:
        front = os.environ.get(_FRONT, "")
        with suppress(GravelerError):
            return [offer.removeprefix(front) for offer in offers(context, front + incomplete)]
        return []

    return cut


@_in_one_word
def repositories(context: typer.Context, incomplete: str) -> list[str]:
    """Return repositories, as bare names or URIs."""
    start = scheme_of(incomplete)
    return [start + name for name in _repositories(context, incomplete.removeprefix(start))]


@_in_one_word
def branches(context: typer.Context, incomplete: str) -> list[str]:
    """Return URIs of branches; before a slash follows the repository, those of repositories."""
    return _refs(context, incomplete, lambda opened, prefix: opened.branches(prefix, amount=_MOST).results)


@_in_one_word
def tags(context: typer.Context, incomplete: str) -> list[str]:
    """Return URIs of tags, like :data:`branches`."""
    return _refs(context, incomplete, lambda opened, prefix: opened.tags(prefix, amount=_MOST).results)


@_in_one_word
def other_branches(context: typer.Context, incomplete: str) -> list[str]:
    """Return branches of the repository that another argument names, else of the default one; for a URI, those of
    :data:`branches`."""
    return _in_repository(context, incomplete, lambda opened, prefix: opened.branches(prefix, amount=_MOST).results)


@_in_one_word
def other_refs(context: typer.Context, incomplete: str) -> list[str]:
    """Return branches and tags, like :data:`other_branches`."""
    return _in_repository(
        context,
        incomplete,
        lambda opened, prefix: (
            *opened.branches(prefix, amount=_MOST).results,
            *opened.tags(prefix, amount=_MOST).results,
        ),
    )


def _in_repository(context: typer.Context, incomplete: str, find: "Find") -> list[str]:
    repository = "" if scheme_of(incomplete) else _repository_of(context)
    if not repository:
        return _refs(context, incomplete, find)
    with open_lake(_named(context)) as lake:
        return [ref.name for ref in find(lake.repository(repository), incomplete)]


def roles(incomplete: str) -> list[str]:
    """Return the roles of keys and rules."""
    from graveler.access.permissions import Role

    return [role.value for role in Role if role.value.startswith(incomplete)]


def _repository_of(context: typer.Context) -> str:
    """Return the repository that the words of the line name so far, else the default one; "" without one."""
    # Not the context's parameters: it has none if the line ends with an option that still needs its value.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    words = line.split()
    for word in words[:-1] if line[-1:].strip() else words:
        if scheme := scheme_of(word):
            return word.removeprefix(scheme).partition("/")[0]
    begin_command(_named(context))
    place = default()
    return "" if place is None else place.repository


def _objects(context: typer.Context, incomplete: str) -> list[str]:
    """Return URIs of objects, and of folders up to the next slash; before one follows the ref, like :data:`branches`."""
    scheme = scheme_of(incomplete)
    name, _, rest = incomplete.removeprefix(scheme).partition("/")
    ref, slash, prefix = rest.partition("/")
    if not scheme and not _begun_scheme(incomplete):
        return _in_default(context, incomplete)
    if not scheme or not slash:
        return _refs(context, incomplete, lambda opened, start: opened.branches(start, amount=_MOST).results)
    with open_lake(_named(context)) as lake:
        page = lake.repository(name).list_objects(unquote_ref(ref), prefix=prefix, delimiter="/", amount=_MOST)
        return [f"{scheme}{name}/{ref}/{item.path}" for item in page.results if "\n" not in item.path]


objects = _in_one_word(_objects)


def _in_default(context: typer.Context, incomplete: str) -> list[str]:
    """Return paths in the default repository that start so."""
    named = _named(context)
    begin_command(named)
    place = default()
    if place is None:
        return []
    branch = default_branch(place)
    with open_lake(named) as lake:
        page = lake.repository(place.repository).list_objects(branch, prefix=incomplete, delimiter="/", amount=_MOST)
        return [item.path for item in page.results if "\n" not in item.path]


@_in_one_word
def files_or_objects(context: typer.Context, incomplete: str) -> list[str]:
    """Return files of this machine, and folders with a slash; for a URI, those of :data:`objects`."""
    return _objects(context, incomplete) if scheme_of(incomplete) else _files(incomplete)


@_in_one_word
def files(context: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - as of the others
    """Return files of this machine, and folders with a slash."""
    return _files(incomplete)


def _files(incomplete: str) -> list[str]:
    folder, slash, start = incomplete.rpartition("/")
    try:
        with os.scandir(folder + slash or ".") as entries:
            matches = sorted((entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(start))
    except OSError:
        return []
    return [f"{folder}{slash}{name}{'/' if is_folder else ''}" for name, is_folder in matches[:_MOST]]


def _refs(context: typer.Context, incomplete: str, find: "Find") -> list[str]:
    scheme = scheme_of(incomplete)
    if not scheme:
        begun = _begun_scheme(incomplete)
        return [f"{begun}{name}/" for name in _repositories(context, "")] if begun else []
    name, slash, prefix = incomplete.removeprefix(scheme).partition("/")
    if not slash:
        return [f"{scheme}{match}/" for match in _repositories(context, name)]
    typed = _HALF_ESCAPE.sub("", prefix)
    beginning = unquote_ref(typed)
    with open_lake(_named(context)) as lake:
        names = [ref.name.removeprefix(beginning) for ref in find(lake.repository(name), beginning)]
    return [f"{scheme}{name}/{typed}{quote_ref(rest)}" for rest in names]


def _begun_scheme(incomplete: str) -> str:
    """Return the scheme of which a word is the beginning, the first one for an empty word; "" if there is none."""
    return next((scheme for scheme in SCHEMES if scheme.startswith(incomplete)), "")


def _repositories(context: typer.Context, prefix: str) -> Iterator[str]:
    with open_lake(_named(context)) as lake:
        for repository in lake.repositories(prefix, amount=_MOST).results:
            yield repository.name


def _named(context: typer.Context) -> Named:
    """Return the lake that the options name, after the verb or before it."""
    option = context.params.get("lake")
    return named_location(context, option if isinstance(option, Named) else None)
