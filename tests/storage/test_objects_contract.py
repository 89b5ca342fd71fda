"""The contract of every adapter of the port *objects*."""

import time
from contextlib import AbstractContextManager, nullcontext
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from random import randbytes
from tempfile import TemporaryDirectory
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from graveler.errors import InvalidError, NotFoundError, PreconditionError
from graveler.storage.objects import s3 as s3_objects
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import (
    ObjectConditionError,
    ObjectMissingError,
    Objects,
    Page,
    StoredObject,
    UploadMissingError,
)
from graveler.storage.objects.s3 import S3Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from tests.storage.adapters import EXAMPLES, LENIENT, OBJECTS, ONE_AT_A_TIME, PAGE, WITHOUT_NESTED_KEYS

NASTY_KEYS = [
    "a",
    "a b/c d",
    " ",
    "ä/ö",
    "\U0001f600/x",
    "\uffff",  # sorts before the emoji in UTF-8, after it in UTF-16
    "a\\b",
    "%2F",
    "...",
    ".hidden",
    "~",
    "x\ny\tz",
    "-rf",
    "*?[]",
    "c:d",
    "é",
    "e\u0301",  # the same letter to a reader, another key
    "q" * 255,
]


def same(one: StoredObject, other: StoredObject) -> bool:
    """Whether they tell of the same write. S3 does not tell its time, only when it answered."""
    return structs.replace(one, modified=0) == structs.replace(other, modified=0) and (
        abs(one.modified - other.modified) <= 2
    )


def tells_what_is_gone(objects: Objects) -> AbstractContextManager[object]:
    """A conditional delete of nothing is success on S3, and an error of every other store."""
    return nullcontext() if isinstance(objects, S3Objects) else pytest.raises(ObjectMissingError)


def is_lenient(request: pytest.FixtureRequest) -> bool:
    """Whether the fixture ``objects`` is a store that is laxer than S3."""
    return request.node.callspec.params["objects"] in LENIENT


def part(objects: Objects, data: bytes) -> bytes:
    """A part of an upload, not the last one. S3 wants 5 MiB in it."""
    return data.ljust(5 << 20, b".") if isinstance(objects, S3Objects) else data


def pages(objects: Objects, amount: int) -> int:
    """As many objects as take the pages that ``amount`` takes where a page has 1,000."""
    return amount * PAGE // 1000 if isinstance(objects, S3Objects) else amount


@pytest.mark.parametrize("key", NASTY_KEYS)
def test_what_was_put_is_got(objects: Objects, key: str) -> None:
    stored = objects.put(key, b"contents")
    assert objects.get(key) == b"contents"
    assert same(objects.head(key), stored)
    assert (stored.key, stored.size) == (key, 8)
    assert list(objects.list()) == [objects.head(key)]
    objects.delete(key)
    assert list(objects.list()) == []


@pytest.mark.parametrize(
    "key",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "../x", "a\0b", "\ud800", "k/" * 512 + "k", "ä" * 513],
)
def test_what_can_be_no_key_is_refused(objects: Objects, key: str) -> None:
    for call in (
        lambda: objects.get(key),
        lambda: objects.head(key),
        lambda: objects.put(key, b""),
        lambda: objects.delete(key),
        lambda: list(objects.stream(key)),
        lambda: objects.get_range(key, 0, 1),
        lambda: objects.presign(key, "GET", 60),
        lambda: objects.create_multipart(key),
        lambda: objects.abort_multipart(key, "x"),
    ):
        with pytest.raises(InvalidError):
            call()
    assert list(objects.list()) == []


def test_what_is_missing_is_named(objects: Objects) -> None:
    objects.put("there/x", b"")
    for key in ("missing", "there", "there/x/y", "there/y"):
        with pytest.raises(ObjectMissingError, match=key) as caught:
            objects.get(key)
        assert isinstance(caught.value, NotFoundError)
        assert (caught.value.namespace, caught.value.key) == (objects.namespace, key)
        with pytest.raises(ObjectMissingError):
            objects.head(key)
        with pytest.raises(ObjectMissingError):
            objects.get_range(key, 0, 1)
        with pytest.raises(ObjectMissingError):
            list(objects.stream(key))
        with tells_what_is_gone(objects):
            objects.delete(key, if_match="1")
        objects.delete(key)


