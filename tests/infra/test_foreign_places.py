"""Buckets of others are named by policies that fit, of which a role gets no more than it may have."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.foreign_places import ATTACHED, Rights, metadata_of, split_by_policy
from infra.settings import SettingsError

LIST, READ, PUT = ("s3:ListBucket", "s3:ListBucketMultipartUploads"), ("s3:GetObject",), ("s3:PutObject",)
POLICY_CHARS = 6_144
names = st.text("abc0.-", min_size=3, max_size=63)
places = st.lists(names | st.builds("{}/{}/".format, names, st.text("abc/", min_size=1, max_size=200)), max_size=60)


def policy(rights: Rights, part: list[str]) -> str:
    """The longest that a policy about these places may be: in the partition with the longest name, a statement a folder."""
    arn = "arn:aws-us-gov:s3:::"
    roots = [f"{arn}{place.rstrip('/')}" for place in part]
    grants = [
        (rights.objects, [f"{root}/*" for root in roots]),
        (rights.metadata, [name for root in roots for name in metadata_of(root)] if rights.metadata else []),
        (rights.whole, [f"{arn}{place}" for place in part if "/" not in place]),
    ]
    statements: list[dict[str, object]] = [
        {"Action": actions, "Effect": "Allow", "Resource": arns} for actions, arns in grants if arns
    ]
    for place in part:
        if "/" in place:
            bucket, folder = place.split("/", 1)
            condition = {"StringLikeIfExists": {"s3:prefix": [f"{folder}*"]}}
            statements.append(
                {"Action": rights.whole, "Condition": condition, "Effect": "Allow", "Resource": [f"{arn}{bucket}"]}
            )
    return json.dumps({"Statement": statements, "Version": "2012-10-17"}, separators=(",", ":"))


@given(places, st.sampled_from([(), PUT]))
def test_each_place_is_in_one_policy_and_no_policy_is_too_long(named: list[str], metadata: tuple[str, ...]) -> None:
    rights = Rights(tuple(named), READ, LIST, metadata)
    try:
        ((_, parts),) = split_by_policy(rights)
    except SettingsError:
        return
    assert list(chain.from_iterable(parts)) == named
    assert all(len(policy(rights, part)) <= POLICY_CHARS for part in parts)


@pytest.mark.parametrize("ending", ["", "/a/"])
def test_more_places_than_the_policies_of_a_role_can_name_are_refused(ending: str) -> None:
    """Names of six characters, of which the settings let as many pass as fit into a function's environment."""
    named = tuple(f"{number:06}{ending}" for number in range(400))
    written = Rights(named[:350], READ, LIST, PUT)
    with pytest.raises(SettingsError, match=r"take \d\d policies, but a role may have 10: name fewer buckets"):
        split_by_policy(written, Rights(named[350:], READ, LIST))
    parts = split_by_policy(Rights(named[:40], READ, LIST, PUT), Rights(named[40:60], READ, LIST))
    assert 2 <= sum(len(each) for _, each in parts) <= ATTACHED
