"""Arrow tables have the rows of the verbs, for an own lake and for one behind a server."""

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError, RefNotFoundError
from graveler.lake.lake import Lake as LakeVerbs
from graveler.model import Change, Commit, ObjectEntry
from graveler.remote.any_repository import AnyRepository
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.sql.arrow import schemas, tables
from graveler.tree.key_range import KeyRange
from tests.sdk.conftest import CountedLake

NAMES = st.sampled_from(["a", "a/b", "a/b\x01", "a\tb\n", "ä/ö", "b", "\x7f", "z/日本", "z/\U0001f600", "\uffff"])
ENTRIES = st.builds(
    ObjectEntry,
    NAMES,
    st.integers().map(lambda number: f"mem://elsewhere/{number}"),
    st.integers(0, (1 << 63) - 1),
    st.sampled_from(["00" * 16, "ab" * 20, "no-hex", ""]),
    st.integers(-10, 1 << 33),
    st.sampled_from(["application/octet-stream", "text/plain", ""]),
    st.dictionaries(st.sampled_from(["k", "ü", ""]), st.text(st.characters(codec="utf-8"), max_size=3), max_size=2),
)
STEPS = st.lists(st.tuples(st.lists(ENTRIES, max_size=6), st.lists(NAMES, max_size=3), st.booleans()), max_size=5)
PLAIN = st.builds(
    ObjectEntry,
    NAMES,
    st.sampled_from(["s3://elsewhere/", "s3://elsewhere/ä/b", "s3://x/" + "y" * 300]),
    st.integers(0, (1 << 63) - 1),
    st.sampled_from(["00" * 16, "0123456789abcdef" * 2]),
    st.integers(1 << 16, (1 << 32) - 1),
)
"""Objects whose records are converted all at once."""
BOUNDS = st.sampled_from(["", "a", "a/b", "z/", "ä", "\U0001f600"])


def object_row(entry: ObjectEntry) -> tuple[object, ...]:
    return (
        entry.path,
        entry.size,
        entry.checksum,
        entry.address,
        entry.mtime,
        entry.content_type,
        dict(entry.metadata),
    )


def change_row(change: Change) -> tuple[object, ...]:
    sides = [
        (None,) * 4 if entry is None else (entry.size, entry.checksum, entry.address, entry.mtime)
        for entry in (change.before, change.after)
    ]
    return (change.type.value, change.path, *(value for pair in zip(*sides, strict=True) for value in pair))


def commit_row(commit: Commit) -> tuple[object, ...]:
    return (
        commit.id,
        list(commit.parents),
        commit.committer,
        commit.message,
        commit.created,
        commit.generation,
        commit.metarange_id,
        dict(commit.metadata),
    )


def rows(reader: Any) -> list[tuple[object, ...]]:
    """Return the rows of a stream; times as whole numbers, metadata as dictionaries."""
    table = reader.read_all()
    table.validate(full=True)
    columns = []
    for column in table.columns:
        if str(column.type).startswith("timestamp"):
            column = column.cast("int64")
        values = column.to_pylist()
        if str(column.type).startswith("map"):
            values = [None if value is None else dict(value) for value in values]
        columns.append(values)
    return [*zip(*columns, strict=True)]


def within(path: str, prefix: str, after: str, upto: str) -> bool:
    key = path.encode()
    return path.startswith(prefix) and key > after.encode() and (not upto or key <= upto.encode())


def make_history(repository: Repository, steps: Sequence[tuple[list[ObjectEntry], list[str], bool]]) -> None:
    main = repository.branch("main")
    for number, (entries, removed, committed) in enumerate(steps):
        repository.own.link_many("main", {entry.path: entry for entry in entries}.values())
        if removed:
            main.delete_objects(removed)
        if committed:
            main.commit(f"step {number}", metadata={"step": str(number)}, allow_empty=True)


def some_keys(prefix: str = "", after: str = "", upto: str = "") -> list[KeyRange]:
    keys = KeyRange.of_prefix(prefix.encode())
    if after:
        keys &= KeyRange(after.encode() + b"\0")
    if upto:
        keys &= KeyRange(end=upto.encode() + b"\0")
    return [] if keys.empty else [keys]


