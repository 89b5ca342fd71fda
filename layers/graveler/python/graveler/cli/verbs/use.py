"""The verb that chooses the default repository and branch."""

from typing import Annotated

import typer

from graveler.cli import completion
from graveler.cli.defaults import default
from graveler.cli.locations import Named, find_default, open_repository
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import output, warn
from graveler.cli.uris import SCHEME
from graveler.errors import InvalidError
from graveler.location.configuration import LakeDefault, change_lake_default, change_profile, find_profile
from graveler.location.environment import is_lake_of, lake_address, unbound_default
from graveler.values.addresses import unquote_ref, without_scheme


def use(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="REPOSITORY",
            help="lakefs://NAME/BRANCH or lakefs://NAME [default: show it]",
            autocompletion=completion.branches,
        ),
    ] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Forget the default repository and branch.")] = False,
    lake: LakeOption = None,
    as_json: AsJson = False,
) -> None:
    """Choose the default repository and branch, or show them.

    Other commands then work without lakefs://: `graveler ls raw/`, `graveler status`, `graveler commit -m Fix`. Where a path can
    stand, an argument is a path on the default branch; elsewhere it is a ref of the default repository. Commands that delete or
    drop something, as `reset`, need their argument. Without a branch, it is the repository's own default branch.

    The choice belongs to the lake, and counts in no other one. It is kept in the profile in use if that names the lake, else
    beside the configuration file. GRAVELER_REPO, as sales or sales/main, comes before it.

    \b
    Examples:
      graveler use lakefs://quickstart/main
      graveler use
      graveler use --unset

    \b
    JSON: one document {repository, branch, by}; by says who chose it. All are
      null if there is none, and branch if the repository's own one is meant.
    """
    from graveler.history.names import check_branch, check_repository
    from graveler.location.environment import REPO

    if unset:
        if place is not None:
            raise InvalidError("--unset forgets the default repository; leave out its name")
        _choose(lake, None)
    elif place is not None:
        repository, _, branch = without_scheme(place).removesuffix("/").partition("/")
        opened = open_repository(lake, check_repository(repository))
        branch = opened.branch(check_branch(unquote_ref(branch))).name if branch else ""
        _choose(lake, LakeDefault(opened.repository.name, branch))
    chosen = default()
    by = None if chosen is None else getattr(find_default(lake), "by", None)
    screen = output(as_json=as_json)
    if (unset or place is not None) and by == REPO:
        warn(f"{REPO} is set, and comes before what `graveler use` keeps; unset it to use that")
    if chosen is None:
        sentence = f"no default repository; `graveler use {SCHEME}REPOSITORY/BRANCH` chooses one"
        screen.answer({"repository": None, "branch": None, "by": by}, sentence)
        return
    shown = f"{SCHEME}{chosen.repository}{f'/{chosen.branch}' if chosen.branch else ''}"
    document = {"repository": chosen.repository, "branch": chosen.branch or None, "by": by}
    screen.answer(document, f"{shown}  {screen.paint(f'({by})', 'dim')}")


def _choose(lake: Named | None, chosen: LakeDefault | None) -> None:
    """Keep the choice where :func:`find_default` looks: in the profile in use if that names the lake, else for the lake."""
    name = None if lake is None else lake.profile
    profile = find_profile(name)
    is_bound = profile is not None and is_lake_of(profile, lake)
    is_named = profile is not None and name is not None and profile.location is None and profile.repository != ""
    is_forgotten = chosen is None and unbound_default(lake) is not None
    if profile is not None and (is_bound or is_named or is_forgotten):
        repository, branch = (None, None) if chosen is None else (chosen.repository, chosen.branch or None)
        change_profile(profile.name, {"repository": repository, "branch": branch})
    if not (is_bound or is_named):
        change_lake_default(lake_address(lake), chosen)
