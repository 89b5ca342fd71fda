"""Snapshots that expire by Iceberg's rules."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.snapshot_expiry import ExpiredSnapshots, expired_snapshots

DAY: Final = 24 * 60 * 60 * 1_000
NOW: Final = 100 * DAY


def table(ages: list[int], refs: dict[str, Document] | None = None, **properties: str) -> Document:
    """Return a table whose main branch has a snapshot of each age in days, the oldest first, by ID from 1 on."""
    snapshots: list[dict[str, Any]] = [
        {"snapshot-id": number, "timestamp-ms": NOW - age * DAY, "parent-snapshot-id": number - 1 or None}
        for number, age in enumerate(ages, 1)
    ]
    main = {"type": "branch", "snapshot-id": len(ages)}
    named = {"history.expire." + name.replace("_", "-"): text for name, text in properties.items()}
    return {"snapshots": snapshots, "refs": {"main": main} | (refs or {}), "properties": named}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (table([9, 6, 4, 1]), (1, 2)),
        (table([9, 8, 7]), (1, 2)),
        (table([9, 8, 7], min_snapshots_to_keep="2"), (1,)),
        (table([9, 6, 4, 1], max_snapshot_age_ms=str(7 * DAY)), (1,)),
        (table([9, 6, 4, 1], {"v1": {"type": "tag", "snapshot-id": 1}}), (2,)),
        (table([9, 6, 4, 1], {"main": {"type": "branch", "snapshot-id": 4, "max-snapshot-age-ms": DAY * 8}}), (1,)),
        (table([9, 6, 4, 1], {"main": {"type": "branch", "snapshot-id": 4, "min-snapshots-to-keep": 4}}), ()),
        (table([9, 6, 4, 1], {"audit": {"type": "branch", "snapshot-id": 2}}), (1,)),
    ],
)
def test_snapshots_expire_by_age_number_and_refs(document: Document, expected: tuple[int, ...]) -> None:
    assert expired_snapshots(document, NOW) == ExpiredSnapshots(expected)


def test_a_caller_s_limits_replace_those_of_the_table() -> None:
    document = table([9, 6, 4, 1], min_snapshots_to_keep="4")
    assert expired_snapshots(document, NOW, older_than_ms=NOW - 2 * DAY, keep_last=1).snapshot_ids == (1, 2, 3)
    assert expired_snapshots(document, NOW, older_than_ms=NOW + 1, keep_last=1).snapshot_ids == (1, 2, 3)
    assert expired_snapshots(document, NOW, older_than_ms=NOW, keep_last=2).snapshot_ids == (1, 2)


def test_a_branch_or_tag_expires_with_its_snapshots_and_main_does_not() -> None:
    refs = {
        "main": {"type": "branch", "snapshot-id": 2, "max-ref-age-ms": 1},
        "v1": {"type": "tag", "snapshot-id": 1, "max-ref-age-ms": 8 * DAY},
    }
    expired = expired_snapshots(table([9, 6], refs), NOW)
    assert expired == ExpiredSnapshots((1,), ("v1",))
    assert expired.updates == [
        {"action": "remove-snapshot-ref", "ref-name": "v1"},
        {"action": "remove-snapshots", "snapshot-ids": [1]},
    ]


def test_a_snapshot_without_branch_or_tag_is_kept_while_it_is_young() -> None:
    document = table([9, 1])
    for number, age in ((3, 8), (4, 2)):
        document["snapshots"].append({"snapshot-id": number, "timestamp-ms": NOW - age * DAY, "parent-snapshot-id": 1})
    assert expired_snapshots(document, NOW).snapshot_ids == (1, 3)


def test_a_property_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"history\.expire\.max-snapshot-age-ms is 'a week'"):
        expired_snapshots(table([9], max_snapshot_age_ms="a week"), NOW)


@given(
    ages=st.lists(st.integers(0, 10), min_size=1, max_size=8),
    tagged=st.sets(st.integers(1, 8)),
    limit=st.integers(0, 10),
    keep_last=st.integers(1, 4),
)
def test_a_branch_keeps_its_newest_part_and_tags_their_snapshots(
    ages: list[int], tagged: set[int], limit: int, keep_last: int
) -> None:
    tagged = {number for number in tagged if number <= len(ages)}
    tags = {f"v{number}": {"type": "tag", "snapshot-id": number} for number in tagged}
    oldest = NOW - limit * DAY
    expired = set(expired_snapshots(table(ages, tags), NOW, older_than_ms=oldest, keep_last=keep_last).snapshot_ids)
    assert expired.isdisjoint(tagged)
    newest_part = len(ages) - max(expired, default=0)
    assert newest_part >= min(keep_last, len(ages))
    assert expired == set(range(1, len(ages) - newest_part + 1)) - tagged
    assert all(limit >= age for age in ages[len(ages) - newest_part : max(0, len(ages) - keep_last)] if not tagged)
    assert all(ages[number - 1] > limit for number in list(expired) if number == max(expired) and not tagged)
