"""Objects as files: reading works as on a BytesIO, writing is all or nothing."""

import csv
import gc
import io
import json
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graveler
from graveler.errors import PreconditionError, UnavailableError
from graveler.files.reader import ObjectReader, open_reader
from graveler.lake.objects.verification import OpenedObject
from graveler.model import ObjectEntry
from graveler.sdk.branch import Branch
from graveler.sdk.repository import Repository
from tests.sdk.conftest import CountedLake
from tests.support.campaigns import examples


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def pieces(data: bytes, size: int) -> Callable[[int, int], Iterator[bytes]]:
    """Ranges of ``data`` in pieces of a size, as an object store gives them."""

    def read(start: int, length: int) -> Iterator[bytes]:
        wanted = data[start : start + length]
        return (wanted[at : at + size] for at in range(0, len(wanted), size))

    return read


def opened(data: bytes, size: int) -> OpenedObject:
    def read(start: int, length: int | None) -> Iterator[bytes]:
        assert length is not None
        return pieces(data, size)(start, length)

    entry = ObjectEntry("a", "mem://a", len(data), md5(data).hexdigest(), 0)
    return OpenedObject("main", entry, read, vouch=lambda: pytest.fail("nobody has to be asked"))


def steps(largest: int) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    number = st.integers(-2, largest)
    step = st.one_of(
        st.tuples(st.sampled_from(["read", "readline", "readinto"]), number, st.just(0)),
        st.tuples(st.just("seek"), st.integers(-largest, largest), st.integers(0, 2)),
        st.tuples(st.just("tell"), st.just(0), st.just(0)),
    )
    return st.lists(step, max_size=12)


def done(file: io.BufferedIOBase, step: tuple[str, int, int]) -> object:
    """What one step gives, errors included. A file may refuse to seek to before its beginning in its own words."""
    what, number, whence = step
    if what == "read":
        return file.read(max(-1, number))
    if what == "readline":
        return file.readline(number)
    if what == "readinto":
        buffer = bytearray(max(0, number))
        return file.readinto(buffer), bytes(buffer)
    if what == "seek":
        try:
            return file.seek(file.tell() + number if whence == 1 else number, 0 if whence == 1 else whence)
        except (ValueError, OSError):
            return "refused"
    return file.tell()


@settings(max_examples=examples(150), deadline=None)
@given(
    data=st.binary(max_size=120) | st.binary(max_size=20).map(lambda piece: piece + b"\n" + piece * 3),
    piece=st.integers(1, 50),
    buffer_size=st.integers(1, 64),
    todo=steps(150),
)
def test_any_seeks_and_reads_are_as_of_a_file_in_memory(
    data: bytes, piece: int, buffer_size: int, todo: list[tuple[str, int, int]]
) -> None:
    reader = open_reader(opened(data, piece), "rb", encoding=None, errors=None, newline=None, buffer_size=buffer_size)
    assert isinstance(reader, io.BufferedReader)
    model = io.BytesIO(data)
    for step in todo:
        if step[0] == "seek" and step[2] == 2 and len(data) + step[1] < 0:
            continue  # BytesIO goes to the beginning instead
        assert done(reader, step) == done(model, step), step


@settings(max_examples=examples(80), deadline=None)
@given(text=st.text(max_size=60), encoding=st.sampled_from(["utf-8", "utf-16"]), size=st.integers(1, 20))
def test_text_is_read_as_of_a_file_in_memory(text: str, encoding: str, size: int) -> None:
    data = text.encode(encoding)
    reader = open_reader(opened(data, 7), "r", encoding=encoding, errors=None, newline="", buffer_size=size)
    model = io.TextIOWrapper(io.BytesIO(data), encoding, newline="")
    assert list(reader) == list(model)
    reader.seek(0)
    assert reader.read(size) == text[:size]


@pytest.mark.parametrize("amount", [100, 1000, 2500, -1])
@pytest.mark.parametrize("failing", [0, 1, 3])
def test_after_a_read_that_failed_nobody_misses_bytes(amount: int, failing: int) -> None:
    data = bytes(n * n % 251 for n in range(5000))
    asked = 0

    def read(start: int, length: int | None) -> Iterator[bytes]:
        nonlocal asked
        assert length is not None
        asked += 1
        fails = asked == failing + 1
        for at in range(start, start + length, 300):
            if fails and at > start:
                raise UnavailableError("the network is down")
            yield data[at : min(at + 300, start + length)]

    whole = OpenedObject("main", opened(data, 1).entry, read, vouch=lambda: False)
    reader = open_reader(whole, "rb", encoding=None, errors=None, newline=None, buffer_size=1000)
    assert isinstance(reader, io.BufferedReader)
    got = b""
    while True:
        began = reader.tell()
        assert began == len(got)
        try:
            more = reader.read(amount)
        except UnavailableError:
            for _ in range(2):
                with pytest.raises(PreconditionError, match="seek to where the next read should start"):
                    reader.read(1000)
            assert reader.seek(began) == began
            continue
        if not more:
            break
        got += more
    assert got == data


