"""Where a listing of a bucket is cut, so that tasks list about as much each, whatever its keys look like.

Nobody knows beforehand how many keys lie between two of them: a store only tells the names that follow one. :func:`look` asks
for a few of them and guesses, from the room that a page takes among all names there could be, and from samples of folders.
It also says where it would cut. :func:`cut_points` has pieces that look too large cut and looked at again, a round at a time,
until the guesses are fine enough. A guess may be wrong: the listing is complete anyway, since any names cut it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final, TypeVar

from msgspec import Struct

from graveler.storage.limits import MAX_OBJECT_KEY_BYTES
from graveler.storage.objects import PAGE, Objects, Page

T = TypeVar("T")

LAST: Final = "\U0010ffff"
"""Behind a folder's name: what no usual key in it comes after."""
GRAIN: Final = 3
"""A part is put together from so many pieces, or more."""
WAYS: Final = 32
"""Pieces that one is cut into, at most."""
_FINER: Final = 1.3
"""A piece is cut so much finer than need be, so that few of its pieces have to be cut again."""
_ROUNDS: Final = 24
_LOOKS: Final = 16
"""Looks for each part that is wanted, at most."""
_SAMPLES: Final = 2
"""Folders that a look goes into."""
_DEPTH: Final = 4
"""Folders below each other that it does."""
_KNOWN: Final = 128
"""Names that are enough to see what they look like."""
_MOST: Final = 10**12
"""A guess says no more than that there are so many times more."""
_UNSURE: Final = 3
"""Places at which all known names have the same character, and others may be others."""
_NARROWINGS: Final = 8
_KINDS: Final = 2
"""Names that begin otherwise than the first ones, and again otherwise."""
_FAR: Final = 64
"""A page that takes less than this part of a piece's room says little of it, until the next name of another kind is known."""
_CLASSES: Final = (digits, ascii_lowercase, ascii_uppercase)
_HEX: Final = "abcdef"
_OTHER_LETTERS: Final = ascii_lowercase[len(_HEX) :]
_ENOUGH: Final = 5
"""So many characters at one place say what kinds stand there; of fewer, the other places have to."""


class Piece(Struct, frozen=True):
    """The keys after ``after`` up to ``upto`` (empty: to the end). All of them begin with ``top``, the prefix or a folder."""

    after: str
    upto: str
    top: str


class Look(Struct, frozen=True):
    """What a piece looks like: how many keys it seems to have, whether they were counted, how many folders were not looked
    into, names at which it could be cut, and a folder in which all of it lies."""

    keys: float
    counted: bool
    unseen: float
    cuts: list[str]
    top: str


def cut_points(
    objects: Objects, prefix: str, wanted: int, look_at: Callable[[Sequence[Piece]], Iterable[Look]] | None = None
) -> list[str]:
    """Fewer than ``wanted`` names, ascending, that cut the keys with a prefix into parts of about one size. Not all of them are
    names of objects. ``look_at`` takes looks at pieces, in parallel if it can, and returns them in their order.

    Cost: one request for a prefix of up to 1,000 keys; else up to 24 rounds of :func:`look`, for about five pieces of each part,
    and never more than sixteen. A crowded folder among very many others is found only if a look happens to go into it.
    """
    at_once = look_at or (lambda some: [look(objects, piece) for piece in some])
    whole = Piece("", "", prefix)
    pieces = [(whole, look(objects, whole))]
    left = _LOOKS * wanted
    for _ in range(_ROUNDS):
        goal = max(sum(seen.keys for _, seen in pieces) / (wanted * GRAIN), PAGE)
        chosen = _to_cut(pieces, goal, left, wanted)
        if not chosen:
            break
        new = [piece for some in chosen.values() for piece in some]
        left -= len(new)
        seen = dict(zip(new, at_once(new), strict=True))
        pieces = [
            found
            for piece, old in pieces
            for found in ([(one, seen[one]) for one in chosen[piece]] if piece in chosen else [(piece, old)])
        ]
    return _ends(pieces, wanted)


