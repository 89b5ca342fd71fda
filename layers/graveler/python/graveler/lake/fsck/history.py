"""The commit graph in little memory, and the commits and refs that a damage affects.

A hundred commits take some 25 kB. Attribution happens once, at the end: damages carry the commits or metaranges that they are in,
and a pass over the graph, parents first, propagates them to everything that reaches those.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, field

from graveler.history.split_parameters import KEY
from graveler.lake.fsck.findings import SHOWN_COMMITS, AffectedRef, Finding, FindingKind, RefKind
from graveler.lake.fsck.items import DamagedItem
from graveler.model import Commit, CommitID, MetarangeName

_TOGETHER: Final = 256
"""The number of damages that one pass attributes."""

_UNKNOWN: Final = -1


class Damage(Struct, eq=False):
    """A finding in progress. ``commits`` and ``metaranges`` are numbers in :class:`History`."""

    kind: FindingKind
    subject: str
    reason: str
    remedy: str
    first_key: bytes | None = None
    last_key: bytes | None = None
    commits: set[int] = field(default_factory=set)
    metaranges: set[int] = field(default_factory=set)
    refs: tuple[AffectedRef, ...] = ()
    repaired: bool = False

    def mark_repaired(self, remedy: str) -> None:
        """Note that the damage is repaired, and how."""
        self.remedy, self.repaired = remedy, True


def unreadable_rest(partition: str, position: str, item: DamagedItem) -> Damage:
    """Return the damage of a partition of which nothing can be read from a position on."""
    reason = f"cannot be read from {position} on: {item.reason}"
    return Damage(FindingKind.TABLE, f"partition {partition}", reason, "Restore the table from a copy")


class Head(Struct, frozen=True):
    """A ref and the number of the commit that it points at."""

    kind: RefKind
    name: str
    commit: int


class History:
    """Commits by number, in the order in which they were first named."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._ids: list[bytes] = []
        self._metarange_numbers: dict[str, int] = {}
        self.parents: list[tuple[int, ...]] = []
        self.generation: list[int] = []
        """The generation in the commit; 0 if it could not be read."""
        self.metarange: list[int] = []
        self.heads: list[Head] = []
        self.metaranges: list[MetarangeName] = []
        self.cuts: dict[int, Commit] = {}
        """For metaranges that do not have the repository's split parameters: a commit that names theirs."""

    def __len__(self) -> int:
        return len(self._ids)

    def number(self, commit_id: CommitID) -> int:
        """Return the commit's number; the next one if it was not named before. ``commit_id`` is 64 hex digits."""
        raw = bytes.fromhex(commit_id)
        number = self._numbers.setdefault(raw, len(self._ids))
        if number == len(self._ids):
            self._ids.append(raw)
            self.parents.append(())
            self.generation.append(0)
            self.metarange.append(_UNKNOWN)
        return number

    def id(self, number: int) -> CommitID:
        """Return the commit's ID."""
        return CommitID(self._ids[number].hex())

    def names(self, commit_id: str) -> bool:
        """Return whether this commit was named."""
        try:
            return bytes.fromhex(commit_id) in self._numbers
        except ValueError:
            return False

    def has_metarange(self, name: str) -> bool:
        """Return whether a commit has this metarange."""
        return name in self._metarange_numbers

    def describe(
        self,
        number: int,
        parents: Sequence[CommitID],
        generation: int,
        metarange: MetarangeName | None,
        commit: Commit | None = None,
    ) -> None:
        """Record what a commit says; ``metarange`` is None if its tree is not to be checked, ``commit`` if it is not needed."""
        self.parents[number] = tuple(map(self.number, parents))
        self.generation[number] = generation
        if metarange:
            index = self._metarange_numbers.setdefault(metarange, len(self.metaranges))
            if index == len(self.metaranges):
                self.metaranges.append(metarange)
            self.metarange[number] = index
            if commit is not None and KEY in commit.metadata:
                self.cuts.setdefault(index, commit)

    def parents_first(self) -> list[int]:
        """Return all commits, each after its parents."""
        order: list[int] = []
        state = bytearray(len(self._ids))  # 1: waits for its parents; 2: placed
        for start in range(len(self._ids)):
            stack = [start]
            while stack:
                number = stack[-1]
                if state[number] == 0:
                    state[number] = 1
                    stack += [parent for parent in self.parents[number] if state[parent] == 0]
                else:
                    stack.pop()
                    if state[number] == 1:
                        state[number] = 2
                        order.append(number)
        return order

    def with_metarange(self, metarange: int) -> list[int]:
        """Return the commits that have this tree. Looks at all."""
        return [number for number, has in enumerate(self.metarange) if has == metarange]

    def neighbours(self, commits: Iterable[int]) -> list[int]:
        """Return parents and children of ``commits``, without these. Looks at all."""
        among = set(commits)
        near = dict.fromkeys(parent for number in among for parent in self.parents[number])
        for number, parents in enumerate(self.parents):
            if not among.isdisjoint(parents):
                near[number] = None
        return [number for number in near if number not in among]

    def attribute(self, damages: Sequence[Damage]) -> list[Finding]:
        """Return the findings: each damage with the commits and refs that it affects."""
        order = self.parents_first() if damages else []
        affected = {metarange for damage in damages for metarange in damage.metaranges}
        having: dict[int, list[int]] = {metarange: [] for metarange in affected}
        for number, metarange in enumerate(self.metarange if affected else ()):
            if metarange in affected:
                having[metarange].append(number)
        for damage in damages:
            for metarange in damage.metaranges:
                damage.commits.update(having[metarange])
        findings: list[Finding] = []
        for begin in range(0, len(damages), _TOGETHER):
            findings += self._attribute(damages[begin : begin + _TOGETHER], order)
        return findings

    def _attribute(self, damages: Sequence[Damage], order: Sequence[int]) -> list[Finding]:
        reaching: dict[int, int] = {}  # commit → which damages it reaches, a bit each
        for bit, damage in enumerate(damages):
            for number in damage.commits:
                reaching[number] = reaching.get(number, 0) | 1 << bit
        for number in order:
            mask = reaching.get(number, 0)
            for parent in self.parents[number]:
                mask |= reaching.get(parent, 0)
            if mask:
                reaching[number] = mask
        findings = []
        for bit, damage in enumerate(damages):
            refs = set(damage.refs)
            for head in self.heads:
                if reaching.get(head.commit, 0) >> bit & 1:
                    refs.add(AffectedRef(head.kind, head.name, head.commit not in damage.commits))
            newest = sorted(damage.commits, key=lambda number: (-self.generation[number], self._ids[number]))
            findings.append(
                Finding(
                    damage.kind,
                    damage.subject,
                    damage.reason,
                    damage.remedy,
                    _text(damage.first_key),
                    _text(damage.last_key),
                    _nearest(refs),
                    tuple(map(self.id, newest[:SHOWN_COMMITS])),
                    len(damage.commits),
                    damage.repaired,
                )
            )
        return findings


def _nearest(refs: set[AffectedRef]) -> tuple[AffectedRef, ...]:
    """Return each ref once, as affected now rather than in its history; a reference log only if no ref leads there."""
    shown = [ref for ref in refs if not ref.in_history or AffectedRef(ref.kind, ref.name) not in refs]
    return tuple(sorted(ref for ref in shown if ref.kind != "reflog" or all(r.kind == "reflog" for r in shown)))


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "backslashreplace")
