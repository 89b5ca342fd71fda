"""The collector and uploads of which the table has a record: what can be completed stays, what was abandoned goes."""

from collections.abc import Callable

import pytest

from graveler.errors import UploadNotFoundError
from graveler.lake.clock import GRACE
from graveler.lake.deadline import SKEW
from graveler.lake.objects.recorded_uploads import complete_upload, create_upload, find_upload, list_uploads
from graveler.lake.objects.upload_records import LIFETIME, UploadRecord, UploadRecords
from graveler.lake.repository import OpenRepository
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.leftovers import Leftovers
from graveler.retention.runs import Kind, Mode, Outcome, Tally
from tests.lake.support import DieAt, World, died, texts
from tests.retention.support import AGE, collect

Parts = list[tuple[int, str]]


def begin(repository: OpenRepository, path: str = "k") -> tuple[UploadRecord, Parts]:
    upload = create_upload(repository.parts, "main", path)
    part = repository.parts.objects.put_part(upload.key, upload.store_id, 1, b"mine")
    return upload, [(1, part)]


def complete(repository: OpenRepository, upload: UploadRecord, parts: Parts) -> None:
    complete_upload(repository.parts, upload.branch, upload.path, upload.upload_id, parts)


def test_an_upload_outlives_collections_and_so_does_its_object() -> None:
    world = World()
    upload, parts = begin(world.main)
    for _ in range(6):
        world.clock.time += GRACE
        assert Kind.UPLOAD.value not in collect(world).outcomes
    complete(world.main, upload, parts)
    collect(world)
    assert texts(world.main) == {"k": "mine"}
    world.main.commit("main", "m")
    world.clock.time += AGE
    collect(world)
    assert texts(world.main) == {"k": "mine"}


def test_an_object_that_was_made_and_not_staged_stays_until_it_is() -> None:
    world = World()
    upload, parts = begin(world.main)
    client = world.repository(DieAt("objects.complete_multipart", after=True))
    assert died(lambda: complete(client, upload, parts))
    world.clock.time += AGE
    collect(world)
    complete(world.main, upload, parts)
    assert texts(world.main) == {"k": "mine"}


@pytest.mark.parametrize("is_made", [False, True])
def test_what_was_abandoned_goes(is_made: bool) -> None:
    world = World()
    upload, parts = begin(world.main)
    if is_made:
        assert died(lambda: complete(world.repository(DieAt("tables.transact")), upload, parts))
    world.clock.time += LIFETIME + AGE
    planned = Garbage(world.repository(), Options(threads=1)).plan()
    assert planned.outcomes.get(Kind.OBJECT.value, {}) == {}
    assert len(list(UploadRecords(world.tables, world.main.repository.uid).all())) == 1, "a dry run changes nothing"
    collect(world)
    assert list(UploadRecords(world.tables, world.main.repository.uid).all()) == []
    assert list(world.objects().uploads()) == []
    assert [key for key in world.objects().keys if key.startswith("data/")] == []
    with pytest.raises(UploadNotFoundError):
        complete(world.main, upload, parts)


def test_a_completed_record_is_forgotten_after_a_day() -> None:
    world = World()
    upload, parts = begin(world.main)
    complete(world.main, upload, parts)
    collect(world)
    assert len(list(UploadRecords(world.tables, world.main.repository.uid).all())) == 1
    world.clock.time += 2 * GRACE
    collect(world)
    assert list(UploadRecords(world.tables, world.main.repository.uid).all()) == []
    assert texts(world.main) == {"k": "mine"}


Step = Callable[[World], object]


@pytest.mark.parametrize("age", [0, AGE, 6 * GRACE])
def test_a_completion_between_any_two_requests_of_a_collection_loses_nothing(age: float) -> None:
    """The collector reads records before what is staged, and an upload moves from the one to the other."""
    number, reached = 0, True
    while reached:
        number += 1
        world = World()
        upload, parts = begin(world.main)
        # The object has the age of the upload, as on S3.
        assert died(lambda: complete(world.repository(DieAt("tables.transact")), upload, parts))  # noqa: B023
        world.clock.time += age
        seen = 0
        reached = False

        def between(request: str, _: int) -> None:
            nonlocal seen, reached
            seen += request.startswith("tables.")
            if seen == number and not reached:  # noqa: B023
                reached = True
                complete(world.main, upload, parts)  # noqa: B023

        Garbage(world.repository(between), Options(Mode.DELETE, threads=1)).run()
        if not reached:
            complete(world.main, upload, parts)
        assert texts(world.main) == {"k": "mine"}
        assert number < 500


def test_purging_removes_the_records_and_what_was_uploaded() -> None:
    world = World()
    begin(world.main)
    uid = world.main.repository.uid
    lake = world.lake()
    lake.delete_repository(world.main.repository.name)
    Leftovers(lake.tables, lake.store_of, world.clock, GRACE, SKEW).purge(uid, at_once=True)
    assert list(UploadRecords(world.tables, uid).all()) == []
    assert list(world.objects().uploads()) == []


def test_a_young_upload_is_no_candidate_and_is_not_listed_as_one() -> None:
    world = World()
    upload, _ = begin(world.main)
    assert collect(world).outcomes.get(Kind.UPLOAD.value, {}) == {}
    assert find_upload(world.main.parts, "main", "k", upload.upload_id) == upload
    assert list_uploads(world.main.parts, "main") == ([upload], False)


def test_an_upload_whose_record_was_never_written_goes_after_the_grace() -> None:
    world = World()
    assert died(lambda: begin(world.repository(DieAt("tables.put"))))
    world.clock.time += AGE
    assert collect(world).outcomes[Kind.UPLOAD.value] == {Outcome.DELETED.value: Tally(1, 0)}
