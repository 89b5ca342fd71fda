"""Buckets with more objects than fit anywhere: their keys are made on request, in order, from their numbers."""

from collections.abc import Callable
from typing import Any, Final

from graveler.storage.objects.port import PAGE, Page

_MIXER: Final = 0x9E3779B97F4A7C15


def mixed(number: int, bits: int) -> int:
    """A number of so many bits in which another one cannot be seen."""
    mixed = (number + 1) * _MIXER % (1 << 64)
    mixed = (mixed ^ mixed >> 29) * _MIXER % (1 << 64)
    return mixed >> 64 - bits


def hashed(number: int, total: int) -> str:
    """The name that stands at this place among ``total`` hexadecimal ones that are spread evenly."""
    step = (1 << 64) // total
    return f"{number * step + mixed(number, step.bit_length() - 1):016x}"


class Bucket:
    """``count`` keys, of which ``key`` says any by its number. They ascend. ``folder_end`` says behind which number the folder of
    a key ends, as seen from a prefix. Only what planning asks for is there: pages of names."""

    def __init__(self, count: int, key: Callable[[int], str], folder_end: Callable[[int, str], int]) -> None:
        self.count, self.key, self._folder_end = count, key, folder_end
        self.requests = 0

    def rank(self, name: str) -> int:
        """How many keys are not greater than a name."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) <= name:
                low = middle + 1
            else:
                high = middle
        return low

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        """As of a real store, one request."""
        self.requests += 1
        if after >= prefix:
            at = self.rank(after)
        else:
            at = self.rank(prefix)
            at -= at > 0 and self.key(at - 1) == prefix
        if not folders:
            keys = [self.key(number) for number in range(at, min(self.count, at + PAGE + 1))]
            while keys and not keys[-1].startswith(prefix):
                keys.pop()
            return Page(keys[:PAGE], len(keys) > PAGE)
        names: list[str] = []
        while at < self.count and len(names) <= PAGE:
            key = self.key(at)
            if not key.startswith(prefix):
                break
            name, slash, _ = key[len(prefix) :].partition("/")
            names.append(prefix + name + slash)
            at = self._folder_end(at, prefix) if slash else at + 1
        return Page(names[:PAGE], len(names) > PAGE)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"planning asks for {name}")


MANY: Final = 100_000_000


def flat(count: int = MANY) -> Bucket:
    """All in one folder, numbered."""
    return Bucket(count, lambda at: f"p/{at:09d}.parquet", lambda *_: count)


def flat_hashed(count: int = MANY) -> Bucket:
    """All in one folder, named by hashes."""
    return Bucket(count, lambda at: f"p/{hashed(at, count)}", lambda *_: count)


def one_hot(count: int = MANY, folders: int = 1000, each: int = 10, hot: int = 417) -> Bucket:
    """Folders with some objects each, and one with nearly all."""
    before = hot * each
    behind = count - (folders - hot - 1) * each

    def key(at: int) -> str:
        if at < before:
            return f"p/day={at // each:04d}/{at % each}"
        if at < behind:
            return f"p/day={hot:04d}/part-{at - before:09d}.parquet"
        return f"p/day={hot + 1 + (at - behind) // each:04d}/{(at - behind) % each}"

    def folder_end(at: int, prefix: str) -> int:
        if prefix != "p/":
            return count
        if at < before:
            return at // each * each + each
        return behind if at < behind else behind + (at - behind) // each * each + each

    return Bucket(count, key, folder_end)


def hashed_folders(count: int = MANY, folders: int = 100_000) -> Bucket:
    """Folders named by hashes, of one size."""
    each = count // folders
    names = [hashed(at, folders) for at in range(folders)]
    return Bucket(
        count,
        lambda at: f"p/{names[at // each]}/{at % each:05d}",
        lambda at, prefix: at // each * each + each if prefix == "p/" else count,
    )


def dated(count: int = MANY) -> Bucket:
    """Days and hours as folders, of which the later ones have more objects; files are named by hashes."""
    hours = count // 33_333 * 24
    starts = [round(count * (hour / hours) ** 1.5) for hour in range(hours)] + [count]

    def hour_of(at: int) -> int:
        low, high = 0, hours - 1
        while low < high:
            middle = (low + high + 1) // 2
            if starts[middle] <= at:
                low = middle
            else:
                high = middle - 1
        return low

    def key(at: int) -> str:
        hour = hour_of(at)
        day = hour // 24
        name = hashed(at - starts[hour], starts[hour + 1] - starts[hour])
        date = f"{2010 + day // 360}/{1 + day % 360 // 30:02d}/{1 + day % 30:02d}"
        return f"p/{date}/{hour % 24:02d}/{name}"

    def folder_end(at: int, prefix: str) -> int:
        hour = hour_of(at)
        size = {1: 24 * 360, 2: 24 * 30, 3: 24, 4: 1}[prefix.count("/")]
        end: int = starts[min(hours, hour // size * size + size)]
        return end

    return Bucket(count, key, folder_end)


def alike(count: int = MANY, length: int = 20) -> Bucket:
    """All in one folder, with names that begin with the same letters."""
    return Bucket(count, lambda at: f"p/{'x' * length}{at:09d}", lambda *_: count)


def kinds(count: int = MANY) -> Bucket:
    """All in one folder, with names of three kinds, of which the second has nearly all; some of the third are as long as a key
    can be."""
    some = count // 50

    def key(at: int) -> str:
        if at < some:
            return f"p/an-index-of-events-{at:09d}"
        if at < count - some:
            return f"p/part-of-events-{at - some:09d}.parquet"
        return f"p/{'z' * 1013}{at - count + some:09d}"

    return Bucket(count, key, lambda *_: count)