def test_missing_in_a_store_that_nobody_has_written_to(objects: Objects) -> None:
    assert list(objects.list()) == []
    assert list(objects.list("a/b")) == []
    objects.delete("x")
    with pytest.raises(ObjectMissingError):
        objects.get("x")
    with tells_what_is_gone(objects):
        objects.delete("x", if_match="1")


def test_a_put_replaces_the_object_as_a_whole(objects: Objects) -> None:
    objects.put("k", b"a long one")
    objects.put("k", b"short")
    assert objects.get("k") == b"short"
    objects.put("k", b"")
    assert objects.get("k") == b""
    assert objects.head("k").size == 0


def test_a_file_can_be_put_and_stays(objects: Objects, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    assert objects.put("k", source).size == 3_000_000
    assert objects.get("k") == source.read_bytes()
    with pytest.raises(ObjectConditionError):
        objects.put("k", source, if_absent=True)


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_put_tells_the_bytes_that_it_has_written(objects: Objects, tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * size)
    for data in (source, source.read_bytes()):
        told: list[int] = []
        objects.put("k", data, sent=told.append)
        assert sum(told) == size


def test_put_if_absent_does_not_touch_what_is_there(objects: Objects) -> None:
    first = objects.put("k", b"first", if_absent=True)
    with pytest.raises(ObjectConditionError, match="k: the condition failed") as caught:
        objects.put("k", b"second", if_absent=True)
    assert isinstance(caught.value, PreconditionError)
    assert objects.get("k") == b"first"
    assert same(objects.head("k"), first)
    objects.delete("k")
    objects.put("k", b"third", if_absent=True)
    assert objects.get("k") == b"third"


def test_a_file_of_a_tree_that_is_put_again_has_another_etag(objects: Objects) -> None:
    now = time.time()
    files = ImmutableFiles(objects, None, 3600.0, lambda: now)
    files.put("ranges", "r", b"the same")
    etags = [objects.head("_graveler/ranges/r").etag]
    for _ in range(3):
        now += 3600.0
        files.put("ranges", "r", b"the same")
        etags.append(objects.head("_graveler/ranges/r").etag)
    assert all(one != other for one, other in pairwise(etags))
    assert objects.get("_graveler/ranges/r") == b"the same"


def test_every_write_has_an_etag_of_its_own(objects: Objects) -> None:
    seen = set()
    for number in range(300):
        # S3's is a hash of the contents.
        seen.add(objects.put("k", b"%d" % number if isinstance(objects, S3Objects) else b"same").etag)
        if number % 3 == 0:
            objects.delete("k")
    assert len(seen) == 300


def test_a_conditional_delete_hits_only_the_version_that_was_seen(objects: Objects) -> None:
    old = objects.put("k", b"older" if isinstance(objects, S3Objects) else b"same").etag
    new = objects.put("k", b"same").etag
    with pytest.raises(ObjectConditionError):
        objects.delete("k", if_match=old)
    assert objects.get("k") == b"same"
    objects.delete("k", if_match=new)
    with tells_what_is_gone(objects):
        objects.delete("k", if_match=new)


def test_of_many_threads_that_put_if_absent_one_wins(objects: Objects, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["objects"] in ONE_AT_A_TIME:
        pytest.skip("this store takes requests one at a time")
    barrier = Barrier(8)
    won: list[bytes] = []

    def compete(name: bytes) -> None:
        for turn in range(20):
            barrier.wait()
            try:
                objects.put(f"{turn}/k", name, if_absent=True)
            except ObjectConditionError:
                continue
            won.append(b"%d %s" % (turn, name))

    threads = [Thread(target=compete, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(b"%d %s" % (turn, objects.get(f"{turn}/k")) for turn in range(20))


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 3, b"012"),
        (8, 5, b"89"),
        (10, 1, b""),
        (99, 1, b""),
        (-3, 3, b"789"),
        (-99, 99, b"0123456789"),
        (-3, 2, b"78"),
        (4, 0, b""),
    ],
)
def test_ranges(objects: Objects, start: int, length: int, expected: bytes) -> None:
    objects.put("k", b"0123456789")
    assert objects.get_range("k", start, length) == expected
    assert b"".join(objects.stream("k", start, length)) == expected


def test_every_range_of_an_empty_object_is_empty(objects: Objects) -> None:
    """A damaged file may be: whoever reads its end first must see that."""
    objects.put("k", b"")
    for start, length in ((0, 1), (5, 5), (-1, 1), (-(1 << 16), 1 << 16)):
        assert objects.get_range("k", start, length) == b""
        assert b"".join(objects.stream("k", start, length)) == b""


def test_a_range_of_negative_length_is_refused(objects: Objects) -> None:
    objects.put("k", b"0123456789")
    with pytest.raises(InvalidError, match="-1 bytes"):
        objects.get_range("k", 0, -1)
    with pytest.raises(InvalidError):
        list(objects.stream("k", 0, -1))


def test_a_stream_comes_in_pieces_of_at_most_a_mebibyte(objects: Objects) -> None:
    data = bytes(range(256)) * 10_000
    objects.put("k", data)
    pieces = list(objects.stream("k"))
    assert max(map(len, pieces)) <= 1 << 20
    assert b"".join(pieces) == data
    assert b"".join(objects.stream("k", 1_500_000)) == data[1_500_000:]


def test_a_stream_that_nobody_reads_to_its_end_is_closed(objects: Objects) -> None:
    objects.put("k", bytes(3_000_000))
    stream = objects.stream("k")
    assert next(stream)
    del stream  # an open file left behind would be an error in these tests


def test_listing_is_in_the_order_of_the_keys_bytes(objects: Objects, request: pytest.FixtureRequest) -> None:
    keys = [
        "a-b",
        "a/b",
        "a/c/d",
        "a0",
        "a.b",
        "a b",
        "b/\uffff",
        "b/\U0001f600",
        "ä",
        "Z",
        "b!/x",
        "b-/x",
        "c",
    ]
    if request.node.callspec.params["objects"] == "moto":
        pytest.skip("moto fails where nothing is left to list")
    prefixes = ["", "a", "a/", "a/c", "a/c/", "b/", "b", "x", "/", "a//", "../", "./", "a/../", "\0"]
    if is_lenient(request):
        keys.remove("b/\uffff")
        prefixes = prefixes[:8]
    for key in keys:
        objects.put(key, key.encode())
    listed = [stored.key for stored in objects.list()]
    assert listed == sorted(keys, key=str.encode)
    for after in [*keys, "a", "a/", "b/", "a/b/", "a/bb", "\U0010ffff"]:
        assert [s.key for s in objects.list(after=after)] == [k for k in listed if k.encode() > after.encode()]
    for prefix in prefixes:
        assert [s.key for s in objects.list(prefix)] == [k for k in listed if k.startswith(prefix)]
        for after in keys:
            assert [s.key for s in objects.list(prefix, after)] == [
                k for k in listed if k.startswith(prefix) and k > after
            ]


def test_the_first_names_of_a_listing(objects: Objects, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["objects"] == "moto":
        pytest.skip("moto fails where nothing is left to list")
    for key in ("a-b", "a/b", "a/c/d", "a/c/e", "b/x", "c"):
        objects.put(key, b"")
    assert objects.page("") == Page(["a-b", "a/b", "a/c/d", "a/c/e", "b/x", "c"], False)
    assert objects.page("", folders=True) == Page(["a-b", "a/", "b/", "c"], False)
    assert objects.page("a", folders=True) == Page(["a-b", "a/"], False)
    assert objects.page("a/", folders=True) == Page(["a/b", "a/c/"], False)
    assert objects.page("a/", "a/b").names == ["a/c/d", "a/c/e"]
    assert objects.page("", "b", folders=True).names == ["b/", "c"]
    assert objects.page("x") == objects.page("\0") == Page([], False)
    for number in range(pages(objects, 1500)):
        objects.put(f"m/{number:04}/x", b"")
    first = objects.page("m/", folders=True)
    assert first.more
    assert first.names == [f"m/{number:04}/" for number in range(len(first.names))]


def test_listing_more_than_a_page(objects: Objects) -> None:
    keys = [f"{number % 7}/{number:04}" for number in range(pages(objects, 2100))]
    for key in keys:
        objects.put(key, b"")
    assert [stored.key for stored in objects.list()] == sorted(keys)


def test_a_listing_survives_deletions_under_it(objects: Objects) -> None:
    amount = pages(objects, 1500)
    for number in range(amount):
        objects.put(f"{number % 3}/{number:04}", b"")
    seen = []
    for stored in objects.list():
        seen.append(stored.key)
        objects.delete(stored.key)
    assert len(seen) == amount
    assert list(objects.list()) == []


def test_an_upload_in_parts(objects: Objects, request: pytest.FixtureRequest) -> None:
    upload = objects.create_multipart("big/object")
    second = objects.put_part("big/object", upload, 2, b"world")
    objects.put_part("big/object", upload, 1, b"replaced")
    first = objects.put_part("big/object", upload, 1, part(objects, b"hello "))
    objects.put_part("big/object", upload, 3, b"not used")
    assert list(objects.list()) == []
    with pytest.raises(ObjectMissingError):
        objects.get("big/object")
    stored = objects.complete_multipart("big/object", upload, [(1, first), (2, second)])
    assert objects.get("big/object") == part(objects, b"hello ") + b"world"
    assert same(objects.head("big/object"), stored)
    if not is_lenient(request):
        with pytest.raises(UploadMissingError):
            objects.complete_multipart("big/object", upload, [(1, first), (2, second)])
        with pytest.raises(UploadMissingError, match="no upload"):
            objects.put_part("big/object", upload, 1, b"late")


def test_an_upload_completes_only_with_the_parts_that_are_there(objects: Objects) -> None:
    upload = objects.create_multipart("k")
    old = objects.put_part("k", upload, 1, b"old")
    new = objects.put_part("k", upload, 1, part(objects, b"new"))
    other = objects.put_part("k", upload, 7, b"7")
    for parts in (
        [(1, old)],
        [(2, new)],
        [],
        [(7, other), (1, new)],
        [(1, new), (1, new)],
        [(0, new)],
        [(10_001, new)],
    ):
        with pytest.raises(InvalidError):
            objects.complete_multipart("k", upload, parts)
    for number in (0, 10_001):
        with pytest.raises(InvalidError):
            objects.put_part("k", upload, number, b"")
    objects.complete_multipart("k", upload, [(1, new), (7, other)])
    assert objects.get("k") == part(objects, b"new") + b"7"


def test_the_parts_of_an_upload_are_listed_by_number(objects: Objects, request: pytest.FixtureRequest) -> None:
    upload = objects.create_multipart("k")
    assert list(objects.parts("k", upload)) == []
    for number in (7, 1, 3, 10_000):
        objects.put_part("k", upload, number, b"replaced")
        objects.put_part("k", upload, number, part(objects, str(number).encode()))
    listed = list(objects.parts("k", upload))
    assert [part.number for part in listed] == [1, 3, 7, 10_000]
    for stored in listed:
        data = part(objects, str(stored.number).encode())
        assert (stored.size, stored.etag) == (len(data), md5(data, usedforsecurity=False).hexdigest())
    if not is_lenient(request):  # moto counts the parts, and s3proxy has no marker
        assert [stored.number for stored in objects.parts("k", upload, 3)] == [7, 10_000]
    objects.complete_multipart("k", upload, [(stored.number, stored.etag) for stored in listed])
    assert objects.get("k").startswith(part(objects, b"1"))


def test_parts_of_an_upload_that_does_not_exist_are_an_error(objects: Objects, request: pytest.FixtureRequest) -> None:
    upload = objects.create_multipart("k")
    objects.abort_multipart("k", upload)
    if not is_lenient(request):
        for key, upload_id in (("k", upload), ("other", upload), ("k", "unknown"), ("k", "")):
            with pytest.raises(UploadMissingError):
                list(objects.parts(key, upload_id))


def test_many_parts_are_listed_in_pages(objects: Objects) -> None:
    upload = objects.create_multipart("k")
    for number in range(1, 2 * PAGE + 2):
        objects.put_part("k", upload, number, b"x")
    assert [stored.number for stored in objects.parts("k", upload)] == [*range(1, 2 * PAGE + 2)]


def test_an_upload_belongs_to_its_key(objects: Objects, request: pytest.FixtureRequest) -> None:
    if is_lenient(request):
        pytest.skip("this store takes parts of an upload that nobody began")
    upload = objects.create_multipart("k")
    for key, upload_id in (("other", upload), ("k", "../../k"), ("k", ""), ("k", "unknown")):
        with pytest.raises(UploadMissingError):
            objects.put_part(key, upload_id, 1, b"")
        objects.abort_multipart(key, upload_id)
    assert objects.put_part("k", upload, 1, b"still there")


def test_an_upload_completes_if_absent_and_can_go_on_after_losing(objects: Objects) -> None:
    objects.put("k", b"taken")
    upload = objects.create_multipart("k")
    part = objects.put_part("k", upload, 1, b"mine")
    with pytest.raises(ObjectConditionError):
        objects.complete_multipart("k", upload, [(1, part)], if_absent=True)
    assert objects.get("k") == b"taken"
    objects.complete_multipart("k", upload, [(1, part)])
    assert objects.get("k") == b"mine"


def test_an_aborted_upload_leaves_nothing(objects: Objects, request: pytest.FixtureRequest) -> None:
    upload = objects.create_multipart("k")
    part = objects.put_part("k", upload, 1, b"mine")
    objects.abort_multipart("k", upload)
    objects.abort_multipart("k", upload)
    if request.node.callspec.params["objects"] != "moto":  # which fails
        with pytest.raises(UploadMissingError):
            objects.complete_multipart("k", upload, [(1, part)])
    assert list(objects.list()) == []


def test_presigning_knows_only_get_and_put(objects: Objects) -> None:
    assert objects.presign("a b/ü", "GET", 60).startswith("http")
    assert objects.presign("k", "PUT", 60)
    with pytest.raises(InvalidError, match="DELETE"):
        objects.presign("k", "DELETE", 60)
    with pytest.raises(InvalidError, match="0 seconds"):
        objects.presign("k", "GET", 0)


def test_presigning_a_part_says_which(objects: Objects) -> None:
    url = objects.presign_part("a b/ü", "an-upload", 7, 60)
    assert "partNumber=7" in url
    assert "uploadId=an-upload" in url
    for number, lifetime in ((0, 60), (10_001, 60), (1, 0)):
        with pytest.raises(InvalidError):
            objects.presign_part("k", "an-upload", number, lifetime)
    with pytest.raises(InvalidError):
        objects.presign_part("../k", "an-upload", 1, 60)


# Against a dict

COMPONENTS = st.one_of(
    st.sampled_from(["a", "b", "a-b", "a0", "a b", "ä", "\uffff", "\U0001f600", "A"]),
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
        min_size=1,
        max_size=6,
    ).filter(lambda text: text not in (".", "..")),
)
KEYS = st.lists(COMPONENTS, min_size=1, max_size=4).map("/".join)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.binary(max_size=20)),
        st.tuples(st.just("create"), KEYS, st.binary(max_size=20)),
        st.tuples(st.just("delete"), KEYS, st.booleans()),
        st.tuples(st.just("list"), st.one_of(KEYS, st.just(""), st.text(max_size=3)), st.one_of(KEYS, st.just(""))),
    ),
    max_size=25,
)


