"""Applying sorted changes to a tree, which is what a commit does.

Reads the ranges that a change touches, and those that it takes to get in step again (``writer``); takes the others by reference.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from operator import ge
from typing import TYPE_CHECKING, Final, cast

import msgspec

from graveler.errors import InvalidError
from graveler.model import SplitParameters
from graveler.tree.common_run import Interval as Interval
from graveler.tree.common_run import aligned
from graveler.tree.patch import Change as Change
from graveler.tree.patch import patch_work
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.record import IDENTITY_OVERHEAD, record_ids, same_identity
from graveler.tree.split import cuts_after
from graveler.tree.store import ENOUGH, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import BATCH, Stop, TreeWriter

if TYPE_CHECKING:
    from graveler.tree.read_ahead import ReadAhead
    from graveler.tree.runtime import Crew

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes | None]]).decode
"""Between processes: a twentieth of the time that pickling takes."""

_Batch = tuple[list[bytes], list[bytes | None]]
"""Keys in ascending order, and the new packed bytes of each, or None to remove it."""

_LOOKED_AT: Final = 1000
"""Number of changes to look at together, and for the ranges that are read next: a page of staged changes."""
AT_HAND: Final = 50_000
"""Changes from which on it pays to use workers that run already: they begin while the others are being read."""
TASK: Final = 25_000
"""Records of one task, or somewhat more. Where one ends, a range ends, so that the parts join as they are."""
_FEW: Final = 4
"""If more than one in this many records of a range changes, copying its blocks is not considered."""


def apply(
    tree: Tree, changes: Iterable[Change], split: SplitParameters, stop: Stop | None = None, *, settle: bool = True
) -> Tree:
    """Return ``tree`` with ``changes``, which come in ascending order of distinct keys.

    A change to the identity that a record already has leaves the record as it was; the removal of an absent key has no effect.
    Cost: reads t ranges, writes those that come out different. The metarange is not written yet; ``settle`` as for
    :meth:`TreeWriter.finish`. :class:`StoppedError` at the end of a range, or of a worker's share, once ``stop`` returns True.
    """
    writer = TreeWriter(tree.store, split, existing=(tree,), stop=stop)
    if tree.store.workers > 1:
        batches, is_enough = _looked_over(tree, _ascending(changes))
        if is_enough and (crew := tree.store.crew()) is not None:
            _apply_in_parallel(writer, crew, tree, _shares(tree, batches, split), split)
            return writer.finish(settle=settle)
        _apply_batches(writer, tree, batches, (None, None))
    else:
        apply_between(writer, tree, changes, (None, None))
    return writer.finish(settle=settle)


def _looked_over(tree: Tree, batches: Iterator[_Batch]) -> tuple[Iterator[_Batch], bool]:
    """Return the same batches, and whether the changes in them are so many that workers pay: in records, or, if workers run and
    need not be started, in changes. Looks at no more batches than show it, and holds these."""
    # Starting two workers takes a third of the CPU that writing ENOUGH records does, and they can save half of the time at most.
    least = ENOUGH if tree.store.workers > 2 else 2 * ENOUGH
    gathered: list[_Batch] = []
    amount = 0
    is_enough = False
    measured = _measured(tree, batches)
    for batch, records in measured:
        gathered.append(batch)
        amount += len(batch[0])
        is_enough = records >= least or (amount >= AT_HAND and tree.store.runtime.has_crew)
        if is_enough:
            break
    return chain(gathered, batches), is_enough


def _measured(tree: Tree, batches: Iterator[_Batch]) -> Iterator[tuple[_Batch, int]]:
    """Yield each batch with the work of all until then, in records to write. 1 µs for each range."""
    done = count = amount = 0
    """Work of the ranges before ``number``; its records, and its changes."""
    number = -1
    for keys, values in batches:
        begin = 0
        while begin < len(keys):
            following = bisect_left(tree.lasts, keys[begin])
            is_last = following == len(tree)
            if following != number:
                done += _work(count, amount)
                number, amount, count = following, 0, 0 if is_last else tree.info(following).count
            end = len(keys) if is_last else bisect_right(keys, tree.lasts[following], begin)
            amount += end - begin
            begin = end
        yield (keys, values), done + _work(count, amount)


class _Share(msgspec.Struct, frozen=True):
    """The changes in an interval of keys, which follows the previous share's."""

    interval: Interval
    changes: _Batch