def test_the_raw_reader_refuses_what_makes_no_sense() -> None:
    raw = ObjectReader(opened(b"abc", 2))
    with pytest.raises(ValueError, match="whence is 7"):
        raw.seek(0, 7)
    with pytest.raises(ValueError, match="before the beginning"):
        raw.seek(-4, io.SEEK_END)
    raw.close()
    with pytest.raises(ValueError, match="is closed"):
        raw.read()


def test_an_object_that_has_become_shorter_is_told(main: Branch, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"0123456789")
    main.import_data().object(file, "x").run()
    with main.object("x").reader() as reader:
        file.write_bytes(b"01234")
        with pytest.raises(graveler.CorruptError):
            reader.read()


def test_a_reader_shows_the_object_as_it_was_opened(main: Branch) -> None:
    main.object("a").upload("before")
    with main.object("a").reader("r") as reader:
        main.object("a").upload("afterwards")
        assert reader.read() == "before"


def test_reading_costs_a_request_for_each_buffer(lake: CountedLake, main: Branch) -> None:
    main.object("a").upload(bytes(10_000))
    store = lake.objects("mem://demo")
    reader = main.object("a").reader(buffer_size=1000)
    store.reset()
    for _ in range(10_000):
        reader.read(1)
    assert store.requests == 10
    reader.seek(0)
    store.reset()
    assert len(reader.read()) == 10_000
    assert store.requests == 1
    reader.seek(-10, io.SEEK_END)
    store.reset()
    reader.read(4), reader.read(6)
    assert store.requests == 1


@pytest.mark.parametrize("mode", ["a", "ab", "r+", "w+b", "", "rw", "bw"])
def test_modes_of_appending_and_both_ways_are_refused(main: Branch, mode: str) -> None:
    main.object("a").upload("a")
    with pytest.raises(graveler.InvalidError, match="mode"):
        main.object("a").writer(mode)  # type: ignore[call-overload]
    with pytest.raises(graveler.InvalidError, match="mode"):
        main.object("a").reader(mode)  # type: ignore[call-overload]
    with pytest.raises(graveler.InvalidError, match="mode"):
        main.object("a").upload("b", mode)  # type: ignore[arg-type]


def test_bytes_have_no_encoding(main: Branch) -> None:
    with pytest.raises(graveler.InvalidError, match="encoding"):
        main.object("a").writer("wb", encoding="utf-8")  # type: ignore[call-overload]


@pytest.mark.parametrize("wrong", [{"encoding": "klingon"}, {"errors": "shrug"}, {"newline": "x"}])
def test_text_that_cannot_be_is_refused(main: Branch, wrong: dict[str, str]) -> None:
    main.object("a").upload("a")
    with pytest.raises(graveler.InvalidError):
        main.object("a").writer("w", **wrong)  # type: ignore[call-overload]
    with pytest.raises(graveler.InvalidError):
        main.object("a").reader("r", **wrong)  # type: ignore[call-overload]


