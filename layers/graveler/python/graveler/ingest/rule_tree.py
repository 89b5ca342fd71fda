"""A tree of the rules' folders, so that an event is compared only with the rules above its key.

Rules are compiled once per batch. Then an event costs as many steps as its key has folders, and the rules it meets there, however
many others exist. Sources end with a slash or are whole buckets, so only folders need to be compared.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from graveler.ingest.rules import RepositoryRules, Rule


class Owned(Struct, frozen=True):
    """A rule, and the rules of its repository."""

    rules: RepositoryRules
    rule: Rule


class RuleTree:
    """Rules by bucket and folder. Costs a step for each folder of each source."""

    def __init__(self, all_rules: Iterable[RepositoryRules]) -> None:
        self._buckets: dict[str, _Folder] = {}
        for rules in all_rules:
            for rule in rules.rules:
                folder = self._buckets.setdefault(rule.bucket, _Folder())
                for name in rule.prefix.split("/")[:-1]:
                    folder = folder.below.setdefault(name, _Folder())
                folder.rules.append(Owned(rules, rule))

    def taking(self, bucket: str, key: str) -> Iterator[Owned]:
        """Yield the rules that an object concerns: it becomes part of their branch, or is their marker."""
        folder = self._buckets.get(bucket)
        begin = 0
        while folder is not None:
            for owned in folder.rules:
                if owned.rule.takes(key) or owned.rule.is_marker(key):
                    yield owned
            end = key.find("/", begin)
            if end < 0:
                return
            folder = folder.below.get(key[begin:end])
            begin = end + 1

    def about(self, buckets: Iterable[str]) -> Sequence[RepositoryRules]:
        """Return the repositories with rules about any of these buckets."""
        repositories: dict[str, RepositoryRules] = {}
        for bucket in buckets:
            folders = [self._buckets[bucket]] if bucket in self._buckets else []
            while folders:
                folder = folders.pop()
                folders += folder.below.values()
                repositories.update((owned.rules.uid, owned.rules) for owned in folder.rules)
        return list(repositories.values())


class _Folder:
    """The rules about exactly this folder, and the folders in it."""

    __slots__ = ("below", "rules")

    def __init__(self) -> None:
        self.below: dict[str, _Folder] = {}
        self.rules: list[Owned] = []
