"""What a shell offers behind Tab: names of repositories, branches and tags, and paths. `graveler --install-completion` tells the
shell to ask.

Whatever goes wrong, nothing is offered and nothing is said: the user is in the middle of a line.

bash cuts words at colons (``COMP_WORDBREAKS``): of ``lakefs://lake/m`` it passes three words, and replaces the last one,
``//lake/m``, by what is offered. :func:`join_words` puts such words together again, and what was in front is left out of offers.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

from graveler.cli.locations import Named, open_lake
from graveler.cli.options import named_location
from graveler.cli.uris import SCHEME
from graveler.errors import GravelerError

if TYPE_CHECKING:
    from graveler.anywhere import AnyRepository
    from graveler.model import Branch, Tag

_MOST: Final = 100
_FRONT: Final = "_GRAVELER_COMPLETE_FRONT"
"""A variable with what stands in the user's word before what bash takes for it."""

Offers = Callable[[typer.Context, str], list[str]]


def join_words(environment: dict[str, str]) -> dict[str, str]:
    """The variables to change in the ``environment`` of a completion by bash; none for anything else."""
    if environment.get("_GRAVELER_COMPLETE") != "complete_bash" or not environment.get("COMP_CWORD", "").isdecimal():
        return {}
    words = environment.get("COMP_WORDS", "").split("\n")
    last = int(environment["COMP_CWORD"])
    joined: list[str] = []
    open_end = False
    front = ""
    for at, word in enumerate(words[: last + 1]):
        glued = bool(joined) and (open_end or word == ":")
        whole = joined.pop() + word if glued else word
        if at == last:
            front = whole[: len(whole) - len(word)] if word != ":" else whole
            whole = "" if word == ":" else word
        joined.append(whole)
        open_end = word == ":"
    return {"COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1), _FRONT: front}


def _in_one_word(offers: Offers) -> Offers:
    """Offers for the user's word, cut as bash has cut it."""

    def cut(context: typer.Context, incomplete: str) -> list[str]:
        front = os.environ.get(_FRONT, "")
        with suppress(GravelerError):
            return [offer.removeprefix(front) for offer in offers(context, front + incomplete)]
        return []

    return cut


@_in_one_word
def repositories(context: typer.Context, incomplete: str) -> list[str]:
    """Repositories, as a bare name or a URI."""
    start = SCHEME if incomplete.startswith(SCHEME) else ""
    return [start + name for name in _repositories(context, incomplete.removeprefix(SCHEME))]


@_in_one_word
def branches(context: typer.Context, incomplete: str) -> list[str]:
    """URIs of branches; before there is a slash behind the repository, those of repositories."""
    return _refs(context, incomplete, lambda opened, prefix: opened.branches(prefix, amount=_MOST).results)


@_in_one_word
def tags(context: typer.Context, incomplete: str) -> list[str]:
    """URIs of tags, as :data:`branches`."""
    return _refs(context, incomplete, lambda opened, prefix: opened.tags(prefix, amount=_MOST).results)


@_in_one_word
def objects(context: typer.Context, incomplete: str) -> list[str]:
    """URIs of objects, and of folders up to the next slash; before there is one behind the ref, as :data:`branches`."""
    name, _, rest = incomplete.removeprefix(SCHEME).partition("/")
    ref, slash, prefix = rest.partition("/")
    if not incomplete.startswith(SCHEME) or not slash:
        return _refs(context, incomplete, lambda opened, start: opened.branches(start, amount=_MOST).results)
    with open_lake(_named(context)) as lake:
        page = lake.repository(name).list_objects(ref, prefix=prefix, delimiter="/", amount=_MOST)
        return [f"{SCHEME}{name}/{ref}/{item.path}" for item in page.results if "\n" not in item.path]


def _refs(
    context: typer.Context, incomplete: str, find: "Callable[[AnyRepository, str], Iterable[Branch | Tag]]"
) -> list[str]:
    if not incomplete.startswith(SCHEME):
        return [f"{SCHEME}{name}/" for name in _repositories(context, "")] if SCHEME.startswith(incomplete) else []
    name, slash, prefix = incomplete.removeprefix(SCHEME).partition("/")
    if not slash:
        return [f"{SCHEME}{found}/" for found in _repositories(context, name)]
    with open_lake(_named(context)) as lake:
        return [f"{SCHEME}{name}/{ref.name}" for ref in find(lake.repository(name), prefix)]


def _repositories(context: typer.Context, prefix: str) -> Iterator[str]:
    with open_lake(_named(context)) as lake:
        for repository in lake.repositories(prefix, amount=_MOST).results:
            yield repository.name


def _named(context: typer.Context) -> Named:
    """What the options say about where the lake is, behind the verb or before it."""
    behind = context.params.get("lake")
    return named_location(context, behind if isinstance(behind, Named) else None)