def groups(pieces: Sequence[T], tasks: int) -> list[list[T]]:
    """Pieces for each of so many tasks to look at. Neighbours, which take about as long, go to different ones."""
    return [list(pieces[number::tasks]) for number in range(min(tasks, len(pieces)))]


def _to_cut(pieces: Sequence[tuple[Piece, Look]], goal: float, left: int, wanted: int) -> dict[Piece, list[Piece]]:
    """The pieces to cut next, with what becomes of them: those that are too large, the largest first. Then those with folders
    that nobody looked into, as far as that is cheap beside the listing itself."""
    open_ones = [(piece, seen) for piece, seen in pieces if seen.cuts and not seen.counted]
    large = [(piece, seen) for piece, seen in open_ones if seen.keys > goal]
    if large:
        by_size = sorted(large, key=lambda one: -one[1].keys)
    else:
        pages = sum(seen.keys for _, seen in pieces) / PAGE
        spent = _LOOKS * wanted - left
        left = min(left, round(min(GRAIN * wanted, PAGE / 8 + pages / 8)) - spent)
        by_size = sorted((one for one in open_ones if one[1].unseen), key=lambda one: -one[1].unseen)
    chosen: dict[Piece, list[Piece]] = {}
    for piece, seen in by_size:
        ways = min(WAYS, max(2, ceil(_FINER * seen.keys / goal))) if large else WAYS
        parts = _cut(piece, seen, ways)
        left -= len(parts)
        if left < 0:
            break
        chosen[piece] = parts
    return chosen


