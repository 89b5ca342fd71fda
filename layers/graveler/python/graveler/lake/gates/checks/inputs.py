"""The input of a check: a candidate and its base, their trees, and the bytes of their objects."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.definitions import Reads, Selection
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, MetarangeName, ObjectEntry
from graveler.storage.objects.port import Objects
from graveler.system.daemon_pool import in_threads
from graveler.system.secret_variables import masked, secrets_of
from graveler.tree.diff import Difference
from graveler.tree.key_range import KeyRange
from graveler.tree.record import object_size
from graveler.tree.record_differences import Record, digest_of, record_differences
from graveler.tree.tree import Tree

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE: Final = 64

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class CheckInput:
    """A candidate, the commit ``base`` that it is to follow on its branch (None for a branch or tag that does not exist), and how
    to read both. ``stop`` is called between steps, and raises when nobody needs the verdict any more."""

    def __init__(
        self,
        repository: RepositoryParts,
        candidate: Commit,
        base: Commit | None,
        settings: CheckSettings,
        stop: Callable[[], None],
    ) -> None:
        self.repository = repository
        self.candidate = candidate
        self.base = base
        self.settings = settings
        self.stop = stop

    @cached_property
    def candidate_tree(self) -> Tree:
        """The candidate's objects. Cost: one object read at first."""
        return self.repository.trees.load(self.candidate.metarange)

    @cached_property
    def base_tree(self) -> Tree:
        """The base's objects, none without a base. Cost: one object read at first."""
        return self.repository.trees.load(MetarangeName("") if self.base is None else self.base.metarange)

    def changes(self, prefix: str) -> Iterator[Difference]:
        """Yield the records below a prefix that are not the same to the byte in base and candidate."""
        return record_differences(self.base_tree, self.candidate_tree, KeyRange.of_prefix(prefix.encode()))

    def new_entries(self, prefix: str) -> Iterator[ObjectEntry]:
        """Yield the objects below a prefix that the candidate has and its base has not, or not like this."""
        for key, _, packed in self.changes(prefix):
            if packed is not None:
                yield self.repository.codec.decode(key, packed)

    def selected(self, tree: Tree, selection: Selection) -> Iterator[Record]:
        """Yield the records of a tree that are selected."""
        keys = KeyRange.of_prefix(selection.prefix.encode())
        for key, packed in tree.records(keys.start, keys.end):
            if selection.selects(key.decode(), object_size(packed)):
                yield key, packed

    def store_of(self, address: str) -> tuple[Objects, str]:
        """Return the store of an address, and the key there. No request."""
        namespace = self.repository.namespace + "/"
        if address.startswith(namespace):
            return self.repository.objects, address.removeprefix(namespace)
        return self.repository.locate_external(address)

    def read(self, entry: ObjectEntry, start: int, length: int) -> bytes:
        """Return bytes of an object; a negative ``start`` counts from the end. One object request."""
        objects, key = self.store_of(entry.address)
        return objects.get_range(key, start, length)

    def in_threads(self, work: Callable[[T], R], values: Iterable[T]) -> Iterator[R]:
        """Yield the results of ``work``, which reads objects, in the order of the values."""
        return in_threads("graveler-check", work, self.watched(values, _AT_ONCE))

    def digest(self, reads: Reads) -> bytes:
        """Return the digest of what a check reads, but for what is outside. Cost: reading these records."""
        digest = sha256()
        for field in reads.commit:
            digest.update(_encode([field, msgspec.to_builtins(getattr(self.candidate, field))]))
        if reads.trees:
            names = [self.candidate.metarange, "" if self.base is None else self.base.metarange]
            digest.update(_encode(names))
            return digest.digest()
        for tree, selections in ((self.candidate_tree, reads.candidate), (self.base_tree, reads.base)):
            digest.update(b"tree")
            for selection in selections:
                digest.update(digest_of(self.watched(self.selected(tree, selection))))
        for prefix in reads.changes:
            digest.update(digest_of(self.watched(_with_sides(self.changes(prefix)))))
        return digest.digest()

    def watched(self, values: Iterable[T], step: int = 10_000) -> Iterator[T]:
        """Yield the values, and ask every ``step`` of them whether to go on."""
        for number, value in enumerate(values):
            if number % step == 0:
                self.stop()
            yield value

    def masked(self, text: str) -> str:
        """Return text without the secrets of this process and of the settings of checks."""
        return masked(text, (*secrets_of(os.environ).values(), *self.settings.secrets.values()))

    def document(self, check: str) -> dict[str, Any]:
        """Return the document about the candidate for programs outside."""
        commit, base = self.candidate, self.base
        return {
            "check": check,
            "repository": self.repository.name,
            "candidate": commit.id,
            "base": None if base is None else base.id,
            "metarange": commit.metarange,
            "parents": list(commit.parents),
            "message": commit.message,
            "committer": commit.committer,
            "metadata": dict(commit.metadata),
            "created": commit.created,
        }


def _with_sides(differences: Iterable[Difference]) -> Iterator[tuple[bytes, ...]]:
    """Yield differences as fields: the key, and of each side whether it is there, and its bytes."""
    for key, before, after in differences:
        yield key, b"" if before is None else b"1" + before, b"" if after is None else b"1" + after