def _shares(tree: Tree, batches: Iterator[_Batch], split: SplitParameters) -> Iterator[_Share]:
    """Cut changes into shares of some :data:`TASK` records, after the last key of a range where possible. Very many in one place
    are cut where the rule ends a range, as far as their keys alone tell, so that a join takes nearly all ranges as they are."""
    source = _PendingChanges(batches)
    after: bytes | None = None
    amount = done = 0
    """Changes of this share so far, and the work of their ranges."""
    upto: bytes | None = None
    while (key := source.key(amount)) is not None:
        number = bisect_left(tree.lasts, key)
        upto, count = (None, 0) if number == len(tree) else (tree.lasts[number], tree.info(number).count)
        begin = amount
        amount = source.find(upto, begin, begin + TASK)
        while amount - begin >= TASK:
            amount, is_cut = _end_of_range(source, upto, begin, split)
            if not is_cut:
                break
            last = source.key(amount - 1)
            yield _Share((after, last), source.take(amount))
            after, done, begin = last, 0, 0
            amount = source.find(upto, 0, TASK)
        if amount > begin:
            done += _work(count, amount - begin)
        if done >= TASK:
            yield _Share((after, upto), source.take(amount))
            after, amount, done = upto, 0, 0
    if amount:
        yield _Share((after, upto), source.take(amount))


def _end_of_range(
    source: "_PendingChanges", upto: bytes | None, begin: int, split: SplitParameters
) -> tuple[int, bool]:
    """Return after how many changes a range ends that has :data:`TASK` of the changes from ``begin`` on before its end, if these
    follow a cut and nothing comes between them, and True; or the number of changes up to the key ``upto``, and False. 0.15 µs
    each."""
    size, amount = 0, begin
    while (more := source.find(upto, amount, amount + _LOOKED_AT)) > amount:
        for number, key in enumerate(source.keys(more, amount), amount + 1):
            size += len(key) + IDENTITY_OVERHEAD
            if size >= split.min_size and cuts_after(split, size, key):
                if number - begin >= TASK:
                    return number, True
                size = 0
        amount = more
    return amount, False


def _work(records: int, changes: int) -> int:
    """Return the work of applying so many changes to a range of so many records, or to none, in records to write."""
    return changes + patch_work(records, changes)


def _apply_in_parallel(
    writer: TreeWriter, crew: "Crew", tree: Tree, shares: Iterable[_Share], split: SplitParameters
) -> None:
    """Apply each share in one worker; a join makes the parts one tree (law F1). Holds the changes of some shares."""
    upto: bytes | None = None

    def tasks() -> Iterator[tuple[object, ...]]:
        nonlocal upto
        for share in shares:
            after, upto = share.interval
            start = 0 if after is None else bisect_right(tree.lasts, after)
            stop = len(tree) if upto is None else bisect_left(tree.lasts, upto) + 1
            part = tree.lasts[start:stop], tree.packed[start:stop]
            yield tree.store, part, _encode(share.changes), share.interval, split

    for lasts, packed in crew.run(_apply_share, tasks()):
        writer.take(Tree(tree.store, lasts, packed))
        writer.stop_if_asked()
    if upto is not None:
        writer.copy(tree, upto, None)


def _apply_share(
    store: TreeStore,
    part: tuple[list[bytes], list[bytes]],
    changes: bytes,
    interval: Interval,
    split: SplitParameters,
) -> tuple[list[bytes], list[bytes]]:
    """Apply one share, in a worker."""
    tree = Tree(store, *part)
    writer = TreeWriter(store, split, existing=(tree,))
    _apply_batches(writer, tree, iter((_decode(changes),)), interval)
    done = writer.finish()
    return done.lasts, done.packed


