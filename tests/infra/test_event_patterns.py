"""Patterns of rules name all buckets, and are no longer than EventBridge takes."""

import json
import re
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from infra.event_patterns import LONGEST_NAME, bucket_pattern, split_by_pattern

TOKEN = "${Token[TOKEN.1]}"
buckets = st.lists(
    st.text("abc0.-", min_size=3, max_size=63) | st.just("x" * LONGEST_NAME) | st.just(TOKEN), max_size=120
)


def length(name: str) -> int:
    return LONGEST_NAME if name == TOKEN else len(name)


@given(buckets)
def test_each_bucket_is_in_one_pattern_and_no_pattern_is_too_long(names: list[str]) -> None:
    parts = split_by_pattern(names, length)
    assert list(chain.from_iterable(parts)) == names
    deployed = [[name.replace(TOKEN, "y" * LONGEST_NAME) for name in part] for part in parts]
    sizes = [len(json.dumps(bucket_pattern(part))) for part in deployed]
    assert all(size <= 2_048 for size in sizes)
    # Two rules are two only where one could not do.
    for part, following in pairwise(deployed):
        assert len(json.dumps(bucket_pattern([*part, following[0]]))) + len(", ") > 2_048


def test_as_many_buckets_as_a_function_may_be_told_take_two_rules() -> None:
    names = [f"data-{number:02}-{'x' * 55}" for number in range(37)]
    assert [len(part) for part in split_by_pattern(names)] == [28, 9]
    assert re.fullmatch(r"[ -~]+", json.dumps(bucket_pattern(names)))
