"""A range with few changes, made from its file by copying the blocks in which nothing changes.

Reads, encodes and compresses the blocks that changes touch. The rest of what it takes to name the new range (record IDs, digests
of chunks) and to know that it ends where it did (``slack``) comes from the note on the old one (``ids``). Without a note, or
where the rule may cut differently than before, all records have to be looked at, and :meth:`Patch.of` returns None.

A block that grows past 24 KiB is cut into equal parts, one that shrinks below 8 KiB is joined with the next one, so blocks keep
their size through any number of changes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, count
from struct import error as StructError  # noqa: N812
from typing import Final

import msgspec

from graveler.model import SplitParameters
from graveler.tree.assembler import Assembler, even_parts
from graveler.tree.block import BLOCK_SIZE, SEQUENCE_SIZE, encode, entries
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_name import DIGEST_BYTES, chunk_digest, chunk_ends, suffix
from graveler.tree.range_notes import ID_BYTES, RangeNote
from graveler.tree.record import IDENTITY_OVERHEAD, object_size, record_ids, same_identity, total_object_size
from graveler.tree.splice import Splice, values_of
from graveler.tree.split import cuts_after, is_candidate
from graveler.tree.sstable import MalformedTableError, Records, Table, TableIndex
from graveler.tree.store import RANGES
from graveler.tree.tail import Label
from graveler.tree.tree import MAX_TOTAL, Tree

Change = tuple[bytes, bytes | None]
"""A key and its new packed bytes, or None to remove it."""

_SMALLEST: Final = BLOCK_SIZE // 2
_LARGEST: Final = BLOCK_SIZE * 3 // 2
_WORTH_COPYING: Final = 0.5
"""Share of blocks in which records may come or go; above it, RocksDB writes the whole file faster."""
_TRIED: Final = 3
"""Number of blocks to take apart before checking whether this pays."""
_RANGE_WORK: Final = 800
_CHANGE_WORK: Final = 150
"""In records to write, 1.4 µs each."""


def worth_copying(changed: int, blocks: int) -> bool:
    """Return whether it pays to copy unchanged blocks if ``changed`` of a file's ``blocks`` change."""
    return changed <= max(1, _WORTH_COPYING * blocks)


def patch_work(records: int, changes: int) -> int:
    """Return an upper bound on the work of applying ``changes`` changes to a range: as much as writing that many records."""
    return min(records, _RANGE_WORK + _CHANGE_WORK * changes)


class _Edit(msgspec.Struct, frozen=True, gc=False):
    """A replacement of records ``start`` to ``stop`` of the old range by those with ``ids``, none or one."""

    start: int
    stop: int
    ids: bytes


class _Changed:
    """A block in its new state: its bytes or its records, whichever is known. The other is made when needed."""

    def __init__(self, count: int, encoded: bytes | None = None, records: Records | None = None) -> None:
        self.count = count
        self._encoded = encoded
        self._records = records
        self._packed = None if records is None else records[1]

    @property
    def encoded(self) -> bytes:
        """The block, not compressed; empty for one without records."""
        if self._encoded is None:
            self._encoded = encode(*self.records) if self.count else b""
        return self._encoded

    @property
    def records(self) -> Records:
        """Keys and packed bytes."""
        if self._records is None:
            self._records = entries(self.encoded, SEQUENCE_SIZE)
        return self._records

    @property
    def packed(self) -> list[bytes]:
        """The packed bytes alone."""
        if self._packed is None:
            self._packed = values_of(self.encoded)
        return self._packed