def reapply(
    old_head: Tree,
    old_result: Tree,
    new_head: Tree,
    changes: Callable[[Interval], Iterable[Change]],
    split: SplitParameters,
    stop: Stop | None = None,
    *,
    settle: bool = True,
) -> Tree:
    """Return what :func:`apply` would make of ``new_head``, given that it made ``old_result`` of ``old_head`` (promise C6).

    Where both heads have the same ranges, the finished ones are kept; elsewhere ``changes`` is called for the changes of an
    interval, and they are applied again. (Merging the finished tree instead would lose changes that equal the old head.) ``stop``
    and ``settle`` as for :func:`apply`; ``old_result`` must be settled.
    """
    writer = TreeWriter(new_head.store, split, existing=(new_head, old_result), stop=stop)
    for interval, same in aligned(old_head, new_head):
        if same:
            writer.copy(old_result, *interval)
        else:
            apply_between(writer, new_head, changes(interval), interval)
    return writer.finish(settle=settle)


def apply_between(writer: TreeWriter, tree: Tree, changes: Iterable[Change], interval: Interval) -> None:
    """Append to ``writer`` the records of ``tree`` in ``interval`` with ``changes``, which all lie in it."""
    _apply_batches(writer, tree, _ascending(changes), interval)


def _apply_batches(writer: TreeWriter, tree: Tree, batches: Iterator[_Batch], interval: Interval) -> None:
    """Do the work of :func:`apply_between` for changes whose order was checked."""
    with tree.store.reading_ahead() as read_ahead:
        _apply(writer, tree, _PendingChanges(batches), interval, read_ahead)


def _apply(
    writer: TreeWriter, tree: Tree, source: "_PendingChanges", interval: Interval, read_ahead: "ReadAhead | None"
) -> None:
    after, upto = interval
    is_first = True
    while (key := source.key()) is not None:
        if not is_first:  # make some progress before stopping
            writer.stop_if_asked(after)
        is_first = False
        if read_ahead is not None and read_ahead.wants_more():
            read_ahead.expect(tree.ranges_of(source.keys(_LOOKED_AT)))
        # A change belongs to the first range whose last key is not below it; after all of them, to the end.
        number = bisect_left(tree.lasts, key)
        before = tree.lasts[number - 1] if number else None
        if before is not None and (after is None or before > after):
            writer.copy(tree, after, before)
            after = before
        if number == len(tree):
            for batch in source.take_upto(None):
                _add_new(writer, batch)
            return
        last = tree.lasts[number] if upto is None else min(upto, tree.lasts[number])
        if after == before and last == tree.lasts[number]:
            most = tree.info(number).count // _FEW + 1
            amount = source.find(last, 0, most + 1)
            if amount <= most and writer.patch(tree, number, [*zip(*source.look(amount), strict=True)]):
                source.take(amount)
                after = last
                continue
        in_step = writer.at_cut and after == before
        for keys, packed, ids in tree.parts(number, b"" if after is None else after + b"\0"):
            inside_range = in_step and keys[-1] != tree.lasts[number]
            if keys[-1] > last:
                end = bisect_left(keys, last + b"\0")
                keys, packed = keys[:end], packed[:end]
                ids = None if ids is None else ids[: end * ID_BYTES]
                if not keys:
                    break
            if (key := source.key()) is not None and key <= keys[-1]:
                in_step = _add_changed(writer, keys, packed, ids, source, inside_range=inside_range)
            else:
                writer.add(keys, packed, ids, inside_range=inside_range)
        for batch in source.take_upto(last):
            _add_new(writer, batch)
        after = last
    if upto is None or after is None or after < upto:
        writer.copy(tree, after, upto)


def _add_new(writer: TreeWriter, batch: _Batch) -> None:
    """Append changes of keys that the tree does not have."""
    keys, values = batch
    packed = [value for value in values if value is not None]
    if len(packed) < len(keys):  # removals
        keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
    if keys:
        writer.add(keys, packed)
    else:
        writer.stop_if_asked()


