"""The points that split a listing of a bucket into tasks of about equal size, whatever its keys look like.

The number of keys between two keys is not known in advance: a store only returns the names that follow one. :func:`look` requests
a few of them and estimates, from the share of the name space that a page covers, and from samples of folders. It also proposes
split points. :func:`cut_points` has pieces that look too large split and examined again, a round at a time, until the estimates
are fine enough. An estimate may be wrong: the listing is complete anyway, since any names can split it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final, TypeVar

from msgspec import Struct

from graveler.storage.limits import MAX_OBJECT_KEY_BYTES
from graveler.storage.objects.port import PAGE, Objects, Page

T = TypeVar("T")

LAST: Final = "\U0010ffff"
"""Appended to a folder's name: sorts after every usual key in the folder."""
GRAIN: Final = 3
"""Minimum number of pieces per part."""
WAYS: Final = 32
"""Largest number of pieces that one is split into."""
_FINER: Final = 1.3
"""Pieces are split this much finer than needed, so that few of the results have to be split again."""
_ROUNDS: Final = 24
_LOOKS: Final = 16
"""Largest number of looks per wanted part."""
_SAMPLES: Final = 2
"""Folders that a look descends into."""
_DEPTH: Final = 4
"""Levels of folders that it descends."""
_KNOWN: Final = 128
"""Names that suffice to learn their form."""
_MOST: Final = 10**12
"""Upper bound of a ratio in an estimate."""
_UNSURE: Final = 3
"""Number of positions at which all known names share a character while other names may differ."""
_NARROWINGS: Final = 8
_KINDS: Final = 2
"""Groups of names with other beginnings than the first ones, examined one after the other."""
_FAR: Final = 64
"""A page that covers a smaller fraction of a piece's name space says little about it, until the next name of another kind is
known."""
_CLASSES: Final = (digits, ascii_lowercase, ascii_uppercase)
_HEX: Final = "abcdef"
_OTHER_LETTERS: Final = ascii_lowercase[len(_HEX) :]
_ENOUGH: Final = 5
"""Characters at one position that suffice to tell which kinds occur there; with fewer, the other positions decide."""


class Piece(Struct, frozen=True):
    """The keys after ``after`` up to ``upto`` (empty: to the end). All of them begin with ``top``, the prefix or a folder."""

    after: str
    upto: str
    top: str


class Look(Struct, frozen=True):
    """The estimate of a piece: its number of keys, whether they were counted, the number of folders not examined, names at which
    to split it, and a folder that contains all of it."""

    keys: float
    counted: bool
    unseen: float
    cuts: list[str]
    top: str


def cut_points(
    objects: Objects, prefix: str, parts: int, look_at: Callable[[Sequence[Piece]], Iterable[Look]] | None = None
) -> list[str]:
    """Return fewer than ``parts`` names, ascending, that split the keys with a prefix into parts of about equal size. Not all of
    them are names of objects. ``look_at`` examines pieces, in parallel if it can, and returns the looks in order.

    Cost: one request for a prefix of up to 1,000 keys; else up to 24 rounds of :func:`look`, for about five pieces of each part,
    and never more than sixteen. A crowded folder among very many others is found only if a look happens to sample it.
    """
    at_once = look_at or (lambda some: [look(objects, piece) for piece in some])
    whole = Piece("", "", prefix)
    pieces = [(whole, look(objects, whole))]
    looks_left = _LOOKS * parts
    for _ in range(_ROUNDS):
        goal = max(sum(looks.keys for _, looks in pieces) / (parts * GRAIN), PAGE)
        chosen = _to_cut(pieces, goal, looks_left, parts)
        if not chosen:
            break
        new = [piece for some in chosen.values() for piece in some]
        looks_left -= len(new)
        looks = dict(zip(new, at_once(new), strict=True))
        pieces = [
            replacement
            for piece, old in pieces
            for replacement in ([(part, looks[part]) for part in chosen[piece]] if piece in chosen else [(piece, old)])
        ]
    return _ends(pieces, parts)


