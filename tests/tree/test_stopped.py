"""A stopped build of a tree has whole ranges of the final one, up to a key: with the rest, they are that tree."""

from random import Random

import pytest

from graveler.model import SplitParameters
from graveler.tree.apply import Interval, apply
from graveler.tree.parts import apply_part, clip, join_parts
from graveler.tree.tree import Tree
from graveler.tree.writer import StoppedError, TreeWriter
from tests.support.campaigns import examples
from tests.support.trees import build_tree, new_store, packed
from tests.tree.support import same_tree

SPLIT = SplitParameters(min_size=100, max_size=800, raggedness=3)


def key(number: int) -> bytes:
    return b"%04d" % number


def test_what_was_built_when_it_was_stopped_is_the_beginning_of_the_final_tree(seed: int) -> None:
    random = Random(seed)
    stopped_somewhere = stopped_before_all = 0
    for _ in range(examples(300)):
        store = new_store()
        present = random.sample(range(200), random.randrange(120))
        tree = build_tree(store, {key(number): "old" for number in present}, SPLIT)
        low = random.randrange(200)
        touched = sorted(random.sample(range(low, 260), random.randrange(1, 260 - low)))
        gone = random.choice([0.0, 0.3, 1.0])
        changed = [(key(number), None if random.random() < gone else packed("new")) for number in touched]

        def inside(
            interval: Interval, changed: list[tuple[bytes, bytes | None]] = changed
        ) -> list[tuple[bytes, bytes | None]]:
            after, upto = interval
            return [one for one in changed if (after is None or one[0] > after) and (upto is None or one[0] <= upto)]

        final = apply(tree, changed, SPLIT)
        asked = random.randrange(8)
        left = [asked]

        def stop(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] < 0

        try:
            assert same_tree(apply(tree, changed, SPLIT, stop), final)
            continue
        except StoppedError as stopped:
            built, upto = stopped.tree, stopped.upto
        if upto is None:
            assert not len(built)
            stopped_before_all += 1
            continue
        stopped_somewhere += 1
        assert same_tree(built, clip(final, (None, upto), SPLIT))
        assert built.lasts == final.lasts[: len(built)], "whole ranges of the final tree"
        rest = apply_part(tree, inside, (upto, None), SPLIT)
        assert same_tree(join_parts(store, SPLIT, [built, rest]), final)
    assert stopped_somewhere > 10


def always() -> bool:
    return True


def written(writer: TreeWriter, reached: bytes | None) -> tuple[Tree, bytes | None]:
    with pytest.raises(StoppedError) as stopped:
        writer.stop_if_asked(reached)
    return stopped.value.tree, stopped.value.upto


def test_what_is_not_a_range_yet_is_left_out() -> None:
    store = new_store()
    tree = build_tree(store, {key(number): "old" for number in range(100)}, SPLIT)
    writer = TreeWriter(store, SPLIT, stop=always)
    writer.take(tree, 0, 2)
    assert written(writer, b"0099")[1] == b"0099", "all up to there is in the ranges"
    writer = TreeWriter(store, SPLIT, stop=always)
    writer.take(tree, 0, 2)
    behind = int(tree.lasts[1]) + 1
    writer.add([key(behind)], [packed("new")])
    built, upto = written(writer, key(behind))
    assert (built.lasts, upto) == (tree.lasts[:2], tree.lasts[1])
    empty = TreeWriter(store, SPLIT, stop=always)
    empty.add([b"1"], [packed("new")])
    assert written(empty, b"1")[1] is None


def test_a_tail_that_the_rule_has_not_ended_is_left_out() -> None:
    store = new_store()
    for size in range(20, 60):
        tree = build_tree(store, {key(number): "old" for number in range(size)}, SPLIT)
        writer = TreeWriter(store, SPLIT, stop=always)
        writer.take(tree)
        is_open = not writer.at_cut
        built, upto = written(writer, None)
        assert built.lasts == (tree.lasts[:-1] if is_open else tree.lasts)
        assert upto == (built.lasts[-1] if built.lasts else None)
    assert not same_tree(build_tree(store, {}, SPLIT), tree)