@pytest.mark.parametrize("adapter", sorted(set(OBJECTS) - {"moto"}))
def test_it_does_what_a_dict_does(adapter: str) -> None:
    @settings(deadline=None, max_examples=EXAMPLES.get(adapter, 60))
    @given(operations=OPERATIONS)
    def explore(operations: list[tuple[str, str, object]]) -> None:
        does_what_a_dict_does(adapter, operations)

    explore()


def does_what_a_dict_does(adapter: str, operations: list[tuple[str, str, object]]) -> None:
    model: dict[str, bytes] = {}
    etags: dict[str, str] = {}
    with TemporaryDirectory() as folder, OBJECTS[adapter](Path(folder)) as objects:
        for verb, key, argument in operations:
            if verb in ("put", "create"):
                assert isinstance(argument, bytes)
                if adapter in WITHOUT_NESTED_KEYS and _clashes(key, model):
                    if adapter in LENIENT:
                        continue
                    with pytest.raises(InvalidError, match="cannot both"):
                        objects.put(key, argument, if_absent=verb == "create")
                elif verb == "create" and key in model:
                    with pytest.raises(ObjectConditionError):
                        objects.put(key, argument, if_absent=True)
                else:
                    etags[key] = objects.put(key, argument, if_absent=verb == "create").etag
                    model[key] = argument
            elif verb == "delete":
                if argument and key not in model:
                    with tells_what_is_gone(objects):
                        objects.delete(key, if_match="x")
                else:
                    objects.delete(key, if_match=etags[key] if argument else None)
                    model.pop(key, None)
            else:
                assert isinstance(argument, str)
                if adapter in LENIENT and not (key + argument).isascii():
                    continue
                found = [stored.key for stored in objects.list(key, argument)]
                wanted = [k for k in model if k.startswith(key) and k.encode() > argument.encode()]
                if adapter in LENIENT:
                    found.sort(key=str.encode)
                assert found == sorted(wanted, key=str.encode)
        assert {stored.key: objects.get(stored.key) for stored in objects.list()} == model


