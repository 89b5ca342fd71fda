"""Commit records: IDs, bytes, and the store."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.errors import CorruptError, InvalidError, LaterVersionError, RefNotFoundError
from graveler.history.commits import (
    LINE_LENGTH,
    MAX_RECORD_BYTES,
    RECORD_VERSION,
    CommitStore,
    commit_id,
    decode_commit,
    encode_commit,
    new_commit,
)
from graveler.model import Commit, CommitID, MetarangeID, MetarangeName
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import ConditionFailedError, Put
from tests.history.support import METARANGE, UID, World

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
FIELDS = st.fixed_dictionaries(
    {
        "parents": st.lists(HEX, max_size=2, unique=True),
        "metarange_id": HEX | st.just(""),
        "committer": TEXT,
        "message": TEXT,
        "created": st.integers(-(1 << 63), (1 << 63) - 1),
        "metadata": st.dictionaries(TEXT, TEXT, max_size=3),
        "operation": TEXT,
    }
)


def golden() -> tuple[Commit, Commit]:
    root = new_commit([], MetarangeName(""), "", "Repository created", 1_700_000_000, {}, "op0")
    second = new_commit(
        [root], METARANGE, "ann@example.com", "Größer\n", 1_700_000_100, {"b": "2", "a": "1", "é": ""}, "op1"
    )
    return root, second


def test_golden_bytes() -> None:
    """IDs and records of format version 1 for ever."""
    root, second = golden()
    assert root.id == "2ebccbbd6e6e50be757f1ec1a0b7d78889b46699eeff3acbe44e11bd6eca37db"
    assert encode_commit(root) == (
        b'{"version":1,"parents":[],"metarange":"","committer":"","message":"Repository created",'
        b'"created":1700000000,"generation":1,"operation":"op0","metadata":{}}'
    )
    assert second.id == "61d0b3c19176a593b7a554a0e22ccc7427929cacd0d70f59439668e60fb79821"
    assert encode_commit(second) == (
        b'{"version":1,"parents":["' + root.id.encode() + b'"],"metarange":"' + METARANGE.encode() + b'",'
        b'"committer":"ann@example.com","message":"Gr\xc3\xb6\xc3\x9fer\\n","created":1700000100,"generation":2,'
        b'"operation":"op1","metadata":{"a":"1","b":"2","\xc3\xa9":""}}'
    )


def test_the_id_is_the_hash_of_the_documented_bytes() -> None:
    def framed(*fields: bytes) -> bytes:
        return b"".join(len(field).to_bytes(8, "big") + field for field in fields)

    root, second = golden()
    pairs = framed(b"a", b"1", b"b", b"2", "é".encode(), b"")
    said = framed(
        b"graveler commit 1",
        bytes.fromhex(root.id),
        b"\xab" * 32,
        b"ann@example.com",
        "Größer\n".encode(),
        (1_700_000_100).to_bytes(8, "big"),
        pairs,
        b"op1",
    )
    assert second.id == sha256(said).hexdigest()


@given(FIELDS, FIELDS)
def test_different_commits_have_different_ids(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (commit_id(**one) == commit_id(**other)) == (one == other)


@given(TEXT, TEXT, TEXT, st.integers(0, 12), st.integers(0, 12))
@example("ab", "c", "d", 1, 4)
def test_moving_a_byte_between_fields_changes_the_id(a: str, b: str, c: str, cut1: int, cut2: int) -> None:
    """The same text, cut into committer, message and metadata at other places, is another commit."""
    text = a + b + c
    low, high = sorted((min(cut1, len(text)), min(cut2, len(text))))

    def identify(committer: str, message: str, value: str) -> CommitID:
        return commit_id(
            parents=[],
            metarange_id=MetarangeID(""),
            committer=committer,
            message=message,
            created=0,
            metadata={"k": value},
            operation="",
        )

    assert (identify(a, b, c) == identify(text[:low], text[low:high], text[high:])) == (
        (a, b, c) == (text[:low], text[low:high], text[high:])
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ab": "c"}, {"a": "bc"}),
        ({"a": "b", "c": "d"}, {"a": "b" + "c" + "d"}),
        ({"a": ""}, {}),
        ({"": "a"}, {"a": ""}),
    ],
)
def test_moving_a_byte_within_the_metadata_changes_the_id(one: dict[str, str], other: dict[str, str]) -> None:
    def identify(metadata: Mapping[str, str]) -> CommitID:
        return new_commit([], MetarangeName(""), "", "", 0, metadata, "").id

    assert identify(one) != identify(other)


def test_the_order_of_metadata_does_not_matter_and_the_order_of_parents_does() -> None:
    world = World()
    a, b = world.add(), world.add()

    def make(parents: Sequence[Commit], metadata: Mapping[str, str]) -> Commit:
        return new_commit(parents, METARANGE, "", "", 0, metadata, "op")

    assert make([a, b], {"x": "1", "y": "2"}) == make([a, b], {"y": "2", "x": "1"})
    assert encode_commit(make([], {"x": "1", "y": "2"})) == encode_commit(make([], {"y": "2", "x": "1"}))
    assert make([a, b], {}).id != make([b, a], {}).id


def test_the_generation_is_one_more_than_the_highest_parent() -> None:
    world = World()
    first, *_, last = world.line(5)
    assert [commit.generation for commit in world.all] == [1, 2, 3, 4, 5]
    assert world.add(first, last).generation == 6


@given(FIELDS, st.integers(1, 1 << 40))
def test_a_record_is_read_as_it_was_written(fields: dict[str, Any], generation: int) -> None:
    parents = tuple(fields["parents"])
    id_ = commit_id(**fields)
    commit = Commit(
        id_,
        parents,
        MetarangeName(fields["metarange_id"]),
        fields["committer"],
        fields["message"],
        fields["created"],
        generation + 1 if parents else 1,
        fields["operation"],
        dict(sorted(fields["metadata"].items())),
    )
    assert decode_commit(id_, encode_commit(commit)) == commit


@given(st.data())
def test_a_damaged_record_is_refused_with_the_commits_id(data: st.DataObject) -> None:
    """Any one byte changed, or any end cut off: never another commit, never another error."""
    _, commit = golden()
    record = bytearray(encode_commit(commit))
    at = data.draw(st.integers(0, len(record) - 1))
    if data.draw(st.booleans()):
        record[at] = data.draw(st.integers(0, 255))
    else:
        del record[at:]
    try:
        read = decode_commit(commit.id, bytes(record))
    except (CorruptError, LaterVersionError) as error:  # the latter if another digit is in the place of the version
        assert commit.id in str(error)  # noqa: PT017
        assert isinstance(error, CorruptError) or record.startswith(b'{"version":%d,' % error.version)  # noqa: PT017
    else:  # what the ID does not cover: the suffix of the metarange's name, and how generation 2 is told from others
        covered = {"metarange": "", "generation": 0}
        assert msgspec.structs.replace(read, **covered) == msgspec.structs.replace(commit, **covered)
        assert read.metarange_id == commit.metarange_id


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"version":2,"anything":[]', "cannot be read"),
        (b'{"version":1}', "cannot be read"),
        (encode_commit(golden()[1]).replace(b'"version":1', b'"version":0'), "version 0"),
        (encode_commit(golden()[1]).replace(b'"version":1', b'"version":-3'), "version -3"),
        (encode_commit(golden()[1]).replace(b'"version":1', b'"version":"2"'), "cannot be read"),
        (encode_commit(golden()[1]).replace(b'{"version":1', b'{"version":1,"flavour":"x"'), "flavour"),
        (encode_commit(golden()[1])[:-1], "cannot be read"),
        (encode_commit(golden()[1]).replace(b'"generation":2', b'"generation":1'), "generation 1"),
        (encode_commit(golden()[1]).replace(b'"generation":2', b'"generation":-2'), "generation -2"),
        (encode_commit(golden()[1]).replace(b'"metarange":"ab', b'"metarange":"AB'), "cannot be read"),
        (encode_commit(golden()[0]), "have the ID"),
    ],
)
def test_why_a_record_is_refused(record: bytes, said: str) -> None:
    commit = golden()[1]
    with pytest.raises(CorruptError, match=said) as refused:
        decode_commit(commit.id, record)
    assert commit.id in str(refused.value)


@given(
    st.integers(RECORD_VERSION + 1, 2**63),
    st.dictionaries(st.text(max_size=9), st.none() | st.integers(-9, 9) | st.text(max_size=9) | st.lists(st.text())),
)
def test_a_record_of_a_later_version_is_no_damage_whatever_is_in_it(version: int, fields: dict[str, object]) -> None:
    commit = golden()[1]
    same = encode_commit(commit).replace(b'"version":1', b'"version":%d' % version)
    for record in (same, msgspec.json.encode({**fields, "version": version})):
        with pytest.raises(LaterVersionError, match=commit.id) as refused:
            decode_commit(commit.id, record)
        assert (refused.value.version, refused.value.latest) == (version, RECORD_VERSION)
        assert "made by a later version of graveler" in str(refused.value)
        assert "Upgrade graveler" in str(refused.value)


def test_what_cannot_be_a_commit_is_refused() -> None:
    world = World()
    root = world.add()
    with pytest.raises(InvalidError, match="twice"):
        new_commit([root, root], METARANGE, "", "", 0, {}, "")
    with pytest.raises(InvalidError, match="UTF-8"):
        new_commit([], METARANGE, "", "\ud800", 0, {}, "")
    with pytest.raises(InvalidError, match="out of range"):
        new_commit([], METARANGE, "", "", 1 << 63, {}, "")
    with pytest.raises(InvalidError, match="64 lower-case hex digits"):
        new_commit([], MetarangeName("abc"), "", "", 0, {}, "")
    with pytest.raises(InvalidError, match="shorten"):
        new_commit([], METARANGE, "", "x" * MAX_RECORD_BYTES, 0, {}, "")


def test_the_longest_record_fits_an_item() -> None:
    world = World()
    tip = world.line(LINE_LENGTH + 1)[-1]
    size = len(encode_commit(world.add(tip, message="", put=False)))
    longest = world.add(tip, message="x" * (MAX_RECORD_BYTES - size))
    assert world.cold().get(longest.id) == longest


def test_put_and_get() -> None:
    world = World()
    commit = world.add()
    store = world.cold()
    assert store.get(commit.id) == commit
    assert store.get(commit.id) == commit
    assert world.tables.requests == 1
    assert store.get_many([commit.id, commit.id]) == [commit, commit]
    with pytest.raises(RefNotFoundError):
        store.get(CommitID("0" * 64))
    with pytest.raises(RefNotFoundError):
        store.get_many([commit.id, CommitID("0" * 64)])


def test_a_commit_is_put_once() -> None:
    world = World()
    commit = world.add()
    with pytest.raises(ConditionFailedError):
        world.tables.transact([world.commits.put_write(commit, commit.created)])


def test_many_commits_are_one_request_for_each_hundred() -> None:
    world = World()
    made = world.line(250)
    store = world.cold()
    assert store.get_many([commit.id for commit in made]) == made
    assert world.tables.requests == 3
    world.tables.reset()
    assert store.get_many([commit.id for commit in reversed(made)]) == made[::-1]
    assert world.tables.requests == 0


def test_the_memory_is_bounded_and_keeps_what_is_used() -> None:
    world = World()
    made = world.line(60)
    store = world.cold(capacity=20)
    for commit in made:
        assert store.get(commit.id) == commit
        assert store.get(made[0].id) == made[0]
    assert world.tables.requests == 60
    assert sum(store.in_memory(commit.id) is not None for commit in made) <= 20


def test_a_put_write_costs_no_request_after_the_parent_was_read() -> None:
    world = World()
    tip = world.line(3)[-1]
    store = world.cold()
    store.get(tip.id)
    world.tables.reset()
    store.put_write(world.add(tip, put=False), 0)
    assert world.tables.requests == 0
    world.cold().put_write(world.add(tip, put=False), 0)
    assert world.tables.requests == 1
    orphan = world.add(world.add(put=False), put=False)
    with pytest.raises(RefNotFoundError):
        world.commits.put_write(orphan, 0)


def test_an_item_names_the_next_32_first_parents() -> None:
    world = World()
    made = world.line(40)
    merge = world.add(made[-1], made[3])
    kept = world.cold().read([merge.id, made[5].id, made[0].id])
    assert kept[merge.id].ancestors() == [commit.id for commit in reversed(made[-LINE_LENGTH:])]
    assert kept[made[5].id].ancestors() == [commit.id for commit in reversed(made[:5])]
    assert kept[made[0].id].ancestors() == []


def test_alive_means_there_and_not_expired() -> None:
    world = World()
    commit = world.add()
    check = world.commits.alive_check(commit.id)
    world.tables.transact([check])
    item = world.tables.get(check.key)
    assert item is not None
    world.tables.put(check.key, {**item, "expired": 1_700_000_000})
    with pytest.raises(ConditionFailedError):
        world.tables.transact([check])
    assert world.cold().get(commit.id) == commit  # still to be read until it is swept
    with pytest.raises(ConditionFailedError):
        world.tables.transact([world.commits.alive_check(CommitID("0" * 64))])


def test_a_damaged_item_is_named() -> None:
    world = World()
    commit = world.add()
    key = world.commits.key(commit.id)
    for item in ({"line": b""}, {"record": "text"}, {"record": encode_commit(commit)[1:]}):
        world.tables.put(key, item)
        with pytest.raises(CorruptError, match=commit.id):
            world.cold().get(commit.id)


def planted(ids: Sequence[str]) -> CommitStore:
    tables = MemoryTables()
    store = CommitStore(tables, UID)
    tables.write_many([Put(store.key(CommitID(id_)), {"record": b""}) for id_ in ids])
    return store


def test_a_prefix_finds_what_begins_with_it_in_order() -> None:
    ids = ["abcd" + "0" * 60, "abcd" + "f" * 60, "abce" + "0" * 60, "abc" + "f" * 61, "b" + "0" * 63]
    store = planted(ids)
    assert store.find_prefix("abcd") == ids[:2]
    assert store.find_prefix("abcd", limit=1) == ids[:1]
    assert store.find_prefix("abcdf") == ids[1:2]
    assert store.find_prefix("abcff") == ids[3:4]
    assert store.find_prefix("ffff") == []
    assert store.find_prefix(ids[4]) == ids[4:]
    for wrong in ("", "abc", "ABCD", "xyzw", "a" * 65, "abc "):
        with pytest.raises(InvalidError):
            store.find_prefix(wrong)
