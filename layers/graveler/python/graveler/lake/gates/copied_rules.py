"""Copies of the lake's rules in its repositories: change all of them."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from graveler.errors import InvalidError, RepositoryNotFoundError
from graveler.lake.gates.lake_rules import (
    check_lake_rules,
    note_copied,
    read_lake_rules,
    rules_for,
    unchanged_check,
    with_lake_rules,
    write_lake_rules,
)
from graveler.lake.gates.rule_validation import check_rules
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.rule_changes import replace_rules, stamp_branches
from graveler.model import LakeRule, LakeRules, Page, Repository
from graveler.storage.tables.port import ConditionFailedError, Tables
from graveler.values.paging import items


def set_lake_rules(
    tables: Tables,
    list_repositories: Callable[[str], Page[Repository]],
    parts_of: Callable[[str], RepositoryParts],
    rules: Sequence[LakeRule],
    if_match: int | None,
    by: str,
) -> LakeRules:
    """See :meth:`graveler.lake.lake.Lake.set_rules`. ``list_repositories`` returns the page of repositories after a name,
    ``parts_of`` the parts of one."""
    checked = check_lake_rules(rules)
    for repository in items(list_repositories):
        try:
            check_rules(with_lake_rules(repository.settings.rules.rules, rules_for(checked, repository.name)))
        except InvalidError as error:
            raise InvalidError(f"with the rules of repository {repository.name!r}: {error}") from None
    changed = latest = write_lake_rules(tables, checked, if_match)
    if changed.version == 0:  # none before, and none now
        return changed
    while not (_copy(list_repositories, parts_of, latest, by) and note_copied(tables, latest)):
        latest = read_lake_rules(tables)
    return replace(changed, in_force=True)


def _copy(
    list_repositories: Callable[[str], Page[Repository]],
    parts_of: Callable[[str], RepositoryParts],
    rules: LakeRules,
    by: str,
) -> bool:
    """Bring these rules of the lake into force in all repositories; return False if the lake has others by now."""
    for repository in items(list_repositories):
        copies = rules_for(rules.rules, repository.name)
        if copies or any(rule.of_lake for rule in repository.settings.rules.rules):
            with suppress(RepositoryNotFoundError):  # it was deleted meanwhile
                parts = parts_of(repository.name)
                try:
                    copied = replace_rules(parts, copies, of_lake=True, condition=unchanged_check(rules))
                except ConditionFailedError:
                    return False
                stamp_branches(parts, copied, by)
    return True