def groups(pieces: Sequence[T], tasks: int) -> list[list[T]]:
    """Return the pieces that each of so many tasks examines. Neighbours, which take about equally long, go to different tasks."""
    return [list(pieces[number::tasks]) for number in range(min(tasks, len(pieces)))]


def _to_cut(
    pieces: Sequence[tuple[Piece, Look]], goal: float, looks_left: int, parts_wanted: int
) -> dict[Piece, list[Piece]]:
    """Return the pieces to split next, with the resulting ones: those that are too large, the largest first; then those with
    unexamined folders, as far as that is cheap compared with the listing itself."""
    open_ones = [(piece, look) for piece, look in pieces if look.cuts and not look.counted]
    large = [(piece, look) for piece, look in open_ones if look.keys > goal]
    if large:
        by_size = sorted(large, key=lambda pair: -pair[1].keys)
    else:
        pages = sum(look.keys for _, look in pieces) / PAGE
        spent = _LOOKS * parts_wanted - looks_left
        looks_left = min(looks_left, round(min(GRAIN * parts_wanted, PAGE / 8 + pages / 8)) - spent)
        by_size = sorted((pair for pair in open_ones if pair[1].unseen), key=lambda pair: -pair[1].unseen)
    chosen: dict[Piece, list[Piece]] = {}
    for piece, look in by_size:
        ways = min(WAYS, max(2, ceil(_FINER * look.keys / goal))) if large else WAYS
        parts = _cut(piece, look, ways)
        looks_left -= len(parts)
        if looks_left < 0:
            break
        chosen[piece] = parts
    return chosen


