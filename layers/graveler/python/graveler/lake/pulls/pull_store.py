"""The items of pull requests in the table.

Partition ``<repository uid>/pulls``. Sort keys: ``last`` (attribute ``number``: that of the newest pull request);
``pull/<number>`` (``version``, and ``pull``, its JSON document); ``open/<number>``, ``closed/<number>`` or ``merged/<number>``,
the index by state, without a meaning of its own: it is written in the transactions that change the state. Numbers have ten
digits there, so that they are in order.

Comments: partition ``<repository uid>/pull-comments``, sort key ``<pull>/<number>`` (``comment``, a JSON document). Results of
requests with an ID: ``<repository uid>/request/<id>``, sort keys ``pull`` and ``comment`` (``number``).
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from graveler.errors import UNREADABLE, CorruptError, InvalidError
from graveler.lake.committing.request_results import REQUEST_TTL
from graveler.lake.pulls.pull_errors import PullRequestNotFoundError
from graveler.model import Page, RepositoryUID
from graveler.requests.pulls import PullComment, PullRequest, PullState
from graveler.storage.tables.port import Absent, Delete, Item, Key, Matches, Put, Query, Tables, Write

_DIGITS: Final = 10
_END: Final = 10**_DIGITS
_COMMENT_DIGITS: Final = 4
_LAST_COMMENT: Final = 10**_COMMENT_DIGITS - 1
_MOST_LISTED: Final = 1000

_decode_pull: Final = msgspec.json.Decoder(PullRequest).decode
_decode_comment: Final = msgspec.json.Decoder(PullComment).decode


def pull_number(text: str) -> int:
    """Return the number of a pull request. :class:`PullRequestNotFoundError` for text that is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and text[0] != "0"):
        raise PullRequestNotFoundError(text[:80])
    return int(text)


