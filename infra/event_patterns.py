"""Patterns of EventBridge rules for what happens in buckets: as many buckets each as a pattern may name."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

SOURCE: Final = "aws.s3"
CHANGES: Final = ("Object Created", "Object Deleted")
LONGEST_NAME: Final = 63
"""Characters of a bucket's name: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""
_PATTERN_CHARS: Final = 2_048
"""Of a pattern, unless the account has asked for more: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""


def bucket_pattern(buckets: Sequence[str]) -> dict[str, Any]:
    """Return the pattern of objects that come and go in these buckets."""
    return {"source": [SOURCE], "detail-type": [*CHANGES], "detail": {"bucket": {"name": [*buckets]}}}


def split_by_pattern(buckets: Sequence[str], length: Callable[[str], int] = len) -> list[list[str]]:
    """Return the buckets, in order, in as few parts as fit into a pattern each; ``length`` is that of a name when it is
    deployed. Spaces between the values of a pattern count, as CloudFormation may write them."""
    parts: list[list[str]] = []
    room = 0
    for bucket in buckets:
        size = length(bucket) + len('"", ')
        if size > room:
            parts.append([])
            room = _PATTERN_CHARS - len(json.dumps(bucket_pattern([])))
        parts[-1].append(bucket)
        room -= size
    return parts