def test_data_and_messages_of_another_kind_are_told_so(main: Branch) -> None:
    with pytest.raises(TypeError, match="not int"):
        main.object("n").upload(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not NoneType"):
        main.commit(None)  # type: ignore[arg-type]
    assert not main.object("n").exists()


def test_an_upload_takes_text_bytes_and_files(main: Branch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"from a file")
    assert main.object("t").upload("tëxt").reader().read() == "tëxt".encode()
    assert main.object("b").upload(b"\x00\xff").reader("rb").read() == b"\x00\xff"
    assert main.object("f").upload(tmp_path / "file").reader("r").read() == "from a file"
    stat = main.object("m").upload("m", content_type="text/plain", metadata={"k": "v"}).stat()
    assert (stat.content_type, stat.metadata, stat.size) == ("text/plain", {"k": "v"}, 1)


def test_of_those_that_saw_one_version_one_replaces_it(main: Branch) -> None:
    stored = main.object("a").upload("one")
    seen = stored.stat().checksum
    stored.upload("two", if_match=seen)
    with pytest.raises(graveler.ObjectChangedError):
        stored.upload("three", if_match=seen)
    with pytest.raises(graveler.ObjectChangedError):
        stored.delete(if_match=seen)
    assert stored.reader("r").read() == "two"
    stored.delete(if_match=stored.stat().checksum)
    assert not stored.exists()
    with pytest.raises(graveler.ObjectNotFoundError):
        stored.upload("four", if_match="*")


def test_exclusive_creation_happens_once(main: Branch) -> None:
    main.object("a").upload("one", mode="x")
    with pytest.raises(graveler.AlreadyExistsError):
        main.object("a").upload("two", mode="xb")
    with pytest.raises(graveler.AlreadyExistsError):
        main.object("a").writer("x")
    with pytest.raises(graveler.AlreadyExistsError), main.object("b").writer("xb") as writer:
        writer.write(b"late")
        main.object("b").upload("first")
    assert main.object("b").reader("r").read() == "first"
    assert writer.closed


def test_nothing_is_there_before_the_writer_is_closed(main: Branch) -> None:
    writer = main.object("a").writer("w", content_type="text/plain", metadata={"k": "v"})
    writer.write("some text\n")
    writer.flush()
    assert not main.object("a").exists()
    writer.close()
    writer.close()
    assert writer.closed
    stat = main.object("a").stat()
    assert (stat.size, stat.content_type, stat.metadata) == (10, "text/plain", {"k": "v"})


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_block_that_fails_writes_nothing(main: Branch, mode: str) -> None:
    main.object("a").upload("before")
    with pytest.raises(KeyboardInterrupt), main.object("a").writer(mode) as writer:  # type: ignore[call-overload]
        writer.write("half" if mode == "w" else b"half")
        raise KeyboardInterrupt
    assert writer.closed
    with main.object("a").writer("wb") as other:
        other.write(b"half")
        other.discard()
    assert main.object("a").reader("r").read() == "before"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_forgotten_writer_warns_and_writes_nothing(main: Branch, mode: str) -> None:
    writer = main.object("a").writer(mode)  # type: ignore[call-overload]
    writer.write("half" if mode == "w" else b"half")
    with pytest.warns(ResourceWarning, match="never closed"):
        del writer
        gc.collect()
    assert not main.object("a").exists()


def test_a_writer_seeks_and_leaves_no_file_behind(
    main: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def files() -> list[Path]:
        return [path for path in tmp_path.rglob("*") if path.is_file()]

    with main.object("a").writer("wb") as writer:
        assert (writer.seekable(), writer.writable(), writer.readable(), writer.name) == (True, True, False, "a")
        writer.write(b"0123456789")
        writer.seek(2)
        writer.write(memoryview(b"xx"))
        assert writer.tell() == 4
        writer.truncate(6)
        assert len(files()) == 1
    assert main.object("a").reader().read() == b"01xx45"
    assert files() == []


def test_a_branch_that_is_not_there_is_told_before_anything_is_written(repo: Repository) -> None:
    with pytest.raises(graveler.RefNotFoundError):
        repo.branch("nowhere").object("a").writer()
    with pytest.raises(graveler.ObjectNotFoundError):
        repo.branch("main").object("a").reader()


def test_text_is_encoded_as_told(main: Branch) -> None:
    with main.object("a").writer("w", encoding="latin-1", newline="\r\n") as writer:
        writer.write("é\n")
    assert main.object("a").reader().read() == b"\xe9\r\n"
    assert main.object("a").reader("r", encoding="latin-1").read() == "é\n"
    with pytest.raises(UnicodeEncodeError), main.object("a").writer("w", encoding="ascii") as writer:
        writer.write("é")
    assert main.object("a").stat().size == 3


def test_csv_and_json_go_through(main: Branch) -> None:
    rows = [["id", "name"], ["1", 'with "quotes", and\nlines']]
    with main.object("t.csv").writer("w", newline="") as text:
        csv.writer(text).writerows(rows)
    with main.object("t.csv").reader("r", newline="") as text:
        assert list(csv.reader(text)) == rows
    with main.object("t.json").writer("w") as text:
        json.dump({"rows": rows}, text)
    with main.object("t.json").reader() as binary:
        assert json.load(binary) == {"rows": rows}


def test_parquet_goes_through(lake: CountedLake, main: Branch) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"id": list(range(50_000)), "name": [f"n{n % 100}" for n in range(50_000)]})
    with main.object("t.parquet").writer() as out:
        parquet.write_table(table, out, row_group_size=10_000)
    store = lake.objects("mem://demo")
    with main.object("t.parquet").reader(buffer_size=1 << 14) as file:
        assert parquet.read_table(file).equals(table)
        store.reset()
        part = parquet.ParquetFile(file).read_row_group(3, columns=["name"])
    assert part.equals(table.slice(30_000, 10_000).select(["name"]))
    assert store.bytes_read < main.object("t.parquet").stat().size / 2
