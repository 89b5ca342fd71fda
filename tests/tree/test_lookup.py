"""Looking up many keys at once: the same results as one by one, and each range is opened once."""

from random import Random

import pytest

from graveler.errors import InvalidError
from graveler.model import SplitParameters
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.trees import packed
from tests.tree.support import cold, watched

SPLIT = SplitParameters(min_size=20_000, max_size=200_000, raggedness=300)
KEYS = [b"day=%02d/%s%05d" % (n % 30, b"x" * (n % 90), n) for n in range(0, 6000, 2)]


def probes(random: Random) -> list[bytes]:
    """Dense and sparse, there and not, before all and behind all, some twice."""
    keys = random.sample(KEYS, random.choice((0, 1, 50, 2500)))
    keys += [key + b"+" for key in random.sample(KEYS, 50)] + [b"\x00", b"zzz", b"zzzz"] + keys[:5]
    return sorted(keys)


@pytest.mark.parametrize("example", range(8))
def test_many_keys_together_find_what_each_of_them_finds(example: int) -> None:
    random = Random(example)
    _, store = watched()
    tree = build(store, SPLIT, ((key, packed(key.count(b"1"))) for key in sorted(KEYS)))
    wanted = probes(random)
    assert list(tree.get_many(wanted)) == [tree.get(key) for key in wanted]
    assert list(Tree(store).get_many(wanted)) == [None] * len(wanted)


def test_each_range_is_opened_once_and_only_if_it_may_hold_a_key() -> None:
    files, store = watched()
    tree = build(store, SPLIT, ((key, packed(1)) for key in sorted(KEYS)))
    fresh = cold(tree, files)
    assert None not in list(fresh.get_many(sorted(KEYS)))
    assert len(files.read) == len(tree)
    fresh = cold(tree, files)
    assert list(fresh.get_many([tree.lasts[0] + b"\x00", tree.info(2).first])) == [None, packed(1)]
    assert len(files.read) == 1


def test_keys_out_of_order_are_refused() -> None:
    _, store = watched()
    tree = build(store, SPLIT, ((key, packed(1)) for key in sorted(KEYS)))
    with pytest.raises(InvalidError, match="ascending"):
        list(tree.get_many([b"b", b"a"]))
