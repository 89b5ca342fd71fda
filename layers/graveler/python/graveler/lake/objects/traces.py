"""Traces: notes for the garbage collector about records that move outside of commits, and about removed refs.

The collector reads staged changes one after the other. A record that meanwhile moves from a place where it has not looked to one
where it has would escape it: a copy of a staged record's object, and the tokens of a branch that is renamed. So
processes that move such things note it in the table, and the collector reads these notes after everything else.

- A *copy* of a staged record notes the object first, **then checks again that the source still exists**, then stages the
  copy. Either the collector reads the note, or it has read all notes before this one: then it has also read the source
  before, which existed.
- A *rename* notes the branch's tokens in its own transaction.
- A *deletion* or rename of a ref notes its name in the same transaction. So its reference log is read for another grace period:
  for so long refs can be pointed again at what it pointed at.

An object younger than half the grace period needs no note: no mark that begins before the copy is staged finds it old.

Items: partition ``<repository uid>/traces``, sort key the time (8 bytes, big endian, milliseconds) and 8 random bytes; attributes
``keys`` (below the namespace), ``tokens`` or ``refs`` (``branch/<name>``, ``tag/<name>``), and ``expires``.
"""

from collections.abc import Iterator, Sequence
from secrets import token_bytes
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.history.reflog import RefKind
from graveler.lake.clock import Clock
from graveler.lake.objects.issued_addresses import made_at
from graveler.model import Repository, Token
from graveler.storage.tables.port import Item, Key, Put, Tables
from graveler.storage.tables.walking import items
from graveler.tree.record import TABLES

_MANY: Final = 1000
"""The maximum number of keys in one item."""
_LONG: Final = 90_000
"""Characters of the keys in one item, except for the last key: files in data folders may have long keys. An item has 400 KB."""


class Trace(Struct, frozen=True):
    """One note: keys of objects below the namespace, tokens, or removed refs."""

    keys: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    refs: tuple[tuple[RefKind, str], ...] = ()


class Traces:
    """The traces of one repository; ``grace`` in seconds."""

    def __init__(self, repository: Repository, tables: Tables, clock: Clock, grace: float) -> None:
        self._prefix = repository.namespace + "/"
        self._partition = f"{repository.uid}/traces"
        self._tables = tables
        self._clock = clock
        self._grace = grace

    def needed(self, addresses: Sequence[str]) -> list[str]:
        """Return the keys of those objects that a copy has to note: those with a data name that are not young any more, and files
        of tables, whose names do not say their age."""
        young = self._clock.now() - self._grace / 2
        keys = [address.removeprefix(self._prefix) for address in addresses if address.startswith(self._prefix)]
        return [key for key in keys if key.startswith(TABLES) or ((time := made_at(key)) is not None and time < young)]

    def leave(self, keys: Sequence[str]) -> None:
        """Note objects. One table write for each thousand, several if their keys are long; none for none."""
        if keys:
            self._tables.write_many([self._write({"keys": some}) for some in _batches(keys)])

    def gone_write(self, kind: RefKind, name: str, moved: Sequence[Token] = ()) -> Put:
        """Return the write that notes a removed ref, with the tokens that live on under another name, for its transaction."""
        return self._write({"refs": [f"{kind}/{name}"], **({"tokens": list(moved)} if moved else {})})

    def read(self) -> Iterator[Trace]:
        """Yield all notes that have not expired. One table read for each thousand. :class:`CorruptError`."""
        start = _sort_key(self._clock.now() - 2 * self._grace)
        for sort, item in items(self._tables, self._partition, start=start):
            yield _decode(sort, item)

    def _write(self, item: dict[str, list[str]]) -> Put:
        now = self._clock.now()
        return Put(
            Key(self._partition, _sort_key(now) + token_bytes(8)), {**item, "expires": int(now + 2 * self._grace) + 1}
        )


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    length = 0
    for key in keys:
        some.append(key)
        length += len(key)
        if len(some) == _MANY or length >= _LONG:
            yield some
            some, length = [], 0
    if some:
        yield some


def _sort_key(time: float) -> bytes:
    return max(0, int(time * 1000)).to_bytes(8, "big")


def _decode(sort: bytes, item: Item) -> Trace:
    keys, tokens, refs = item.get("keys", []), item.get("tokens", []), item.get("refs", [])
    if not (isinstance(keys, list) and isinstance(tokens, list) and isinstance(refs, list)):
        raise CorruptError(f"trace {sort.hex()} cannot be read; remove that item, and collect garbage a day later")
    named: list[tuple[RefKind, str]] = []
    for ref in refs:
        kind, _, name = ref.partition("/")
        named.append(("tag" if kind == "tag" else "branch", name))
    return Trace(tuple(keys), tuple(map(Token, tokens)), tuple(named))