def _add_changed(
    writer: TreeWriter,
    keys: list[bytes],
    packed: list[bytes],
    ids: bytes | None,
    source: "_PendingChanges",
    *,
    inside_range: bool,
) -> bool:
    """Append a block with the changes up to its last key. Returns whether the keys since the last cut are still those of the old
    tree, as ``inside_range`` said they were before. Holds some thousand changes at a time, however many come before one old
    key."""
    new_keys: list[bytes] = []
    new_packed: list[bytes] = []
    new_ids: list[bytes] = []
    done = 0
    for changed, values in source.take_upto(keys[-1]):
        for key, value in zip(changed, values, strict=True):
            position = bisect_left(keys, key, done)
            present = keys[position] == key
            inside_range = inside_range and present is (value is not None)
            if present and value is not None and same_identity(packed[position], value):
                continue  # it stays as it is
            new_keys += keys[done:position]
            new_packed += packed[done:position]
            if ids is not None:
                new_ids.append(ids[done * ID_BYTES : position * ID_BYTES])
            if value is not None:
                new_keys.append(key)
                new_packed.append(value)
                if ids is not None:
                    new_ids.append(record_ids((key,), (value,)))
            done = position + present
        if len(new_keys) >= BATCH:
            writer.add(new_keys, new_packed, None if ids is None else b"".join(new_ids), inside_range=inside_range)
            new_keys, new_packed, new_ids = [], [], []
    if ids is not None:
        new_ids.append(ids[done * ID_BYTES :])
    new_keys += keys[done:]
    new_packed += packed[done:]
    writer.add(new_keys, new_packed, None if ids is None else b"".join(new_ids), inside_range=inside_range)
    return inside_range


class _PendingChanges:
    """Changes that can be looked at before they are taken. Holds a batch, and as many more as were looked at."""

    def __init__(self, batches: Iterator[_Batch]) -> None:
        self._batches = batches
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._position = 0
        """The next one in these lists."""

    def key(self, number: int = 0) -> bytes | None:
        """Return the next key, or that of the change ``number`` behind it; None if there are no more."""
        while self._position + number >= len(self._keys):
            if not self._draw():
                return None
        return self._keys[self._position + number]

    def keys(self, amount: int, start: int = 0) -> list[bytes]:
        """Return the keys of the next ``amount`` changes, or of all that are left, from the change ``start`` behind the next
        one."""
        while self._position + amount > len(self._keys) and self._draw():
            pass
        return self._keys[self._position + start : self._position + amount]

    def find(self, last: bytes | None, start: int, most: int) -> int:
        """Return the number of next changes up to the key ``last`` (None: all), at most ``most``. The first ``start`` are up to
        it."""
        while True:
            begin, end = self._position + start, self._position + most
            stop = len(self._keys) if last is None else bisect_right(self._keys, last, begin)
            if stop >= end:
                return most
            if stop < len(self._keys) or not self._draw():
                return stop - self._position

    def look(self, amount: int) -> _Batch:
        """Return the next ``amount`` changes, which were found."""
        end = self._position + amount
        return self._keys[self._position : end], self._values[self._position : end]

    def take(self, amount: int) -> _Batch:
        """Take the next ``amount`` changes, which were found."""
        batch = self.look(amount)
        self._position += amount
        return batch

    def take_upto(self, last: bytes | None) -> Iterator[_Batch]:
        """Take the next changes up to the key ``last`` (None: all), some thousand at a time."""
        while (key := self.key()) is not None and (last is None or key <= last):
            stop = len(self._keys) if last is None else bisect_right(self._keys, last, self._position)
            yield self.take(stop - self._position)

    def _draw(self) -> bool:
        """Draw the next batch; return False if there is none."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        keys, values = batch
        del self._keys[: self._position], self._values[: self._position]
        self._position = 0
        self._keys += keys
        self._values += values
        return True


def _ascending(changes: Iterable[Change]) -> Iterator[_Batch]:
    """Yield the changes in batches; :class:`InvalidError` where they are not in ascending order of distinct keys. 0.1 µs a
    change."""
    source = iter(changes)
    previous = b""
    while flat := list(chain.from_iterable(islice(source, _LOOKED_AT))):
        keys, values = cast(list[bytes], flat[::2]), flat[1::2]
        if keys[0] <= previous or any(map(ge, keys, islice(keys, 1, None))):
            raise _not_in_order([previous, *keys])
        previous = keys[-1]
        yield keys, values


def _not_in_order(keys: Sequence[bytes]) -> InvalidError:
    previous, key = next(pair for pair in pairwise(keys) if pair[1] <= pair[0])
    return InvalidError(f"changes are not in ascending order of distinct keys: {key!r} after {previous!r}")