class Patch:
    """The new range. ``info`` describes it; :meth:`assemble` makes its file."""

    def __init__(self, tree: Tree, number: int, note: RangeNote, table: Table, split: SplitParameters) -> None:
        self._tree = tree
        self._number = number
        self._old = self.info = tree.info(number)
        self._note = note
        self._table = table
        self._split = split
        self._blocks: dict[int, _Changed] = {}
        """The blocks that changed, in their new state."""
        self._rebuilt = 0
        """Number of blocks in which records came or went."""
        self._edits: list[_Edit] = []
        self._added = self._grown = self._value_bytes = self._total = 0
        """Bytes: logical size of added records, of all changes; of packed records; of objects."""
        self._ids = self._digests = b""

    @classmethod
    def of(cls, tree: Tree, number: int, changes: Sequence[Change], split: SplitParameters) -> "Patch | None":
        """Return range ``number`` with ``changes``, which ascend and of which none is behind its last key; None if it has to be
        written record by record. A change to the identity that a record already has leaves the record as it was."""
        table = tree.open(number)
        try:
            touched = list(_by_block(table, changes))
            note = tree.note(number)
            if note is None or tree.info(number).total == MAX_TOTAL:
                return None
            table.set_counts(note.layout, note.counts)
            patch = cls(tree, number, note, table, split)
            everywhere = not worth_copying(len(touched), len(table))
            for tried, (block, block_changes) in enumerate(touched, 1):
                if not patch._change(block, block_changes):
                    return None
                if patch._rebuilt > _TRIED and not worth_copying(patch._rebuilt, tried if everywhere else len(table)):
                    return None
            return patch if patch._name() else None
        except (MalformedTableError, IndexError, StructError) as error:
            raise tree.damaged(number, MalformedTableError(str(error))) from None

    def _change(self, number: int, changes: Sequence[Change]) -> bool:
        """Apply the changes of one block; return False if the note is not about this file."""
        block = self._table.contents(number)
        start = self._table.start(number)
        splice = Splice(block)
        positions: list[int] = []
        keys: list[bytes] = []
        old_values: list[bytes] = []
        values: list[bytes] = []
        for key, value in changes:
            match = splice.find(key)
            if match is None and value is None:
                continue
            if match is None or value is None:  # other keys: the block has to be taken apart
                return self._rebuild(number, entries(block, SEQUENCE_SIZE), changes)
            record, old = match
            if same_identity(old, value):
                continue
            positions.append(start + record)
            keys.append(key)
            old_values.append(old)
            values.append(value)
            splice.replace(value)
        if not positions:
            return True
        if not self._is_noted(
            positions[0], keys[0], old_values[0]
        ):  # the positions of the others follow from the first one's
            return False
        ids = record_ids(keys, values)
        self._edits += [
            _Edit(position, position + 1, ids[offset : offset + ID_BYTES])
            for position, offset in zip(positions, count(0, ID_BYTES), strict=False)
        ]
        self._value_bytes += sum(map(len, values)) - sum(map(len, old_values))
        self._total += total_object_size(values) - total_object_size(old_values)
        self._blocks[number] = _Changed(self._table.start(number + 1) - start, splice.finish())
        return True

    def _is_noted(self, position: int, key: bytes, packed: bytes) -> bool:
        """Return whether the note has this record's ID at that position of the old range."""
        return self._note.ids[position * ID_BYTES : (position + 1) * ID_BYTES] == record_ids((key,), (packed,))

    def _rebuild(self, number: int, records: Records, changes: Sequence[Change]) -> bool:
        """Apply the changes of one block as :meth:`_change`, where records come or go."""
        keys, packed = records
        start = self._table.start(number)
        new_keys: list[bytes] = []
        new_packed: list[bytes] = []
        done = edits = 0
        for key, value in changes:
            position = bisect_left(keys, key, done)
            present = position < len(keys) and keys[position] == key
            if present:
                old = packed[position]
                if value is not None and same_identity(old, value):
                    continue
                if not self._is_noted(start + position, key, old):
                    return False
                self._value_bytes -= len(old)
                self._total -= object_size(old)
            elif value is None:
                continue
            new_keys += keys[done:position]
            new_packed += packed[done:position]
            done = position + present
            if value is None:
                self._grown -= len(key) + IDENTITY_OVERHEAD
                self._edits.append(_Edit(start + position, start + done, b""))
            else:
                new_keys.append(key)
                new_packed.append(value)
                self._value_bytes += len(value)
                self._total += object_size(value)
                self._edits.append(_Edit(start + position, start + done, record_ids((key,), (value,))))
                if not present:
                    if is_candidate(self._split, key):
                        return False
                    self._added += len(key) + IDENTITY_OVERHEAD
            edits += 1
        if edits:
            new_keys += keys[done:]
            self._blocks[number] = _Changed(len(new_keys), records=(new_keys, new_packed + packed[done:]))
            self._rebuilt += 1
        return True

    def _name(self) -> bool:
        """Describe the new range; return False if the rule might cut it differently than the old one."""
        old, note, split = self._old, self._note, self._split
        size = old.size + self._grown + self._added
        total = old.total + self._total
        final = len(self._table) - 1
        if final in self._blocks:
            keys = self._blocks[final].records[0]
            if not keys or keys[-1] != old.last:
                return False
        cut_before = cuts_after(split, old.size, old.last)
        if (
            total > MAX_TOTAL
            or (self._added and (note.split != split or self._added >= note.slack))
            or size - len(old.last) - IDENTITY_OVERHEAD >= split.max_size
            or cut_before != cuts_after(split, size, old.last)
        ):
            return False
        self._ids = b"".join(self._spliced_ids())
        self._digests = b"".join(self._spliced_digests())
        first_key = old.first
        if 0 in self._blocks:
            first_key = next(keys[0] for keys, _ in map(self._records, range(len(self._table))) if keys)
        self.info = RangeInfo(
            last=old.last,
            id=sha256(self._ids).digest(),
            first=first_key,
            count=len(self._ids) // ID_BYTES,
            size=size,
            total=total,
            suffix=suffix(self._digests),
        )
        return True

    def _records(self, block: int) -> Records:
        """Return the records of a block in its new state."""
        return self._blocks[block].records if block in self._blocks else self._table.read(block)

    def _spliced_ids(self) -> Iterator[bytes]:
        done = 0
        for edit in self._edits:
            yield self._note.ids[done * ID_BYTES : edit.start * ID_BYTES]
            yield edit.ids
            done = edit.stop
        yield self._note.ids[done * ID_BYTES :]

    def _spliced_digests(self) -> Iterator[bytes]:
        """Yield the digests of the new range's chunks: the old ones, except for chunks that an edit touches."""
        old_ends, ends = chunk_ends(self._note.ids), chunk_ends(self._ids)
        starts = [0, *accumulate(self._counts())]
        old_done = done = 0
        """Number of chunks up to the end of the last finished edit."""
        shift = 0
        """Number of records more than in the old range, up to here."""
        edits = iter(self._edits)
        edit = next(edits, None)
        while edit is not None:
            begin = bisect_right(ends, edit.start + shift)
            old_begin = bisect_right(old_ends, edit.start)
            yield self._note.digests[old_done * DIGEST_BYTES : old_begin * DIGEST_BYTES]
            while True:
                # A chunk that ends with an unchanged record behind the edit ends there in the old range too.
                shift += len(edit.ids) // ID_BYTES - (edit.stop - edit.start)
                stop = edit.stop + shift
                done = bisect_right(ends, stop)
                reached = ends[done] if done < len(ends) else stop
                edit = next(edits, None)
                if edit is None or edit.start + shift >= reached:
                    break
            done = min(done + 1, len(ends))
            old_done = bisect_left(old_ends, reached - shift) + 1
            for chunk in range(begin, done):
                yield chunk_digest(self._packed(starts, ends[chunk - 1] if chunk else 0, ends[chunk]))
        yield self._note.digests[old_done * DIGEST_BYTES :]

    def _counts(self) -> list[int]:
        """Return the number of records in each block in its new state."""
        counts = self._table.counts()
        for number, block in self._blocks.items():
            counts[number] = block.count
        return counts

    def _packed(self, starts: Sequence[int], start: int, stop: int) -> list[bytes]:
        """Return the packed bytes of the new records ``start`` to ``stop``; ``starts`` are the positions where blocks begin
        now."""
        block = bisect_right(starts, start) - 1
        packed: list[bytes] = []
        while start < stop:
            packed += self._values(block)[start - starts[block] : stop - starts[block]]
            block += 1
            start = starts[block]
        return packed

    def _values(self, block: int) -> list[bytes]:
        """Return the packed bytes of a block's records in its new state."""
        return self._blocks[block].packed if block in self._blocks else self._table.read(block)[1]

    def assemble(self) -> tuple[bytes, TableIndex, RangeNote]:
        """Return the file with its index, and its note."""
        assembler = Assembler()
        self._assemble(assembler)
        info = self.info
        key_bytes = info.size - IDENTITY_OVERHEAD * info.count
        value_bytes = self._table.value_bytes + self._value_bytes
        data, index = assembler.finish(key_bytes, value_bytes, Label.of(RANGES, info.name))
        note = self._note
        slack = max(0, note.slack - self._added) if note.split == self._split else 0
        return data, index, RangeNote(self._ids, self._digests, index.layout, assembler.counts, self._split, slack)

    def _assemble(self, assembler: Assembler) -> None:
        blocks = len(self._table)
        counts = self._table.counts()
        copied = 0
        for number in sorted(self._blocks):
            if number < copied:  # it was joined with the one before
                continue
            self._copy(assembler, copied, number, counts)
            block = self._blocks[number]
            copied = number + 1
            while len(block.encoded) < _SMALLEST and block.count and copied < blocks:
                keys, packed = block.records
                more_keys, more_packed = self._records(copied)
                block = _Changed(block.count + len(more_keys), records=(keys + more_keys, packed + more_packed))
                copied += 1
            if block.count:  # what lies up to the old bound was changed here, so the next block is behind it
                _add(assembler, block, self._table.bounds[copied - 1])
        self._copy(assembler, copied, blocks, counts)

    def _copy(self, assembler: Assembler, start: int, stop: int, counts: Sequence[int]) -> None:
        if start < stop:
            assembler.copy(self._table, start, stop, counts[start:stop])


def _add(assembler: Assembler, block: _Changed, bound: bytes) -> None:
    """Append the records of ``block``, in several blocks of about equal size if they are too many for one."""
    size = len(block.encoded)
    if size <= _LARGEST or block.count == 1:
        assembler.add_encoded(block.encoded, bound, block.count)
        return
    keys, packed = block.records
    for begin, end in even_parts(keys, packed, -(-size // BLOCK_SIZE)):
        assembler.add(keys[begin:end], packed[begin:end], bound if end == len(keys) else None)


def _by_block(table: Table, changes: Sequence[Change]) -> Iterator[tuple[int, list[Change]]]:
    """Yield the changes of each block that has some. A key between two blocks belongs to the second, or where the bound says."""
    begin = number = 0
    final = len(table) - 1
    while begin < len(changes):
        number = bisect_left(table.bounds, changes[begin][0], number, final)
        end = begin + 1
        while end < len(changes) and (number == final or changes[end][0] <= table.bounds[number]):
            end += 1
        yield number, list(changes[begin:end])
        begin = end
