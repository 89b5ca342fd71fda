"""Uploads in parts of which the table has a record: any process continues, lists, completes or aborts them, and each once."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from graveler.errors import (
    AlreadyExistsError,
    CorruptError,
    InvalidError,
    ObjectChangedError,
    ProtectedBranchError,
    RefNotFoundError,
    UnavailableError,
    UploadNotFoundError,
)
from graveler.lake.objects.recorded_uploads import (
    abort_upload,
    complete_upload,
    create_upload,
    find_upload,
    list_uploads,
)
from graveler.lake.objects.upload_records import LIFETIME, UploadRecord, UploadRecords
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.requests.staging import Condition
from graveler.storage.objects.port import UploadMissingError
from tests.lake.support import Before, DieAt, World, commit, died, put, texts
from tests.support.instruments import Fault

Parts = list[tuple[int, str]]


def begin(repository: OpenRepository, path: str = "k", branch: str = "main") -> UploadRecord:
    return create_upload(repository.parts, branch, path, content_type="text/x", metadata={"a": "ü"}, by="ada")


def send(repository: OpenRepository, upload: UploadRecord, *texts: str) -> Parts:
    store = repository.parts.objects
    return [
        (number, store.put_part(upload.key, upload.store_id, number, text.encode()))
        for number, text in enumerate(texts, 1)
    ]


def complete(
    repository: OpenRepository, upload: UploadRecord, parts: Parts, condition: Condition | None = None
) -> ObjectEntry:
    return complete_upload(repository.parts, upload.branch, upload.path, upload.upload_id, parts, condition)


def abort(repository: OpenRepository, upload: UploadRecord) -> None:
    abort_upload(repository.parts, upload.branch, upload.path, upload.upload_id)


def find(repository: OpenRepository, upload: UploadRecord) -> UploadRecord:
    return find_upload(repository.parts, upload.branch, upload.path, upload.upload_id)


def test_each_step_may_be_another_process() -> None:
    world = World()
    upload = begin(world.repository())
    assert find(world.repository(), upload) == upload
    assert (upload.content_type, upload.metadata, upload.by) == ("text/x", {"a": "ü"}, "ada")
    send(world.repository(), upload, "replaced")
    send(world.repository(), upload, "hello ", "world")
    parts = [(part.number, part.etag) for part in world.objects().parts(upload.key, upload.store_id)]
    entry = complete(world.repository(), upload, parts)
    assert world.main.stat("main", "k") == entry
    assert (entry.size, entry.content_type, entry.metadata) == (11, "text/x", {"a": "ü"})
    assert entry.checksum.endswith("-2")
    assert texts(world.main) == {"k": "hello world"}
    world.main.commit("main", "m")
    assert texts(world.main, "main@") == {"k": "hello world"}


def test_a_repeated_completion_returns_the_object_of_the_first() -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    entry = complete(world.main, upload, parts)
    put(world.main, {"k": "other"})
    world.clock.time += 60
    assert complete(world.repository(), upload, parts) == entry
    assert texts(world.main) == {"k": "other"}
    for gone in (lambda: find(world.main, upload), lambda: abort(world.main, upload)):
        with pytest.raises(UploadNotFoundError, match="completed, aborted"):
            gone()


def test_uploads_are_listed_by_path_and_time() -> None:
    world = World()
    world.main.create_branch("b", "main")
    begun: dict[str, list[UploadRecord]] = {}
    for path in ("z", "a/2", "a/10", "a", "a/2", "ü", "a" * 900, "a" * 900 + "b"):
        world.clock.time += 1
        begun.setdefault(path, []).append(begin(world.main, path))
    begin(world.main, "a/2", "b")
    listed, more = list_uploads(world.main.parts, "main")
    paths = ["a", "a/10", "a/2", "a/2", "a" * 900, "a" * 900 + "b", "z", "ü"]
    assert ([upload.path for upload in listed], more) == (paths, False)
    assert listed[2:4] == begun["a/2"]
    under, more = list_uploads(world.main.parts, "main", "a/")
    assert ([upload.path for upload in under], more) == (["a/10", "a/2", "a/2"], False)
    found: list[UploadRecord] = []
    after = None
    more = True
    while more:
        page, more = list_uploads(world.main.parts, "main", "", after, 3)
        found += page
        after = page[-1].path, page[-1].upload_id
    assert found == listed
    long, _ = list_uploads(world.main.parts, "main", "a" * 900 + "b")
    assert [upload.path for upload in long] == ["a" * 900 + "b"]
    complete(world.main, listed[0], send(world.main, listed[0], "1"))
    abort(world.main, listed[1])
    assert list_uploads(world.main.parts, "main")[0] == listed[2:]
    assert list_uploads(world.main.parts, "nowhere") == ([], False)


def test_what_no_upload_has_is_not_found() -> None:
    world = World()
    upload = begin(world.main)
    for branch, path, upload_id in (
        ("main", "other", upload.upload_id),
        ("other", "k", upload.upload_id),
        ("main", "k", "0" * 24),
        ("main", "k", ""),
        ("main", "k", upload.upload_id.upper()),
        ("main", "k", "\0" * 24),
    ):
        with pytest.raises(UploadNotFoundError):
            find_upload(world.main.parts, branch, path, upload_id)
        with pytest.raises(UploadNotFoundError):
            complete_upload(world.main.parts, branch, path, upload_id, [(1, "0" * 32)])
        with pytest.raises(UploadNotFoundError):
            abort_upload(world.main.parts, branch, path, upload_id)
    assert find(world.main, upload) == upload


def test_parts_that_make_no_sense_leave_the_upload_open() -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "1", "2")
    for wrong in ([], parts[::-1], [(1, "0" * 32)], [(3, parts[0][1])], [(0, parts[0][1])]):
        with pytest.raises(InvalidError):
            complete(world.main, upload, wrong)
    assert texts(world.main) == {}
    complete(world.main, upload, parts)
    assert texts(world.main) == {"k": "12"}


def test_an_upload_begins_only_where_it_may_end() -> None:
    world = World()
    with pytest.raises(RefNotFoundError):
        begin(world.main, branch="nowhere")
    with pytest.raises(InvalidError):
        begin(world.main, "")
    with pytest.raises(InvalidError):
        create_upload(world.main.parts, "main", "k", metadata={"a": 1})  # type: ignore[dict-item]
    upload = begin(world.main)
    parts = send(world.main, upload, "1")
    world.main.protect(["main"])
    with pytest.raises(ProtectedBranchError):
        complete(world.repository(), upload, parts)
    with pytest.raises(ProtectedBranchError):
        begin(world.repository())
    assert texts(world.main) == {}
    abort(world.repository(), upload)
    assert list(world.objects().uploads()) == []


def test_an_upload_to_a_branch_that_is_gone_is_only_aborted() -> None:
    world = World()
    world.main.create_branch("b", "main")
    upload = begin(world.main, branch="b")
    parts = send(world.main, upload, "1")
    world.main.rename_branch("b", "c")
    with pytest.raises(RefNotFoundError):
        complete(world.main, upload, parts)
    with pytest.raises(UploadNotFoundError):
        find_upload(world.main.parts, "c", "k", upload.upload_id)
    abort(world.main, upload)


def test_it_ends_under_its_condition_and_can_go_on_after_losing() -> None:
    world = World()
    commit(world.main, {"k": "old"})
    seen = world.main.stat("main", "k").checksum
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    with pytest.raises(AlreadyExistsError):
        complete(world.main, upload, parts, Condition(if_absent=True))
    put(world.main, {"k": "new"})
    with pytest.raises(ObjectChangedError):
        complete(world.main, upload, parts, Condition(if_match=seen))
    assert find(world.main, upload) == upload
    hook = Before("tables.transact", 1, lambda: put(world.main, {"k": "newer"}))
    with pytest.raises(ObjectChangedError):
        complete(world.repository(hook), upload, parts, Condition(if_match=world.main.stat("main", "k").checksum))
    assert texts(world.main) == {"k": "newer"}
    complete(world.main, upload, parts, Condition(if_match=world.main.stat("main", "k").checksum))
    assert texts(world.main) == {"k": "mine"}


STEPS = ("tables.get", "objects.complete_multipart", "tables.transact")


@pytest.mark.parametrize("step", STEPS)
def test_of_two_completions_at_once_one_makes_the_object_and_both_return_it(step: str) -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    entries = list[ObjectEntry]()
    hook = Before(step, 1, lambda: entries.append(complete(world.repository(), upload, parts)))
    entries.append(complete(world.repository(hook), upload, parts))
    assert hook.reached
    assert entries[0] == entries[1] == world.main.stat("main", "k")
    assert texts(world.main) == {"k": "mine"}


@pytest.mark.parametrize("step", STEPS)
def test_who_is_aborted_meanwhile_completes_nothing(step: str) -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    hook = Before(step, 1, lambda: abort(world.repository(), upload))
    with pytest.raises(UploadNotFoundError):
        complete(world.repository(hook), upload, parts)
    assert texts(world.main) == {}
    assert list(world.objects().uploads()) == []


@pytest.mark.parametrize("step", ["tables.get", "tables.delete"])
def test_who_is_completed_meanwhile_is_not_aborted(step: str) -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    hook = Before(step, 1, lambda: complete(world.repository(), upload, parts))
    with pytest.raises(UploadNotFoundError):
        abort(world.repository(hook), upload)
    assert hook.reached
    assert texts(world.main) == {"k": "mine"}


def test_a_commit_or_a_reset_meets_a_completion() -> None:
    acts: list[Callable[[World], object]] = [
        lambda world: commit(world.main, {"x": "1"}),
        lambda world: world.main.reset("main"),
        lambda world: put(world.main, {"k": "other"}),
    ]
    for act in acts:
        world = World()
        put(world.main, {"k": "old", "y": "1"})
        upload = begin(world.main)
        parts = send(world.main, upload, "mine")
        complete(world.repository(Before("tables.transact", 1, lambda: act(world))), upload, parts)  # noqa: B023
        world.main.commit("main", "m", allow_empty=True)
        assert texts(world.main, "main@", "k") == {"k": "mine"}


REQUESTS = (
    "tables.get",
    "tables.get_many",
    "tables.put",
    "tables.delete",
    "tables.transact",
    "objects.head",
    "objects.create_multipart",
    "objects.complete_multipart",
    "objects.abort_multipart",
)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_process_that_dies_between_any_steps_leaves_what_others_finish(request_: str, after: bool) -> None:
    for number in (1, 2, 3):
        world = World()
        first, second = begin(world.main, "first"), begin(world.main, "second")
        parts = send(world.main, first, "mine")
        client = world.repository(DieAt(request_, number, after=after))

        def work() -> None:
            begin(client, "new")  # noqa: B023
            complete(client, first, parts)  # noqa: B023
            abort(client, second)  # noqa: B023

        died(work)
        assert complete(world.repository(), first, parts) == world.main.stat("main", "first")
        with suppress(UploadNotFoundError):
            abort(world.repository(), second)
        assert texts(world.main) == {"first": "mine"}
        for upload in list_uploads(world.main.parts, "main")[0]:
            assert upload.path == "new"
            abort(world.main, upload)


@pytest.mark.parametrize("fault", ["fail_before", "fail_after", "repeat"])
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_that_is_lost_or_repeated_does_no_harm(request_: str, fault: Fault) -> None:
    for number in (1, 2):
        world = World()
        upload = begin(world.main)
        parts = send(world.main, upload, "mine")
        client = world.repository(Before(request_, number, fault=fault))
        try:
            entry = complete(client, upload, parts)
        except UnavailableError:
            entry = complete(client, upload, parts)
        assert world.main.stat("main", "k") == entry
        assert texts(world.main) == {"k": "mine"}
        other = begin(world.main, "other")
        client = world.repository(Before(request_, number, fault=fault))
        for _ in range(2):
            with suppress(UnavailableError, UploadNotFoundError):
                abort(client, other)
        with pytest.raises(UploadNotFoundError):
            find(world.main, other)


def test_an_upload_lives_for_seven_days() -> None:
    world = World()
    upload, other = begin(world.main), begin(world.main, "l")
    parts = send(world.main, upload, "mine")
    world.clock.time += LIFETIME - 10
    complete(world.main, upload, parts)
    assert texts(world.main) == {"k": "mine"}
    world.clock.time += 20
    for late in (find, abort):
        with pytest.raises(UploadNotFoundError):
            late(world.main, other)
    assert list_uploads(world.main.parts, "main") == ([], False)


def test_a_damaged_record_says_what_it_is() -> None:
    world = World()
    upload = begin(world.main)
    records = UploadRecords(world.tables, world.main.repository.uid)
    world.tables.put(records.key_of("main", "k", upload.upload_id), {"record": b"?"})
    with pytest.raises(CorruptError, match="cannot be read"):
        find(world.main, upload)


def test_a_store_that_has_lost_the_upload_says_so() -> None:
    world = World()
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    world.objects().abort_multipart(upload.key, upload.store_id)
    with pytest.raises(UploadNotFoundError):
        complete(world.main, upload, parts)
    with pytest.raises(UploadMissingError):
        send(world.main, upload, "late")
    abort(world.main, upload)


def test_cost() -> None:
    world = World()
    put(world.main, {"k": "old"})

    def asked(act: Callable[[OpenRepository], object]) -> tuple[dict[str, int], dict[str, int]]:
        counted = world.counted()
        counted.repository.stat("main", "k")
        counted.reset()
        act(counted.repository)
        return {name: n for name, n in counted.tables.calls.items() if n}, dict(counted.objects.calls)

    tables, objects = asked(lambda r: (begin(r), begin(r)))
    assert (tables, objects) == ({"get_many": 1, "put": 2}, {"create_multipart": 2})
    upload = begin(world.main)
    parts = send(world.main, upload, "mine")
    assert asked(lambda r: find(r, upload)) == ({"get": 1}, {})
    assert asked(lambda r: list_uploads(r.parts, "main")) == ({"query": 1}, {})
    tables, objects = asked(lambda r: complete(r, upload, parts))
    assert (sum(tables.values()), tables["transact"], objects) == (4, 1, {"complete_multipart": 1})
    assert asked(lambda r: complete(r, upload, parts)) == ({"get": 1}, {})
    other = begin(world.main)
    assert asked(lambda r: abort(r, other)) == ({"get": 1, "delete": 1}, {"abort_multipart": 1})