def _clashes(key: str, model: dict[str, bytes]) -> bool:
    return any(other.startswith(key + "/") or key.startswith(other + "/") for other in model)


def test_a_copy_has_the_bytes_of_the_other_one(objects: Objects) -> None:
    objects.put("a/one", b"one")
    objects.put("there", b"other")
    for destination in ("there", "b/ä c", "a/one"):
        if destination != "a/one" or not isinstance(objects, S3Objects):  # S3 refuses a copy onto itself
            objects.copy("a/one", destination)
            assert objects.get(destination) == b"one"
    assert objects.get("a/one") == b"one"
    with pytest.raises(ObjectMissingError):
        objects.copy("missing", "new")
    with pytest.raises(InvalidError):
        objects.copy("a/one", "../b")


def test_uploads_that_nobody_finished_are_found(objects: Objects, request: pytest.FixtureRequest) -> None:
    done, begun = objects.create_multipart("done"), time.time()
    left = {(key, objects.create_multipart(key)) for key in ("left", "left", "data/x", "_graveler/ranges/r")}
    objects.complete_multipart("done", done, [(1, objects.put_part("done", done, 1, b"1"))])
    found = list(objects.uploads())
    if isinstance(objects, FolderObjects):
        assert found == []  # it removes them by itself
        return
    assert {(upload.key, upload.upload_id) for upload in found} == left
    if request.node.callspec.params["objects"] != "moto":  # which says 2010
        assert all(abs(upload.began - begun) < 60 for upload in found)
    for upload in found:
        objects.abort_multipart(upload.key, upload.upload_id)
    assert list(objects.uploads()) == []


def test_s3_copies_what_is_large_in_parts(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_objects, "_COPIED_BYTES", 5 << 20)
    monkeypatch.setattr(s3_objects, "_COPIED_PART", 5 << 20)
    data = randbytes(11 << 20)
    objects.put("large", data)
    objects.copy("large", "copy")
    assert objects.get("copy") == data
    assert list(objects.uploads()) == []


def test_many_are_deleted_each_on_its_own_condition(objects: Objects, request: pytest.FixtureRequest) -> None:
    etags = {f"k/{number:03}": objects.put(f"k/{number:03}", b"%d" % number).etag for number in range(30)}
    asked = [(key, "0" * 32 if key == "k/007" else etag) for key, etag in etags.items()]
    *found, gone = objects.delete_many([*asked, ("k/gone", "0" * 32)])
    assert (gone is None) == isinstance(objects, S3Objects)
    if request.node.callspec.params["objects"] == "moto":  # which does not look at the ETags of many
        assert found == [None] * 30
    else:
        assert isinstance(found.pop(7), ObjectConditionError)
        assert found == [None] * 29
        assert [stored.key for stored in objects.list()] == ["k/007"]
    assert objects.delete_many([]) == []
