"""Pull requests: each item can be read, is listed under its state, and has its branches, or the commit that it was merged as."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from graveler.errors import CorruptError, LaterVersionError, RefNotFoundError
from graveler.history.commits import CommitStore
from graveler.history.reflog import RefLog
from graveler.history.refs import BranchState, Refs
from graveler.lake.fsck.findings import AffectedRef, FindingKind
from graveler.lake.fsck.history import Damage, unreadable_rest
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.pulls.pull_sides import PullSides, closed_by_loss
from graveler.lake.pulls.pull_store import PullStore, next_version
from graveler.requests.pulls import PullRequest, PullState
from graveler.staging.tokens import life_of
from graveler.storage.tables.port import (
    Absent,
    Check,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Write,
)

_LOST: Final = (
    "As long as it is there, pull requests cannot be listed. Restore the table from a copy; or run again with repair, which "
    "removes it, and propose the merge again"
)
_INDEX: Final = "Lists show it wrongly, or cannot be read. Run again with repair, which lists it anew"
_CLOSE: Final = "It is shown as closed, but listed among the open ones. Run again with repair, which closes it"
_MERGED: Final = (
    "Restore the table and the repository's files from copies of one moment, or look for the merge in `log`"
)
_LAST: Final = "No pull request can be created. Run again with repair, which counts them anew"
_COMMENT: Final = "The comments of its pull request cannot be read. Run again with repair, which removes it"
_PAGE: Final = 1000


class _Entry(Struct):
    """The items of one number: that of the request, None if there is none, and those of the lists, by state."""

    item: Item | DamagedItem | None = None
    listed: dict[PullState, Item | DamagedItem] = field(default_factory=dict)


class PullRequestCheck:
    """Checks the pull requests of one repository. Those that change meanwhile are read once more before they are reported."""

    def __init__(
        self, tables: Tables, pulls: PullStore, refs: Refs, commits: CommitStore, log: RefLog, *, repair: bool
    ) -> None:
        self._tables = tables
        self._pulls = pulls
        self._refs = refs
        self._commits = commits
        self._log = log
        self._repair = repair
        self._damages: list[Damage] = []

    def run(self, branches: Sequence[BranchState]) -> list[Damage]:
        """Return the damages. With ``repair``, items that cannot be read are removed, lists are written anew, and requests whose
        branches are gone are closed. One table read for each thousand items, one for each merged request, and four for each
        damage; one transaction for each repair."""
        entries, last = self._scan()
        states = {branch.name: branch for branch in branches}
        for number, entry in sorted(entries.items()):
            if self._reason(number, entry):
                self._report(number)
            elif isinstance(entry.item, Mapping):
                self._look(self._pulls.decode(number, entry.item), states)
        if entries and not self._counts(last, max(entries)):
            self._report_last(max(entries))
        self._check_comments()
        return self._damages

    def _scan(self) -> tuple[dict[int, _Entry], Item | DamagedItem | None]:
        """Return what there is about each number, and the item of the last number."""
        entries: dict[int, _Entry] = {}
        last: Item | DamagedItem | None = None
        names = {state.value: state for state in PullState}
        for sort, item in scan(self._tables, self._pulls.partition):
            kind, _, digits = sort.decode("utf-8", "backslashreplace").partition("/")
            if isinstance(item, DamagedItem) and item.rest:
                self._damages.append(unreadable_rest(self._pulls.partition, repr(f"{kind}/{digits}"), item))
            elif sort == self._pulls.last_key.sort:
                last = item
            elif digits.isdecimal() and kind == "pull":
                entries.setdefault(int(digits), _Entry()).item = item
            elif digits.isdecimal() and kind in names:
                entries.setdefault(int(digits), _Entry()).listed[names[kind]] = item
        return entries, last

    def _reason(self, number: int, entry: _Entry) -> str:
        """Return what is wrong with the items of a number; empty if nothing is."""
        if entry.item is None:
            return f"is listed as {' and '.join(sorted(entry.listed))}, and does not exist"
        if isinstance(entry.item, DamagedItem):
            return f"cannot be read: {entry.item.reason}"
        try:
            pull = self._pulls.decode(number, entry.item)
        except CorruptError:
            return "cannot be read: its document is none of a pull request"
        if entry.item.get("version") != pull.version:
            return f"has version {entry.item.get('version')!r}, and {pull.version} in its document"
        for state, item in entry.listed.items():
            if isinstance(item, DamagedItem):
                return f"has an entry in the list of those that are {state.value} that cannot be read: {item.reason}"
        if [*entry.listed] != [pull.state]:
            return f"is {pull.state.value}, and listed as {' and '.join(sorted(entry.listed)) or 'nothing'}"
        return ""

    def _report(self, number: int) -> None:
        """Report a number whose items are wrong, if they still are."""
        entry = self._read(number)
        reason = self._reason(number, entry)
        if not reason:
            return
        lost = entry.item is None or isinstance(entry.item, DamagedItem)
        pull: PullRequest | None = None
        if isinstance(entry.item, Mapping):
            try:
                pull = self._pulls.decode(number, entry.item)
            except CorruptError:
                lost = True
        damage = self._damage(number, reason, _LOST if lost else _INDEX)
        if self._repair:
            self._repair_items(number, entry, None if lost else pull, damage)

    def _read(self, number: int) -> _Entry:
        """Read the items of a number again. Four table reads."""
        item, *listed = [self._get(key) for key in (self._pulls.key(number), *self._pulls.index_keys(number).values())]
        return _Entry(item, {state: item for state, item in zip(PullState, listed, strict=True) if item is not None})

    def _get(self, key: Key) -> Item | DamagedItem | None:
        try:
            return self._tables.get(key)
        except CorruptError as error:
            return DamagedItem(str(error))

    def _repair_items(self, number: int, entry: _Entry, pull: PullRequest | None, damage: Damage) -> None:
        """Remove what cannot be read; list a request under its state alone."""
        key, index = self._pulls.key(number), self._pulls.index_keys(number)
        if pull is None:
            condition = Matches(dict(entry.item)) if isinstance(entry.item, Mapping) else None
            writes: list[Write] = [Delete(key, condition) if entry.item is not None else Check(key, Absent())]
            words = "Removed"
        else:
            assert isinstance(entry.item, Mapping)
            written = {**entry.item, "version": pull.version}
            writes = [Put(key, written, Matches(dict(entry.item)))]
            writes.append(Put(index[pull.state], {"state": pull.state.value}))
            words = f"Listed as {pull.state.value}"
        writes += [Delete(index[state]) for state in PullState if pull is None or state is not pull.state]
        self._write(writes, damage, words)

    def _look(self, pull: PullRequest, states: Mapping[str, BranchState]) -> None:
        """Report a merged request without its commit, and an open one without its branches."""
        if pull.state is PullState.MERGED:
            if (reason := self._lost_commit(pull, states)) and self._is_unchanged(pull):
                self._damage(pull.number, reason, _MERGED, pull)
        elif pull.is_open and PullSides(pull, states.get(pull.source), states.get(pull.destination)).loss:
            loss = self._loss(pull)
            if loss and self._is_unchanged(pull):
                damage = self._damage(pull.number, f"is open, and {loss}", _CLOSE)
                if self._repair:
                    closed = next_version(pull, closed_by_loss(pull, loss, 0))
                    self._write(self._pulls.change_writes(pull, closed), damage, "Closed")

    def _lost_commit(self, pull: PullRequest, states: Mapping[str, BranchState]) -> str:
        """Return what is wrong with the commit of a merged request. One that its branch had and left may have been collected."""
        if not pull.merged_commit:
            return "is merged, and names no commit"
        try:
            self._commits.get(pull.merged_commit)
        except RefNotFoundError:
            state = states.get(pull.destination)
            if state is None or life_of(state.open) != pull.destination_life or self._had(pull):
                return ""
            return (
                f"is merged as commit {pull.merged_commit}, which does not exist, and which its destination never had"
            )
        except (CorruptError, LaterVersionError):
            return ""  # the check of the commits reports it
        return ""

    def _had(self, pull: PullRequest) -> bool:
        """Return whether the destination's reference log names the commit, or does not go back far enough to tell."""
        is_whole = False
        try:
            for row in self._log.rows("branch", pull.destination, _PAGE):
                if pull.merged_commit in (row.new, row.old):
                    return True
                is_whole = row.old is None
        except CorruptError:
            return True  # the check of the logs reports the row
        return not is_whole

    def _loss(self, pull: PullRequest) -> str:
        """Return why the branches are not those of the request any more, by another look; empty if one cannot be read, which the
        check of the refs reports."""
        try:
            return PullSides(pull, self._refs.branch(pull.source), self._refs.branch(pull.destination)).loss
        except CorruptError:
            return ""

    def _is_unchanged(self, pull: PullRequest) -> bool:
        item = self._get(self._pulls.key(pull.number))
        return isinstance(item, Mapping) and item.get("version") == pull.version

    def _counts(self, last: Item | DamagedItem | None, newest: int) -> bool:
        number = last.get("number") if isinstance(last, Mapping) else None
        return isinstance(number, int) and number >= newest

    def _report_last(self, newest: int) -> None:
        """Report the number of the newest request, if it still is wrong."""
        last = self._get(self._pulls.last_key)
        if self._counts(last, newest):
            return
        reason = "cannot be read" if isinstance(last, DamagedItem) else f"is not at least {newest}"
        subject = "the number of the newest pull request"
        damage = Damage(FindingKind.PULL_REQUEST, subject, reason, _LAST)
        self._damages.append(damage)
        if self._repair:
            condition = Absent() if last is None else Matches(dict(last)) if isinstance(last, Mapping) else None
            self._write([Put(self._pulls.last_key, {"number": newest}, condition)], damage, "Counted anew")

    def _check_comments(self) -> None:
        """Report comments that cannot be read. One table read for each thousand."""
        partition = self._pulls.comment_partition
        for sort, item in scan(self._tables, partition):
            name = sort.decode("utf-8", "backslashreplace")
            if isinstance(item, DamagedItem) and item.rest:
                self._damages.append(unreadable_rest(partition, repr(name), item))
                continue
            pull, _, number = name.partition("/")
            try:
                if isinstance(item, DamagedItem):
                    raise CorruptError(item.reason)
                if not number.isdecimal() or self._pulls.comment(item).number != int(number):
                    raise CorruptError("it has another number")
            except CorruptError as error:
                subject = f"comment {number.lstrip('0')} on pull request {pull.lstrip('0')}"
                damage = Damage(FindingKind.PULL_REQUEST, subject, f"cannot be read: {error}", _COMMENT)
                self._damages.append(damage)
                if self._repair:
                    condition = None if isinstance(item, DamagedItem) else Matches(dict(item))
                    self._write([Delete(Key(partition, sort), condition)], damage, "Removed")

    def _damage(self, number: int, reason: str, remedy: str, pull: PullRequest | None = None) -> Damage:
        refs = () if pull is None else (AffectedRef("branch", pull.destination),)
        damage = Damage(FindingKind.PULL_REQUEST, f"pull request {number}", reason, remedy, refs=refs)
        self._damages.append(damage)
        return damage

    def _write(self, writes: Sequence[Write], damage: Damage, words: str) -> None:
        """Make the writes of a repair, unless something has changed since it was read."""
        try:
            self._tables.transact(writes)
        except (ConditionFailedError, CorruptError):
            return
        damage.mark_repaired(words)
