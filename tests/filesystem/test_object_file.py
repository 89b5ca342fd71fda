"""The file object: that of any file, also for several threads."""

import io
import pickle
from collections.abc import Callable
from copy import copy
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.filesystem.object_file import ObjectFile
from graveler.model import ObjectEntry

DATA = b"".join(f"line {n}\n".encode() for n in range(40)) + b"the end"


def opened(data: bytes, block: int = 16) -> ObjectFile:
    entry = ObjectEntry("x", "mem://x", len(data), "", 0)
    return ObjectFile(entry, "r/main/x", {}, lambda start, length: data[start : start + length], block)


Step = Callable[[io.BufferedIOBase], object]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.integers(-1, 60).map(lambda n: lambda file: file.read(n)),
    st.integers(0, 60).map(lambda n: lambda file: file.readline(n)),
    st.just(lambda file: file.readline()),
    st.integers(0, len(DATA) + 10).map(lambda n: lambda file: file.seek(n)),
    st.integers(-len(DATA), 10).map(lambda n: lambda file: file.seek(n, io.SEEK_END)),
    st.just(lambda file: file.tell()),
    st.integers(0, 40).map(lambda n: lambda file: file.readinto(bytearray(n))),
    st.just(lambda file: file.readlines(30)),
)


@given(st.lists(STEPS), st.sampled_from([1, 7, 16, 100, 1 << 20]))
def test_it_does_what_a_file_does(steps: list[Step], block: int) -> None:
    ours, pythons = opened(DATA, block), io.BufferedReader(io.BytesIO(DATA))
    for step in steps:
        assert step(ours) == step(pythons)
        assert ours.tell() == pythons.tell()


def test_it_reads_as_text() -> None:
    assert list(io.TextIOWrapper(opened(DATA))) == DATA.decode().splitlines(keepends=True)


def test_a_read_after_a_seek_is_of_that_thread() -> None:
    file = opened(DATA)
    turns, found = Barrier(2), {}

    def work(at: int) -> None:
        for n in range(50):
            file.seek(at + n)
            turns.wait()  # both have moved
            found[at, n] = file.read(5)
            turns.wait()

    threads = [Thread(target=work, args=(at,)) for at in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(at, n): DATA[at + n : at + n + 5] for at in (0, 100) for n in range(50)}


def test_a_file_handed_to_another_thread_goes_on_where_it_was() -> None:
    file = opened(DATA)
    pieces = []
    for n in range(6):
        thread = Thread(target=lambda: pieces.append(file.read(7)))
        if n % 2:
            thread.start()
            thread.join()
        else:
            pieces.append(file.read(7))
    assert b"".join(pieces) == DATA[:42]


def test_a_closed_file_says_so() -> None:
    file = opened(DATA)
    file.close()
    for use in (file.read, file.tell, lambda: file.seek(0), lambda: file.read_at(0, 1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_it_refuses_positions_that_are_none() -> None:
    with pytest.raises(ValueError, match="before the beginning"):
        opened(DATA).seek(-1)
    with pytest.raises(ValueError, match="whence is 7"):
        opened(DATA).seek(0, 7)


def test_it_cannot_be_pickled_and_says_so() -> None:
    for use in (pickle.dumps, copy):
        with pytest.raises(TypeError, match="'r/main/x' cannot be pickled; open it in the other process"):
            use(opened(DATA))
