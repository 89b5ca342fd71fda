"""What a shell offers behind Tab: names of repositories and branches. `graveler --install-completion` tells the shell to ask.

Whatever goes wrong, nothing is offered and nothing is said: the user is in the middle of a line.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import typer

from graveler.cli.places import open_lake
from graveler.cli.uris import SCHEME
from graveler.errors import GravelerError

_MOST: Final = 100


def repositories(context: typer.Context, incomplete: str) -> list[str]:
    """Repositories, as a bare name or a URI."""
    start = SCHEME if incomplete.startswith(SCHEME) else ""
    return [start + name for name in _repositories(context, incomplete.removeprefix(SCHEME))]


def branches(context: typer.Context, incomplete: str) -> list[str]:
    """URIs of branches; before there is a slash behind the repository, those of repositories."""
    if not incomplete.startswith(SCHEME):
        return [f"{SCHEME}{name}/" for name in _repositories(context, "")] if SCHEME.startswith(incomplete) else []
    name, slash, prefix = incomplete.removeprefix(SCHEME).partition("/")
    if not slash:
        return [f"{SCHEME}{found}/" for found in _repositories(context, name)]
    with suppress(GravelerError), open_lake(_lake(context)) as lake:
        page = lake.repository(name).branches(prefix, amount=_MOST)
        return [f"{SCHEME}{name}/{branch.name}" for branch in page.results]
    return []


def _repositories(context: typer.Context, prefix: str) -> Iterator[str]:
    with suppress(GravelerError), open_lake(_lake(context)) as lake:
        for repository in lake.repositories(prefix, amount=_MOST).results:
            yield repository.name


def _lake(context: typer.Context) -> Path | None:
    """What ``--lake`` says, behind the verb or before it."""
    named = context.params.get("lake") or context.find_root().params.get("lake")
    return named if isinstance(named, Path) else None