class PullStore:
    """The pull requests of one repository, as the table has them."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._uid = uid
        self.partition: Final = f"{uid}/pulls"
        self.comment_partition: Final = f"{uid}/pull-comments"
        self.last_key: Final = Key(self.partition, b"last")

    def key(self, number: int) -> Key:
        """Return the key of a pull request."""
        return Key(self.partition, f"pull/{number:0{_DIGITS}}".encode())

    def index_keys(self, number: int) -> dict[PullState, Key]:
        """Return the keys under which a pull request is listed in each state."""
        return {state: Key(self.partition, _sort(state, number)) for state in PullState}

    def get(self, number: int) -> PullRequest:
        """Return a pull request. One table read. :class:`PullRequestNotFoundError`."""
        return self.decode(number, self._tables.get(self.key(number)))

    def decode(self, number: int, item: Item | None) -> PullRequest:
        """Return the pull request in the item at :meth:`key`. No request. :class:`PullRequestNotFoundError` without an item,
        :class:`CorruptError`."""
        if item is None:
            raise PullRequestNotFoundError(str(number))
        pull = _decoded(item)
        if pull is None or pull.number != number:
            raise CorruptError(
                f"the table's item of pull request {number} cannot be read; restore the table from a copy"
            )
        return pull

    def create_writes(self, pull: PullRequest, last: Item | None, mark: str) -> list[Write]:
        """Return the writes that create a pull request, on condition that ``last``, the item at :attr:`last_key`, is still as it
        was read. ``mark`` is a random text, by which :meth:`has_mark` knows it. Three writes, no request."""
        unchanged = Absent() if last is None else Matches(dict(last))
        return [
            Put(self.last_key, {"number": pull.number}, unchanged),
            Put(self.key(pull.number), {**pull_item(pull), "mark": mark}, Absent()),
            Put(self.index_keys(pull.number)[pull.state], {"state": pull.state.value}),
        ]

    def has_mark(self, key: Key, mark: str) -> bool:
        """Return whether the item that was created with this mark is in the table, unchanged. One table read."""
        item = self._tables.get(key)
        return item is not None and item.get("mark") == mark

    def change_writes(self, old: PullRequest, new: PullRequest) -> list[Write]:
        """Return the writes that replace ``old`` by ``new``, on condition that the table still has the version of ``old``;
        ``new`` has the next one. One write, three if the state changes. No request."""
        writes: list[Write] = [Put(self.key(new.number), pull_item(new), Matches({"version": old.version}))]
        if new.state is not old.state:
            writes += [
                Delete(self.index_keys(old.number)[old.state]),
                Put(self.index_keys(new.number)[new.state], {"state": new.state.value}),
            ]
        return writes

    def page(self, states: Collection[PullState], after: str, amount: int, prefix: str = "") -> Page[PullRequest]:
        """Return up to ``amount`` (1 to 1,000) pull requests in these states, the newest first: those with a number below
        ``after``, which begins with the digits ``prefix``. :class:`InvalidError`.

        Cost: a table read for each state, and one for each hundred results; with a ``prefix``, up to ten times as many.
        """
        amount = _checked_amount(amount)
        numbers: list[int] = []
        for low, high in _spans(prefix, _position(after, _END)):
            queries = [
                Query(self.partition, _sort(state, low), _sort(state, high), amount + 1 - len(numbers), descending=True)
                for state in sorted(states)
            ]
            pages = self._tables.query_many(queries)
            listed = [self._number(sort) for page in pages for sort, _ in page.items]
            numbers += sorted(listed, reverse=True)[: amount + 1 - len(numbers)]
            if len(numbers) > amount:
                break
        shown = numbers[:amount]
        stored = self._tables.get_many([*map(self.key, shown)]) if shown else []
        pulls = [self.decode(number, item) for number, item in zip(shown, stored, strict=True)]
        in_states = tuple(pull for pull in pulls if pull.state in states)
        return Page(in_states, str(shown[-1]) if len(numbers) > amount else None)

    def restore_writes(self, pull: PullRequest) -> list[Write]:
        """Return the writes that put a pull request back. No request."""
        return [
            Put(self.key(pull.number), pull_item(pull)),
            Put(self.index_keys(pull.number)[pull.state], {"state": pull.state.value}),
        ]

    # Comments

    def last_comment(self, pull: int) -> int:
        """Return the number of the newest comment on a pull request; 0 without one. One table read."""
        start, end = self._comment_sort(pull, 0), self._comment_sort(pull + 1, 0)
        page = self._tables.query(self.comment_partition, start=start, end=end, limit=1, descending=True)
        return self.comment(page.items[0][1]).number if page.items else 0

    def comments(self, pull: int, after: str, amount: int) -> Page[PullComment]:
        """Return up to ``amount`` comments on a pull request, the oldest first: those after the comment of this number. One table
        read. :class:`InvalidError`."""
        start, end = (
            self._comment_sort(pull, min(_position(after, 0), _LAST_COMMENT) + 1),
            self._comment_sort(pull + 1, 0),
        )
        page = self._tables.query(self.comment_partition, start=start, end=end, limit=_checked_amount(amount))
        comments = tuple(self.comment(item) for _, item in page.items)
        return Page(comments, str(comments[-1].number) if page.more and comments else None)

    def comment(self, item: Item) -> PullComment:
        """Return the comment in an item. No request. :class:`CorruptError`."""
        try:
            return _decode_comment(_text(item, "comment"))
        except UNREADABLE as error:
            raise CorruptError(f"the table's item of a comment on a pull request cannot be read: {error}") from None

    def comment_key(self, pull: int, number: int) -> Key:
        """Return the key of a comment."""
        return Key(self.comment_partition, self._comment_sort(pull, number))

    def comment_write(self, pull: int, comment: PullComment, mark: str) -> Put:
        """Return the write that creates a comment, on condition that there is none with its number. ``mark`` as of
        :meth:`create_writes`. No request."""
        document = msgspec.json.encode(comment).decode()
        return Put(self.comment_key(pull, comment.number), {"comment": document, "mark": mark}, Absent())

    # Results of requests

    def result_key(self, request_id: str, kind: str) -> Key:
        """Return the key of the item that names the result of a request: a ``pull`` or a ``comment``."""
        return Key(f"{self._uid}/request/{request_id}", kind.encode())

    def result_write(self, request_id: str, kind: str, number: int, now: float) -> Put:
        """Return the write that records the result of a request, on condition that it has none. No request."""
        item: Item = {"number": number, "expires": int(now) + REQUEST_TTL}
        return Put(self.result_key(request_id, kind), item, Absent())

    def _number(self, sort: bytes) -> int:
        return int(sort.rpartition(b"/")[2])

    @staticmethod
    def _comment_sort(pull: int, number: int) -> bytes:
        return f"{pull:0{_DIGITS}}/{number:0{_COMMENT_DIGITS}}".encode()


def next_version(old: PullRequest, changed: PullRequest) -> PullRequest:
    """Return a changed pull request with the version after that of ``old``."""
    return replace(changed, version=old.version + 1)


def result_number(item: Item | None) -> int | None:
    """Return the number in an item that names the result of a request, if there is one."""
    number = None if item is None else item.get("number")
    return number if isinstance(number, int) else None


def pull_item(pull: PullRequest) -> Item:
    """Return the item of a pull request."""
    return {"version": pull.version, "pull": msgspec.json.encode(pull).decode()}


def _decoded(item: Item) -> PullRequest | None:
    try:
        return _decode_pull(_text(item, "pull"))
    except UNREADABLE:
        return None


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise msgspec.ValidationError(f"attribute {name!r} is {value!r}")
    return value


def _sort(state: PullState, number: int) -> bytes:
    return f"{state.value}/{number:0{_DIGITS}}".encode() if number < _END else f"{state.value}0".encode()


def _checked_amount(amount: int) -> int:
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")
    return min(amount, _MOST_LISTED)


def _position(after: str, begin: int) -> int:
    """Return the number after which a page begins; ``begin`` for the first page."""
    if not after:
        return begin
    if not (after.isascii() and after.isdecimal() and len(after) <= _DIGITS):
        raise InvalidError(
            f"after={after[:80]!r} is not a number; pass the position with which the previous page ended"
        )
    return int(after)


def _spans(prefix: str, end: int) -> Sequence[tuple[int, int]]:
    """Return the intervals of numbers below ``end`` that begin with the digits ``prefix``, the highest first.
    :class:`InvalidError` for other characters."""
    if not prefix:
        return [(0, end)]
    if not (prefix.isascii() and prefix.isdecimal()):
        raise InvalidError(
            f"prefix {prefix[:80]!r}: the IDs of pull requests are numbers, so a prefix of them has digits only"
        )
    spans = [(int(prefix) * 10**more, (int(prefix) + 1) * 10**more) for more in range(_DIGITS - len(prefix), -1, -1)]
    return [(low, min(high, end)) for low, high in spans if low < end and prefix[0] != "0"]