def _cut(piece: Piece, look: Look, ways: int) -> list[Piece]:
    """Return a piece split into ``ways`` pieces, or as many as possible."""
    ways = min(ways, len(look.cuts) + 1)
    names = [look.cuts[number * (len(look.cuts) + 1) // ways - 1] for number in range(1, ways)]
    return [Piece(after, upto, look.top) for after, upto in pairwise([piece.after, *names, piece.upto])]


def _ends(pieces: Sequence[tuple[Piece, Look]], parts: int) -> list[str]:
    """Return where the parts end, except the last one."""
    share = sum(look.keys for _, look in pieces) / parts
    ends: list[str] = []
    before = 0.0
    for piece, look in pieces:
        middle = before + look.keys / 2
        if piece.after and middle >= (len(ends) + 1) * share and len(ends) < parts - 1 and before > 0:
            ends.append(piece.after)
        before += look.keys
    return ends


def look(objects: Objects, piece: Piece) -> Look:
    """Return the estimate of a piece. Cost: one request if it has up to 1,000 keys, or a few; else up to three, some more if
    names have long common prefixes, one for each folder that it descends before the names branch, and up to two for each folder
    below two of those that it finds."""
    top, after, upto = piece.top, piece.after, piece.upto
    page = objects.page(top, after)
    keys = _upto(page.names, upto)
    if not page.more or len(keys) < len(page.names):
        return Look(len(keys), True, 0, [], top)
    if not any("/" in key[len(top) :] for key in keys):
        return _weighed(objects, piece, Page(keys, True), _SAMPLES, _DEPTH)
    return _weighed(objects, piece, _level(objects, piece, keys[0]), _SAMPLES, _DEPTH)


def _level(objects: Objects, piece: Piece, first_name: str) -> Page:
    """Return the first names directly below the piece's folder, including that of the ``first_name`` or its folder."""
    page = objects.page(piece.top, piece.after, folders=True)
    folder = piece.top + first_name[len(piece.top) :].partition("/")[0] + "/"
    # A store may omit the folder in which the piece begins.
    missing = first_name.startswith(folder) and folder != piece.top and folder not in page.names[:1]
    names = [folder, *page.names] if missing else page.names
    within = _upto(names, piece.upto)
    return Page(within, page.more and len(within) == len(names))


def _weighed(objects: Objects, piece: Piece, page: Page, samples: int, depth: int) -> Look:
    """Return the estimate of a piece with these names directly below its folder, of which more may exist."""
    top, after, upto = piece.top, piece.after, piece.upto
    names = page.names
    if not names:  # the keys of an earlier request are gone by now
        return Look(0, True, 0, [], top)
    folders = [name for name in names if name.endswith("/") and name != top]
    if len(names) == len(folders) == 1 and not page.more:
        inside = Piece(after, upto, names[0])
        return _weighed(objects, inside, objects.page(names[0], after, folders=True), samples, depth)
    step = max(1, len(folders) // samples)
    # Names before ``after`` in its own folder count as well: an estimate.
    sampled = [_folder(objects, name, depth) for name in folders[step // 2 :: step][:samples]]
    keys_per_folder = sum(look.keys for look in sampled) / len(sampled) if sampled else 0.0
    share = len(folders) / len(names) if names else 0.0
    if page.more:
        amount, cuts = _guess(objects, top, names, upto, folders=bool(folders))
        return Look(
            amount * (1 - share + share * keys_per_folder), False, amount * share, _between(cuts, after, upto), top
        )
    counted = len(sampled) == len(folders) and all(look.counted for look in sampled)
    ends = [name + LAST if name.endswith("/") and name != top else name for name in names]
    size = -(-len(ends) // WAYS)
    keys = len(names) - len(folders) + keys_per_folder * len(folders)
    unseen = len(folders) - sum(look.counted for look in sampled)
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
    """Return a name that a store accepts: a made-up name may be longer than any key."""
    return name.encode()[:MAX_OBJECT_KEY_BYTES].decode(errors="ignore")


def _guess(
    objects: Objects, top: str, names: list[str], upto: str, *, folders: bool, kinds: int = _KINDS
) -> tuple[float, list[str]]:
    """Estimate how many names are directly below ``top`` from the first of these, which are consecutive, up to another; and
    return some made-up ones at even distances. Examines up to ``kinds`` groups of names with other beginnings."""
    some = [_bare(top, name) for name in (*names[:: ceil(len(names) / _KNOWN)], names[-1])]
    first_name, last = some[0], some[-1]
    end = upto[len(top) :] if upto.startswith(top) and upto != top + LAST else LAST
    amount = float(len(names))
    room = Room(some, end)
    common = _alike(first_name, last)
    following_page, suffix = Page([], False), end
    if room(end) - room(first_name) > _FAR * (room(last) - room(first_name)) and len(common) > len(room.common):
        # First the names that begin alike, then the distance to the ones that begin otherwise.
        last_alike = common + LAST
        amount *= max(1.0, _ratio(room(last_alike) - room(first_name), room(last) - room(first_name)))
        following = _behind(objects, top, last_alike, end, folders=folders).names[:1]
        if not following:
            return amount, _cuts(room, top, first_name, last_alike, [names[-1]])
        last = _bare(top, following[0])
        end, following_page = _narrowed(objects, Piece(first_name, end, top), last, len(room.common), folders=folders)
        room = Room([*some, last], end)
    amount *= _ratio(room(end) - room(first_name), room(last) - room(first_name))
    amount = max(amount, len(names))
    cuts = _cuts(room, top, first_name, end, [names[-1] + LAST if names[-1].endswith("/") else names[-1]])
    if not following_page.names:
        return amount, cuts
    more, cuts_behind = float(len(following_page.names)), [following_page.names[-1]]
    if following_page.more:
        more, cuts_behind = amount, []  # of the last group examined, the size is unknown
        if kinds:
            more, cuts_behind = _guess(
                objects, top, following_page.names, top + suffix, folders=folders, kinds=kinds - 1
            )
    return amount + more, [*cuts, top + end, *cuts_behind]


def _narrowed(objects: Objects, piece: Piece, following: str, common: int, *, folders: bool) -> tuple[str, Page]:
    """Return the end of the names that begin like the piece's first one, without its folder, in positions that vary; and the
    first of those that differ in many earlier positions. A long common prefix, such as ``part-``, may be shared by only few of
    the possible names. One request each time that it gets shorter, down to the part known to be ``common``."""
    start, upto, top = piece.after, piece.upto, piece.top
    shared = len(_alike(start, following))
    for steps_left in reversed(range(_NARROWINGS)):
        if shared - common <= _UNSURE:
            break
        end = start[:shared] + LAST
        following_page = _behind(objects, top, end, upto, folders=folders)
        shorter = (
            len(_alike(start, _bare(top, following_page.names[0]))) if following_page.names and steps_left else -_UNSURE
        )
        if shared - shorter > _UNSURE:
            return end, following_page
        shared = shorter
    return upto, Page([], False)


def _behind(objects: Objects, top: str, after: str, end: str, *, folders: bool) -> Page:
    """Return the first names directly below ``top`` after one, up to an end."""
    page = objects.page(top, _possible(top + after), folders=folders)
    names = [name for name in page.names if after < _bare(top, name) <= end]
    return Page(names, page.more and len(names) == len(page.names))


def _bare(top: str, name: str) -> str:
    """Return a name without its folder, and without a folder's slash."""
    return name[len(top) :].removesuffix("/")


def _cuts(room: "Room", top: str, after: str, upto: str, otherwise: list[str]) -> list[str]:
    return [top + name for name in room.names(after, upto, WAYS)] or otherwise


def _ratio(part: int, whole: int) -> float:
    """Divide numbers that may be larger than any float; 0 for a negative one, and at most :data:`_MOST`."""
    whole = max(1, whole)
    return float(_MOST) if part > whole * _MOST else max(0, part) / whole


class Room:
    """The space of possible names between known ones and an end: at each position after the common prefix, a character that some
    names have there, or one of the same kind (another digit, another small letter). Names have numbers in it."""

    def __init__(self, names: Sequence[str], end: str) -> None:
        self.common = "" if end == LAST else _alike(min(names[0], end), max(names[-1], end))
        skipped = len(self.common)
        width = min(max(map(len, names)), len(_alike(names[0], names[-1])) + 8) - skipped
        letters = [
            {name[position] for name in names if len(name) > position}
            for position in range(skipped, skipped + max(1, width))
        ]
        varied = set().union(*(some for some in letters if len(some) > 1))
        usual = _likes(varied, hexadecimal=varied.isdisjoint(_OTHER_LETTERS))
        self._alphabets = []
        for position, some in enumerate(letters, skipped):
            likes = usual if len(some) < _ENOUGH and not usual.isdisjoint(some) else set()
            some |= set(end[position : position + 1]) - {LAST}
            self._alphabets.append(sorted(likes | _likes(some, hexadecimal=usual.isdisjoint(_OTHER_LETTERS))) or ["0"])

    def __call__(self, name: str) -> int:
        """Return the number of a name, or of its position in the order."""
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
        """Return evenly spaced names between two that split the space between them into ``ways`` pieces."""
        begin, end = self(after), self(upto)
        candidates = {self._name(begin + (end - begin) * number // ways) for number in range(1, ways)}
        return sorted(name for name in candidates if after < name < upto)

    def _name(self, number: int) -> str:
        characters: list[str] = []
        for alphabet in reversed(self._alphabets):
            number, index = divmod(number, len(alphabet))
            characters.append(alphabet[index])
        return self.common + "".join(reversed(characters))


def _alike(name: str, other: str) -> str:
    """Return the common prefix."""
    count = next(
        (position for position, (a, b) in enumerate(zip(name, other, strict=False)) if a != b),
        min(len(name), len(other)),
    )
    return name[:count]


def _likes(letters: set[str], *, hexadecimal: bool) -> set[str]:
    """Return these characters and all others of their kinds."""
    likes = set(letters)
    for kind in _CLASSES:
        if not letters.isdisjoint(kind):
            likes.update(
                digits + _HEX if hexadecimal and kind == ascii_lowercase and not letters - set(digits + _HEX) else kind
            )
    return likes
