"""A bucket of any shape is cut into parts of about one size, by few requests, and nothing of it is lost."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.spark.cutting import LAST, Look, Piece, cut_points, groups, look
from graveler.storage.limits import MAX_OBJECT_KEY_BYTES
from graveler.storage.objects.port import Objects, Page, StoredObject, page_of
from tests.spark import buckets
from tests.spark.buckets import Bucket
from tests.support.campaigns import WHOLE, examples

LIST_SECONDS = 0.06
SHAPES = [buckets.flat, buckets.flat_hashed, buckets.one_hot, buckets.hashed_folders]


class Cluster:
    """Looks at pieces in tasks, one group of them on each core, and adds up how long that takes."""

    def __init__(self, bucket: Bucket, cores: int) -> None:
        self.bucket, self.cores = bucket, cores
        self.waited = 1
        """Requests one after another: the driver's own one, and in each round those of the slowest task."""

    def look_at(self, pieces: Sequence[Piece]) -> Iterable[Look]:
        found: dict[Piece, Look] = {}
        longest = 0
        for group in groups(pieces, self.cores):
            begun = self.bucket.requests
            found.update((piece, look(self.bucket, piece)) for piece in group)
            longest = max(longest, self.bucket.requests - begun)
        self.waited += longest
        return [found[piece] for piece in pieces]


def check(bucket: Bucket, cores: int) -> None:
    cluster = Cluster(bucket, cores)
    wanted = 4 * cores
    cuts = cut_points(bucket, "p/", wanted, cluster.look_at)
    assert cuts == sorted(set(cuts))
    ranks = [0, *map(bucket.rank, cuts), bucket.count]
    shares = [end - begin for begin, end in pairwise(ranks)]
    mean = bucket.count / wanted
    assert len(shares) <= wanted
    assert max(shares) <= 2 * mean
    assert cluster.waited * LIST_SECONDS <= 10
    assert bucket.requests <= bucket.count / 1000 * 0.6, "cheap beside the listing itself"


@pytest.mark.parametrize("shape", [*SHAPES, buckets.dated, buckets.alike, buckets.kinds])
def test_a_bucket_is_cut_evenly_and_soon(shape: Callable[[int], Bucket]) -> None:
    check(shape(1_000_000), 4)


@pytest.mark.ci
@pytest.mark.parametrize("shape", SHAPES if WHOLE else [buckets.one_hot])
def test_a_large_bucket_is_cut_evenly_and_soon(shape: Callable[[int], Bucket]) -> None:
    check(shape(100_000_000), 400)


@pytest.mark.parametrize("length", [6, 300, 1013])
def test_names_may_have_much_in_common(length: int) -> None:
    check(buckets.alike(200_000, length), 4)


class Keys:
    """Any keys, as S3 takes them, in pages of a few."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = sorted(keys, key=str.encode)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        begin = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        following = takewhile(
            lambda key: key.startswith(prefix), (self.keys[at] for at in range(begin, len(self.keys)))
        )
        return (StoredObject(key, 0, "", 0) for key in following)

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        assert len(after.encode()) <= MAX_OBJECT_KEY_BYTES, "S3 refuses to be asked for more"
        return page_of(cast(Objects, self), prefix, after, folders=folders)


def check_nothing_is_lost(keys: Keys, prefix: str, wanted: int) -> list[str]:
    cuts = cut_points(cast(Objects, keys), prefix, wanted)
    assert cuts == sorted(set(cuts), key=str.encode)
    assert len(cuts) < wanted
    found: list[str] = []
    for after, upto in pairwise(["", *cuts, ""]):
        for stored in keys.list(prefix, after):
            if upto and stored.key.encode() > upto.encode():
                break
            found.append(stored.key)
    assert found == [key for key in keys.keys if key.startswith(prefix)]
    return cuts


NAMES = st.text("ab09/-é\u3042" + LAST, max_size=8)
LONG_NAMES = st.builds(lambda text, times, rest: text * times + rest, NAMES, st.integers(1, 32), NAMES)


@settings(max_examples=200, deadline=None)
@given(names=st.sets(NAMES | LONG_NAMES, max_size=40), prefix=NAMES, wanted=st.integers(1, 12), page=st.integers(1, 5))
def test_listings_are_cut_anywhere_and_lose_nothing(names: set[str], prefix: str, wanted: int, page: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.storage.objects.port.PAGE", page)
        patch.setattr("graveler.spark.cutting.PAGE", page)
        check_nothing_is_lost(Keys({*names, *(prefix + name for name in names)} - {""}), prefix, wanted)


def test_folders_may_be_as_long_as_keys() -> None:
    keys = {f"p/{'d' * 1019}{name}/x" for name in range(9)}
    assert {*map(len, keys)} == {MAX_OBJECT_KEY_BYTES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.storage.objects.port.PAGE", 2)
        patch.setattr("graveler.spark.cutting.PAGE", 2)
        check_nothing_is_lost(Keys(keys), "p/", 8)


def test_keys_of_many_kinds_side_by_side() -> None:
    random = Random(5)
    kinds = ["p/{0}", "p/{0:x}/", "p/{0:x}/{1}", "p/é{0}/{1:x}", "p/{1:b}", "p/{0}/{1}/" + LAST, "p/same/{1:08d}"]
    keys = {random.choice(kinds).format(random.randrange(200), random.randrange(10**6)) for _ in range(20_000)}
    for prefix, wanted in (("p/", 8), ("p/same/", 3), ("p/s", 5), ("", 1), ("q", 4)):
        check_nothing_is_lost(Keys(keys), prefix, wanted)


class Changing(Keys):
    """Keys that come and go between any two requests. Those that ``stay`` are always there."""

    def __init__(self, stay: Iterable[str], others: Iterable[str], seed: int) -> None:
        self.stay, self.others, self.random = sorted(stay), sorted(others), Random(seed)
        self.pages = 0
        super().__init__([*stay, *others])

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        self.pages += 1
        assert self.pages < 10_000, "it comes to an end"
        there = [name for name in self.others if self.random.random() < self.random.choice([0.0, 0.5, 1.0])]
        self.keys = sorted({*self.stay, *there})
        return super().page(prefix, after, folders=folders)


@settings(max_examples=examples(500), deadline=None)
@given(
    stay=st.sets(NAMES | LONG_NAMES, max_size=10),
    others=st.sets(NAMES | LONG_NAMES, max_size=40),
    prefix=NAMES,
    wanted=st.integers(1, 12),
    page=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_what_comes_and_goes_meanwhile_keeps_nothing_else_from_being_listed_once(
    stay: set[str], others: set[str], prefix: str, wanted: int, page: int, seed: int
) -> None:
    """Between any two requests, of those that cut as of those that list."""
    below = {*stay, *(prefix + name for name in stay)} - {""}
    keys = Changing(below, {*others, *(prefix + name for name in others)} - {""}, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graveler.storage.objects.port.PAGE", page)
        patch.setattr("graveler.spark.cutting.PAGE", page)
        cuts = cut_points(cast(Objects, keys), prefix, wanted)
        assert cuts == sorted(set(cuts), key=str.encode)
        assert len(cuts) < wanted
        found: list[str] = []
        for after, upto in pairwise(["", *cuts, ""]):
            while True:
                listed = keys.page(prefix, after)
                within = [name for name in listed.names if not upto or name <= upto]
                found += within
                if not listed.more or len(within) < len(listed.names):
                    break
                after = listed.names[-1]
    assert found == sorted(set(found), key=str.encode)
    assert [key for key in found if key in below] == sorted(key for key in below if key.startswith(prefix))