def _cut(piece: Piece, seen: Look, ways: int) -> list[Piece]:
    """A piece cut into so many, or as many as there can be."""
    ways = min(ways, len(seen.cuts) + 1)
    names = [seen.cuts[number * (len(seen.cuts) + 1) // ways - 1] for number in range(1, ways)]
    return [Piece(after, upto, seen.top) for after, upto in pairwise([piece.after, *names, piece.upto])]


def _ends(pieces: Sequence[tuple[Piece, Look]], wanted: int) -> list[str]:
    """Where the parts end, but the last one."""
    share = sum(seen.keys for _, seen in pieces) / wanted
    ends: list[str] = []
    before = 0.0
    for piece, seen in pieces:
        middle = before + seen.keys / 2
        if piece.after and middle >= (len(ends) + 1) * share and len(ends) < wanted - 1 and before > 0:
            ends.append(piece.after)
        before += seen.keys
    return ends


def look(objects: Objects, piece: Piece) -> Look:
    """What a piece looks like. Cost: a request if it has up to 1,000 keys, or some; else up to three, some more where names have
    much in common, one more for each folder that it goes down before there is a choice, and up to two for each folder below two
    of those that it finds."""
    top, after, upto = piece.top, piece.after, piece.upto
    page = objects.page(top, after)
    keys = _upto(page.names, upto)
    if not page.more or len(keys) < len(page.names):
        return Look(len(keys), True, 0, [], top)
    if not any("/" in key[len(top) :] for key in keys):
        return _weighed(objects, piece, Page(keys, True), _SAMPLES, _DEPTH)
    return _weighed(objects, piece, _level(objects, piece, keys[0]), _SAMPLES, _DEPTH)


def _level(objects: Objects, piece: Piece, first: str) -> Page:
    """The first names directly below the piece's folder, of which one is of the ``first`` key or its folder."""
    page = objects.page(piece.top, piece.after, folders=True)
    folder = piece.top + first[len(piece.top) :].partition("/")[0] + "/"
    # A store may leave out the folder in which the piece begins.
    missing = first.startswith(folder) and folder != piece.top and folder not in page.names[:1]
    names = [folder, *page.names] if missing else page.names
    within = _upto(names, piece.upto)
    return Page(within, page.more and len(within) == len(names))


def _weighed(objects: Objects, piece: Piece, page: Page, samples: int, depth: int) -> Look:
    """What a piece looks like with these names directly below its folder, of which there may be more."""
    top, after, upto = piece.top, piece.after, piece.upto
    names = page.names
    if not names:  # what an earlier request has found is gone by now
        return Look(0, True, 0, [], top)
    folders = [name for name in names if name.endswith("/") and name != top]
    if len(names) == len(folders) == 1 and not page.more:
        inside = Piece(after, upto, names[0])
        return _weighed(objects, inside, objects.page(names[0], after, folders=True), samples, depth)
    step = max(1, len(folders) // samples)
    # Names before ``after`` in its own folder count as well: a guess.
    sampled = [_folder(objects, name, depth) for name in folders[step // 2 :: step][:samples]]
    each = sum(one.keys for one in sampled) / len(sampled) if sampled else 0.0
    share = len(folders) / len(names) if names else 0.0
    if page.more:
        amount, cuts = _guess(objects, top, names, upto, folders=bool(folders))
        return Look(amount * (1 - share + share * each), False, amount * share, _between(cuts, after, upto), top)
    counted = len(sampled) == len(folders) and all(one.counted for one in sampled)
    ends = [name + LAST if name.endswith("/") and name != top else name for name in names]
    size = -(-len(ends) // WAYS)
    keys = len(names) - len(folders) + each * len(folders)
    unseen = len(folders) - sum(one.counted for one in sampled)
    return Look(keys, counted, unseen, _between(ends[size - 1 : -1 : size], after, upto), top)


def _folder(objects: Objects, name: str, depth: int) -> Look:
    if not depth:
        return Look(PAGE, False, 1, [], name)
    return _weighed(objects, Piece("", "", name), objects.page(name, folders=True), 1, depth - 1)


def _upto(names: list[str], upto: str) -> list[str]:
    return [name for name in names if name <= upto] if upto else names


def _between(names: Iterable[str], after: str, upto: str) -> list[str]:
    return sorted({name for name in map(_possible, names) if name > after and (not upto or name < upto)})


def _possible(name: str) -> str:
    """A name that a store can be asked for: what is made up may be longer than any key."""
    return name.encode()[:MAX_OBJECT_KEY_BYTES].decode(errors="ignore")


def _guess(
    objects: Objects, top: str, names: list[str], upto: str, *, folders: bool, kinds: int = _KINDS
) -> tuple[float, list[str]]:
    """How many names there are directly below ``top`` from the first of these, which follow each other, up to another; and some
    made-up ones at even distances. Looks at up to so many ``kinds`` of names that begin otherwise."""
    some = [_bare(top, name) for name in (*names[:: ceil(len(names) / _KNOWN)], names[-1])]
    first, last = some[0], some[-1]
    end = upto[len(top) :] if upto.startswith(top) and upto != top + LAST else LAST
    amount = float(len(names))
    room = Room(some, end)
    common = _alike(first, last)
    others, behind = Page([], False), end
    if room(end) - room(first) > _FAR * (room(last) - room(first)) and len(common) > len(room.common):
        # All that begins alike, and how far it is to what begins otherwise.
        last_alike = common + LAST
        amount *= max(1.0, _ratio(room(last_alike) - room(first), room(last) - room(first)))
        following = _behind(objects, top, last_alike, end, folders=folders).names[:1]
        if not following:
            return amount, _cuts(room, top, first, last_alike, [names[-1]])
        last = _bare(top, following[0])
        end, others = _narrowed(objects, Piece(first, end, top), last, len(room.common), folders=folders)
        room = Room([*some, last], end)
    amount *= _ratio(room(end) - room(first), room(last) - room(first))
    amount = max(amount, len(names))
    cuts = _cuts(room, top, first, end, [names[-1] + LAST if names[-1].endswith("/") else names[-1]])
    if not others.names:
        return amount, cuts
    more, cuts_behind = float(len(others.names)), [others.names[-1]]
    if others.more:
        more, cuts_behind = amount, []  # of the last kind that is looked at: nobody knows
        if kinds:
            more, cuts_behind = _guess(objects, top, others.names, top + behind, folders=folders, kinds=kinds - 1)
    return amount + more, [*cuts, top + end, *cuts_behind]


def _narrowed(objects: Objects, piece: Piece, following: str, common: int, *, folders: bool) -> tuple[str, Page]:
    """Up to where the names of a piece, without its folder, begin like its first one in places that vary; and the first of those
    that begin otherwise from many places before. What all names have in common may be long, such as ``part-``, and few of the
    names that could be there have it. One request for each time that it gets shorter, down to what is known to be ``common``."""
    first, upto, top = piece.after, piece.upto, piece.top
    shared = len(_alike(first, following))
    for left in reversed(range(_NARROWINGS)):
        if shared - common <= _UNSURE:
            break
        end = first[:shared] + LAST
        others = _behind(objects, top, end, upto, folders=folders)
        shorter = len(_alike(first, _bare(top, others.names[0]))) if others.names and left else -_UNSURE
        if shared - shorter > _UNSURE:
            return end, others
        shared = shorter
    return upto, Page([], False)


def _behind(objects: Objects, top: str, after: str, end: str, *, folders: bool) -> Page:
    """The first names directly below ``top`` behind one, up to an end."""
    page = objects.page(top, _possible(top + after), folders=folders)
    names = [name for name in page.names if after < _bare(top, name) <= end]
    return Page(names, page.more and len(names) == len(page.names))


def _bare(top: str, name: str) -> str:
    """A name without its folder, and without a folder's slash."""
    return name[len(top) :].removesuffix("/")


def _cuts(room: "Room", top: str, after: str, upto: str, otherwise: list[str]) -> list[str]:
    return [top + name for name in room.names(after, upto, WAYS)] or otherwise


def _ratio(part: int, whole: int) -> float:
    """Of numbers that may be larger than any float; 0 for a negative one, and no more than :data:`_MOST`."""
    whole = max(1, whole)
    return float(_MOST) if part > whole * _MOST else max(0, part) / whole


class Room:
    """The names that could be there between known ones and an end: at each place behind what all of them begin with stands a
    character that some of them have there, or its like (another digit, another small letter). Names are numbered in it."""

    def __init__(self, known: Sequence[str], end: str) -> None:
        self.common = "" if end == LAST else _alike(min(known[0], end), max(known[-1], end))
        skipped = len(self.common)
        width = min(max(map(len, known)), len(_alike(known[0], known[-1])) + 8) - skipped
        seen = [
            {name[position] for name in known if len(name) > position}
            for position in range(skipped, skipped + max(1, width))
        ]
        varied = set().union(*(some for some in seen if len(some) > 1))
        usual = _likes(varied, hexadecimal=varied.isdisjoint(_OTHER_LETTERS))
        self._alphabets = []
        for position, some in enumerate(seen, skipped):
            likes = usual if len(some) < _ENOUGH and not usual.isdisjoint(some) else set()
            some |= set(end[position : position + 1]) - {LAST}
            self._alphabets.append(sorted(likes | _likes(some, hexadecimal=usual.isdisjoint(_OTHER_LETTERS))) or ["0"])

    def __call__(self, name: str) -> int:
        """The number of a name, or of what would be in its place."""
        number = 0
        rest = name[len(self.common) :] if name.startswith(self.common) else LAST if name > self.common else ""
        inside = True
        for position, alphabet in enumerate(self._alphabets):
            number *= len(alphabet)
            if inside and position < len(rest):
                index = bisect_left(alphabet, rest[position])
                inside = index < len(alphabet) and alphabet[index] == rest[position]
                number += index
        return number

    def names(self, after: str, upto: str, ways: int) -> list[str]:
        """Names between two, at even distances, that cut what lies between them into so many pieces."""
        begin, end = self(after), self(upto)
        found = {self._name(begin + (end - begin) * number // ways) for number in range(1, ways)}
        return sorted(name for name in found if after < name < upto)

    def _name(self, number: int) -> str:
        characters: list[str] = []
        for alphabet in reversed(self._alphabets):
            number, index = divmod(number, len(alphabet))
            characters.append(alphabet[index])
        return self.common + "".join(reversed(characters))


def _alike(one: str, other: str) -> str:
    """What both begin with."""
    count = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:count]


def _likes(seen: set[str], *, hexadecimal: bool) -> set[str]:
    """These characters and all others of their kinds."""
    likes = set(seen)
    for kind in _CLASSES:
        if not seen.isdisjoint(kind):
            likes.update(
                digits + _HEX if hexadecimal and kind == ascii_lowercase and not seen - set(digits + _HEX) else kind
            )
    return likes