def check(verbs: AnyRepository, prefix: str, after: str, upto: str) -> None:
    """Compare all tables with the verbs."""
    keys: dict[str, Any] = {"keys": some_keys(prefix, after, upto)}
    log = [*verbs.log("main", amount=100).results]
    first = log[-1].id
    for ref in ("main", "main@", first):
        entries = [each for each in verbs.objects(ref) if within(each.path, prefix, after, upto)]
        assert rows(tables.objects(verbs, ref, **keys)) == list(map(object_row, entries))
        assert rows(tables.objects(verbs, ref, **keys, columns=["metadata", "path"])) == [
            (dict(each.metadata), each.path) for each in entries
        ]
    changes = [each for each in verbs.diff(first, "main", amount=100).results if within(each.path, prefix, after, upto)]
    assert rows(tables.diff(verbs, first, "main", **keys)) == list(map(change_row, changes))
    assert rows(tables.diff(verbs, first, "main", **keys, three_dot=True)) == list(map(change_row, changes))
    changes = [each for each in verbs.uncommitted("main", amount=100).results if within(each.path, prefix, after, upto)]
    assert rows(tables.staged(verbs, "main", **keys)) == list(map(change_row, changes))
    assert rows(tables.commits(verbs, "main")) == list(map(commit_row, log))
    assert rows(tables.blame(verbs, "main", **keys)) == [
        (entry.path, entry.size, by.id, by.committer, by.message, by.created)
        for entry in verbs.objects("main@")
        if within(entry.path, prefix, after, upto)
        for by in [verbs.blame("main", entry.path)]
    ]
    assert rows(tables.reflog(verbs, "main")) == [
        (each.event.time_ns, each.event.operation, each.event.operation_id, each.event.by, each.old, each.new)
        for each in verbs.reflog("main", 1000)
    ]
    assert rows(tables.branches(verbs)) == [
        (each.name, each.commit_id, each.hidden) for each in verbs.branches().results
    ]
    assert rows(tables.tags(verbs)) == [(each.name, each.commit_id) for each in verbs.tags().results]


@settings(max_examples=60, deadline=None)
@given(STEPS, BOUNDS, BOUNDS, BOUNDS)
def test_tables_have_the_rows_of_the_verbs(
    steps: list[tuple[list[ObjectEntry], list[str], bool]], prefix: str, after: str, upto: str
) -> None:
    repository = CountedLake().repository("demo").create("mem://demo")
    make_history(repository, steps)
    repository.tag("v1").create("main")
    check(repository.own, prefix, after, upto)


@settings(max_examples=60, deadline=None)
@given(st.lists(PLAIN, max_size=8), st.lists(ENTRIES, max_size=1), BOUNDS)
def test_records_of_imports_are_converted_as_others(
    plain: list[ObjectEntry], others: list[ObjectEntry], after: str
) -> None:
    repository = CountedLake().repository("demo").create("mem://demo")
    make_history(repository, [(plain, [], True), (others, [], False)])
    check(repository.own, "", after, "")


def test_tables_behind_a_server_have_the_rows_of_its_verbs(served_lake: Lake) -> None:
    repository = served_lake.repository("demo").create(f"{served_lake.verbs.home}demo-{token_hex(6)}")
    main = repository.branch("main")
    for name in ("a", "a/b\x01", "ä/ö", "z/日本"):
        main.object(name).upload(name.encode(), metadata={"name": name}, content_type="text/plain")
    main.commit("some", metadata={"k": "v"})
    main.object("a").upload(b"other")
    main.object("b").upload(b"new")
    main.object("ä/ö").delete()
    repository.tag("v1").create("main")
    check(repository.verbs, "", "", "")
    check(repository.verbs, "a", "a", "a/c")
    repository.delete()


@pytest.fixture
def many(repo: Repository) -> Repository:
    """A repository with 40,000 objects, which take several batches and ranges."""
    entries = [ObjectEntry(f"o{n:06}", f"mem://o/{n}", n, "00" * 16, n) for n in range(40_000)]
    repo.own.link_many("main", entries)
    repo.branch("main").commit("many")
    return repo


def test_rows_are_whole_across_batches(many: Repository) -> None:
    found = [*tables.objects(many.own, "main@", columns=["size"])]
    assert [size for batch in found for size in batch.column(0).to_pylist()] == [*range(40_000)]


def test_only_ranges_with_such_paths_are_read(lake: CountedLake, many: Repository) -> None:
    tree = many.own.tree("main")
    assert len(tree) > 2
    last = tree.info(1).last.decode()

    def requests(keys: Sequence[KeyRange] = tables.EVERYTHING) -> int:
        fresh = LakeVerbs(lake.tables, lake.objects).repository("demo")  # which has read nothing
        before = lake.stores["mem://demo"].requests
        tables.objects(fresh, "main@", keys=keys).read_all()
        return lake.stores["mem://demo"].requests - before

    whole, one, none = requests(), requests(some_keys(after=last[:-1], upto=last)), requests(some_keys("p"))
    assert (one, whole) == (none + 1, none + len(tree))


def test_a_stream_is_of_one_state(many: Repository) -> None:
    stream = tables.objects(many.own, "main")
    first = stream.read_next_batch().num_rows
    many.branch("main").object("o9").upload(b"later")
    many.branch("main").commit("later")
    assert stream.read_all().num_rows == 40_000 - first


def test_a_missing_ref_raises_at_once(repo: Repository) -> None:
    with pytest.raises(RefNotFoundError):
        tables.objects(repo.own, "missing")


def test_an_unknown_column_is_named(repo: Repository) -> None:
    with pytest.raises(InvalidError, match="colour"):
        tables.objects(repo.own, "main", columns=["colour"])


def test_an_empty_repository_has_the_columns(repo: Repository) -> None:
    found = tables.objects(repo.own, "main").read_all()
    assert (found.num_rows, found.schema) == (0, schemas.OBJECTS)
