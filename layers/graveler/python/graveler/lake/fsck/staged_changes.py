"""The staged changes, and whether branches, tokens and the clean-up queue agree on their owner."""

from collections.abc import Iterator, Sequence

from xxhash import xxh64_intdigest

from graveler.errors import CorruptError
from graveler.history.refs import BranchState, Refs
from graveler.lake.fsck.findings import AffectedRef, Counts, FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.fsck.objects import ObjectCheck
from graveler.model import ObjectEntry, RepositoryUID, Token
from graveler.staging.tokens import Outcomes, TokenOutcome, TokenState, shard_count
from graveler.storage.tables.port import Item, Key, Tables
from graveler.system.progress import Progress
from graveler.tree.record import RecordCodec, encode_key

_AT_ONCE = 1000
_STAGE_AGAIN = "Write or delete the path again: the new change replaces it"


class StagedCheck:
    """A check of the uncommitted changes of all branches, and their tokens."""

    def __init__(
        self,
        tables: Tables,
        uid: RepositoryUID,
        refs: Refs,
        codec: RecordCodec,
        objects: ObjectCheck,
        counts: Counts,
        progress: Progress,
        *,
        repair: bool,
    ) -> None:
        self._tables = tables
        self._uid = uid
        self._refs = refs
        self._codec = codec
        self._objects = objects
        self._counts = counts
        self._progress = progress
        self._repair = repair
        self._outcomes = Outcomes(tables, uid)
        self.damages: list[Damage] = []

    def run(self, branches: Sequence[BranchState]) -> None:
        """Run the check. One table read for each token, one for each of its shards and each thousand staged, and an object read
        for each object.

        The repository may be in use: apparent damage is checked again by the branch as it is then.
        """
        live: dict[Token, BranchState] = {}
        for done, state in enumerate(branches, 1):
            for token in (*state.sealed, state.open):
                other = live.setdefault(token, state)
                if other is not state and self._still_has(state, token) and self._still_has(other, token):
                    reason = f"is also a token of branch {other.name!r}: changes staged on one of them show on both"
                    subject = f"token {token} of branch {state.name!r}"
                    self._add(state, FindingKind.TOKEN, subject, reason, "Commit one of them and reset the other")
                    continue
                try:
                    shards = shard_count(token)
                except CorruptError:
                    reason = f"has {token!r} as a token, which is invalid"
                    self._add(state, FindingKind.TOKEN, f"branch {state.name!r}", reason, "Restore the table or a dump")
                    continue
                self._check_outcome(state, token)
                for shard in range(shards):
                    self._check_items(state, token, shard, shards)
            self._progress("staged", done, len(branches))
        self._check_queue(live)

    def _check_outcome(self, state: BranchState, token: Token) -> None:
        subject = f"token {token} of branch {state.name!r}"
        try:
            outcome = self._outcomes.get(token)
        except (CorruptError, ValueError) as error:
            self._add(
                state, FindingKind.TOKEN, subject, f"has an item that cannot be read: {error}", "Remove that item"
            )
            return
        reason = _misfit(state, token, outcome)
        if reason is not None and self._still_has(state, token):
            try:
                reason = _misfit(state, token, self._outcomes.get(token))
            except (CorruptError, ValueError) as error:
                reason = f"has an item that cannot be read: {error}"
            if reason is not None:
                remedy = "Commit the branch, or stage its changes again on another one, before they are swept"
                self._add(state, FindingKind.TOKEN, subject, reason, remedy)

    def _check_items(self, state: BranchState, token: Token, shard: int, shards: int) -> None:
        entries: list[ObjectEntry] = []
        for entry in self._entries(state, token, shard, shards):
            entries.append(entry)
            if len(entries) == _AT_ONCE:
                self._look_for(state, entries)
                entries = []
        self._look_for(state, entries)

    def _entries(self, state: BranchState, token: Token, shard: int, shards: int) -> Iterator[ObjectEntry]:
        partition = f"{self._uid}/staged/{token}/{shard}"
        for key, item in scan(self._tables, partition):
            if isinstance(item, DamagedItem) and item.rest:
                reason = f"cannot be read from {key!r} on: {item.reason}"
                self._add(
                    state, FindingKind.TABLE, f"partition {partition}", reason, "Restore the table from a copy", key
                )
                continue
            self._counts.staged += 1
            try:
                entry = self._decode(key, item)
            except CorruptError as error:
                self._add(state, FindingKind.STAGED, _change(key), f"cannot be read: {error}", _STAGE_AGAIN, key)
                continue
            belongs = xxh64_intdigest(key) % shards if shards > 1 else 0
            if belongs != shard:
                reason = f"is in shard {shard} of its token, but belongs in {belongs}: reads of the path do not find it"
                self._add(state, FindingKind.STAGED, _change(key), reason, _STAGE_AGAIN, key)
            if entry is not None:
                yield entry

    def _decode(self, key: bytes, item: Item | DamagedItem) -> ObjectEntry | None:
        if isinstance(item, DamagedItem):
            raise CorruptError(item.reason)
        record = item.get("record")
        if record is None:
            return None
        if not isinstance(record, bytes):
            raise CorruptError(f"it contains {record!r}, which is not a record")
        return self._codec.decode(key, record)

    def _look_for(self, state: BranchState, entries: Sequence[ObjectEntry]) -> None:
        for lack in self._objects.look(entries):
            key = encode_key(lack.entry.path)
            remedy = "Upload the object again, or delete the path, before the branch is committed"
            self._add(
                state, lack.kind, f"object {lack.entry.address}", f"{lack.reason}; {_change(key)} names it", remedy, key
            )

    def _check_queue(self, live: dict[Token, BranchState]) -> None:
        """Check that no token in the queue, which will be swept, still belongs to a branch."""
        partition = f"{self._uid}/cleanup"
        for sort, item in scan(self._tables, partition):
            subject = f"entry {sort.hex()} of the clean-up queue"
            if isinstance(item, DamagedItem) and item.rest:
                self.damages.append(unreadable_rest(partition, sort.hex(), item))
                continue
            if isinstance(item, DamagedItem) or not _is_entry(sort, item):
                reason = item.reason if isinstance(item, DamagedItem) else "it is not a time and a token"
                damage = Damage(
                    FindingKind.CLEANUP, subject, f"cannot be read ({reason})", "The clean-up stops at it; remove it"
                )
                self.damages.append(damage)
                self._forget(partition, sort, damage)
                continue
            token = Token(str(item["token"]))
            state = live.get(token)
            if state is not None and self._still_has(state, token):
                reason = f"has token {token}, which the branch still uses: its changes would be swept"
                damage = self._add(
                    state, FindingKind.TOKEN, subject, reason, "Run again with repair, which removes the entry"
                )
                self._forget(partition, sort, damage)

    def _forget(self, partition: str, sort: bytes, damage: Damage) -> None:
        """Remove an entry from the queue: at worst, unneeded items stay."""
        if self._repair:
            self._tables.delete(Key(partition, sort))
            damage.mark_repaired("Removed")

    def _still_has(self, state: BranchState, token: Token) -> bool:
        """Return whether the branch still has the token, as open or sealed as it was."""
        try:
            now = self._refs.branch(state.name)
        except CorruptError:
            return False
        return now is not None and (now.open == token) == (state.open == token) and token in (*now.sealed, now.open)

    def _add(
        self, state: BranchState, kind: FindingKind, subject: str, reason: str, remedy: str, key: bytes | None = None
    ) -> Damage:
        damage = Damage(kind, subject, reason, remedy, key, key, refs=(AffectedRef("branch", state.name),))
        self.damages.append(damage)
        return damage


def _misfit(state: BranchState, token: Token, outcome: TokenOutcome | None) -> str | None:
    """Return why a token's item does not fit the branch that has the token."""
    if token == state.open:
        if outcome is None:
            return None
        return f"is open, but its item says {outcome.state.value}"
    if outcome is None:
        return "is sealed, but has no item that says by what"
    if outcome.state is not TokenState.SEALED:
        return f"is sealed, but its item says {outcome.state.value}"
    return None


def _change(key: bytes) -> str:
    return f"the staged change of {key.decode('utf-8', 'backslashreplace')!r}"


def _is_entry(sort: bytes, item: Item) -> bool:
    token = item.get("token")
    return isinstance(token, str) and sort[8:] == token.encode() and item.get("sweep") in (1, 2)
